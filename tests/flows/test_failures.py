"""Failed stages: what else is built, and what the terminal says."""

from __future__ import annotations

from pathlib import Path

import pytest
from prefect.states import Completed, Failed, Pending
from typer.testing import CliRunner

from korealbert import recipe as recipes
from korealbert.artifact import Store, build
from korealbert.finetune.model import Diverged
from korealbert.flows import step
from korealbert.flows.cli import app
from korealbert.flows.display import failure_lines
from korealbert.flows.failures import StagesFailed, seeds_left
from korealbert.pretrain.stage import PretrainingStopped
from tests.flows.conftest import TINY

CELL = "finetune/nsmc/pretrained/2"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe of two sources."""
    (tmp_path / "a.txt").write_text("도서관에서 책을 읽었다. 바다가 조용하다.\n" * 9)
    source = '[extract.{0}]\nformat = "text"\npaths = ["a.txt"]\n[clean.{0}]\n'
    (tmp_path / "two.toml").write_text(source.format("a") + source.format("b"))
    return tmp_path / "two.toml"


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let extraction of the first source fail."""

    def built(*given: object, label: str, **options: object) -> object:
        if label == "extract/a":
            raise error
        return build(*given, label=label, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(step, "build", built)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("one_server")
class TestTheTerminal:
    def test_it_tells_the_reason_at_once_and_at_the_end_what_is_missing(
        self, recipe: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing(monkeypatch, ValueError("the disk hums"))
        done = CliRunner().invoke(app, ["run", str(recipe), "--store", str(recipe.parent / "store"), "--workers", "1"])
        assert done.exit_code == 2
        assert done.stderr.splitlines() == ["extract/a  failed: the disk hums"]
        assert "clean/b  built" in done.stdout
        *_, failed, missing, outcome = done.stdout.splitlines()
        assert failed == "failed: extract/a" and missing == "not started: clean/a, dedup, balance, report"
        assert outcome.startswith("2 stages built in ") and outcome.endswith(", 0 cached")

    def test_a_defect_of_ours_keeps_its_traceback(self, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        failing(monkeypatch, KeyError("shard"))
        done = CliRunner().invoke(app, ["run", str(recipe), "--store", str(recipe.parent / "store"), "--workers", "1"])
        assert done.exit_code == 1 and isinstance(done.exception, KeyError)
        assert "extract/a  failed: 'shard'" in done.stderr and "clean/b  built" in done.stdout

    def test_training_that_was_asked_to_stop_ends_the_run(self, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        failing(monkeypatch, PretrainingStopped("stopped at step 5"))
        done = CliRunner().invoke(app, ["run", str(recipe), "--store", str(recipe.parent / "store"), "--workers", "1"])
        assert done.stderr.splitlines() == ["extract/a  failed: stopped at step 5"]
        assert "failed: extract/a" in done.stdout
        (missing,) = [line for line in done.stdout.splitlines() if line.startswith("not started: clean/a, ")]
        assert missing.endswith("dedup, balance, report")


def test_the_remedy_for_failed_cells_is_a_report_of_the_other_seeds(tmp_path: Path) -> None:
    request = {"overrides": {"finetune.nsmc.seeds": [1, 2, 3]}}
    nodes = recipes.prepare(TINY, Store(tmp_path), **request).nodes
    failure = StagesFailed({CELL: Diverged("the loss is nan")}, ["summary/nsmc", "report"])
    *_, remedy = failure_lines(failure, TINY, Store(tmp_path), request, nodes)
    assert remedy == "for a report of the other seeds, add --set 'finetune.nsmc.seeds=[1, 3]'"


def test_seeds_of_failed_cells_are_left_out_and_others_stay() -> None:
    labels = [f"finetune/{name}/{init}/{seed}" for name in ("a", "b") for init in ("pretrained", "random") for seed in (1, 2)]
    assert seeds_left(["finetune/a/random/2"], labels) == {"finetune.a.seeds": [1]}
    assert seeds_left(["finetune/a/random/2", "finetune/a/pretrained/1"], labels) == {}, "no seed is left"
    assert seeds_left(["finetune/a/random/2", "features/b"], labels) == {}, "no seeds help where another stage has failed"
    assert seeds_left(["finetune/ours/a/random/2"], ["finetune/ours/a/random/1"]) == {"finetune.a.seeds": [1]}


def test_a_failure_names_all_that_is_not_there() -> None:
    states = {"a": Completed(), "b": Failed(data=OSError("full")), "c": Pending(name="NotReady")}
    failure = StagesFailed.of(states)
    assert failure is not None and str(failure) == "b: full\nnot started: c"
    assert StagesFailed.of({"a": Completed()}) is None
