"""What a run shows in the Prefect UI: its name, plan and outcome, and progress, statistics, path and figures of each stage.

Each of these is a request to the server, so cached stages appear only in the plan.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from uuid import UUID
from xml.etree import ElementTree

from prefect import artifacts
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled

from korealbert.artifact import Artifact, Built, Progress
from korealbert.flows.failures import error_of, reason
from korealbert.formatting import flat
from korealbert.inspection.look import has_items
from korealbert.recipe import Planned
from korealbert.recipe.registry import shows
from korealbert.report.render.text import plain
from korealbert.report.sections.outcome import MARKS

NOT_STARTED = "Not started"
"""State of a stage that lacks the artifact of a failed one."""
CACHED = "Cached"
"""State of a stage that was built before."""
ALL_CACHED = "all cached"
"""Part of the name of a run that builds nothing."""
_RECORDED_WITHIN_SECONDS = 10
"""How long the server may take to record the last states of a run."""


def key(label: str, kind: str) -> str:
    """Return a Prefect artifact key (lower case, digits and dashes) for something of a stage, such as a picture.

    A digest tells labels apart whose other characters it cannot hold.
    """
    digest = "" if re.fullmatch("[a-z0-9/]+", label) else f"-{sha256(label.encode()).hexdigest()[:8]}"
    return re.sub(r"[^a-z0-9]+", "-", f"{label}{digest}-{kind}".lower()).strip("-")


def line(progress: Progress) -> str:
    """Return one log line for a progress report."""
    total = f"/{progress.total:,}" if progress.total is not None else ""
    trivial = progress.message and (progress.total == 1 or not progress.done)
    done = "" if trivial else f"{progress.done:,}{total} {progress.unit}"
    return "  ".join(filter(None, (done, progress.note, progress.message)))


class ProgressBar:
    """A Prefect progress artifact, created at the first report of unfinished work with a known total."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._id: UUID | None = None

    def update(self, progress: Progress) -> None:
        """Show how far the stage has come."""
        if not progress.total or (self._id is None and progress.done >= progress.total):
            return
        percent = round(100 * progress.done / progress.total, 1)
        if self._id is None:
            created = artifacts.create_progress_artifact(
                percent, key=key(self.label, "progress"), description=plain(self.label)
            )
            self._id = cast(UUID, created)  # It is a coroutine only in an event loop, and a stage runs in a thread.
        else:
            artifacts.update_progress_artifact(self._id, percent, description=plain(f"{self.label}: {line(progress)}"))


def outcome(label: str, built: Built) -> None:
    """Publish a finished artifact: its path, statistics and pictures."""
    artifact = built.artifact
    text = f"{_place(artifact.path)}\n\n{_next_step(artifact)}"
    artifacts.create_markdown_artifact(text, key=key(label, "output"), description=plain(f"{label}: {artifact.name}"))
    rows = [
        {"statistic": name, "value": round(value, 4) if isinstance(value, float) else value}
        for name, value in sorted(flat(artifact.stats).items(), key=_numbers_by_size)
    ]
    if rows:
        artifacts.create_table_artifact(rows, key=key(label, "stats"), description=plain(f"{label}: {artifact.name}"))
    for picture in artifact.files("figures/*.svg"):
        content = picture.read_bytes()
        url = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
        artifacts.create_image_artifact(url, key=key(label, picture.stem), description=plain(_title(content) or picture.stem))


def _next_step(artifact: Artifact) -> str:
    """Say how to look into an artifact."""
    if (page := artifact.path / "report.html").is_file():
        return f"Open {_place(page)} in a browser."
    if has_items(artifact, shows(artifact.manifest["recipe"]["stage"])):
        return f"`korealbert inspect {artifact.path}` prints what is in it."
    return f"`korealbert show {artifact.path}` prints its settings, inputs and statistics."


def _numbers_by_size(statistic: tuple[str, Any]) -> list[tuple[int, str]]:
    """Return a sort key by which ``histogram.17-24`` comes before ``histogram.105-112``."""
    parts = re.findall(r"\d+|\D+", statistic[0])
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in parts]


def _place(path: Path) -> str:
    """Return a path as code: browsers open no ``file:`` link from a server's page."""
    return f"`{path}`"


def _title(picture: bytes) -> str:
    """Return the title above a drawing; one that was shortened to its width has the whole in an element of its own."""
    texts = ElementTree.fromstring(picture).iterfind("{*}text[@class='title']")  # noqa: S314 (our own drawing)
    return " ".join(line.findtext("{*}title") or "".join(line.itertext()) for line in texts)


_MADE_UP = re.compile("[a-z]+-[a-z]+")
"""Names that Prefect makes up for runs: ``brave-otter``."""


def name_run(*parts: str) -> None:
    """Name the current run, ``sample · 32 stages · 2 to build``, unless it began under a name that someone chose."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is not None and _MADE_UP.fullmatch(run.name):  # the name at its beginning, whatever it was called since
        with get_client(sync_client=True) as client:
            client.update_flow_run(run.id, name=" · ".join(parts))


def plan(recipe: str, planned: Sequence[Planned], store: Path) -> None:
    """Publish the plan of a run before it starts, with the paths of cached artifacts, and name the run."""
    waiting = sum(stage.status != "cached" for stage in planned)
    name_run(recipe, f"{len(planned)} stages", f"{waiting} to build" if waiting else ALL_CACHED)
    lines = [f"{waiting} of {len(planned)} stages are to be built in {_place(store.resolve())}.", ""]
    lines += ["| stage | status | artifact | why | takes |", "|---|---|---|---|---|"]
    for stage in planned:
        name = _place(store.resolve() / stage.name) if stage.status == "cached" else stage.name
        lines.append(f"| {plain(stage.label)} | {stage.status} | {name} | {plain('; '.join(stage.reasons))} | {stage.takes} |")
    artifacts.create_markdown_artifact("\n".join(lines), key="plan", description="What this run builds, and why")


def result(
    recipe: str,
    planned: Sequence[Planned],
    states: Mapping[str, State[Any]],
    needed: Mapping[str, Collection[str]],
    store: Path,
) -> None:
    """Publish how a run ended, and rename it: ``sample · 32 stages · 2 built``.

    That is the beginning of the report or why stages failed, then every stage with its state and message.
    ``needed`` are the labels of each stage's inputs: a stage that lacks one names the failed stage and not its own state.
    """
    failed = [label for label, state in states.items() if state.is_failed() or state.is_crashed()]
    last = store.resolve() / planned[-1].name
    if failed:
        why = [f"- {plain(f'{label}: {reason(error)}')}" for label in failed if (error := error_of(states[label])) is not None]
        parts = [
            f"**Failed: {plain(', '.join(failed))}.** Finished work stays in the store; the next run continues from there."
        ]
        parts.append("\n".join(why))
    elif (last / "report.md").is_file():
        parts = [_opening((last / "report.md").read_text("utf-8")), f"The whole report: {_place(last / 'report.html')}"]
    else:
        parts = [f"The last artifact: {_place(last)}"]
    rows = ["| stage | state | message |", "|---|---|---|"]
    lacking = _lacking(states, needed)
    for label, state in states.items():
        name, message = (NOT_STARTED, lacking[label]) if label in lacking else (state.name, state.message or "")
        rows.append(f"| {plain(label)} | {name} | {plain(message)} |")
    title = "Failed" if failed else "Outcome"
    artifacts.create_markdown_artifact("\n\n".join([*parts, "\n".join(rows)]), key="outcome", description=title)
    built = sum(state.is_completed() and state.name != CACHED for state in states.values())
    ended = f"{len(failed)} failed" if failed else f"{built} built" if built else ALL_CACHED
    name_run(recipe, f"{len(planned)} stages", ended)


def _lacking(states: Mapping[str, State[Any]], needed: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return for each stage that could not start which failed stages it needs, as a phrase."""
    causes = {label: {label} for label, state in states.items() if state.is_failed() or state.is_crashed()}
    lacking: dict[str, str] = {}
    for label in states:  # inputs come first
        if lost := {cause for other in needed[label] for cause in causes.get(other, ())}:
            causes[label] = lost
            lacking[label] = f"needs {', '.join(sorted(lost))}"
    return lacking


def unstarted(states: Mapping[str, State[Any]], needed: Mapping[str, Collection[str]], runs: Mapping[str, UUID]) -> None:
    """Give the stages that could not start a final state with the reason, and their labels as names.

    Prefect leaves them pending for ever, with a generated name, because it names a task run when it starts.
    ``runs`` are the ids of the stages' task runs, which the server may record some moments later.
    """
    deadline = time.monotonic() + _RECORDED_WITHIN_SECONDS
    with get_client(sync_client=True) as client:
        for label, why in _lacking(states, needed).items():
            while True:
                try:
                    client.set_task_run_state(runs[label], Cancelled(name=NOT_STARTED, message=why), force=True)
                    client.set_task_run_name(runs[label], label)
                    break
                except ObjectNotFound:
                    if time.monotonic() > deadline:
                        return
                    time.sleep(0.1)


def _opening(report: str) -> str:
    """Return a Markdown report up to its second chapter, without pictures and their key, which are published separately."""
    first, *chapters = report.split("\n## ")
    lines = "\n## ".join([first, *chapters[:1]]).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("![", MARKS)))
