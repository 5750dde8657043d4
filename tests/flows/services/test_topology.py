"""The whole installation at work: PostgreSQL, a server with a password, two workers; then each of them is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from korealbert.artifact import Artifact, Store, locks
from korealbert.flows.services.local_server import answers, listen
from korealbert.flows.services.postgres import PostgresMissing, binaries
from korealbert.flows.services.topology import ROOT
from korealbert.recipe import prepare
from tests.browser import browser
from tests.flows import automations, flow_run_page
from tests.flows.conftest import TINY

pytestmark = pytest.mark.timeout(3000)

AUTH = "tester:nobody-guesses-this"
SECONDS_TO_FINISH = 600
SECONDS_TO_RESTART = 600
SECONDS_TO_DIE = 300


@dataclass(frozen=True)
class Installation:
    """A running topology, and what a user at a terminal in the project's root does with it."""

    home: Path
    store: Path
    port: int
    environment: dict[str, str]

    def processes(self) -> dict[str, Any]:
        return dict(json.loads((self.home / "processes.json").read_text("utf-8")))

    def kill(self, name: str) -> None:
        os.kill(self.processes()[name], signal.SIGKILL)

    def prefect(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "prefect", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def begin(self, deployment: str, **parameters: Any) -> str:
        """``prefect deployment run NAME``; returns the run's id."""
        options = [part for key, value in self.given(parameters).items() for part in ("--param", f"{key}={json.dumps(value)}")]
        output = self.prefect("deployment", "run", deployment, *options)
        return next(line.split()[-1] for line in output.splitlines() if "UUID:" in line)

    def schedule(self, deployment: str, **parameters: Any) -> str:
        """Send the request of that command without loading Prefect again; returns the run's id."""
        [found] = self.api("deployments/filter", {"deployments": {"name": {"any_": [deployment]}}})
        return str(self.api(f"deployments/{found['id']}/create_flow_run", {"parameters": self.given(parameters)})["id"])

    @staticmethod
    def given(parameters: dict[str, Any]) -> dict[str, Any]:
        return {"recipe": str(TINY), "runtime": {"workers": 1, "threads": 1}, **parameters}

    def api(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/{path}")
        import base64

        request.add_header("Authorization", "Basic " + base64.b64encode(AUTH.encode()).decode())
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=300) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")

    def state(self, run: str) -> str:
        try:
            return str(self.api(f"flow_runs/{run}")["state_name"])
        except OSError as error:  # Its database is being killed.
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            return "unknown"

    def states(self, run: str) -> list[str]:
        """Names of all states that a run has had."""
        return [state["name"] for state in self.api(f"flow_run_states/?flow_run_id={run}")]

    def wait(self, what: Callable[[], bool], seconds: float = SECONDS_TO_FINISH) -> None:
        """Wait until something holds."""
        began = time.monotonic()
        while not what():
            assert time.monotonic() - began < seconds, f"not after {seconds} s\n{self.logs()}"
            time.sleep(0.1)

    def healthy(self) -> bool:
        return answers(f"http://127.0.0.1:{self.port}/api/health")

    def finished(self, run: str) -> None:
        self.wait(lambda: self.state(run) in ("Completed", "Failed", "Crashed", "Cancelled"))
        assert self.state(run) == "Completed", self.logs()

    def partial(self, label: str) -> bool:
        """Whether a stage has begun to write."""
        return any(self.store.glob(f"{label}-*.partial/*"))

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text('utf-8', 'replace')[-3000:]}" for path in (self.home / "logs").iterdir()
        )


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    try:
        binaries()
    except PostgresMissing as error:
        pytest.skip(str(error))
    place = Path(tempfile.mkdtemp(prefix="korealbert-topology-"))
    place.chmod(0o711)  # PostgreSQL runs as another user if we are root.
    home, store = place / "service", place / "store"
    with listen("127.0.0.1", 0) as probe:
        port = probe.getsockname()[1]
    own = {"PREFECT_SERVER_API_AUTH_STRING": AUTH, "PREFECT_API_AUTH_STRING": AUTH, "PREFECT_HOME": str(place / "prefect")}
    own |= {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200"}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT")} | own
    options = ["--home", str(home), "--port", str(port), "--store", str(store)]
    command = [sys.executable, "-m", "korealbert.flows.services.topology"]
    subprocess.run([*command, "up", *options], cwd=place, env=environment, check=True)
    up = Installation(home, store, port, environment)
    assert (place / ".env").read_text("utf-8") == f"KOREALBERT_STORE={store}\nPREFECT_API_URL={own['PREFECT_API_URL']}\n"
    yield up
    subprocess.run([*command, "down", *options], cwd=place, env=environment, check=True)
    deadline = time.monotonic() + SECONDS_TO_DIE
    while left := alive(of(place)):  # A killed process ends only when it is scheduled.
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    shutil.rmtree(place)
    assert not left, "make down ends everything"


def test_nobody_gets_in_without_the_password(installation: Installation) -> None:
    base = f"http://127.0.0.1:{installation.port}/api"
    for header in (None, "Basic d3Jvbmc6d3Jvbmc=", "Bearer x"):
        for path in ("flow_runs/count", "flow_runs/filter", "block_documents/filter", "admin/settings"):
            request = urllib.request.Request(f"{base}/{path}", method="GET" if "admin" in path else "POST", data=b"{}")  # noqa: S310
            if header:
                request.add_header("Authorization", header)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=300)  # noqa: S310
            assert refused.value.code == 401, path
            refused.value.close()
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=False).stdout
    ours = {f"pid={value}," for value in installation.processes().values()}
    for line in listening.splitlines():
        if any(pid in line for pid in ours):
            assert line.split()[3].startswith("127.0.0.1:"), line
    for file in (installation.home / "logs").iterdir():
        assert AUTH.split(":")[1] not in file.read_text("utf-8", "replace"), f"{file} holds the password"


def test_the_literal_command_survives_the_death_of_worker_and_database(
    installation: Installation, straight: dict[str, Artifact]
) -> None:
    run = installation.begin("corpus-to-model", on_gpu=["pretrain"])
    installation.wait(lambda: installation.partial("vocab"))
    installation.kill("data worker")
    installation.wait(lambda: not any(r.live for r in locks.runs(installation.store)))  # Its stage died with it.
    installation.wait(lambda: installation.partial("pretrain"))
    server = installation.processes()["server"]
    installation.kill("database")
    # It might answer and record no events.
    installation.wait(lambda: installation.processes()["server"] != server, SECONDS_TO_RESTART)
    installation.finished(run)
    installation.wait(installation.healthy, SECONDS_TO_RESTART)
    built = {a.manifest["label"]: a.output_digest for a in Store(installation.store).artifacts()}
    assert built == {label: a.output_digest for label, a in straight.items()}
    in_pool = {"work_pools": {"name": {"any_": ["gpu"]}}, "sort": "START_TIME_ASC"}
    children = installation.api("flow_runs/filter", in_pool)
    assert children and children[-1]["state_name"] == "Completed" and children[-1]["work_pool_name"] == "gpu"
    unended = {"flow_runs": {"id": {"any_": [run]}}, "task_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}
    installation.wait(lambda: not installation.api("task_runs/filter", unended))
    plan = installation.api("artifacts/filter", {"artifacts": {"key": {"any_": ["plan"]}, "flow_run_id": {"any_": [run]}}})
    assert "| pretrain | new |" in plan[0]["data"]


@pytest.mark.parametrize("moment", ["Pending", "Submitting", "Running"])
@pytest.mark.parametrize("machine", [False, True], ids=["worker", "machine"])
def test_a_run_that_loses_its_worker_before_it_does_anything_is_scheduled_again(
    installation: Installation, moment: str, machine: bool
) -> None:
    """The worker alone, or with everything below it, as a lost machine; from the moment of the claim on."""
    store = Store(installation.store).make()
    [stage] = prepare(TINY, store, until="extract/books").planned
    with store.lock(stage.name):  # So that the run cannot end before it is killed.
        run = installation.schedule("local", until="extract/books", rerun=["extract/books"])
        moments = ("Pending", "Submitting", "Running")
        installation.wait(lambda: installation.state(run) in moments[moments.index(moment) :])
        worker = psutil.Process(installation.processes()["data worker"])
        for process in [*worker.children(recursive=True), worker] if machine else [worker]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        installation.wait(lambda: "AwaitingRetry" in installation.states(run))
    installation.finished(run)


def test_one_stage_again(installation: Installation, straight: dict[str, Artifact]) -> None:
    vocab = installation.store / straight["vocab"].name
    before = (vocab / "manifest.json").stat().st_mtime_ns
    installation.finished(installation.schedule("vocab"))
    assert (vocab / "manifest.json").stat().st_mtime_ns > before
    assert Artifact(vocab.name, vocab).output_digest == straight["vocab"].output_digest


def test_the_page_of_a_run_shows_its_graph_tasks_and_artifacts(installation: Installation, tmp_path: Path) -> None:
    run = installation.schedule("local", until="clean/news", rerun=["extract/news"])
    installation.finished(run)
    recorded = {"flow_runs": {"id": {"any_": [run]}}, "task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    installation.wait(lambda: bool(installation.api("task_runs/filter", recorded)), SECONDS_TO_RESTART)
    with browser() as tab:
        flow_run_page.check(tab, f"http://127.0.0.1:{installation.port}", AUTH, run, tmp_path)


def test_a_cancelled_pretraining_ends_at_once_and_goes_on_later(installation: Installation) -> None:
    changed = {"pretrain.steps": 300, "pretrain.checkpoint_every": 10, "pretrain.log_every": 10, "pretrain.heldout_every": 300}
    run = installation.schedule("pretrain", rerun=False, overrides=changed)
    installation.wait(lambda: any(installation.store.glob("pretrain-*.partial/**/*checkpoint*/*")))
    [partial] = installation.store.glob("pretrain-*.partial")
    opened = (partial / ".opening.json").stat().st_mtime_ns
    installation.wait(lambda: bool(installation.api(f"flow_runs/{run}")["infrastructure_pid"]), SECONDS_TO_RESTART)
    group = int(installation.api(f"flow_runs/{run}")["infrastructure_pid"])
    installation.api(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})
    installation.wait(lambda: not alive(lambda _, of: of == group))
    installation.wait(lambda: installation.state(run) == "Cancelled", SECONDS_TO_RESTART)
    assert (partial / ".opening.json").stat().st_mtime_ns == opened and not (partial / "manifest.json").exists()
    again = installation.schedule("pretrain", rerun=False, overrides=changed)
    installation.finished(again)
    assert not partial.exists()


def test_each_documented_automation_is_triggered_by_what_it_is_for(installation: Installation) -> None:
    """Must be last: a run without a process makes the server call every run lost that is silent for seconds."""
    made = automations.create(installation.api)
    failing, ending, silent = (automations.begin(installation.api, "corpus-to-model") for _ in range(3))
    automations.heartbeat(installation.api, silent)
    automations.move(installation.api, failing, "FAILED")
    wanted = {"korealbert-failure"}
    assert automations.triggered(installation.api, made, wanted, seconds=SECONDS_TO_RESTART) == wanted, installation.logs()
    automations.move(installation.api, ending, "COMPLETED")
    assert automations.triggered(installation.api, made, set(made.values()), seconds=SECONDS_TO_RESTART) == set(made.values())
    installation.wait(lambda: installation.state(silent) == "Crashed", SECONDS_TO_RESTART)


def of(place: Path) -> Callable[[Path, int], bool]:
    """Return a filter for processes that were started for what is in a directory."""
    return lambda path, _: any(str(place).encode() in (path / name).read_bytes() for name in ("cmdline", "environ"))


def alive(wanted: Callable[[Path, int], bool]) -> bool:
    """Whether a live process matches; ``wanted`` gets its directory in /proc and its process group."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group = (path / "stat").read_text().rpartition(") ")[2].split()[:3]
            if state != "Z" and wanted(path, int(group)):
                return True
        except OSError:  # It has just ended.
            continue
    return False
