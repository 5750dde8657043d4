"""The main job: raw Korean text in, an evaluated model and its report out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from prefect import flow
from prefect.exceptions import TerminationSignal
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows import publish
from flows.step import step
from korealbert.artifact import Runtime, Store, runs
from korealbert.pretrain.launch import stop_all
from korealbert.recipe import prepare

SAMPLE = Path("data_specs/recipes/sample.toml")

ONE_AT_A_TIME: Any = ThreadPoolTaskRunner(max_workers=1)
"""Each stage uses all the cores it is given."""


@flow(name="corpus-to-model", task_runner=ONE_AT_A_TIME, persist_result=False)
def corpus_to_model(
    recipe: Path = SAMPLE,
    until: str | None = None,
    rerun: list[str] | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 (frozen)
    data: Path | None = None,
) -> str:
    """Build every stage of a recipe that is missing or stale.

    Args:
        recipe: The recipe's TOML file.
        until: Build only what this stage needs, and it (``vocab``, ``clean/news``, ``clean`` for all sources).
        rerun: Stages to build although they are cached.
        runtime: Store, workers, training processes; not part of any identity.
        data: Directory that ``${data}`` in the recipe stands for.

    Returns:
        The path of the last stage's artifact: the report's, unless ``until`` names another.
    """
    runtime.store.mkdir(parents=True, exist_ok=True)  # before planning, so that its digests of raw files are kept
    prepared = prepare(recipe, Store(runtime.store), until=until, rerun=rerun, data=data)
    publish.plan(prepared.planned)
    built: dict[str, PrefectFuture[Any]] = {}
    with runs.recorded(runtime.store, recipe, until, {stage.label: stage.name for stage in prepared.planned}):
        for label, node in prepared.nodes.items():
            inputs = {role: built[other] for role, other in node.inputs.items()}
            built[label] = step.submit(label, node, cast(dict[str, str], inputs), runtime, rerun=label in prepared.rerun)
        try:
            *_, last = [future.result() for future in built.values()]
        except TerminationSignal:
            stop_all()  # Prefect waits for the stage that runs; training saves a checkpoint and ends.
            raise
    return str(runtime.store.resolve() / last)
