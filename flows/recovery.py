"""Recovery of lost runs: runs whose process is gone, after a killed worker or a lost machine, are scheduled again.

A process that a worker started holds a lock in the worker's store as long as it lives (``announce``); the kernel frees it
when the process dies, on any machine. So any worker of the same store sees that a run is lost, and the stage that
it was in continues from its ``.partial`` directory. A run that a worker had claimed, but whose process died before
it could announce itself, is known by its silence (``Claimed``). A run ends within seconds of being cancelled, and with its
worker (``of_a_worker``).
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled, Crashed

from korealbert.artifact import locks
from korealbert.artifact.shards import die_with_parent
from korealbert.artifact.store import default_store

RUN = "PREFECT__FLOW_RUN_ID"
"""The variable by which a worker names the run to the process that it starts."""

_PROCESSES = "processes"
"""Below the store's records of runs: one file per process, ``RUN.ATTEMPT``."""

_SECONDS_TO_BEGIN = 600.0
"""What a claimed run may take to begin: its process loads Prefect and the packages first, half a minute on a loaded machine."""

_SETTLE_SECONDS = 3.0
"""What a living worker may take to tell Prefect how a process of its own ended."""

_announced: dict[Path, IO[bytes]] = {}


def announce() -> None:
    """Hold a lock until this process ends, if a worker started it: in the store where workers look, whatever the run's is."""
    run = os.environ.get(RUN, "")
    directory = default_store().resolve() / locks.DIRECTORY / _PROCESSES
    if not run or directory in _announced:
        return
    with get_client(sync_client=True) as client:
        attempt = client.read_flow_run(UUID(run)).run_count
    directory.mkdir(parents=True, exist_ok=True)
    _announced[directory] = (directory / f"{run}.{attempt}").open("wb")
    fcntl.flock(_announced[directory], fcntl.LOCK_EX)


def recover(client: SyncPrefectClient, store: Path) -> list[str]:
    """Schedule every lost run of a store again; returns the names of those runs."""
    if not _lost(client, store):
        return []
    time.sleep(_SETTLE_SECONDS)
    recovered = []
    with locks.exclusively(store):  # Two workers must not schedule one run twice.
        for run, cancelling in _lost(client, store).items():
            state: State[Any] = Cancelled(message="its process is gone")
            if not cancelling:
                state = AwaitingRetry(message="its process was lost")
            _end_parts(client, run)
            client.set_flow_run_state(run, state, force=True)
            recovered.append(client.read_flow_run(run).name)
    return recovered


def _end_parts(client: SyncPrefectClient, run: UUID) -> None:
    """Say of the tasks and runs within a dead process's run that they crashed; the next attempt has some of its own."""
    unended = [StateType.PENDING, StateType.RUNNING]
    lost: State[Any] = Crashed(message="its process was lost")
    within = FlowRunFilter(
        parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=unended)),
    )
    runs: list[UUID] = []
    while found := client.read_flow_runs(flow_run_filter=within, offset=len(runs)):  # The server returns 200 at once.
        runs += [each.id for each in found]
    of_run = FlowRunFilter(id=FlowRunFilterId(any_=[run]))
    of_state = TaskRunFilter(state=TaskRunFilterState(type=TaskRunFilterStateType(any_=unended)))
    tasks: list[UUID] = []
    while page := client.read_task_runs(flow_run_filter=of_run, task_run_filter=of_state, offset=len(tasks)):
        tasks += [task.id for task in page]
    for part in runs:
        _end_parts(client, part)
        client.set_flow_run_state(part, lost, force=True)
    for task in tasks:
        client.set_task_run_state(task, lost, force=True)


class Claimed:
    """Runs of a work pool that a worker has claimed and that have not begun, and since when they are seen so.

    Seconds are those of this process's own clock, which no change of the date moves.
    """

    def __init__(self, pool: str, seconds: float = _SECONDS_TO_BEGIN) -> None:
        self.pool, self.seconds = pool, seconds
        self._seen: dict[tuple[UUID, UUID], float] = {}

    def recover(self, client: SyncPrefectClient, store: Path) -> list[str]:
        """Schedule those again that have not begun for too long; returns the names of those runs."""
        now = time.monotonic()
        self._seen = {claim: self._seen.get(claim, now) for claim in self._claims(client)}
        overdue = {claim for claim, since in self._seen.items() if now - since >= self.seconds}
        if not overdue:
            return []
        recovered = []
        with locks.exclusively(store):  # Two workers must not schedule one run twice.
            for run, _ in sorted(overdue & set(self._claims(client))):
                state: State[Any] = AwaitingRetry(message="its process never began")
                client.set_flow_run_state(run, state, force=True)
                recovered.append(client.read_flow_run(run).name)
        return recovered

    def _claims(self, client: SyncPrefectClient) -> list[tuple[UUID, UUID]]:
        """Each such run with the state that its claim gave it."""
        pending = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PENDING])))
        pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[self.pool]))
        found = client.read_flow_runs(flow_run_filter=pending, work_pool_filter=pool)
        return [(run.id, run.state.id) for run in found if run.state is not None]


def _lost(client: SyncPrefectClient, store: Path) -> dict[UUID, bool]:
    """Runs that Prefect believes to be running and whose process is dead, and whether they were being cancelled."""
    lost = {}
    for path in (store / locks.DIRECTORY / _PROCESSES).glob("*.*"):
        if locks.is_held(path):
            continue
        run, attempt = path.name.rsplit(".", 1)
        try:
            known = client.read_flow_run(UUID(run))
        except ObjectNotFound:  # Of another server, or deleted.
            continue
        if known.run_count > int(attempt) or (known.state is not None and known.state.is_final()):
            path.unlink(missing_ok=True)
        elif known.state_type in (StateType.RUNNING, StateType.CANCELLING):
            lost[known.id] = known.state_type is StateType.CANCELLING
    return lost


_SECONDS_TO_SAVE = 4.0
"""How long training may take to write a checkpoint after a cancellation before everything is ended."""


@contextmanager
def of_a_worker() -> Iterator[None]:
    """Bind this process to the worker that started it; does nothing in any other process.

    When the worker dies, so does this process, and with it (each asks the kernel for that) every process of its stages; a
    restarted worker schedules the run again. SIGTERM, by which Prefect cancels, is passed to Prefect's own handler,
    and a stage that has not ended after SECONDS_TO_SAVE is left as it is; its finished work is on the disk.
    """
    if RUN not in os.environ or threading.current_thread() is not threading.main_thread():
        yield
        return
    die_with_parent()
    before = signal.getsignal(signal.SIGTERM)

    def cancelled(number: int, frame: FrameType | None) -> None:
        leave_soon()
        if callable(before):
            before(number, frame)
        else:
            raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, cancelled)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def leave_soon() -> None:
    """End this process after SECONDS_TO_SAVE; finished work is on the disk by then."""
    ending = threading.Timer(_SECONDS_TO_SAVE, os._exit, (128 + signal.SIGTERM,))
    ending.daemon = True
    ending.start()
