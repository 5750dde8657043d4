"""What a run shows in the Prefect UI: its plan, then of each stage that it builds progress, numbers, place and pictures.

Each of these is a request to the server, so that stages found in the store have their places in the plan and nothing more.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from korealbert.artifact import Built, Progress
from korealbert.formatting import flat
from korealbert.recipe import Planned
from korealbert.report.render.text import plain


def key(label: str, kind: str) -> str:
    """A Prefect artifact key (lower case, digits and dashes only) for something of a stage, such as a picture by its name."""
    return re.sub(r"[^a-z0-9]+", "-", f"{label}-{kind}".lower()).strip("-")


def line(progress: Progress) -> str:
    """One log line for a progress report."""
    total = f"/{progress.total:,}" if progress.total is not None else ""
    return "  ".join(filter(None, (f"{progress.done:,}{total} {progress.unit}", progress.note, progress.message)))


class ProgressBar:
    """A Prefect progress artifact, created at the first report of work that is under way and whose total is known."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._id: UUID | None = None

    def update(self, progress: Progress) -> None:
        """Show how far the stage has come."""
        if not progress.total or (self._id is None and progress.done >= progress.total):
            return
        percent = round(100 * progress.done / progress.total, 1)
        if self._id is None:
            created = create_progress_artifact(percent, key=key(self.label, "progress"), description=plain(self.label))
            self._id = cast(UUID, created)  # A coroutine only where an event loop runs, and a stage runs in a plain thread.
        else:
            update_progress_artifact(self._id, percent, description=plain(f"{self.label}: {line(progress)}"))


def outcome(label: str, built: Built) -> None:
    """Publish a finished artifact: where it is, its statistics as a table, its pictures."""
    artifact = built.artifact
    create_link_artifact(artifact.path.as_uri(), link_text=artifact.name, key=key(label, "output"), description=plain(label))
    rows = [{"statistic": name, "value": _shown(value)} for name, value in flat(artifact.stats).items()]
    if rows:
        create_table_artifact(rows, key=key(label, "stats"), description=plain(f"{label}: {artifact.name}"))
    for picture in artifact.files("figures/*.svg"):
        encoded = base64.b64encode(picture.read_bytes()).decode()
        url = f"data:image/svg+xml;base64,{encoded}"
        create_image_artifact(url, key=key(label, picture.stem), description=plain(f"{label}: {picture.stem}"))


def _shown(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def plan(planned: list[Planned], store: Path) -> None:
    """Publish what a run is about to do, before it does it; what is in the store already is linked."""
    lines = ["| stage | status | artifact | why | takes |", "|---|---|---|---|---|"]
    for stage in planned:
        place = f"[{stage.name}]({(store.resolve() / stage.name).as_uri()})" if stage.status == "cached" else stage.name
        lines.append(f"| {plain(stage.label)} | {stage.status} | {place} | {plain('; '.join(stage.reasons))} | {stage.takes} |")
    create_markdown_artifact("\n".join(lines), key="plan", description="What this run builds, and why")
