"""What a run shows in the Prefect UI: its name and plan; for each stage that it builds progress, statistics, path and
pictures; and at the end its outcome.

Each of these is a request to the server, so that stages found in the store have their places in the plan and nothing more.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID
from xml.etree import ElementTree

from prefect.artifacts import (
    create_image_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture

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
    said = progress.message and (progress.total == 1 or not progress.done)  # How far it is would say nothing more.
    done = "" if said else f"{progress.done:,}{total} {progress.unit}"
    return "  ".join(filter(None, (done, progress.note, progress.message)))


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
    told = [_place(artifact.path), "", f"`korealbert inspect {artifact.path}` shows what is in it."]
    create_markdown_artifact("\n".join(told), key=key(label, "output"), description=plain(f"{label}: {artifact.name}"))
    rows = [{"statistic": name, "value": _shown(value)} for name, value in flat(artifact.stats).items()]
    if rows:
        create_table_artifact(rows, key=key(label, "stats"), description=plain(f"{label}: {artifact.name}"))
    for picture in artifact.files("figures/*.svg"):
        content = picture.read_bytes()
        url = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
        create_image_artifact(url, key=key(label, picture.stem), description=plain(_title(content) or picture.stem))


def _place(path: Path) -> str:
    """Where something is, as code: a browser opens no ``file:`` link from a server's page."""
    return f"`{path}`"


def _title(picture: bytes) -> str:
    """The title that stands above a drawing."""
    texts = ElementTree.fromstring(picture).iterfind("{*}text[@class='title']")  # noqa: S314 (our own drawing)
    return " ".join("".join(line.itertext()) for line in texts)


def _shown(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


_MADE_UP = re.compile("[a-z]+-[a-z]+")
"""The names that Prefect gives to runs that nobody named: ``brave-otter``."""


def name_run(what: str, planned: Sequence[Planned] = ()) -> None:
    """Name the run that this is called in: ``sample · 32 stages · 2 to build``. A name that somebody gave stays."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or not _MADE_UP.fullmatch(run.name):
        return
    parts = [what]
    if planned:
        waiting = sum(stage.status != "cached" for stage in planned)
        parts += [f"{len(planned)} stages", f"{waiting} to build" if waiting else "all cached"]
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, name=" · ".join(parts))


def plan(planned: Sequence[Planned], store: Path) -> None:
    """Publish the plan of a run before it starts; artifacts that are in the store already are linked."""
    waiting = sum(stage.status != "cached" for stage in planned)
    lines = [f"{waiting} of {len(planned)} stages are to be built in {_place(store.resolve())}.", ""]
    lines += ["| stage | status | artifact | why | takes |", "|---|---|---|---|---|"]
    for stage in planned:
        name = _place(store.resolve() / stage.name) if stage.status == "cached" else stage.name
        lines.append(f"| {plain(stage.label)} | {stage.status} | {name} | {plain('; '.join(stage.reasons))} | {stage.takes} |")
    create_markdown_artifact("\n".join(lines), key="plan", description="What this run builds, and why")


def result(planned: Sequence[Planned], futures: Mapping[str, PrefectFuture[Any]], store: Path) -> None:
    """Publish how a run ended: what a report says first, then every stage with its time and drops."""
    states = {stage.label: futures[stage.label].state for stage in planned if stage.label in futures}
    failed = [label for label, state in states.items() if state.is_failed() or state.is_crashed()]
    last = store.resolve() / planned[-1].name
    told = (
        [f"**Failed: {plain(', '.join(failed))}.** What is finished stays in the store; run again to go on."] if failed else []
    )
    if not failed and (last / "report.md").is_file():
        told += [_opening((last / "report.md").read_text("utf-8")), f"The whole report: {_place(last / 'report.html')}"]
    elif not failed:
        told += [f"The last artifact: {_place(last)}"]
    rows = ["| stage | state | message |", "|---|---|---|"]
    rows += [f"| {plain(label)} | {state.name} | {plain(state.message or '')} |" for label, state in states.items()]
    first = "Failed" if failed else "What came out"
    create_markdown_artifact("\n\n".join([*told, "\n".join(rows)]), key="outcome", description=first)


def _opening(report: str) -> str:
    """A report in Markdown up to its second chapter, without its pictures, which are artifacts of their own."""
    first, *chapters = report.split("\n## ")
    lines = "\n## ".join([first, *chapters[:1]]).splitlines()
    return "\n".join(line for line in lines if not line.startswith("!["))
