"""One stage of a recipe, rebuilt on inputs that are cached (or built first)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from flows.corpus_to_model import SAMPLE, flow_of
from korealbert.pretrain.runtime import TrainingRuntime


@flow(name="one-stage", persist_result=False)
def one_stage(
    stage: str,
    recipe: Path = SAMPLE,
    rerun: bool = True,
    overrides: dict[str, Any] | None = None,
    runtime: TrainingRuntime = TrainingRuntime(),  # noqa: B008 (frozen)
    data: Path | None = None,
    data_root: Path | None = None,
) -> str:
    """Build one stage of a recipe.

    Args:
        stage: The stage's label (``vocab``, ``clean/news``) or the name of several (``clean``).
        recipe: The recipe's TOML file, from the project's root.
        rerun: Build it although it is cached; what it reads is built only where missing or stale.
        overrides: Fields of the recipe to change, by dotted name.
        runtime: Store, workers, training processes; not part of any identity.
        data: Directory that ``${data}`` in the recipe stands for.
        data_root: Directory that holds every file which the recipe may name; any may be named where it is not given.

    Returns:
        The path of the stage's artifact.
    """
    again = [stage] if rerun else None
    given = {"overrides": overrides, "runtime": runtime, "data": data, "data_root": data_root}
    return flow_of(recipe)(recipe, until=stage, rerun=again, **given)
