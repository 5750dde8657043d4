"""The server of one run serves nobody else, whatever listens on the configured port and whoever starts at the same time."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import httpx
import pytest
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

from korealbert.artifact import DiskFull, locks
from korealbert.flows.services import local_server
from korealbert.flows.services.local_server import answers, refused, temporary_server, without_errors_of_logging
from tests.flows.conftest import TINY

ROOT = Path(__file__).parents[3]
SECONDS_TO_END = 900
pytestmark = pytest.mark.timeout(2 * SECONDS_TO_END)


def start(store: Path, **environment: str) -> subprocess.Popen[str]:
    """Start ``korealbert run`` of the smallest part of a recipe, without a ``prefect.toml`` that names a server."""
    command = [sys.executable, "-m", "korealbert", "run", str(TINY), "--store", str(store), "--until", "extract"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "DO_NOT_TRACK"))}
    return subprocess.Popen(
        command,
        cwd=store.parent,
        env=clean | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def status(url: str, credentials: str = "") -> int:
    request = urllib.request.Request(url, b"{}" if url.endswith("count") else None, {"Content-Type": "application/json"})  # noqa: S310
    if credentials:
        request.add_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


def test_a_server_is_not_started_while_another_makes_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says whom it waits for."""
    started, said, lines = threading.Event(), threading.Event(), list[str]()

    def say(line: str) -> None:
        lines.append(line)
        said.set()

    def start_none(*_: object, **__: object) -> subprocess.Popen[bytes]:
        started.set()
        raise KeyboardInterrupt

    def second() -> None:
        with suppress(KeyboardInterrupt), temporary_server(tmp_path):
            pass

    monkeypatch.setattr(local_server, "_python", start_none)
    monkeypatch.setattr(local_server, "warn", say)
    thread = threading.Thread(target=second)
    with locks.exclusive(tmp_path / "migration.lock"):
        thread.start()
        assert said.wait(SECONDS_TO_END)
        assert not started.is_set(), "both would migrate one file"
    assert started.wait(SECONDS_TO_END)
    thread.join()
    assert [line.split(" on ")[0] for line in lines] == [f"waiting for process {os.getpid()}"]


def test_only_this_process_is_answered_and_there_are_no_documentation_pages(
    with_database: Callable[[Path], Path], tmp_path: Path
) -> None:
    home = tmp_path / "저장소 50%?a=b #1"
    with temporary_server(with_database(home)) as settings:
        api = settings[PREFECT_API_URL]
        assert status(f"{api}/flow_runs/count") == 401
        assert status(f"{api}/flow_runs/count", settings[PREFECT_API_AUTH_STRING]) == 200
        root = api.removesuffix("/api")
        assert [status(f"{root}/{page}") for page in ("docs", "redoc", "openapi.json")] == [404, 404, 404]
        assert (home / "prefect.db-shm").is_file() and [*tmp_path.iterdir()] == [home], "the database in use is there"


def test_a_temporary_server_that_is_killed_is_started_again(
    with_database: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = local_server._python

    def recorded(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(local_server, "_python", recorded)
    with temporary_server(with_database(tmp_path)) as settings:
        started[0].kill()
        started[0].wait()
        assert status(f"{settings[PREFECT_API_URL]}/flow_runs/count", settings[PREFECT_API_AUTH_STRING]) == 200
    killed, second = started
    assert killed.returncode == -signal.SIGKILL and second.returncode is not None, "the second one is stopped at the end"


def test_a_damaged_database_of_earlier_runs_is_told_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "prefect.db").write_bytes(b"no database" * 999)
    message = f"the Prefect server ended with exit status 3; see the end of {tmp_path}/server.log; if its database is damaged, "
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}delete {tmp_path}"), temporary_server(tmp_path):
        pass


def test_log_lines_that_a_full_database_refuses_do_not_hide_the_end_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    worker = APILogWorker.__new__(APILogWorker)  # without a client, every batch fails
    with without_errors_of_logging():
        asyncio.run(worker._handle_batch([]))
    assert capsys.readouterr().err == ""
    asyncio.run(worker._handle_batch([]))
    assert "Error logging to API" in capsys.readouterr().err


def test_servers_of_this_directory_forget_runs_after_thirty_days_and_report_to_nobody() -> None:
    asked = "from prefect.settings import get_current_settings; s = get_current_settings().server; v = s.services.db_vacuum; "
    asked += "print(sorted(v.enabled_vacuum_types), v.retention_period.days, s.analytics_enabled)"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "['events', 'flow_runs', 'orphans'] 30 False"


def test_no_command_of_ours_reports_to_prefect_or_says_that_it_would(tmp_path: Path) -> None:
    """Prefect prints its notice only on terminals; it documents both variables for opting out."""
    asked = "import os, korealbert.flows.cli; from prefect.settings import get_current_settings as settings; "
    asked += "print(os.environ['DO_NOT_TRACK'], settings().server.analytics_enabled)"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "DO_NOT_TRACK"))}
    done = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=tmp_path,
        env=clean | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1 False\n", done.stderr


class Stranger(BaseHTTPRequestHandler):
    """A server of another checkout: healthy, and everything else needs a password that is not ours."""

    def do_GET(self) -> None:
        self.answer(200 if self.path.endswith("/health") else 401)

    def do_POST(self) -> None:
        self.answer(401)

    def answer(self, code: int) -> None:
        body = b"true" if code == 200 else b'{"exception_message": "Unauthorized"}'
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class AnyPage(Stranger):
    """Another kind of server: it has a page for every URL and no method but GET."""

    def do_GET(self) -> None:
        self.answer(200)

    def do_POST(self) -> None:
        self.send_error(501)


class Zero(Stranger):
    """Answers 0 to everything."""

    def answer(self, code: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1")
        self.end_headers()
        self.wfile.write(b"0")


class Counts(Stranger):
    """Healthy, counts, and knows nothing else."""

    def do_GET(self) -> None:
        self.answer(200 if self.path.endswith("/health") else 404)

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"17")


class BadGateway(Stranger):
    """Healthy, like a proxy whose server is gone."""

    def do_GET(self) -> None:
        self.answer(200 if self.path.endswith("/health") else 502)


class Closes(Stranger):
    """Healthy, and closes the connection to everything else."""

    def answer(self, code: int) -> None:
        if code == 200:
            super().answer(code)
        else:
            self.close_connection = True


class Elsewhere(Stranger):
    """Redirects every request to an invalid address, which must not receive the password."""

    def answer(self, code: int) -> None:
        self.send_response(302)
        self.send_header("Location", "http://[::1")
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/api"
        server.shutdown()
        thread.join()


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine, no answer of these tests' servers counts as late."""
    monkeypatch.setattr(local_server, "_SECONDS_TO_ANSWER", 300)
    monkeypatch.setattr(local_server, "_SECONDS_TO_IDENTIFY", 300)


@pytest.mark.usefixtures("_patient")
@pytest.mark.parametrize("handler", [Stranger, AnyPage, Zero, Counts, BadGateway, Closes, Elsewhere])
def test_a_server_of_something_else_is_told_from_prefect(handler: type[BaseHTTPRequestHandler]) -> None:
    with answering(handler) as url:
        assert refused(url)
        assert answers(f"{url}/health") is (handler is not Elsewhere)
        assert (refused(url, waited_for=True) is None) is (handler in (BadGateway, Closes)), "it may come back"


class Late(Stranger):
    """Healthy from the third request on."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.answer(200 if self.asked > 2 else 503)


@pytest.mark.usefixtures("_patient")
def test_a_server_that_the_environment_names_is_waited_for_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(Late) as url:
        local_server._wait_for(url)
        assert Late.asked == 3 and capsys.readouterr().err.count("waiting for the server at ") == 1
        local_server._wait_for(url)
        assert capsys.readouterr().err == "", "it answers at once"
    monkeypatch.setattr(local_server, "_SECONDS_TO_START", 0)
    with pytest.raises(SystemExit, match="did not answer within 0 s; start it, or unset PREFECT_API_URL"):
        local_server._wait_for(url)


@pytest.mark.soak
def test_a_run_beside_a_server_that_refuses_us_says_so_in_a_line_and_starts_its_own(
    with_database: Callable[[Path], Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    with_database(store / ".prefect")
    with answering(Stranger) as stranger:
        run = start(store, PREFECT_API_URL=stranger)
        output, _ = run.communicate(timeout=SECONDS_TO_END)
    assert run.returncode == 0, output
    (line,) = [line for line in output.splitlines() if stranger in line]
    assert "is not ours" in line and "401" in line
    assert "Traceback" not in output and "telemetry" not in output.lower()


@pytest.mark.soak
def test_runs_that_start_together_on_a_fresh_store_both_finish(tmp_path: Path) -> None:
    runs = [start(tmp_path / "store") for _ in range(2)]
    outputs = [run.communicate(timeout=SECONDS_TO_END)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs


@pytest.mark.parametrize("variables", [("STORE=my store",), ("KOREALBERT_STORE=my store",)])
@pytest.mark.parametrize("target", ["up", "ui", "run"])
def test_make_gives_the_store_that_it_is_told_of(target: str, variables: tuple[str, ...]) -> None:
    clean = {key: value for key, value in os.environ.items() if key not in ("STORE", "KOREALBERT_STORE", "MAKEFLAGS")}
    given = dict(each.split("=") for each in variables)
    done = subprocess.run(["make", "-n", target], cwd=ROOT, env=clean | given, capture_output=True, text=True, check=True)
    assert '"my store"' in done.stdout
    done = subprocess.run(["make", "-n", target], cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    assert '"store"' not in done.stdout and "--store" not in done.stdout, "commands know it"


@pytest.mark.parametrize(
    ("target", "variable"),
    [("run", "RECIPE"), ("up", "SERVICE"), ("down", "SERVICE"), ("bench-quality", "DATA"), ("bench-memorise", "RECIPE")],
)
def test_make_takes_names_with_blanks(target: str, variable: str) -> None:
    command = ["make", "-n", target, f"{variable}=my own"]
    clean = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    done = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    assert '"my own"' in done.stdout


def test_make_clean_deletes_no_store_that_others_may_use() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"} | {"KOREALBERT_STORE": "shared"}
    done = subprocess.run(["make", "-n", "clean"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "shared" not in done.stdout and " site store\n" in done.stdout


def test_an_error_of_the_temporary_server_on_a_full_disk_tells_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def server(home: Path) -> Iterator[dict[object, str]]:
        yield {}

    monkeypatch.setattr(local_server, "temporary_server", server)
    monkeypatch.setattr(local_server, "answers", lambda url: False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    broken = httpx.HTTPError("Server error '500 Internal Server Error'")
    with pytest.raises(httpx.HTTPError), local_server.api_for_one_run(tmp_path):
        raise broken
    monkeypatch.setattr(local_server, "_DATABASE_GROWTH", 1 << 60)
    with pytest.raises(DiskFull, match="the database of Prefect needs"), local_server.api_for_one_run(tmp_path):
        raise broken
