"""An input that changes while a stage reads it fails that stage, is named, and leaves no shard."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import korealbert
from korealbert.artifact import Artifact, InputChanged, InputPath, Inputs, Runtime, Spec, Stage, Store, build
from korealbert.artifact.files import (
    atomic_path,
    atomic_write,
    files_of,
    sha256_and_stamp,
    stamp,
    write_digested,
)
from korealbert.artifact.shards import map_shards
from korealbert.corpus import extract
from korealbert.corpus.readers.spec import ExtractSpec
from tests.artifact.conftest import WORDS, Text, source
from tests.artifact.test_trust import Parts, Stopped, delete, flip, truncate


class Reads(Spec):
    text: InputPath


def copy(job: str, index: int, out_dir: Path) -> dict[str, Any]:
    atomic_write(out_dir / f"part-{index}.txt", job.encode())
    return {}


@pytest.mark.parametrize(
    "how",
    ["appended", "replaced", "removed", "changed back", "moved away and back", "linked elsewhere", "added to its directory"],
)
def test_an_input_that_changes_while_it_is_read_fails_the_stage_by_its_name(how: str, tmp_path: Path, runtime: Runtime) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    text = directory / "text.txt"
    other = tmp_path / "other.txt"
    if how == "linked elsewhere":
        (tmp_path / "own.txt").write_text("가나다")
        text.symlink_to(tmp_path / "own.txt")
    else:
        text.write_text("가나다")

    def run(spec: Reads, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        if how == "appended":
            with text.open("a") as handle:
                handle.write("라")
        elif how == "replaced":
            with atomic_path(text) as new:
                new.write_text("마바사")
        elif how == "moved away and back":
            text.rename(other)
            text.write_text("마바사")
        elif how == "linked elsewhere":
            other.write_text("마바사")
            text.unlink()
            text.symlink_to(other)
        elif how == "added to its directory":
            (directory / "more.txt").write_text("아")
        jobs = [path.read_text() for path in files_of(Path(spec.text))]
        if how == "removed":
            text.unlink()
        elif how == "changed back":
            text.write_text("마바사")
            text.write_text("가나다")
        elif how == "moved away and back":
            other.rename(text)
        elif how == "linked elsewhere":
            text.unlink()
            text.symlink_to(tmp_path / "own.txt")
        map_shards(copy, jobs, out_dir=out_dir, runtime=runtime, step="copy")
        return {}

    spec = Reads(text=InputPath(directory if how.startswith("added") else text))
    name = "more.txt" if how.startswith("added") else "text.txt"
    with pytest.raises(InputChanged, match=rf"{name}.*changed while reads read it"):
        build(Stage("reads", 1, Reads, run), spec, {}, runtime)
    assert Store(runtime.store).artifacts() == []


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("how", "named"),
    [
        ("the directory of a file", "v1 (moved)"),
        ("the directory above a directory", "v1 (moved)"),
        ("a link to a link", "current (link)"),
        ("a link within a link's target", "current (link)"),
        ("a link within a directory to a link", "current (link)"),
    ],
)
def test_what_is_above_an_input_is_not_swapped_unnoticed(how: str, named: str, killed: bool, tmp_path: Path) -> None:
    """It has other bytes while the stage reads, and the original ones again at the end."""
    good, other, aside = tmp_path / "v1", tmp_path / "v2", tmp_path / "aside"
    for directory, word in ((good, "가나다"), (other, "마바사")):
        (directory / "in").mkdir(parents=True)
        (directory / "in" / "text.txt").write_text(word)
    path = good / "in" if "above" in how else good / "in" / "text.txt"
    if "link" in how:
        (tmp_path / "current").symlink_to("v1")
        if "within a directory" in how:
            path = tmp_path / "given"
            path.mkdir()
            (path / "text.txt").symlink_to("../current/in/text.txt")
        else:
            (tmp_path / "data").symlink_to("current/in" if "within" in how else tmp_path / "current")
            path = tmp_path / "data" / ("text.txt" if "within" in how else "in/text.txt")

    def exchange(*, back: bool) -> None:
        if "link" in how:
            (tmp_path / "new").symlink_to("v1" if back else "v2")
            (tmp_path / "new").rename(tmp_path / "current")
        elif back:
            good.rename(other)
            aside.rename(good)
        else:
            good.rename(aside)
            other.rename(good)

    tries: list[str] = []

    def run(spec: Reads, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        first = not tries
        tries.append("started")
        if first:
            exchange(back=False)
        jobs = [file.read_text() for file in files_of(Path(spec.text))]
        map_shards(copy, jobs, out_dir=out_dir, runtime=runtime, step="copy")
        if first:
            exchange(back=True)
            if killed:
                raise Stopped
        return {}

    time.sleep(0.02)  # The kernel's clock of file times ticks.
    stage, spec = Stage("reads", 1, Reads, run), Reads(text=InputPath(path))
    runtime = Runtime(store=tmp_path / "elsewhere" / "store", workers=1)
    with pytest.raises(Stopped if killed else InputChanged) as error:
        build(stage, spec, {}, runtime)
    assert killed or named in str(error.value)
    assert Store(runtime.store).artifacts() == []
    assert (build(stage, spec, {}, runtime).artifact.path / "part-0.txt").read_text() == "가나다"


@pytest.mark.parametrize("killed", [False, True])
def test_files_that_come_and_go_beside_an_input_are_no_alarm(killed: bool, tmp_path: Path, runtime: Runtime) -> None:
    home, project, path = tmp_path / "home", tmp_path / "home" / "project", tmp_path / "home" / "project" / "in" / "text.txt"
    path.parent.mkdir(parents=True)
    path.write_text("가나다")
    path.with_name("link.txt").symlink_to(path)
    copied: list[str] = []

    def noted(job: str, index: int, out_dir: Path) -> dict[str, Any]:
        copied.append(job)
        return copy(job, index, out_dir)

    def run(spec: Reads, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        for directory in (tmp_path, home, project, path.parent):
            (directory / "more.txt").write_text("라")
            (directory / "more.txt").rename(directory / "most.txt")
            (directory / "most.txt").unlink()
            (directory / f"log-{len(copied)}.txt").write_text("라")
        path.read_text()
        project.chmod(0o755)  # Within a directory that others write to, but with names added to it too.
        map_shards(noted, [path.read_text()], out_dir=out_dir, runtime=runtime, step="copy")
        if killed and len(copied) == 1:
            copied.append("and no more")
            raise Stopped
        return {}

    stage, spec = Stage("reads", 1, Reads, run), Reads(text=InputPath(path.with_name("link.txt")))
    if killed:
        with pytest.raises(Stopped):
            build(stage, spec, {}, runtime)
    assert build(stage, spec, {}, runtime).artifact.path.is_dir() and copied[:1] == ["가나다"] != copied[1:]


def test_an_input_whose_bytes_change_without_its_times_fails_the_stage(raw: Path, tmp_path: Path) -> None:
    """Writes to a dirty page of a memory map do that: size, mtime and ctime stay those of the digest."""
    store = Store(tmp_path / "store").make()
    victim, spec = raw / "0.jsonl", source(raw)
    name = extract.STAGE.identity(spec, {}, store).name
    former, _ = sha256_and_stamp(victim)
    flip(victim)
    store.digests.directory.mkdir(exist_ok=True)
    write_digested(store.digests._entry(victim), {"path": str(victim), "stamp": stamp(victim), "sha256": former})
    assert extract.STAGE.identity(spec, {}, store).name == name, "nothing but the bytes tells"
    with pytest.raises(InputChanged, match=r"raw: changed while extract read it"):
        build(extract.STAGE, spec, {}, Runtime(store=store.root, workers=1))
    built = build(extract.STAGE, spec, {}, Runtime(store=store.root, workers=1)).artifact
    assert built.name == extract.STAGE.identity(spec, {}, Store(tmp_path / "straight")).name != name


def test_shards_of_an_input_that_was_changed_and_changed_back_are_not_believed(tmp_path: Path, runtime: Runtime) -> None:
    text = tmp_path / "text.txt"
    text.write_text("가나다")
    killed = [True]

    def run(spec: Reads, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        if killed:
            text.write_text("라마")
        map_shards(copy, [text.read_text()], out_dir=out_dir, runtime=runtime, step="copy")
        if killed:
            raise Stopped
        return {}

    stage, spec = Stage("reads", 1, Reads, run), Reads(text=InputPath(text))
    with pytest.raises(Stopped):
        build(stage, spec, {}, runtime)
    killed.clear()
    text.write_text("가나다")
    assert (build(stage, spec, {}, runtime).artifact.path / "part-0.txt").read_text() == "가나다"


def test_no_shard_stays_of_an_input_that_was_longer_for_a_while(
    raw: Path, monkeypatch: pytest.MonkeyPatch, straight: Artifact, runtime: Runtime
) -> None:

    def longer(spec: ExtractSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Any:
        shutil.copy(raw / "0.jsonl", raw / "9.jsonl")
        stats = extract.run(spec, inputs, out_dir, runtime)
        (raw / "9.jsonl").unlink()
        return stats

    with pytest.raises(InputChanged, match=r"raw: changed while extract read it"):
        build(dataclasses.replace(extract.STAGE, run=longer), source(raw), {}, runtime)
    assert build(extract.STAGE, source(raw), {}, runtime).artifact.output_digest == straight.output_digest


def test_no_shard_without_a_marker_stays_of_an_input_that_was_longer_for_a_while(
    raw: Path, straight: Artifact, runtime: Runtime
) -> None:
    """The stage is killed between a shard and its marker."""

    def longer(spec: ExtractSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Any:
        shutil.copy(raw / "0.jsonl", raw / "9.jsonl")
        extract.run(spec, inputs, out_dir, runtime)
        (raw / "9.jsonl").unlink()
        max((out_dir / ".done").glob("*.json")).unlink()
        raise Stopped

    with pytest.raises(Stopped):
        build(dataclasses.replace(extract.STAGE, run=longer), source(raw), {}, runtime)
    assert build(extract.STAGE, source(raw), {}, runtime).artifact.output_digest == straight.output_digest


def test_an_input_artifact_that_is_rebuilt_with_other_bytes_meanwhile_fails_the_stage(tmp_path: Path) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    words = build(WORDS, Text(), {}, runtime).artifact

    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        write_digested(words.path / "manifest.json", {**words.manifest, "output_digest": "0" * 64})
        return {}

    with pytest.raises(InputChanged, match=rf"{words.name} \(input words: rebuilt with other bytes\)"):
        build(Stage("parts", 1, Parts, run), Parts(), {"words": words}, runtime)


@pytest.mark.parametrize("damage", [delete, truncate, flip])
def test_an_input_artifact_whose_files_change_meanwhile_fails_the_stage(
    damage: Callable[[Path], None], raw: Path, runtime: Runtime, documents: Artifact
) -> None:

    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        damage(inputs["documents"].path / "documents-00002.arrow")
        atomic_write(out_dir / "copy.txt", b"what it read")
        return {}

    with pytest.raises(InputChanged, match=rf"{documents.name} \(input documents: documents-00002\.arrow "):
        build(Stage("parts", 1, Parts, run), Parts(), {"documents": documents}, runtime)
    assert [artifact.name for artifact in Store(runtime.store).artifacts()] == [documents.name]
    again = build(extract.STAGE, source(raw), {}, runtime)
    assert not again.cached and again.artifact.output_digest == documents.output_digest


def test_an_input_that_was_changed_is_named_where_the_stage_complains_of_what_it_read(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("가나다")

    def complains(spec: Reads, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        text.write_text("가")
        raise ValueError("3 predictions for 1 example")

    stage = Stage("reads", 1, Reads, complains)
    spec = Reads.model_validate({"text": text})
    with pytest.raises(InputChanged, match=r"text\.txt: changed while reads read it") as error:
        build(stage, spec, {}, Runtime(store=tmp_path / "store"))
    assert isinstance(error.value.__cause__, ValueError)


def test_files_of_linked_directories_are_read_and_a_dangling_link_is_none(tmp_path: Path, runtime: Runtime) -> None:
    inside, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    inside.mkdir()
    elsewhere.mkdir()
    (inside / "a.txt").write_text("도서관에서 책을 읽었다.")
    (elsewhere / "b.txt").write_text("바다가 조용하다.")
    (inside / "2024").symlink_to(elsewhere, target_is_directory=True)
    (elsewhere / "back").symlink_to(inside, target_is_directory=True)
    (inside / ".#a.txt").symlink_to("user@host.4711:1")
    spec = ExtractSpec.model_validate({"source": "x", "format": "text", "paths": (inside,)})
    built = build(extract.STAGE, spec, {}, runtime)
    assert built.artifact.stats["documents_out"] == 2 and build(extract.STAGE, spec, {}, runtime).cached
    (elsewhere / "b.txt").write_text("바다가 시끄럽다.")
    assert build(extract.STAGE, spec, {}, runtime).artifact.name != built.artifact.name


def test_a_name_that_is_not_utf_8_is_told(raw: Path, runtime: Runtime) -> None:
    Path(os.fsdecode(os.fsencode(raw) + b"/\xb0\xa1.jsonl")).touch()
    with pytest.raises(ValueError, match=r"raw/\ufffd\ufffd\.jsonl: this name is not UTF-8; rename it \(convmv"):
        build(extract.STAGE, source(raw), {}, runtime)


@pytest.mark.parametrize("place", ["store", "runs/mine", "link"])
def test_a_store_within_a_source_is_no_part_of_it(place: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "text.txt").write_text("가나다")
    if place == "link":
        (data / place).symlink_to(tmp_path / "elsewhere")
    read: list[list[str]] = []

    def run(spec: Reads, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        read.append([path.name for path in files_of(spec.text.path)])
        map_shards(copy, ["한 조각"], out_dir=out_dir, runtime=runtime, step="copy")
        return {}

    copying = Stage("copy", 1, Reads, run)
    stores = [(tmp_path / "elsewhere") if place == "link" else data / place, data / "another", tmp_path / "outside"]
    built = [build(copying, Reads(text=InputPath(data)), {}, Runtime(store=store, workers=1)).artifact for store in stores]
    assert read == [["text.txt"]] * 3
    assert len({artifact.name for artifact in built}) == 1
    assert all(build(copying, Reads(text=InputPath(data)), {}, Runtime(store=store, workers=1)).cached for store in stores)


def test_a_directory_with_a_copied_artifact_does_not_become_a_store(tmp_path: Path, documents: Artifact) -> None:
    year = tmp_path / "texts" / "2024"
    shutil.copytree(documents.path, year / documents.name)
    (year / "text.txt").write_text("가나다")
    time.sleep(0.1)  # Digests of files younger than this are not cached.
    assert korealbert.open_artifact(year / documents.name).output_digest == documents.output_digest
    assert year / "text.txt" in files_of(tmp_path / "texts") and not (year / ".digests").exists()


@pytest.mark.parametrize("made", [False, True])
def test_the_store_itself_is_no_source(made: bool, tmp_path: Path) -> None:
    store, spec = Store(tmp_path / "data"), Reads(text=InputPath(tmp_path / "data" / "."))
    if made:
        store.make()
    with pytest.raises(ValueError, match=r"data: this directory is the store; .*--store"):
        Stage("copy", 1, Reads, lambda *_: {}).identity(spec, {}, store)
