"""What a name on the command line means in a store of several recipes, attempts and abandoned sources."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from typer.testing import CliRunner

from korealbert.artifact import Artifact, locks
from korealbert.flows.cli import app
from korealbert.flows.options import find, means_directory
from tests.report.conftest import made, write_documents


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes between two artifacts, or two runs."""
    seconds = itertools.count()
    for module in ("stage", "locks"):
        monkeypatch.setattr(f"korealbert.artifact.{module}.utc_now", lambda: f"2026-01-01T{next(seconds):06}Z")


def call(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_a_label_wins_over_newer_artifacts_whose_names_begin_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vocab = made(tmp_path, "vocab", {})
    sizes = made(tmp_path, "vocab_sizes", {})
    export, other = made(tmp_path, "export", {}), made(tmp_path, "export/other", {})
    assert other.name.startswith("export-")
    assert [find(tmp_path, name) for name in ("vocab", "vocab_sizes", "export")] == [vocab, sizes, export]
    assert find(tmp_path, "vocab_s") == sizes
    assert not capsys.readouterr().err


def test_of_several_artifacts_the_one_that_is_taken_is_told_with_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, "export", {}, seed=1)
    tried = made(tmp_path, "export", {}, seed=2)
    assert find(tmp_path, "export") == tried
    expected = f"2 artifacts match 'export'; taking the newest, {tried.name} (export), built {tried.manifest['created']}\n"
    assert capsys.readouterr().err == expected


def test_a_label_means_what_the_newest_run_needed_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After an experiment is undone all stages are cached, although the experiment's were built last."""
    mine, tried = made(tmp_path, "export", {}, seed=1), made(tmp_path, "export", {}, seed=2)
    recipe = tmp_path / "mine.toml"
    for artifact in (mine, tried, mine):
        with locks.recorded(tmp_path, recipe, None, {"export": artifact.name}):
            pass
    assert find(tmp_path, "export") == mine
    assert f"taking that of the newest run, {mine.name} (export), built" in capsys.readouterr().err
    with locks.recorded(tmp_path, recipe, None, {"export": "export-not-built-yet"}):
        assert find(tmp_path, "export") == tried, "what is not built yet is no artifact; then the one built last is meant"


def cleaned(store: Path, source: str, documents: int) -> Artifact:
    return made(store, f"clean/{source}", {}, write=write_documents(documents, {}))


def test_a_corpus_has_the_sources_of_the_newest_run(tmp_path: Path) -> None:
    store, mine, other = tmp_path / "store", tmp_path / "mine.toml", tmp_path / "other.toml"
    made_of = {source: cleaned(store, source, size) for source, size in (("a", 3), ("b", 5), ("old", 7), ("foreign", 11))}

    def ran(recipe: Path, *sources: str, until: str | None = None) -> None:
        with locks.recorded(store, recipe, until, {f"clean/{source}": made_of[source].name for source in sources}):
            pass

    assert "26 documents" in call("export-corpus", "clean", tmp_path / "unknown", "--store", store)
    ran(other, "foreign")
    ran(mine, "a", "b", "old")
    assert "15 documents" in call("export-corpus", "clean", tmp_path / "before", "--store", store)
    ran(mine, "a", "b")
    ran(mine, "b", until="clean/b")
    output = call("export-corpus", "clean", tmp_path / "now", "--store", store)
    assert f"clean: taking clean/a, clean/b of the newest run of {mine}; not in it: clean/foreign, clean/old\n" in output
    assert "8 documents" in output
    assert "7 documents" in call("export-corpus", "clean/old", tmp_path / "old", "--store", store)


def test_a_source_that_its_run_did_not_build_is_told(tmp_path: Path) -> None:
    found = {"clean/a": cleaned(tmp_path, "a", 3).name, "clean/b": "clean-0123456789abcdef"}
    with locks.recorded(tmp_path, Path("mine.toml"), None, found):
        pass
    output = call("export-corpus", "clean", tmp_path / "out", "--store", tmp_path, code=2)
    assert "clean/b: the newest run of " in output and "has not built it; run it, or name one of its sources" in output


def test_a_folder_does_not_hide_the_artifact_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("balance", "mine", "export"):
        (tmp_path / name).mkdir()
    (tmp_path / "export" / "config.json").write_text("{}")
    made_here = made(tmp_path / "store", "balance", {}, write=write_documents(3, {}))
    made(tmp_path / "store", "export", {})

    def meant(name: str) -> bool:
        return means_directory(tmp_path / "store", name, "config.json")

    assert [meant(name) for name in ("balance", "export", "mine", "none")] == [False, True, True, False]
    assert not meant(str(made_here.path))
    assert "nothing was sent; it would be the private dataset" in call(
        "push", "balance", "me/x", "--dry-run", "--store", "store"
    )
    refused = call("fill-mask", "balance", "[MASK]", "--store", "store", code=2)
    assert refused.startswith(f"{made_here.path}: no exported model here (config.json is missing)")
