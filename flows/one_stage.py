"""One stage of a recipe, rebuilt on inputs that are cached (or built first)."""

from __future__ import annotations

from typing import Annotated

from prefect import flow
from pydantic import Field

from flows.corpus_to_model import SAMPLE, Data, Overrides, Recipe, Where, corpus_to_model
from korealbert.artifact import Runtime

Label = Annotated[str, Field(description="The stage's label (vocab, clean/news), or the name of several (clean).")]
Anew = Annotated[bool, Field(description="Build it although it is cached; what it reads is built where missing or stale.")]


@flow(name="one-stage", persist_result=False)
def one_stage(
    stage: Label,
    recipe: Recipe = SAMPLE,
    rerun: Anew = True,
    overrides: Overrides = None,
    runtime: Where = Runtime(),  # noqa: B008 (frozen)
    data: Data = None,
) -> str:
    """Build one stage of a recipe.

    Args:
        stage: The stage's label (``vocab``, ``clean/news``) or the name of several (``clean``).
        recipe: The recipe's TOML file.
        rerun: Build it although it is cached; what it reads is built only where missing or stale.
        overrides: Fields of the recipe to change, by dotted name.
        runtime: Store, workers, training processes.
        data: Directory that ``${data}`` in the recipe stands for.

    Returns:
        The path of the stage's artifact.
    """
    again = [stage] if rerun else None
    return corpus_to_model(recipe, until=stage, rerun=again, overrides=overrides, runtime=runtime, data=data)
