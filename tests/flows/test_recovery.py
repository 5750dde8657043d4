"""Tasks of a run whose process died."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.settings import temporary_settings
from prefect.states import Completed, Running
from prefect.tasks import Task

from flows.recovery import _end_tasks
from flows.services.local_server import temporary_server

TASKS = 205
"""More than the server tells of at once."""


@flow
def lost() -> None:
    """A run that is never begun here."""


def test_no_task_of_a_lost_process_stays_running_however_many_there_are(tmp_path: Path) -> None:
    with temporary_server(tmp_path) as settings, temporary_settings(settings), get_client(sync_client=True) as client:
        run = client.create_flow_run(lost)
        task: Task[[], None] = Task(lambda: None, name="cell")
        for number in range(TASKS):
            client.create_task_run(task, run.id, dynamic_key=str(number), state=Running())
        finished = client.create_task_run(task, run.id, dynamic_key="finished", state=Completed())
        _end_tasks(client, run.id)
        of_run = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
        pages = [client.read_task_runs(flow_run_filter=of_run, offset=offset) for offset in (0, 200)]
        states = {each.id: each.state_name for page in pages for each in page}
    assert len(states) == TASKS + 1 and states.pop(finished.id) == "Completed"
    assert set(states.values()) == {"Crashed"}
