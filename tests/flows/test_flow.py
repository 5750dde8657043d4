"""The flow with Prefect's own machinery: an API, cached states, one-stage runs, bare deployment names."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterName
from prefect.settings import PREFECT_API_URL
from prefect.states import Pending, Running

from korealbert.artifact import Artifact, Progress, ancestors
from korealbert.flows.bare_names import UnclearName, resolve
from korealbert.flows.corpus_to_model import corpus_to_model
from korealbert.flows.one_stage import one_stage
from korealbert.flows.publish import key, line
from korealbert.flows.recovery import Claimed
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import graph, load, until
from korealbert.report.sections.outcome import MARKS
from tests.flows import killed_grid
from tests.flows.conftest import TINY, final_tasks
from tests.flows.six_tasks import write_recipe

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Prefect's temporary server warns about itself
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("one_server"),
]


@pytest.fixture
def runtime(straight: dict[str, Artifact], tmp_path: Path) -> TrainingRuntime:
    """A store in which everything but the report is built."""
    store = tmp_path / "store"
    shutil.copytree(straight["report"].path.parent, store)
    shutil.rmtree(store / straight["report"].name)
    return TrainingRuntime(store=store, workers=1, threads=1)


def named(flow_run: str) -> FlowRunFilter:
    return FlowRunFilter(name=FlowRunFilterName(any_=[flow_run]))


def test_the_flow_shows_what_is_built_as_cached_and_builds_the_rest(
    straight: dict[str, Artifact], runtime: TrainingRuntime
) -> None:
    path = corpus_to_model.with_options(flow_run_name="first")(TINY, runtime=runtime)
    assert Path(path).name == straight["report"].name
    states = {label: run.state_name for label, run in final_tasks(named("first"), straight).items()}
    assert states.pop("report") == "Completed"
    assert set(states.values()) == {"Cached"} and set(states) == set(straight) - {"report"}
    corpus_to_model.with_options(flow_run_name="second")(TINY, runtime=runtime)
    assert {run.state_name for run in final_tasks(named("second"), straight).values()} == {"Cached"}
    with get_client(sync_client=True) as client:
        published = client.read_artifacts(flow_run_filter=named("second"))
    by_key = {artifact.key: str(artifact.data) for artifact in published}
    assert by_key.keys() == {"plan", "outcome"}, "a stage that is cached costs no request of its own"
    plan = by_key["plan"]
    assert "The whole report: " in by_key["outcome"] and "| report | Cached |" in by_key["outcome"]
    (report,) = straight["report"].files("report.md")
    assert MARKS in report.read_text("utf-8") and MARKS not in by_key["outcome"], "the key of pictures that are not there"
    assert plan.startswith(f"0 of {len(straight)} stages") and "file:" not in plan
    for artifact in straight.values():
        assert f"`{runtime.store.resolve() / artifact.name}`" in plan


def test_one_stage_is_rebuilt_on_cached_inputs(straight: dict[str, Artifact], runtime: TrainingRuntime) -> None:
    path = Path(one_stage("balance", TINY, runtime=runtime))
    assert path.name == straight["balance"].name
    assert Artifact(path.name, path).output_digest == straight["balance"].output_digest
    assert Artifact(path.name, path).manifest["created"] >= straight["balance"].manifest["created"]
    stages = until(graph(load(TINY)), "balance")
    with get_client(sync_client=True) as client:
        runs = {run.name: run.id for run in client.read_flow_runs(limit=200)}
        assert f"balance of {TINY.stem}" in runs
        own = FlowRunFilter(id=FlowRunFilterId(any_=[runs[f"{load(TINY).name} · {len(stages)} stages · 1 built"]]))
        published = {a.key: a for a in client.read_artifacts(flow_run_filter=own)}
    arrows = final_tasks(own, ["balance"])["balance"].task_inputs.values()
    assert {"plan", "outcome", "balance-output", "balance-stats"} <= published.keys()
    outcome = str(published["outcome"].data)
    assert f"The last artifact: `{path}`" in outcome and "| balance | Completed | balance built in" in outcome
    assert not any("file:" in str(artifact.data) for artifact in published.values())
    assert len({each.id for inputs in arrows for each in inputs}) == 1


@pytest.mark.soak
def test_a_grid_killed_halfway_repeats_no_finished_cell(straight: dict[str, Artifact], tmp_path: Path) -> None:
    """Of classes, tags and answers; ``make soak-finetune`` kills all six tasks of KoreALBERT at random moments."""
    tasks = ("nsmc", "naver_ner", "korquad")
    store = tmp_path / "store"
    store.mkdir()
    for label in ("export", *straight["export"].manifest["inputs"]):
        needed = straight[label]
        for artifact in (needed, *ancestors(needed.inputs()).values()):
            if not (store / artifact.name).exists():
                shutil.copytree(artifact.path, store / artifact.name)
    recipe = write_recipe(tmp_path, seeds=(1,), tasks=tasks)
    api = str(PREFECT_API_URL.value())
    done = killed_grid.kill_after(killed_grid.start(recipe, store, 2, api), store, 1)
    assert 1 <= len(done) < len(tasks)
    killed_grid.finish(killed_grid.start(recipe, store, 2, api))
    after = killed_grid.finished(store)
    assert len(after) == len(tasks)
    assert {name: after[name] for name in done} == done, "a finished cell was built again"
    assert len(list(store.glob("summary-*/summary.json"))) == len(tasks)


def test_a_run_that_was_claimed_and_never_began_is_scheduled_again(tmp_path: Path) -> None:
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="quarry", type="process"))
        flow_id = client.create_flow_from_name("claimed")
        deployment = client.create_deployment(flow_id=flow_id, name="claimed", work_pool_name="quarry")
        silent, begun = (client.create_flow_run_from_deployment(deployment, state=Pending()).id for _ in range(2))
        patient, claimed = Claimed("quarry"), Claimed("quarry", seconds=0.001)
        assert claimed.recover(client, tmp_path) == []
        client.set_flow_run_state(begun, Running())
        time.sleep(0.01)
        assert patient.recover(client, tmp_path) == []
        assert claimed.recover(client, tmp_path) == [client.read_flow_run(silent).name]
        states = [client.read_flow_run(run).state for run in (silent, begun)]
        assert [state and state.name for state in states] == ["AwaitingRetry", "Running"]
        client.set_flow_run_state(silent, Pending(), force=True)
        assert claimed.recover(client, tmp_path) == [], "another claim has its own time"
        assert Claimed("data", seconds=0).recover(client, tmp_path) == [], "of another pool"


async def _deploy(client: PrefectClient, flow_name: str, *names: str) -> None:
    flow_id = await client.create_flow_from_name(flow_name)
    for name in names:
        await client.create_deployment(flow_id=flow_id, name=name)


async def _check_resolution() -> None:
    async with get_client() as client:
        await _deploy(client, "corpus-to-model", "local")
        await _deploy(client, "one-stage", "vocab", "examples")
        assert await resolve(client, "corpus-to-model") == "corpus-to-model/local"
        assert await resolve(client, "vocab") == "one-stage/vocab"
        with pytest.raises(
            UnclearName, match=r"no deployment 'vocabs' \(did you mean 'vocab'\?\); deployments: .*corpus-to-model/local"
        ):
            await resolve(client, "vocabs")
        with pytest.raises(UnclearName, match="one-stage/examples, one-stage/vocab"):
            await resolve(client, "one-stage")


def test_a_bare_name_finds_the_one_deployment_that_bears_it() -> None:
    import asyncio

    asyncio.run(_check_resolution())


def test_a_line_of_the_log_counts_what_tells_something() -> None:
    assert line(Progress(1, 1, "stages", message="built in 2 s")) == "built in 2 s"
    assert line(Progress(0, None, "sentences", message="training on 300 sentences")) == "training on 300 sentences"
    assert line(Progress(2_000, 4_000, "shards", message="2 MB/s")) == "2,000/4,000 shards  2 MB/s"
    assert line(Progress(1, 1, "shards")) == "1/1 shards"


def test_artifact_keys_are_what_prefect_accepts() -> None:
    assert key("finetune/nsmc/pretrained/1", "stats") == "finetune-nsmc-pretrained-1-stats"
    assert key("report", "language-loss-glue_rte") == "report-language-loss-glue-rte"
