"""The main job: raw Korean text in, an evaluated model and its report out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.exceptions import TerminationSignal
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows import publish
from flows.gate import Gate
from flows.lifetime import leave_soon, of_a_worker
from flows.recovery import announce
from flows.step import step
from korealbert.artifact import Store, runs
from korealbert.pretrain.launch import stop_all
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import prepare

SAMPLE = Path("data_specs/recipes/sample.toml")


@flow(name="corpus-to-model", persist_result=False)
def corpus_to_model(
    recipe: Path = SAMPLE,
    until: str | None = None,
    from_stage: str | None = None,
    rerun: list[str] | None = None,
    overrides: dict[str, Any] | None = None,
    on_gpu: list[str] | None = None,
    runtime: TrainingRuntime = TrainingRuntime(),  # noqa: B008 (frozen)
    data: Path | None = None,
) -> str:
    """Build every stage of a recipe that is missing or stale.

    Args:
        recipe: The recipe's TOML file, from the project's root.
        until: Build only what this stage needs, and it (``vocab``, ``clean/news``, ``clean`` for all sources).
        from_stage: Build this stage and all that stand on it, although they are cached.
        rerun: Stages to build although they are cached.
        overrides: Fields of the recipe to change, by dotted name: ``{"pretrain.steps": 200}``.
        on_gpu: Stages that the worker of the pool ``gpu`` builds, which must run: ``pretrain``, ``finetune``.
        runtime: Store, workers, training processes; not part of any identity.
        data: Directory that ``${data}`` in the recipe stands for.

    Returns:
        The path of the last stage's artifact: the report's, unless ``until`` names another.
    """
    return build_all(
        recipe,
        runtime=runtime,
        until=until,
        from_stage=from_stage,
        rerun=rerun,
        overrides=overrides,
        on_gpu=on_gpu,
        data=data,
    )


def build_all(
    recipe: Path,
    *,
    runtime: TrainingRuntime,
    until: str | None,
    from_stage: str | None,
    rerun: list[str] | None,
    overrides: dict[str, Any] | None,
    on_gpu: list[str] | None,
    data: Path | None,
) -> str:
    """Plan a recipe of any kind and submit its stages to the flow that is running; returns the path of the last artifact."""
    with of_a_worker():
        store = runtime.store
        store.mkdir(parents=True, exist_ok=True)  # before planning, so that its digests of raw files are kept
        announce(store)
        prepared = prepare(
            recipe, Store(store), until=until, rerun=rerun, from_stage=from_stage, data=data, overrides=overrides
        )
        elsewhere = prepared.named(on_gpu or (), option="on_gpu")
        prepared.check(runtime, elsewhere=elsewhere)
        publish.plan(prepared.planned, store)
        same = {"recipe": str(recipe), "overrides": overrides, "data": data and str(data)}
        names = {stage.label: stage.name for stage in prepared.planned}
        gate = Gate(runtime)
        runner: Any = ThreadPoolTaskRunner(max_workers=runtime.cells_at_once)
        recorded = runs.recorded(store, recipe, until, names)
        built: dict[str, PrefectFuture[Any]] = {}
        with recorded, runner:
            for label, node in prepared.nodes.items():
                inputs = {role: built[other] for role, other in node.inputs.items()}
                asked = {"label": label, "node": node, "inputs": inputs, "runtime": runtime, "gate": gate}
                delegated = same if label in elsewhere else None
                built[label] = runner.submit(step, {**asked, "rerun": label in prepared.rerun, "on_gpu": delegated})
            try:
                *_, last = [future.result() for future in built.values()]
            except TerminationSignal:
                if not stop_all():  # The runner waits for the stage that runs: training saves a checkpoint and ends,
                    leave_soon()  # but nothing else can be asked to.
                raise
        return str(store.resolve() / last)
