"""One uninterrupted build of the tiny recipe, and one server for runs, shared by the tests of flows."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import TaskRun
from prefect.settings import temporary_settings

from korealbert import recipe as recipes
from korealbert.artifact import Artifact
from korealbert.flows.services.local_server import temporary_server
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.runtime import TrainingRuntime
from tests.building import build_all
from tests.conftest import training_within
from tests.once import shared_directory

TINY = Path(__file__).parents[1] / "recipes" / "tiny.toml"


@pytest.fixture(scope="session")
def straight(alone: Ranks, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Return every stage of the tiny recipe by label, built without interruption by one worker and one thread.

    It is built once for all workers of the test run; each gets a copy.
    """
    own = tmp_path_factory.mktemp("straight") / "store"
    with shared_directory(tmp_path_factory, "straight") as directory, training_within(alone):
        runtime = TrainingRuntime(store=directory / "store", workers=1, threads=1)
        built = build_all(recipes.graph(recipes.load(TINY)), runtime)
        shutil.copytree(directory / "store", own)
    return {label: Artifact(artifact.name, own / artifact.name) for label, artifact in built.items()}


@pytest.fixture(scope="session")
def with_database(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that copies a new server's database into a directory: creating one is slower than starting a server."""
    with shared_directory(tmp_path_factory, "database") as made:
        if not (made / "prefect.db").exists():
            with temporary_server(made):
                pass

    def copied(home: Path) -> Path:
        home.mkdir(exist_ok=True)
        for file in (made / "prefect.db", made / "prefect.db-wal"):
            if file.exists():
                shutil.copy(file, home)
        return home

    return copied


@pytest.fixture(scope="package")
def server(with_database: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Any, str]]:
    """Return the client settings of a server. It ends with the last test of flows, because it uses a twentieth of a core."""
    with temporary_server(with_database(tmp_path_factory.mktemp("server"))) as settings:
        yield settings


@pytest.fixture
def one_server(server: dict[Any, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let runs of this process and of others report to the shared server; starting one takes longer than they do."""
    for setting, value in server.items():
        monkeypatch.setenv(setting.name, value)
    with temporary_settings(server):
        yield


def tasks_of(of: FlowRunFilter, settled: Callable[[list[TaskRun]], bool]) -> list[TaskRun]:
    """Return a flow run's tasks once they are settled on the server, which learns of each a little later."""
    with get_client(sync_client=True) as client:
        while not settled(found := client.read_task_runs(flow_run_filter=of)):
            time.sleep(0.1)
    return found


def final_tasks(of: FlowRunFilter, labels: Iterable[str]) -> dict[str, TaskRun]:
    """Return a flow run's tasks by label, with these labels among them, in final states."""
    wanted = set(labels)

    def settled(found: list[TaskRun]) -> bool:
        return wanted <= {run.name for run in found if run.state is not None and run.state.is_final()}

    return {run.name: run for run in tasks_of(of, settled)}
