"""A flow that rebuilds one stage of a recipe on inputs that are cached or built first; each stage has a deployment of it.

``python -m korealbert.flows.one_stage`` writes these deployments into prefect.yaml, from the stages' declarations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect import flow

from korealbert.artifact import Deployment
from korealbert.flows import publish
from korealbert.flows.corpus_to_model import SAMPLE, flow_of
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import registry


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
        rerun: Build the stage even if it is cached. Its inputs are built only if they are missing or stale.
        overrides: Fields of the recipe to change, by dotted name.
        runtime: Store, workers, training processes; not part of any identity.
        data: Directory that ``${data}`` in the recipe stands for.
        data_root: Directory that must contain every file that the recipe names; without it, files may be anywhere.

    Returns:
        The path of the stage's artifact.
    """
    publish.name_run(f"{stage} of {recipe.stem}")
    again = [stage] if rerun else None
    given = {"overrides": overrides, "runtime": runtime, "data": data, "data_root": data_root}
    return flow_of(recipe)(recipe, until=stage, rerun=again, **given)


_FILE = Path(__file__).resolve().parents[1] / "prefect.yaml"
_MARK = (
    "  # One per stage; what follows is written by `python -m korealbert.flows.one_stage` from korealbert/recipe/registry.py.\n"
)


def page(current: str) -> str:
    """Return prefect.yaml with one deployment for each stage that declares one; the flows above them stay."""
    flows = current.partition(_MARK)[0]
    stages = {stage.name: stage.deployment for stage in (*registry.STAGES, registry.REPORT) if stage.deployment}
    lines = [_line(name, deployment) for name, deployment in stages.items()]
    lines += [_line(name, deployment, gpu=True) for name, deployment in stages.items() if deployment.gpu]
    return flows + _MARK + "".join(f"  - {{{', '.join(line)}}}\n" for line in lines)


def _line(name: str, deployment: Deployment, *, gpu: bool = False) -> Iterator[str]:
    continues = deployment.queue == "crawl"
    yield f"<<: *{'gpu' if gpu else 'network' if continues else 'stage'}"
    yield f"name: {name}-gpu" if gpu else f"name: {name}"
    yield f"description: {json.dumps(deployment.description + ', on the GPU' * gpu)}"
    recipe = f", recipe: {(SAMPLE.parent / deployment.recipe).with_suffix('.toml')}" if deployment.recipe else ""
    yield f"parameters: {{stage: {name}{recipe}{', rerun: false' if continues else ''}}}"
    if deployment.nightly:
        yield f'schedules: [{{cron: "{deployment.nightly}", timezone: Asia/Seoul, slug: nightly, active: false}}]'


if __name__ == "__main__":
    _FILE.write_text(page(_FILE.read_text("utf-8")), "utf-8")
