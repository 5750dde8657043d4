"""Runs whose process died, and their tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import TerminationSignal
from prefect.settings import temporary_settings
from prefect.states import Cancelling, Completed, Pending, Running
from prefect.tasks import Task

from korealbert.artifact import Store, locks
from korealbert.flows.process_worker import _BOUND
from korealbert.flows.recovery import _end_parts, announced, recover, soon_after_cancellation
from korealbert.recipe import prepare
from tests.flows.conftest import TINY

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for live workers to report to Prefect."""
    monkeypatch.setattr("korealbert.flows.recovery._SETTLE_SECONDS", 0.05)


@pytest.fixture
def client(server: dict[Any, str]) -> Iterator[SyncPrefectClient]:
    with temporary_settings(server), get_client(sync_client=True) as client:
        yield client


@flow
def lost() -> None:
    """A run that never starts here."""


def test_no_task_of_a_lost_process_stays_running_however_many_there_are() -> None:
    tasks = [SimpleNamespace(id=uuid4()) for _ in range(5)]
    marked: dict[UUID, str] = {}

    class Paged:
        """A server that returns two tasks at a time."""

        def read_flow_runs(self, **_: Any) -> list[Any]:
            return []

        def read_task_runs(self, *, offset: int, **_: Any) -> list[Any]:
            return tasks[offset : offset + 2]

        def set_task_run_state(self, task: UUID, state: Any, *, force: bool) -> None:
            marked[task] = state.name

    client: Any = Paged()
    _end_parts(client, uuid4())
    assert marked == {task.id: "Crashed" for task in tasks}


def test_runs_within_a_lost_run_end_with_it(client: SyncPrefectClient) -> None:
    outer = client.create_flow_run(lost, state=Running())
    task: Task[[], None] = Task(lambda: None, name="stage")
    begun = client.create_task_run(task, outer.id, dynamic_key="inner", state=Running())
    inner = client.create_flow_run(lost, parent_task_run_id=begun.id, state=Running())
    cell = client.create_task_run(task, inner.id, dynamic_key="cell", state=Running())
    finished = client.create_task_run(task, outer.id, dynamic_key="finished", state=Completed())
    other = client.create_flow_run(lost, state=Running())
    _end_parts(client, outer.id)
    assert client.read_flow_run(inner.id).state_name == "Crashed"
    assert client.read_task_run(finished.id).state_name == "Completed"
    assert client.read_task_run(cell.id).state_name == client.read_task_run(begun.id).state_name == "Crashed"
    assert client.read_flow_run(other.id).state_name == client.read_flow_run(outer.id).state_name == "Running"


def states(client: SyncPrefectClient, runs: list[UUID]) -> list[str | None]:
    return [client.read_flow_run(run).state_name for run in runs]


def within(seconds: float, what: Callable[[], object]) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not after {seconds} s"
        time.sleep(0.01)


@pytest.fixture
def claimed(client: SyncPrefectClient) -> list[UUID]:
    """Create three runs that a worker has claimed: one has not started, one is running and one is being cancelled."""
    deployment = client.create_deployment(flow_id=client.create_flow_from_name("claimed"), name="claimed")
    runs = [client.create_flow_run_from_deployment(deployment, state=Pending()).id for _ in range(3)]
    client.set_flow_run_state(runs[1], Running())
    client.set_flow_run_state(runs[2], Running())
    client.set_flow_run_state(runs[2], Cancelling())
    return runs


HOLDER = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID
from korealbert.flows.recovery import announced
with ExitStack() as stack:
    for run in sys.argv[2:]:
        stack.enter_context(announced(UUID(run), 1, Path(sys.argv[1])))
    print("held", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_worker_had_claimed_is_scheduled_again(
    client: SyncPrefectClient, claimed: list[UUID], tmp_path: Path
) -> None:
    """Another worker that announced one of the runs, but did not get it, changes nothing."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), *map(str, claimed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(KeyboardInterrupt), announced(claimed[0], 1, tmp_path):
            raise KeyboardInterrupt
        assert recover(client, tmp_path) == []
        assert states(client, claimed) == ["Pending", "Running", "Cancelling"]
        holder.kill()
    assert set(recover(client, tmp_path)) == {client.read_flow_run(run).name for run in claimed}
    assert states(client, claimed) == ["AwaitingRetry", "AwaitingRetry", "Cancelled"]
    for run in claimed[:2]:
        client.set_flow_run_state(run, Pending(), force=True)
    assert recover(client, tmp_path) == [], "a new claim is not the dead worker's"


def test_an_attempt_that_ended_leaves_no_announcement(client: SyncPrefectClient, claimed: list[UUID], tmp_path: Path) -> None:
    with announced(claimed[0], 1, tmp_path):
        assert len(list(tmp_path.glob(".runs/processes/*"))) == 1
    with pytest.raises(ValueError, match="of a stage"), announced(claimed[1], 1, tmp_path):
        raise ValueError("of a stage")
    assert not list(tmp_path.glob(".runs/processes/*")) and recover(client, tmp_path) == []


STARTER = """
import asyncio, sys
from prefect.runner import _starter_engine
from korealbert.flows.process_worker import announcing
announcing()
child = "import fcntl, sys, time; held = open(sys.argv[1], 'wb'); fcntl.flock(held, fcntl.LOCK_EX); time.sleep(600)"
asyncio.run(_starter_engine.run_process([sys.executable, "-c", child, sys.argv[1]]))
"""


def test_a_process_that_a_worker_starts_dies_with_it_although_it_does_nothing_for_that(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", STARTER, str(file)], cwd=ROOT) as starter:
        within(300, lambda: locks.is_held(file))
        starter.kill()
    within(300, lambda: not locks.is_held(file))


def test_a_process_whose_worker_died_before_it_was_bound_executes_nothing() -> None:
    another = os.getppid()
    command = [sys.executable, "-c", _BOUND, str(another), sys.executable, "-c", "print('executed')"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.usefixtures("one_server")
def test_a_killed_run_of_the_command_line_is_said_to_have_crashed(client: SyncPrefectClient, tmp_path: Path) -> None:
    store = Store(tmp_path).make()
    [stage] = prepare(TINY, store, until="extract/books").planned
    command = [sys.executable, "-m", "korealbert", "run", str(TINY), "--store", str(tmp_path), "--until", "extract/books"]
    with store.lock(stage.name), subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as run:
        within(300, lambda: any(map(locks.is_held, tmp_path.glob(".runs/processes/*"))))
        [announcement] = tmp_path.glob(".runs/processes/*")
        run_id = UUID(announcement.name.split(".")[0])
        assert recover(client, tmp_path) == [] and states(client, [run_id]) == ["Running"]
        run.kill()
    assert recover(client, tmp_path) == [client.read_flow_run(run_id).name]
    assert states(client, [run_id]) == ["Crashed"]


def test_a_second_signal_does_not_interrupt_the_end_of_a_run() -> None:
    def ended(number: int, frame: object) -> None:
        raise TerminationSignal(signal=number)

    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises(TerminationSignal), soon_after_cancellation():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGTERM)
                finished = True
        assert finished and signal.getsignal(signal.SIGTERM) is ended
    finally:
        signal.signal(signal.SIGTERM, before)
