"""The second job: an English encoder in, a Korean one out, with what it has kept of its English."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from flows.corpus_to_model import build_all
from korealbert.pretrain.runtime import TrainingRuntime

SAMPLE = Path("data_specs/recipes/xpt-sample.toml")


@flow(name="cross-lingual", persist_result=False)
def cross_lingual(
    recipe: Path = SAMPLE,
    until: str | None = None,
    from_stage: str | None = None,
    rerun: list[str] | None = None,
    overrides: dict[str, Any] | None = None,
    on_gpu: list[str] | None = None,
    runtime: TrainingRuntime = TrainingRuntime(),  # noqa: B008 (frozen)
    data: Path | None = None,
) -> str:
    """Build every stage of a cross-lingual recipe that is missing or stale.

    Args:
        recipe: The recipe's TOML file, one with a [transfer] table.
        until: Build only what this stage needs, and it (``phase1``, ``phase2/itl``, ``finetune/language_loss``).
        from_stage: Build this stage and all that stand on it, although they are cached.
        rerun: Stages to build although they are cached.
        overrides: Fields of the recipe to change, by dotted name: ``{"phase2.steps": 200}``.
        on_gpu: Stages that the worker of the pool ``gpu`` builds, which must run: ``phase1``, ``phase2``.
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
