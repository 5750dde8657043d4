"""Tasks of a run whose process died."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.settings import get_current_settings, temporary_settings
from prefect.states import Completed, Running
from prefect.tasks import Task

from flows.recovery import RUN, _end_parts, _lost, recover
from korealbert.artifact.store import STORE_VARIABLE

TASKS = 205
"""More than the server tells of at once."""


@pytest.fixture
def client(server: dict[Any, str]) -> Iterator[SyncPrefectClient]:
    with temporary_settings(server), get_client(sync_client=True) as client:
        yield client


@flow
def lost() -> None:
    """A run that is never begun here."""


def test_no_task_of_a_lost_process_stays_running_however_many_there_are(client: SyncPrefectClient) -> None:
    run = client.create_flow_run(lost)
    task: Task[[], None] = Task(lambda: None, name="cell")
    for number in range(TASKS):
        client.create_task_run(task, run.id, dynamic_key=str(number), state=Running())
    finished = client.create_task_run(task, run.id, dynamic_key="finished", state=Completed())
    _end_parts(client, run.id)
    of_run = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    pages = [client.read_task_runs(flow_run_filter=of_run, offset=offset) for offset in (0, 200)]
    states = {each.id: each.state_name for page in pages for each in page}
    assert len(states) == TASKS + 1 and states.pop(finished.id) == "Completed"
    assert set(states.values()) == {"Crashed"}


def test_runs_within_a_lost_run_end_with_it(client: SyncPrefectClient) -> None:
    outer = client.create_flow_run(lost, state=Running())
    task: Task[[], None] = Task(lambda: None, name="stage")
    begun = client.create_task_run(task, outer.id, dynamic_key="inner", state=Running())
    inner = client.create_flow_run(lost, parent_task_run_id=begun.id, state=Running())
    cell = client.create_task_run(task, inner.id, dynamic_key="cell", state=Running())
    other = client.create_flow_run(lost, state=Running())
    _end_parts(client, outer.id)
    assert client.read_flow_run(inner.id).state_name == "Crashed"
    assert client.read_task_run(cell.id).state_name == client.read_task_run(begun.id).state_name == "Crashed"
    assert client.read_flow_run(other.id).state_name == client.read_flow_run(outer.id).state_name == "Running"


def test_a_run_announces_itself_where_its_worker_looks(client: SyncPrefectClient, tmp_path: Path) -> None:
    """Also where its parameters name another store."""
    run = client.create_flow_run(lost, state=Running())
    store, script = tmp_path / "store", "from flows.recovery import announce; announce()"
    given = {RUN: str(run.id), STORE_VARIABLE: str(store), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment = os.environ | get_current_settings().to_environment_variables(exclude_unset=True) | given
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)
    assert list(_lost(client, store)) == [run.id]
    assert recover(client, store) == [run.name]
    assert client.read_flow_run(run.id).state_name == "AwaitingRetry"
