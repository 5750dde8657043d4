"""Runs whose process is gone although nobody ended them: a killed worker, a lost machine. They are scheduled again.

A process that a worker started holds a lock in the store as long as it lives (``announce``); the kernel frees it when the
process dies, on whatever machine it was. So any worker of the same store sees that a run is lost, and the stage that it was in
goes on from what is in its ``.partial`` directory.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled

from korealbert.artifact import locks, runs

RUN = "PREFECT__FLOW_RUN_ID"
"""Where a worker tells the process that it starts which run it is for."""

PROCESSES = "processes"
"""Below the store's records of runs: one file per process, ``RUN.ATTEMPT``."""

SETTLE_SECONDS = 3.0
"""What a living worker may take to tell Prefect how a process of its own ended."""

_announced: dict[Path, IO[bytes]] = {}


def announce(store: Path) -> None:
    """Hold a lock in the store until this process ends, if a worker started it."""
    run = os.environ.get(RUN, "")
    directory = store.resolve() / runs.DIRECTORY / PROCESSES
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
    time.sleep(SETTLE_SECONDS)
    recovered = []
    with runs.exclusively(store):  # Two workers must not schedule one run twice.
        for run, cancelling in _lost(client, store).items():
            state: State[Any] = Cancelled(message="its process is gone")
            if not cancelling:
                state = AwaitingRetry(message="its process was lost")
            client.set_flow_run_state(run, state, force=True)
            recovered.append(client.read_flow_run(run).name)
    return recovered


def _lost(client: SyncPrefectClient, store: Path) -> dict[UUID, bool]:
    """Runs that Prefect believes to be running and whose process is dead, and whether they were being cancelled."""
    lost = {}
    for path in (store / runs.DIRECTORY / PROCESSES).glob("*.*"):
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
