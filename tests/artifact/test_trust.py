"""No byte is trusted unread: shards of a killed run, sealed partial directories, manifests."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact, ArtifactError, Inputs, Runtime, Spec, Stage, Store, build, markers
from korealbert.artifact.files import (
    FileChanged,
    atomic_write,
    note_written,
    read_digested,
    sha256_and_stamp,
    stamp,
    write_digested,
    write_json,
)
from korealbert.artifact.shards import map_shards
from korealbert.corpus import extract
from korealbert.corpus.readers.spec import ExtractSpec
from tests.artifact.conftest import DOCUMENTS, SHARDS, WORDS, Text, source

DIGEST_ENDS = 80
"""Length of a manifest's beginning that holds its digest."""


class Stopped(BaseException):
    """Stands for a kill."""


def stop_before_the_manifest(patch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Stopped

    patch.setattr("korealbert.artifact.stage.write_digested", stop)


def stop_before_the_rename(patch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    patch.setattr("korealbert.artifact.stage.replace_directory", stop)


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path, at: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[at if at >= 0 else len(content) // 2] ^= 4
    path.write_bytes(content)


def stopped_extract(raw: Path, runtime: Runtime, stop: Callable[[pytest.MonkeyPatch], None]) -> Path:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        stop(patch)
        build(extract.STAGE, source(raw), {}, runtime)
    [partial] = runtime.store.glob("extract-*.partial")
    return partial


@pytest.mark.parametrize("damage", [delete, truncate, flip])
@pytest.mark.parametrize("victim", ["documents-00002.arrow", ".done/extract-00002.json"])
def test_a_damaged_shard_of_a_killed_try_is_built_again(
    victim: str, damage: Callable[..., None], raw: Path, caplog: pytest.LogCaptureFixture, straight: Artifact, runtime: Runtime
) -> None:
    partial = stopped_extract(raw, runtime, stop_before_the_manifest)
    assert len(list(partial.glob("documents-*.arrow"))) == SHARDS
    marker = json.loads((partial / ".done" / "extract-00002.json").read_text("utf-8"))
    facts = marker["files"]["documents-00002.arrow"]
    assert (
        facts["rows"] == marker["stats"]["documents_out"]
        and facts["size"] == (partial / "documents-00002.arrow").stat().st_size
    )
    damage(partial / victim)
    with caplog.at_level(logging.WARNING):
        built = build(extract.STAGE, source(raw), {}, runtime).artifact
    assert built.output_digest == straight.output_digest and built.stats == straight.stats
    assert built.stats["documents_out"] == DOCUMENTS
    if not (damage is delete and victim.startswith(".done")):
        assert "extract-00002" in caplog.text
        assert victim.startswith(".done") or victim in caplog.text


@pytest.mark.parametrize("damage", [delete, truncate, flip])
def test_a_partial_with_a_manifest_is_read_before_it_is_sealed(
    damage: Callable[[Path], None], raw: Path, caplog: pytest.LogCaptureFixture, straight: Artifact, runtime: Runtime
) -> None:
    partial = stopped_extract(raw, runtime, stop_before_the_rename)
    assert (partial / "manifest.json").is_file()
    damage(partial / "documents-00002.arrow")
    with caplog.at_level(logging.WARNING):
        built = build(extract.STAGE, source(raw), {}, runtime).artifact
    assert built.output_digest == straight.output_digest
    assert "documents-00002.arrow" in caplog.text
    assert Store(runtime.store).verify(built) == []


def as_directory(path: Path) -> None:
    delete(path)
    path.mkdir()


def as_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def as_link(path: Path) -> None:
    """Replace a file by a link to a copy elsewhere, which only its owner may read."""
    outside = next(parent for parent in path.parents if parent.name == "store").parent / f"outside-{path.name}"
    path.rename(outside)
    outside.chmod(0o700 if outside.is_dir() else 0o600)
    path.symlink_to(outside)


@pytest.mark.parametrize(
    ("stop", "victim", "misplaced"),
    [
        (stop_before_the_manifest, "documents-00002.arrow", as_directory),
        (stop_before_the_manifest, "documents-00002.arrow", as_link),
        (stop_before_the_manifest, ".done/extract-00002.json", as_directory),
        (stop_before_the_manifest, ".done", as_file),
        (stop_before_the_manifest, ".opening.json", as_directory),
        (stop_before_the_manifest, ".", as_file),
        (stop_before_the_rename, ".", as_link),
        (stop_before_the_rename, "documents-00002.arrow", as_link),
        (stop_before_the_rename, "manifest.json", as_directory),
    ],
)
def test_what_no_stage_writes_does_not_stop_the_next_try(
    stop: Callable[..., None], victim: str, misplaced: Callable[..., None], raw: Path, straight: Artifact, runtime: Runtime
) -> None:
    partial = stopped_extract(raw, runtime, stop)
    misplaced(partial / victim)
    built = build(extract.STAGE, source(raw), {}, runtime).artifact
    assert built.output_digest == straight.output_digest and Store(runtime.store).verify(built) == []
    assert not [each for each in (built.path, *built.path.rglob("*")) if each.is_symlink()]
    assert not [each for each in runtime.store.parent.rglob("outside-*") if each.stat().st_mode & 0o077]
    assert not [*runtime.store.glob("*.partial"), *runtime.store.glob("*.replaced")]


@pytest.mark.parametrize("stop", [stop_before_the_manifest, stop_before_the_rename])
def test_a_file_that_no_job_wrote_is_not_sealed(
    stop: Callable[..., None], raw: Path, straight: Artifact, runtime: Runtime
) -> None:
    partial = stopped_extract(raw, runtime, stop)
    (partial / "notes.txt").write_text("x")
    (partial / "sub").mkdir()
    shutil.copy(partial / "documents-00000.arrow", partial / "sub" / "x.arrow")
    shutil.copy(partial / "documents-00000.arrow", partial / "documents-00099.arrow")
    built = build(extract.STAGE, source(raw), {}, runtime).artifact
    assert built.output_digest == straight.output_digest and built.stats == straight.stats


def test_a_file_in_place_of_an_artifact_makes_way(raw: Path, runtime: Runtime, documents: Artifact) -> None:
    for misplaced in (as_file, as_link):
        misplaced(documents.path)
        again = build(extract.STAGE, source(raw), {}, runtime, rerun=True).artifact
        assert again.output_digest == documents.output_digest and not again.path.is_symlink()
        assert [path.name for path in runtime.store.iterdir() if not path.name.startswith(".")] == [documents.name]


@pytest.mark.parametrize("at", [0, 5, 40, 90, 400])
def test_a_damaged_manifest_of_a_partial_is_not_sealed(at: int, raw: Path, runtime: Runtime) -> None:
    flip(stopped_extract(raw, runtime, stop_before_the_rename) / "manifest.json", at)
    built = build(extract.STAGE, source(raw), {}, runtime).artifact
    assert built.stats["documents_out"] == DOCUMENTS and Store(runtime.store).verify(built) == []


def part(job: str, index: int, out_dir: Path) -> dict[str, Any]:
    atomic_write(out_dir / f"part-{index}.txt", job.encode())
    (out_dir / ".work").mkdir(exist_ok=True)
    (out_dir / ".work" / f"plain-{index}.txt").write_text(job)
    note_written(out_dir / ".work" / f"plain-{index}.txt")
    return {"n": 1}


class Parts(Spec):
    parts: int = 3


@pytest.mark.parametrize("victim", ["part-1.txt", ".work/plain-1.txt"])
def test_a_shard_that_changes_before_the_seal_is_built_again(victim: str, tmp_path: Path) -> None:
    damaged: list[bool] = []

    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        parts = map_shards(part, map(str, range(spec.parts)), out_dir=out_dir, runtime=runtime, step="part")
        if not damaged:
            flip(out_dir / victim)
        damaged.append(True)
        return {"parts": sum(each["n"] for each in parts)}

    built = build(Stage("parts", 1, Parts, run), Parts(), {}, Runtime(store=tmp_path, workers=1)).artifact
    assert len(damaged) == 2 and (built.path / "part-1.txt").read_text() == "1" and built.stats == {"parts": 3}


def test_a_disk_that_goes_on_changing_files_is_blamed(tmp_path: Path) -> None:
    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        map_shards(part, map(str, range(spec.parts)), out_dir=out_dir, runtime=runtime, step="part")
        flip(out_dir / "part-1.txt")
        return {}

    with pytest.raises(ArtifactError, match=r"part-1\.txt has another sha256 than when it was finished.*check the disk"):
        build(Stage("parts", 1, Parts, run), Parts(), {}, Runtime(store=tmp_path, workers=1))
    assert Store(tmp_path).artifacts() == []


def test_what_a_damaged_work_file_led_to_is_made_again_too(tmp_path: Path) -> None:
    made: list[str] = []

    def first(job: str, index: int, out_dir: Path) -> dict[str, Any]:
        made.append("first")
        atomic_write(out_dir / ".first.txt", job.encode())
        return {}

    def second(job: str, index: int, out_dir: Path) -> dict[str, Any]:
        made.append("second")
        atomic_write(out_dir / "second.txt", (out_dir / ".first.txt").read_bytes() * 2)
        return {}

    def both() -> None:
        with markers.stage_run(tmp_path):
            for function in (first, second):
                map_shards(function, ["a"], out_dir=tmp_path, runtime=Runtime(workers=1), step=function.__name__)

    both()
    status = (tmp_path / ".first.txt").stat()
    flip(tmp_path / ".first.txt", 0)
    os.utime(tmp_path / ".first.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    both()
    assert made == ["first", "second", "first", "second"] and (tmp_path / "second.txt").read_text() == "aa"
    both()
    assert len(made) == 4, "what is as it was is not made again"


def write_word(job: str, index: int, out_dir: Path) -> dict[str, Any]:
    atomic_write(out_dir / f"word-{index}.txt", job.encode())
    return {}


def write_twice(job: Path, index: int, out_dir: Path) -> dict[str, Any]:
    atomic_write(out_dir / f"twice-{index}.txt", job.read_bytes() * 2)
    return {}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("where", ["one directory, clock set back", "two directories"])
def test_what_was_made_of_a_file_that_changed_between_two_steps_is_made_again(where: str, killed: bool, tmp_path: Path) -> None:
    runs: list[str] = []

    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        first = second = out_dir
        if where == "two directories":
            first, second = out_dir / ".first", out_dir / ".second"
            for directory in (first, second):
                directory.mkdir(exist_ok=True)
        runs.append("started")
        map_shards(write_word, ["a", "b"], out_dir=first, runtime=runtime, step="word")
        if len(runs) == 1:
            flip(first / "word-0.txt", 0)
            for marker in (first / ".done").glob("word-*.json"):
                os.utime(marker, ns=(later := time.time_ns() + 3_600_000_000_000, later))
        words = [first / "word-0.txt", first / "word-1.txt"]
        map_shards(write_twice, words, out_dir=second, runtime=runtime, step="twice")
        if len(runs) == 1 and killed:
            raise Stopped
        atomic_write(out_dir / "all.txt", b"".join((second / f"twice-{n}.txt").read_bytes() for n in range(2)))
        return {}

    stage, runtime = Stage("parts", 1, Parts, run), Runtime(store=tmp_path, workers=1)
    if killed:
        with pytest.raises(Stopped):
            build(stage, Parts(), {}, runtime)
    built = build(stage, Parts(), {}, runtime).artifact
    assert (built.path / "all.txt").read_text() == "aabb" and len(runs) == 2


def test_conservation_is_of_the_rows_on_disk(raw: Path, runtime: Runtime) -> None:
    def loses(spec: ExtractSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        stats = extract.run(spec, inputs, out_dir, runtime).facts()
        (out_dir / "documents-00002.arrow").unlink()
        shutil.rmtree(out_dir / ".done")
        return stats

    with pytest.raises(ArtifactError, match=r"200 documents are counted as documents, but documents-\*\.arrow hold 1\d\d"):
        build(Stage("loses", 1, ExtractSpec, loses), source(raw), {}, runtime)


def test_names_survive_a_loss_of_power_before_anything_follows_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        done.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().relative_to(tmp_path)}")
        sync(descriptor)

    def renamed(source: Path, target: Path) -> Path:
        done.append(f"rename {target.relative_to(tmp_path)}")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    artifact = build(WORDS, Text(), {}, Runtime(store=tmp_path, workers=1)).artifact
    seal, partial = done.index(f"rename {artifact.name}"), f"sync {artifact.name}.partial"
    assert {partial, f"{partial}/part", f"{partial}/한글 이름.txt"} <= {*done[:seal]}
    assert "sync ." in done[seal:], "the directory that holds the artifact's name"


def test_every_flip_in_a_manifest_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path)
    artifact = build(WORDS, Text(), {}, Runtime(store=tmp_path, workers=1)).artifact
    path = artifact.path / "manifest.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (1, 16) if at % (8 if at < DIGEST_ENDS else 64) else (1 << place for place in range(8)):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            path.write_bytes(damaged)
            assert store.unreadable(Artifact(artifact.name, artifact.path)) is not None, (at, bit)
    path.write_bytes(whole)
    assert store.verify(Artifact(artifact.name, artifact.path)) == []


def undigested(artifact: Artifact, **changed: Any) -> Artifact:
    earlier = {name: value for name, value in artifact.manifest.items() if name != "processor_seconds"}
    write_json(artifact.path / "manifest.json", earlier | changed, sort_keys=True)
    return Artifact(artifact.name, artifact.path)


def test_a_manifest_from_before_digests_is_found_and_its_contradictions_too(
    raw: Path, runtime: Runtime, documents: Artifact
) -> None:
    store = Store(runtime.store)
    old = undigested(documents)
    assert build(extract.STAGE, source(raw), {}, runtime).cached and store.verify(old) == []
    for changed in ({"documents_out": 201}, {"documents_in": 1, "documents_out": 1}):
        wrong = undigested(documents, stats={**documents.stats, **changed})
        assert any("documents" in fault for fault in store.verify(wrong)), changed
        if changed["documents_out"] == 201:
            assert "documents came in" in str(store.fault(wrong.name, {})), "plan compares the counts too"
    assert store.unreadable(undigested(documents, digesu="0" * 64)) is not None, "what was its digest"
    assert not build(extract.STAGE, source(raw), {}, runtime).cached


def test_json_with_a_digest_of_itself(tmp_path: Path) -> None:
    write_digested(tmp_path / "x", {"가": [1, 2.5, None], "b": {"digest": "0" * 64}})
    content = (tmp_path / "x").read_bytes()
    assert read_digested(content) == ({"가": [1, 2.5, None], "b": {"digest": "0" * 64}}, True)
    assert json.loads(content)["digest"] == content[14:78].decode()
    assert read_digested(b'{"a": 1}') == ({"a": 1}, False)
    with pytest.raises(FileChanged):
        read_digested(content[:-1])


def test_a_damaged_memory_of_digests_is_not_believed(tmp_path: Path) -> None:
    store, text = Store(tmp_path / "store").make(), tmp_path / "text.txt"
    text.write_text("가나다")
    digest, (size, changed, _) = sha256_and_stamp(text)
    store.digests.remember(text, digest, [size, changed, 0])
    [entry] = store.digests.directory.iterdir()
    write_digested(entry, {"path": str(text), "stamp": stamp(text), "sha256": digest})
    content = entry.read_bytes()
    for at in range(len(content)):
        flip(entry, at)
        assert store.digests.of(text) == digest, at
        entry.write_bytes(content)


def test_a_file_that_no_manifest_knows_is_damage(raw: Path, runtime: Runtime, documents: Artifact) -> None:
    """Later stages glob for files and would count its documents twice."""
    shutil.copy(documents.path / "documents-00000.arrow", documents.path / "documents-00099.arrow")
    assert Store(runtime.store).fault(documents.name, {}) == "documents-00099.arrow is not in the manifest"
    assert not build(extract.STAGE, source(raw), {}, runtime).cached
    assert not (documents.path / "documents-00099.arrow").exists()


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("name", ["documents-00099.arrow", "more"])
def test_so_is_a_directory_or_a_link_to_one(
    raw: Path, tmp_path: Path, name: str, linked: bool, runtime: Runtime, documents: Artifact
) -> None:
    store = Store(runtime.store)
    assert store.verify(documents) == []
    if linked:
        (documents.path / name).symlink_to(tmp_path, target_is_directory=True)
    else:
        (documents.path / name).mkdir()
    assert store.fault(documents.name, {}) == f"{name} is not in the manifest"
    assert store.verify(documents) == [f"{name} is not in the manifest"]
    assert not build(extract.STAGE, source(raw), {}, runtime).cached
    assert not (documents.path / name).exists() and tmp_path.exists()


def test_a_manifest_that_cannot_be_read_is_named(raw: Path, runtime: Runtime, documents: Artifact) -> None:
    (documents.path / "manifest.json").unlink()
    (documents.path / "manifest.json").mkdir()
    assert "manifest.json" in str(Store(runtime.store).fault(documents.name, {}))
    assert not build(extract.STAGE, source(raw), {}, runtime).cached


@pytest.mark.parametrize("closed", ["", "documents-00002.arrow"])
def test_what_this_user_may_not_read_is_named_and_not_replaced(
    closed: str, raw: Path, runtime: Runtime, documents: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be whole, and another user's."""
    delete(documents.path / "documents-00002.arrow" if not closed else documents.path / "manifest.json")
    left, may = sorted(documents.path.iterdir()), os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != documents.path / closed and may(path, mode))
    with pytest.raises(PermissionError) as refused:
        build(extract.STAGE, source(raw), {}, runtime)
    assert refused.value.filename == str(documents.path / closed)
    assert sorted(documents.path.iterdir()) == left
    monkeypatch.undo()
    assert not build(extract.STAGE, source(raw), {}, runtime).cached
