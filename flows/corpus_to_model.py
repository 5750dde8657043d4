"""The main job: raw Korean text in, an evaluated model and its report out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows import publish
from flows.gate import Gate
from flows.step import step
from korealbert.artifact import Runtime, Store, runs
from korealbert.recipe import prepare

SAMPLE = Path("data_specs/recipes/sample.toml")


@flow(name="corpus-to-model", persist_result=False)
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
    gate = Gate(runtime)
    runner: Any = ThreadPoolTaskRunner(max_workers=runtime.cells_at_once)
    names = {stage.label: stage.name for stage in prepared.planned}
    with runs.recorded(runtime.store, recipe, until, names), runner:
        for label, node in prepared.nodes.items():
            inputs = {role: built[other] for role, other in node.inputs.items()}
            asked = {"label": label, "node": node, "inputs": inputs, "runtime": runtime, "gate": gate}
            built[label] = runner.submit(step, {**asked, "rerun": label in prepared.rerun})
        *_, last = [future.result() for future in built.values()]
    return str(runtime.store.resolve() / last)
