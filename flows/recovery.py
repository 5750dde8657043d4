"""Runs whose process is gone although nobody ended them: a killed worker, a lost machine. They are scheduled again.

A run's process holds the lock of its record in the store (``korealbert.artifact.runs``), which the kernel frees when it dies,
on whatever machine it was. So any worker of the same store sees that a run is lost, and the stage that it was in goes on
from what is in its ``.partial`` directory.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled

from korealbert.artifact import runs

SETTLE_SECONDS = 3.0
"""A run that ends frees its record a moment before Prefect hears of its end."""


def recover(client: SyncPrefectClient, store: Path) -> list[str]:
    """Schedule every lost run of a store again; returns the names of those runs."""
    if not _lost(client, store):
        return []
    time.sleep(SETTLE_SECONDS)
    recovered = []
    with runs.exclusively(store):  # Two workers must not schedule one run twice.
        for run_id, cancelling in _lost(client, store).items():
            state: State[Any] = Cancelled(message="its process is gone")
            if not cancelling:
                state = AwaitingRetry(message="its process was lost")
            client.set_flow_run_state(run_id, state, force=True)
            recovered.append(client.read_flow_run(run_id).name)
    return recovered


def _lost(client: SyncPrefectClient, store: Path) -> dict[UUID, bool]:
    """Runs that Prefect believes to be running and whose newest process is dead, and whether they were being cancelled."""
    newest = {run.flow_run: run for run in runs.runs(store) if run.flow_run}
    lost = {}
    for name, run in newest.items():
        if run.live:
            continue
        try:
            known = client.read_flow_run(UUID(name))
        except ObjectNotFound:  # Of another server.
            continue
        if known.run_count == run.attempt and known.state_type in (StateType.RUNNING, StateType.CANCELLING):
            lost[known.id] = known.state_type is StateType.CANCELLING
    return lost
