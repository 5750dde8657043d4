"""What the Prefect UI shows of runs that fail."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun
from prefect.context import tags

from korealbert.corpus.extract import ExtractionError
from korealbert.flows import publish
from korealbert.flows.corpus_to_model import corpus_to_model
from korealbert.flows.failures import StagesFailed
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import RecipeError
from tests.flows.conftest import tasks_of

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300), pytest.mark.usefixtures("one_server")]


@contextmanager
def logged(*names: str) -> Iterator[list[str]]:
    """Yield a list that receives the errors which these loggers of Prefect pass on."""
    lines: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    for name in names:
        logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(handler)


def test_what_is_shown_of_other_stages_has_another_key() -> None:
    labels = ("clean/news/a", "clean/news-a", "clean/news_a", "clean/News-a", "finetune/뉴스", "finetune/위키")
    keys = [publish.key(label, "output") for label in labels]
    assert len({*keys}) == len(labels) and keys[0] == "clean-news-a-output"
    assert all(re.fullmatch("[a-z0-9-]+", key) for key in keys)


def run_tagged(tag: str) -> FlowRun:
    """Return the only run with a tag."""
    with get_client(sync_client=True) as client:
        (run,) = client.read_flow_runs(flow_run_filter=FlowRunFilter(tags=FlowRunFilterTags(all_=[tag])))
        return run


def test_a_failed_stage_stops_those_that_need_it_alone(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_text('{"text": "표가 아니다"}')
    (tmp_path / "b.txt").write_text("도서관에서 책을 읽었다. 바다가 조용하다.\n" * 9)
    recipe = tmp_path / "broken.toml"
    sources = f'[extract.a]\nformat = "parquet"\npaths = ["{tmp_path}/no.parquet"]\n[clean.a]\n'
    sources += f'[extract.b]\nformat = "text"\npaths = ["{tmp_path}/b.txt"]\n[clean.b]\n'
    recipe.write_text(f"{sources}[report]\n")
    with tags("broken"), logged("prefect.task_runs", "prefect.flow_runs") as lines, pytest.raises(StagesFailed) as failure:
        corpus_to_model(recipe, runtime=TrainingRuntime(store=tmp_path / "store", workers=1))
    assert isinstance(failure.value.errors["extract/a"], ExtractionError)
    assert "no.parquet" in str(failure.value) and "\nnot started: clean/a, dedup, balance, report" in str(failure.value)
    run = run_tagged("broken")
    assert run.name == "broken · 7 stages · 1 failed"
    only = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    unstarted = ["balance", "clean/a", "dedup", "report"]
    tasks = tasks_of(only, lambda found: len(found) == 7 and all(task.state and task.state.is_final() for task in found))
    ended = {task.name: task for task in tasks}
    assert sorted(ended) == sorted([*unstarted, "clean/b", "extract/a", "extract/b"])
    with get_client(sync_client=True) as client:
        (outcome,) = [str(each.data) for each in client.read_artifacts(flow_run_filter=only) if each.key == "outcome"]
    beginning, _, table = outcome.partition("| stage |")
    assert beginning.startswith("**Failed: extract/a.**") and "\n- extract/a: " in beginning and "no.parquet" in beginning
    assert "| extract/a | Failed | Task run" in table and "no.parquet" in table
    assert "| clean/b | Completed | clean/b built" in outcome
    for label in unstarted:
        assert f"| {label} | Not started | needs extract/a |" in outcome
        state = ended[label].state
        assert state is not None and (state.name, state.message) == ("Not started", "needs extract/a")
    (line,) = lines
    assert "no.parquet" in line


def test_a_run_whose_recipe_is_refused_bears_the_recipe_s_name(tmp_path: Path) -> None:
    recipe = tmp_path / "mistyped.toml"
    recipe.write_text("[exract.a]\n")
    with tags("mistyped"), pytest.raises(RecipeError):
        corpus_to_model(recipe, runtime=TrainingRuntime(store=tmp_path / "store"))
    assert run_tagged("mistyped").name == "mistyped · nothing started"


def test_a_server_that_is_gone_does_not_hide_why_a_recipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unanswered(*_: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(publish, "name_run", unanswered)
    (tmp_path / "mistyped.toml").write_text("[exract.a]\n")
    with pytest.raises(RecipeError, match="exract"):
        corpus_to_model.fn(tmp_path / "mistyped.toml", runtime=TrainingRuntime(store=tmp_path / "store"))
