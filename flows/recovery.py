"""Recovery of lost runs: a run whose process is gone, after a killed worker or a lost machine, is scheduled again.

A worker holds a lock in its store for each run that it claims (``announced``), and the run's process dies with the worker
(``process_worker.py``). The kernel frees the lock when the worker dies, on any machine, so that every worker of the same store
sees that the run is lost. The interrupted stage continues from its ``.partial`` directory.

A claimed run that no worker could announce is recognised by its silence (``Claimed``). ``korealbert run`` holds the lock
itself; no worker can start its run again, so the run is marked as crashed. A cancelled run ends within seconds
(``soon_after_cancellation``).
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import UUID, uuid4

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter, WorkPoolFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled, Crashed

from korealbert.artifact import locks

RUN = "PREFECT__FLOW_RUN_ID"
"""Variable with the run's id that a worker passes to the process of a run."""

_PROCESSES = "processes"
"""Directory in the store's records of runs, with one file per announcement: ``RUN.ATTEMPT.RANDOM``."""

_SECONDS_TO_BEGIN = 600.0
"""How long a claimed run may take to start. Its process first loads Prefect and the packages: half a minute on a loaded
machine."""

_SETTLE_SECONDS = 3.0
"""How long a live worker may take to tell Prefect how one of its processes ended."""


@contextmanager
def announced(run: UUID, attempt: int, store: Path) -> Iterator[None]:
    """Hold the lock of a run's attempt, counted from 1, while this process lives or until the attempt has ended.

    Does nothing if the store cannot be written; the run itself will report that. If the attempt ends because the process is
    told to stop, the file stays: Prefect may not know that the run has ended.
    """
    path = store.resolve() / locks.DIRECTORY / _PROCESSES / f"{run}.{attempt}.{uuid4().hex}"
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context(path.open("wb")), fcntl.LOCK_EX)
        try:
            yield
        except Exception:
            _forget(path)
            raise
        _forget(path)


def _forget(announcement: Path) -> None:
    with suppress(OSError):
        announcement.unlink()


@contextmanager
def announced_here(store: Path) -> Iterator[None]:
    """Announce the flow run of this process in its own store, unless a worker started it and so has announced it."""
    context = FlowRunContext.get()
    if RUN in os.environ or context is None or context.flow_run is None:
        yield
        return
    with get_client(sync_client=True) as client:
        attempt = client.read_flow_run(context.flow_run.id).run_count
    with announced(context.flow_run.id, attempt, store):
        yield


def recover(client: SyncPrefectClient, store: Path) -> list[str]:
    """Schedule every lost run of a store again; returns the names of these runs."""
    if not _lost(client, store):
        return []
    time.sleep(_SETTLE_SECONDS)
    recovered = []
    with locks.exclusively(store):  # Two workers must not schedule the same run.
        for run in _lost(client, store).values():
            _end_parts(client, run.id)
            client.set_flow_run_state(run.id, _next_state(run), force=True)
            for path in _announcements(store, run.id):  # The next claim may have the same attempt number.
                if not locks.is_held(path):
                    _forget(path)
            recovered.append(run.name)
    return recovered


def _next_state(run: FlowRun) -> State[Any]:
    if run.state_type is StateType.CANCELLING:
        return Cancelled(message="its process is gone")
    if run.deployment_id is None:
        return Crashed(message="its process was lost; the same command continues its work")
    return AwaitingRetry(message="its process was lost")


def _end_parts(client: SyncPrefectClient, run: UUID) -> None:
    """Mark the tasks and sub-runs of a dead process's run as crashed; the next attempt has its own."""
    unended = {"type": {"any_": [StateType.PENDING, StateType.RUNNING]}}
    lost: State[Any] = Crashed(message="its process was lost")
    within = FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [run]}, "state": unended})
    runs: list[UUID] = []
    while found := client.read_flow_runs(flow_run_filter=within, offset=len(runs)):  # The server returns at most 200.
        runs += [each.id for each in found]
    of_run = FlowRunFilter.model_validate({"id": {"any_": [run]}})
    of_state = TaskRunFilter.model_validate({"state": unended})
    tasks: list[UUID] = []
    while page := client.read_task_runs(flow_run_filter=of_run, task_run_filter=of_state, offset=len(tasks)):
        tasks += [task.id for task in page]
    for part in runs:
        _end_parts(client, part)
        client.set_flow_run_state(part, lost, force=True)
    for task in tasks:
        client.set_task_run_state(task, lost, force=True)


class Claimed:
    """Runs of a work pool that a worker has claimed but not started, and when each was first seen so.

    Times are from this process's monotonic clock, which changes of the date do not affect.
    """

    def __init__(self, pool: str, seconds: float = _SECONDS_TO_BEGIN) -> None:
        self.pool, self.seconds = pool, seconds
        self._seen: dict[tuple[UUID, UUID], float] = {}

    def recover(self, client: SyncPrefectClient, store: Path) -> list[str]:
        """Schedule runs again that have not started for too long; returns their names."""
        now = time.monotonic()
        self._seen = {claim: self._seen.get(claim, now) for claim in self._claims(client)}
        overdue = {claim for claim, since in self._seen.items() if now - since >= self.seconds}
        if not overdue:
            return []
        recovered = []
        with locks.exclusively(store):  # Two workers must not schedule the same run.
            for run, _ in sorted(overdue & set(self._claims(client))):
                state: State[Any] = AwaitingRetry(message="its process never began")
                client.set_flow_run_state(run, state, force=True)
                recovered.append(client.read_flow_run(run).name)
        return recovered

    def _claims(self, client: SyncPrefectClient) -> list[tuple[UUID, UUID]]:
        """Return each claimed run with the state that its claim gave it."""
        pending = FlowRunFilter.model_validate({"state": {"type": {"any_": [StateType.PENDING]}}})
        pool = WorkPoolFilter.model_validate({"name": {"any_": [self.pool]}})
        found = client.read_flow_runs(flow_run_filter=pending, work_pool_filter=pool)
        return [(run.id, run.state.id) for run in found if run.state is not None]


def _lost(client: SyncPrefectClient, store: Path) -> dict[UUID, FlowRun]:
    """Return the runs that Prefect believes to be claimed or running, but whose process is dead."""
    lost = {}
    for path in _announcements(store):
        if locks.is_held(path):
            continue
        run, attempt = path.name.split(".")[:2]
        try:
            known = client.read_flow_run(UUID(run))
        except ObjectNotFound:  # It belongs to another server, or was deleted.
            continue
        pending = known.state_type is StateType.PENDING  # Prefect counts an attempt when it starts running.
        over = known.run_count + pending > int(attempt) or (known.state is not None and known.state.is_final())
        if over or any(map(locks.is_held, _announcements(store, known.id))):  # Another worker has claimed it.
            _forget(path)
        elif known.state_type in (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING):
            lost[known.id] = known
    return lost


def _announcements(store: Path, run: UUID | None = None) -> Iterator[Path]:
    return (store / locks.DIRECTORY / _PROCESSES).glob(f"{run or '*'}.*")


_SECONDS_TO_SAVE = 4.0
"""How long training may take to write a checkpoint after a cancellation, before the process is ended."""


@contextmanager
def soon_after_cancellation() -> Iterator[None]:
    """Pass SIGTERM, with which Prefect cancels, on to Prefect's handler once; end a process of a worker soon after it.

    A stage of a worker that has not ended after _SECONDS_TO_SAVE is interrupted; its finished work is on the disk. A second
    signal, which ``timeout`` sends to the whole group of processes, has no effect: it would interrupt the end of the run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    is_ending = False

    def cancelled(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_ending:
            return
        is_ending = True
        if RUN in os.environ:
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
    """End this process after _SECONDS_TO_SAVE; finished work is on the disk by then."""
    ending = threading.Timer(_SECONDS_TO_SAVE, os._exit, (128 + signal.SIGTERM,))
    ending.daemon = True
    ending.start()
