"""gc removes what nothing refers to and reports its size, but never what a run or a builder holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from korealbert.artifact import Artifact, Store, locks
from korealbert.artifact.files import stamp, write_digested, write_json
from korealbert.artifact.maintenance import garbage
from korealbert.flows.cli import app
from tests.artifact.conftest import three

RECIPE = Path("some/recipe.toml")


def found(store: Store, *wanted: Artifact) -> set[str]:
    return {each.path.name for each in garbage.survey(store, {each.name: "test" for each in wanted}).garbage}


def test_what_is_wanted_stays_with_its_lineage_and_the_rest_goes(built: dict[str, Artifact], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    other = three(tmp_path / "store", text="라마바")
    names = {each.name for each in built.values()}
    assert found(store, other["book"]) == names
    assert found(store, other["book"], built["lines"]) == {built["book"].name}
    survey = garbage.survey(store, {other["book"].name: "test"})
    on_disk = sum(f.stat().st_size for name in names for f in (store.root / name).rglob("*") if f.is_file())
    assert sum(each.size for each in survey.garbage) == on_disk
    assert all(left is None for _, left in garbage.remove(store, {other["book"].name: "test"}))
    assert {a.name for a in store.artifacts()} == {each.name for each in other.values()}
    assert not any((store.root / ".locks" / f"{name}.lock").exists() for name in names)


def test_runs_keep_what_they_named_until_a_newer_whole_run_of_the_recipe(built: dict[str, Artifact], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with locks.recorded(store.root, RECIPE, None, {"book": built["book"].name}):
        assert [run.live for run in locks.runs(store.root)] == [True]
    assert [run.live for run in locks.runs(store.root)] == [False]
    assert found(store) == set()
    other = three(store.root, text="라마바")
    with locks.recorded(store.root, RECIPE, "lines", {"lines": other["lines"].name}):
        assert found(store) == {other["book"].name}
    with locks.recorded(store.root, RECIPE, None, {"book": other["book"].name}):
        assert found(store) == {each.name for each in built.values()}


def test_a_live_run_keeps_its_artifacts_though_a_newer_one_has_begun(built: dict[str, Artifact], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    other = three(store.root, text="라마바")
    old, new = {"book": built["book"].name}, {"book": other["book"].name}
    with locks.recorded(store.root, RECIPE, None, old), locks.recorded(store.root, RECIPE, None, new):
        assert found(store) == set()


HOLD = """
import sys
from pathlib import Path
from korealbert.artifact import Store
with Store(Path(sys.argv[1])).lock(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_what_a_living_builder_in_another_process_holds_is_left(built: dict[str, Artifact], tmp_path: Path) -> None:
    store, book = Store(tmp_path / "store"), built["book"]
    partial = store.root / f"{book.name}.partial"
    shutil.copytree(book.path, partial)
    write_json(partial / ".opening.json", {"recipe": book.manifest["recipe"], "built_from": {}})
    shutil.rmtree(book.path)
    command = [sys.executable, "-c", HOLD, str(store.root), book.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        assert found(store) == set(), "the partial and what it reads"
        described = locks.holder(store.lock_file(book.name))
        assert f"process {holder.pid} on " in described
        holder.kill()
    assert found(store) == {partial.name, built["words"].name, built["lines"].name}


def test_leftovers_of_killed_work_go_and_strange_things_stay(built: dict[str, Artifact], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    removed = f".removed/{built['words'].name}"
    for leftover in (f"{built['book'].name}.replaced", removed, ".import-1-ab", f"{built['book'].name}.partial"):
        (store.root / leftover).mkdir(parents=True)
    (store.root / "notes").mkdir()
    (store.root / "link").symlink_to(tmp_path)
    (store.root / "words-0123456789abcdef").symlink_to(tmp_path)
    survey = garbage.survey(store, {built["book"].name: "test"})
    assert {each.path.name for each in survey.garbage} == {
        f"{built['book'].name}.replaced",
        built["words"].name,
        ".import-1-ab",
        f"{built['book'].name}.partial",
    }
    assert [path.name for path in survey.foreign] == ["link", "notes", "words-0123456789abcdef"]
    with store.lock(built["words"].name):
        assert not [why for _, why in garbage.remove(store, {built["book"].name: "test"}) if why]
    assert not list((store.root / ".removed").iterdir()) and built["words"].path.is_dir()
    assert (store.root / "notes").is_dir() and (store.root / "link").is_symlink() and tmp_path.is_dir()


def test_bytes_shared_with_what_stays_are_not_counted(built: dict[str, Artifact], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    before = {each.path.name: each.size for each in garbage.survey(store, {built["lines"].name: "test"}).garbage}
    shared = built["book"].path / "part" / "out.txt"
    os.link(shared, built["words"].path / "linked.txt")
    after = {each.path.name: each.size for each in garbage.survey(store, {built["lines"].name: "test"}).garbage}
    assert before[built["book"].name] - after[built["book"].name] == shared.stat().st_size


def test_the_command_lists_by_default_and_refuses_to_empty_a_store(built: dict[str, Artifact], tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    refused = CliRunner().invoke(app, ["gc", "--store", store])
    assert refused.exit_code == 2 and "--recipe" in refused.output
    with locks.recorded(Path(store), RECIPE, None, {"lines": built["lines"].name}):
        pass
    listed = CliRunner().invoke(app, ["gc", "--store", store])
    assert listed.exit_code == 0 and built["book"].name in listed.output and "nothing was removed" in listed.output
    assert built["book"].path.is_dir()
    deleted = CliRunner().invoke(app, ["gc", "--store", store, "--delete"])
    assert deleted.exit_code == 0 and not built["book"].path.exists() and built["lines"].path.is_dir()
    missing = CliRunner().invoke(app, ["gc", "--store", str(tmp_path / "nowhere")])
    assert missing.exit_code == 2 and "no store here" in missing.output


def test_verify_reads_every_byte_whatever_is_remembered(built: dict[str, Artifact], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    arguments = ["verify", "--store", str(store.root)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    victim = built["lines"].path / "part" / "out.txt"
    entry, sound = store.digests._entry(victim), store.digests.of(victim)
    entry.parent.mkdir(exist_ok=True)
    victim.write_bytes(b"x" * victim.stat().st_size)
    # A bad sector changes bytes but no time: cache the digest under the damaged file's stamp.
    write_digested(entry, {"path": str(victim), "stamp": stamp(victim), "sha256": sound})
    assert store.damage(built["lines"]) is None
    (built["words"].path / "manifest.json").write_text("{", "utf-8")
    (built["book"].path / "added.txt").write_text("x", "utf-8")
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1 and "3 artifacts, 3 damaged" in done.output
    assert "part/out.txt has another sha256" in done.output and "added.txt is not in the manifest" in done.output
    assert store.damage(built["lines"]) is not None, "the next run rebuilds it"
    only = CliRunner().invoke(app, [*arguments, built["book"].name])
    assert only.exit_code == 1


@pytest.mark.parametrize(
    "content", ["", "[]", '{"artifacts": 3}', '{"recipe": "x", "until": null, "began": "", "artifacts": []}']
)
def test_a_damaged_record_of_a_run_counts_as_none(built: dict[str, Artifact], tmp_path: Path, content: str) -> None:
    store = Store(tmp_path / "store")
    (store.root / locks.DIRECTORY).mkdir()
    (store.root / locks.DIRECTORY / "0123456789abcdef-1-host-1.json").write_text(content, "utf-8")
    assert locks.runs(store.root) == []


TWO = """
import sys, time
from pathlib import Path
from korealbert.artifact import Inputs, Runtime, Spec, Stage, build

waits = Path(sys.argv[3])

def slow(spec, inputs, out_dir, runtime):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    deadline = time.monotonic() + 300
    while not waits.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    (out_dir / "out.txt").write_text("x")
    return {}

def report(progress):
    if "waiting for process" in progress.message:
        waits.touch()

built = build(Stage("slow", 1, Spec, slow), Spec(), {}, Runtime(store=Path(sys.argv[1]), workers=1).reporting_to(report))
print(built.cached)
"""


def test_two_runs_that_need_one_artifact_build_it_once_and_the_second_says_whom_it_waits_for(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TWO, str(tmp_path / "store"), str(tmp_path / "log"), str(tmp_path / "waits")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outcomes = sorted(process.communicate(timeout=600)[0].strip() for process in both)
    assert (tmp_path / "log").read_text() == "built\n"
    assert outcomes == ["False", "True"]
    assert (tmp_path / "waits").exists()
