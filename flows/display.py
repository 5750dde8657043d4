"""How plans, running stages and failures look on the terminal."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column, Table
from rich.text import Text

from korealbert.artifact import Artifact, Progress, Store
from korealbert.flows.failures import StagesFailed, seeds_left
from korealbert.flows.terminal import console, fits, message_of, numbered, warn
from korealbert.formatting import by_number, size

if TYPE_CHECKING:  # Importing it loads every package.
    from korealbert.recipe import Planned

_WIDE = 110
"""Terminal width from which a plan shows artifact names and reasons next to the stages."""
_visible_bars: list[Bars] = []
"""Progress bars on the terminal."""
_STATUS_STYLE = {"cached": "green", "stale": "yellow", "new": "cyan"}


def notes(planned: Iterable[Planned]) -> dict[str, list[str]]:
    """Return what to say of stages beside their costs, and the labels of those it holds for."""
    found: dict[str, list[str]] = {}
    for stage in planned:
        for note in filter(None, (stage.price, stage.advice)):
            found.setdefault(note, []).append(stage.label)
    return found


def would_run(planned: Sequence[Planned], verb: str) -> str:
    """Return how many stages have to run, and what they take."""
    from korealbert.recipe.planning import total  # noqa: PLC0415 (loads every package)

    pending = [stage for stage in planned if stage.status != "cached"]
    cost = total(pending)
    return f"{len(pending)} of {numbered(len(planned), 'stage')} {verb}" + (f": {cost}" if cost else "")


def plan_table(planned: Sequence[Planned]) -> Iterator[Table | str]:
    """Yield the plan as a table that fits the terminal. A narrow one gets the reasons below, and no artifact names; one too
    narrow for whole names gets lines.
    """
    wide = console.width >= _WIDE
    costs = [Column(name, justify="right", no_wrap=True) for name in ("time", "disk", "memory")]
    more = ("artifact", Column("why", overflow="fold")) if wide else ()
    table = Table("stage", "status", *costs, *more, box=None, pad_edge=False)
    for stage in planned:
        cost = (stage.takes, size(stage.cost.disk_bytes), size(stage.cost.memory_bytes)) if stage.cost else ("", "", "")
        shown = (stage.name, "\n".join(stage.reasons)) if wide else ()
        table.add_row(Text(stage.label, overflow="fold"), Text(stage.status, _STATUS_STYLE[stage.status]), *cost, *shown)
    whole = fits(table)
    if whole:
        yield table
    else:
        for stage in planned:
            yield f"{stage.label}  {stage.status}"
            if stage.cost:
                yield f"  time: {stage.takes}"
                yield f"  disk: {size(stage.cost.disk_bytes)}"
                yield f"  memory: {size(stage.cost.memory_bytes)}"
    if not (wide and whole):
        for stage in planned:
            yield from (f"{stage.label}: {reason}" for reason in stage.reasons)


@contextmanager
def bars(found: set[str]) -> Iterator[None]:
    """Show a bar for each running stage with its latest metrics, and a line for each that has ended.

    ``found`` receives the labels of stages that were cached, perhaps because another run built them in the meantime.
    """
    from korealbert.flows.step import CACHED, watcher  # noqa: PLC0415 (loads Prefect)

    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=20 if console.width >= _WIDE else 10),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    )
    with Bars(*columns, console=console, expand=True, disable=not console.is_terminal) as shown:
        known: dict[str, Any] = {}

        def watch(label: str, progress: Progress | Exception) -> None:
            if isinstance(progress, Exception):
                if label in known:
                    shown.remove_task(known.pop(label))
                warn(f"{label}  failed: {message_of(progress)}", style="red")
                return
            if progress.unit == "stages" and not progress.done:  # It waits for another run.
                console.print(progress.message, soft_wrap=True)
                return
            if progress.unit == "stages":
                if label in known:
                    shown.remove_task(known.pop(label))
                if progress.message == CACHED:
                    found.add(label)
                console.print(Text.assemble((label, "bold"), f"  {progress.message}"))
                return
            if label not in known:
                known[label] = shown.add_task(label, total=progress.total, note="")
            note = progress.message or progress.note
            shown.update(known[label], completed=progress.done, total=progress.total, note=note)

        token = watcher.set(watch)
        _visible_bars.append(shown)
        try:
            yield
        finally:
            _visible_bars.remove(shown)
            watcher.reset(token)


def leave_at_once(number: int, frame: FrameType | None) -> None:
    """Exit. Child processes die with this one, and finished work stays for the next run."""
    for shown in _visible_bars:
        shown.stop()  # Otherwise the message would appear above the bars.
    console.print("interrupted; the next run resumes here")
    os._exit(128 + number)


def save_and_leave(number: int, frame: FrameType | None) -> None:
    """On Ctrl-C or SIGTERM let training save a checkpoint, which ends the run; otherwise there is nothing to save."""
    from korealbert.pretrain.launch import stop_all  # noqa: PLC0415

    signal.signal(signal.SIGINT, leave_at_once)
    if not stop_all():
        leave_at_once(number, frame)
    if number == signal.SIGINT:
        console.print("saving a checkpoint; Ctrl-C again ends the run at once")


def failure_lines(
    failure: StagesFailed, recipe: Path, store: Store, request: Mapping[str, Any], labels: Iterable[str]
) -> Iterator[str]:
    """Yield lines after failed stages, whose reasons have been printed: what is not there, and which report is possible."""
    from korealbert import recipe as recipes  # noqa: PLC0415 (loads every package)

    yield f"failed: {', '.join(failure.errors)}"
    if failure.unstarted:
        yield f"not started: {', '.join(failure.unstarted)}"
    if left := seeds_left(failure.errors, labels):
        changed = {**request, "overrides": {**request["overrides"], **left}}
        with suppress(ValueError):  # The seeds of some kinds of recipes are elsewhere.
            if not failure.errors.keys() & recipes.prepare(recipe, store, **changed).nodes.keys():
                options = " ".join(f"--set {shlex.quote(f'{field}={seeds}')}" for field, seeds in left.items())
                yield f"for a report of the other seeds, add {options}"


def dropped_lines(built: Iterable[Artifact]) -> Iterator[str]:
    """Yield a line for each stage that dropped documents: how many, why, and how to see them; and for likely misread tables."""
    for artifact in built:
        stats, label = artifact.stats, artifact.manifest["label"]
        if twins := stats.get("twins"):
            yield f"{label}: {twins:,} files that macOS writes beside others (._NAME) are not read"
        if swallowed := stats.get("rows_in_quotes"):
            remedy = f"if quotation marks are text there, set quoted = false in [{label.replace('/', '.')}]"
            yield f"{label}: {sum(swallowed.values()):,} lines within quotes look like rows ({next(iter(swallowed))}); {remedy}"
        for word, reasons, option in (
            ("dropped", stats.get("dropped"), "--dropped all"),
            ("quarantined", stats.get("quarantine_reasons"), "--quarantine"),
        ):
            if "documents_out" in stats and reasons:
                why = ", ".join(f"{number:,} {reason}" for reason, number in by_number(reasons))
                total = f"{sum(reasons.values()):,} of {stats['documents_in']:,} documents {word}"
                yield f"{label}: {total} ({why}); korealbert inspect {label} {option}"
