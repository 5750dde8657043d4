"""The flow: a recipe in, its last artifact out. Its stages, chained on one page, are in ``korealbert/recipe/dag.py``::

    crawl, fetch ─► extract ─► clean ─► dedup ─► balance ─► vocab ─► examples ─► views ─► pretrain ─► export
                                                                          finetune × task × seed ◄─┘ └─► report

A recipe of a corpus alone ends with a report after ``balance`` or ``vocab``. Cross-lingual post-training and the evaluation of
encoders are the same flow under other names, over recipes of other kinds.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from prefect import Flow, flow
from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal
from prefect.futures import PrefectFuture
from prefect.states import Pending
from prefect.task_runners import ThreadPoolTaskRunner

from korealbert.artifact import Store, locks
from korealbert.flows import publish
from korealbert.flows.failures import StagesFailed, error_of, has_news
from korealbert.flows.lineage import Lineage
from korealbert.flows.recovery import announced_here, leave_soon, soon_after_cancellation
from korealbert.flows.step import Gate, step
from korealbert.pretrain.launch import stop_all
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.stage import PretrainingStopped
from korealbert.recipe import prepare
from korealbert.recipe.tables import Kind, kind_of
from korealbert.report.render.graph import reduced

SAMPLE = Path("data_specs/recipes/sample.toml")
_ABLATION = Path("data_specs/ablations/sample/korealbert-table-2.toml")


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
    data_root: Path | None = None,
    lineage: str | None = None,
) -> str:
    """Build every stage of a recipe of any kind that is missing or stale.

    If some fail, those that do not need them are built all the same; then StagesFailed is raised.

    Args:
        recipe: The recipe's TOML file, from the project's root.
        until: Last stage to build (``vocab``, ``clean/news``, or ``clean`` for all sources).
        from_stage: Build this stage and all downstream stages, even if they are cached.
        rerun: Stages to build even if they are cached.
        overrides: Fields of the recipe to change, by dotted name: ``{"pretrain.steps": 200}``.
        on_gpu: Stages that the worker of the pool ``gpu`` builds: ``pretrain``, ``finetune``. That worker must be running.
        runtime: Store, workers, training processes; not part of any identity.
        data: Directory that ``${data}`` in the recipe stands for.
        data_root: Directory that must contain every file that the recipe names; without it, files may be anywhere.
        lineage: Where OpenLineage events go: a file, which gets one line per event, or an address to post them to.

    Returns:
        The path of the last stage's artifact: the report's, unless ``until`` names another.
    """
    for logger in ("prefect.task_runs", "prefect.flow_runs"):
        logging.getLogger(logger).addFilter(has_news)
    store = runtime.store
    here = Store(store).make()  # before planning, so that digests of raw files can be cached
    with soon_after_cancellation(), announced_here(store):
        try:
            prepared = prepare(
                recipe,
                here,
                until=until,
                rerun=rerun,
                from_stage=from_stage,
                data=data,
                overrides=overrides,
                data_root=data_root,
                workers=runtime.workers,
                threads=runtime.threads,
            )
            elsewhere = prepared.named(on_gpu or (), option="on_gpu")
            prepared.check(runtime, elsewhere=elsewhere)
        except Exception:
            with suppress(Exception):  # An error here must not hide the failure itself.
                publish.name_run(recipe.stem, "nothing started")
            raise
        publish.plan(prepared.name, prepared.planned, store)
        places = {"data": data and str(data), "data_root": data_root and str(data_root)}
        request = {"recipe": str(recipe), "overrides": overrides, **places}
        names = {stage.label: stage.name for stage in prepared.planned}
        gate = Gate(runtime)
        runner: Any = ThreadPoolTaskRunner(max_workers=runtime.cells_at_once)
        recorded = locks.recorded(store, recipe, until, names)
        lineage_events = Lineage(lineage, prepared.name)
        built: dict[str, PrefectFuture[Any]] = {}
        # Inputs that another input depends on are finished by then; the UI draws no arrow for them.
        needed = {label: set(node.inputs.values()) for label, node in prepared.nodes.items()}
        drawn = reduced(needed)
        with recorded, lineage_events.of_run():
            with runner:
                for label, node in prepared.nodes.items():
                    inputs = {
                        role: built[other] if other in drawn[label] else names[other] for role, other in node.inputs.items()
                    }
                    job = {"label": label, "node": node, "inputs": inputs, "runtime": runtime, "gate": gate}
                    job |= {"rerun": label in prepared.rerun, "on_gpu": request if label in elsewhere else None}
                    named = step.with_options(name=label)  # in the UI, even if the stage never starts
                    built[label] = runner.submit(named, {**job, "lineage": lineage_events})
                _wait(built.values())
            states = {label: _state_at_end(future) for label, future in built.items()}
            if (failure := StagesFailed.of(states)) is not None:
                with suppress(Exception):  # An error here must not hide the failure itself.
                    publish.result(prepared.name, prepared.planned, states, needed, store)
                    publish.unstarted(states, needed, {label: future.task_run_id for label, future in built.items()})
                raise failure from failure.defect
        publish.result(prepared.name, prepared.planned, states, needed, store)
        *_, last = built.values()
        return str(store.resolve() / last.result())


def _wait(stages: Iterable[PrefectFuture[Any]]) -> None:
    """Wait for the stages, or until pretraining is stopped, after which the runner starts none. Raises TerminationSignal."""
    try:
        for stage in stages:
            stage.wait()
            if isinstance(error_of(stage.state), PretrainingStopped):
                break
    except TerminationSignal:
        if not stop_all():  # The runner waits for the running stage: training saves a checkpoint and ends,
            leave_soon()  # but other stages have nothing to save.
        raise


def _state_at_end(future: PrefectFuture[Any]) -> State[Any]:
    """Return a stage's state after the runner's end; one that the runner cancelled counts as not started."""
    try:
        future.wait()
    except (concurrent.futures.CancelledError, asyncio.CancelledError):
        return Pending()
    return future.state


cross_lingual = corpus_to_model.with_options(
    name="cross-lingual", description="An English encoder in, a Korean one out, with its remaining English scores."
)
evaluation = corpus_to_model.with_options(
    name="evaluation", description="Encoders in, a report of their scores out; pretrains none, except through other recipes."
)

_FLOWS: dict[Kind, Flow[Any, str]] = {
    "model": corpus_to_model,
    "corpus": corpus_to_model,
    "ablation": corpus_to_model,
    "cross-lingual": cross_lingual,
    "evaluation": evaluation,
}


def flow_of(recipe: Path) -> Flow[Any, str]:
    """Return the flow for a recipe of this kind. Raises RecipeError if the file is no recipe."""
    return _FLOWS[kind_of(recipe)]


@flow(name="ablations", persist_result=False)
def ablations(
    files: list[Path] = [_ABLATION],  # noqa: B006 (never changed)
    runtime: TrainingRuntime = TrainingRuntime(),  # noqa: B008 (frozen)
    data: Path | None = None,
    data_root: Path | None = None,
) -> list[str]:
    """Build every missing or stale stage of some ablations; shared stages are built once.

    Args:
        files: The ablations' TOML files.
        runtime: Store, workers, training processes; not part of any identity.
        data: Directory that ``${data}`` in the recipes stands for.
        data_root: Directory that must contain every file that the recipes name; without it, files may be anywhere.

    Returns:
        The paths of the reports, in the order of ``files``.
    """
    ended: list[Any] = [
        flow_of(file)(file, runtime=runtime, data=data, data_root=data_root, return_state=True) for file in files
    ]
    return [state.result() for state in ended]  # Raises the first error of those that failed.
