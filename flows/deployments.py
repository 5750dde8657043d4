"""The deployments of single stages in prefect.yaml, from what each stage declares: ``python -m flows.deployments``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from korealbert.artifact import Deployment
from korealbert.recipe import registry

FILE = Path(__file__).parents[1] / "prefect.yaml"
_MARK = "  # One per stage; what follows is written by `python -m flows.deployments` from korealbert/recipe/registry.py.\n"


def page(current: str) -> str:
    """prefect.yaml with one deployment for each stage of the registry that declares one; the flows above them stay."""
    flows = current.partition(_MARK)[0]
    stages = {stage.name: stage.deployment for stage in (*registry.STAGES, registry.REPORT) if stage.deployment}
    lines = [_line(name, deployment) for name, deployment in stages.items()]
    lines += [_line(name, deployment, gpu=True) for name, deployment in stages.items() if deployment.gpu]
    return flows + _MARK + "".join(f"  - {{{', '.join(line)}}}\n" for line in lines)


def _line(name: str, deployment: Deployment, *, gpu: bool = False) -> Iterator[str]:
    goes_on = deployment.queue == "crawl"
    yield f"<<: *{'gpu' if gpu else 'network' if goes_on else 'stage'}"
    yield f"name: {name}-gpu" if gpu else f"name: {name}"
    yield f"description: {json.dumps(deployment.description + ' on the GPU' * gpu)}"
    yield f"parameters: {{stage: {name}{', rerun: false' if goes_on else ''}}}"
    if deployment.nightly:
        yield f'schedules: [{{cron: "{deployment.nightly}", timezone: Asia/Seoul, slug: nightly, active: false}}]'


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text("utf-8")), "utf-8")
