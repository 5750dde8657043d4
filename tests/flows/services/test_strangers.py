"""Processes of other users on this machine get no password and cannot take the place of our server or database."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from korealbert.flows import worker
from korealbert.flows.services import local_server, port_owner, postgres, topology
from korealbert.flows.services.local_server import answers, listen, refused, temporary_server
from korealbert.flows.services.port_owner import other_owner
from korealbert.flows.services.postgres import Cluster, PostgresMissing, binaries
from tests.flows.services.test_local_server import ROOT, SECONDS_TO_END, start

pytestmark = pytest.mark.timeout(2 * SECONDS_TO_END)
NOBODY = 65534
AUTH = "me:nobody-guesses-this"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another user")


class Server(ThreadingHTTPServer):
    """Healthy, refuses everything else, and records each request with its password."""

    def __init__(self, family: socket.AddressFamily, host: str, user: int) -> None:
        self.address_family = family
        self.asked: list[tuple[str, str | None]] = []
        super().__init__((host, 0), Handler)
        os.fchown(self.fileno(), user, -1)  # As if that user had created it.


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(200 if self.path.endswith("/health") else 401)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"true")

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening(host: str = "127.0.0.1", user: int = NOBODY) -> Iterator[tuple[Server, str]]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with Server(family, host, user) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server, f"http://127.0.0.1:{server.server_address[1]}/api"
        server.shutdown()
        thread.join()


@as_root
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104
def test_a_process_of_another_user_is_sent_no_password(host: str) -> None:
    with listening(host) as (server, url), temporary_settings({PREFECT_API_AUTH_STRING: AUTH}):
        refusal = refused(url)
        assert refusal is not None and f"uid {NOBODY}" in refusal
        assert server.asked == []


@as_root
def test_a_process_of_ones_own_is_sent_it() -> None:
    with listening(user=0) as (server, url), temporary_settings({PREFECT_API_AUTH_STRING: AUTH}):
        refusal = refused(url)
        assert refusal is not None and "401" in refusal
        assert [password is not None for _, password in server.asked] == [True]


@as_root
def test_a_worker_does_not_work_for_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["worker", "data"])
    settings = {PREFECT_API_AUTH_STRING: AUTH}
    with listening() as (server, url), temporary_settings({**settings, PREFECT_API_URL: url}):
        with pytest.raises(SystemExit, match=f"uid {NOBODY}"):
            worker.main()
        assert server.asked == []


@as_root
def test_who_listens_on_the_very_address_counts() -> None:
    with listen("127.0.0.1", 0) as ours, socket.socket(socket.AF_INET6) as theirs:
        theirs.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        port = ours.getsockname()[1]
        os.fchown(theirs.fileno(), NOBODY, -1)
        with suppress(OSError):  # Where the machine has no IPv6.
            theirs.bind(("::", port))
            theirs.listen()
        assert other_owner(f"http://127.0.0.1:{port}/api") is None
    assert other_owner("http://example.invalid/api") is None


def test_a_kernel_without_ipv6_names_the_owner_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = f"  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {NOBODY} 0 1 1 0 100 0 0 10 0"
    (tmp_path / "tcp").write_text(f"  sl  local_address rem_address   st\n{entry}\n")
    monkeypatch.setattr(port_owner, "_SOCKET_TABLES", tmp_path)
    assert f"uid {NOBODY}" in (other_owner("http://127.0.0.1:8080/api") or "")
    assert other_owner("http://127.0.0.1:8081/api") is None


@as_root
@pytest.mark.soak
def test_a_run_beside_a_stranger_says_whose_it_is_and_starts_its_own(
    with_database: Callable[[Path], Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    with_database(store / ".prefect")
    with listening() as (server, url):
        run = start(store, PREFECT_API_URL=url, PREFECT_API_AUTH_STRING=AUTH)
        output, _ = run.communicate(timeout=SECONDS_TO_END)
    assert run.returncode == 0, output
    (line,) = [line for line in output.splitlines() if url in line]
    assert f"uid {NOBODY}" in line and "temporary server" in line
    assert {password for _, password in server.asked} <= {None}


@as_root
def test_no_command_of_prefect_in_this_directory_sends_a_stranger_the_password() -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    with listening() as (server, url):
        own = {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": url, "PREFECT_API_AUTH_STRING": AUTH}
        command = [sys.executable, "-m", "prefect", "deployment", "ls"]
        done = subprocess.run(command, cwd=ROOT, env=clean | own, capture_output=True, text=True, check=False)
    assert f"uid {NOBODY}" in done.stderr, done
    assert server.asked and {password for _, password in server.asked} == {None}


class Dripping(BaseHTTPRequestHandler):
    """Healthy; any other answer goes on byte by byte and never ends."""

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path.endswith("/health"):
            self.end_headers()
            return
        self.flush_headers()
        with suppress(OSError):
            while not self.server.__dict__.get("ended"):
                self.wfile.write(b"X")
                time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_an_answer_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_SECONDS_TO_IDENTIFY", 1)
    monkeypatch.setattr(local_server, "_SECONDS_TO_ANSWER", 1)
    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/api"
        refusal = refused(url)
        drips = answers(f"{url}/anything")
        server.__dict__["ended"] = True
        server.shutdown()
        thread.join()
    assert refusal is not None and "its answer had not ended" in refusal
    assert not drips


def test_the_port_of_a_temporary_server_is_held_before_its_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_none(*arguments: str, **options: Any) -> None:
        held(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(local_server, "_python", start_none)
    with pytest.raises(KeyboardInterrupt), temporary_server(tmp_path):
        pass


def test_the_port_of_make_up_is_held_before_its_supervisor_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_none(command: list[str], **options: Any) -> None:
        held(*command, **options)
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(topology.subprocess, "Popen", start_none)
    with pytest.raises(KeyboardInterrupt):
        topology.up(tmp_path / "home", 0, tmp_path / "store")


def held(*arguments: str, **options: Any) -> None:
    """Check that a process about to start inherits a listening socket, and that its command line does not name the port."""
    (inherited,) = options["pass_fds"]
    with socket.socket(fileno=os.dup(inherited)) as listener:
        port = listener.getsockname()[1]
    assert str(port) not in arguments
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port))


def test_the_database_listens_on_no_port_and_its_directory_is_its_owners() -> None:
    try:
        binaries()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="korealbert 50%-") as place:
        Path(place).chmod(0o711)
        cluster = Cluster(Path(place) / "database")
        cluster.create()
        server = cluster.start(Path(place) / "log")
        try:
            assert asyncio.run(asked(cluster, server)) == 1
            assert [found.laddr for found in psutil.Process(server.pid).net_connections("inet")] == []
            assert cluster.directory.stat().st_mode & 0o077 == 0
        finally:
            cluster.stop(server)


def test_a_database_of_another_version_is_served_by_that_version_or_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in ("14", "16"):
        place = tmp_path / number
        place.mkdir()
        (place / "initdb").touch()
        (place / "postgres").write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {number}.3 (Debian)'\n", "utf-8")
        (place / "postgres").chmod(0o755)
    monkeypatch.setattr(postgres, "_places", lambda: [tmp_path / "14", tmp_path / "16"])
    monkeypatch.setattr(Cluster, "_give_away", lambda _: None)
    assert (binaries(), binaries("14"), binaries("16")) == (tmp_path / "14", tmp_path / "14", tmp_path / "16")
    cluster = Cluster(tmp_path / "database")
    (cluster.directory / "data").mkdir(parents=True)
    (cluster.directory / "data" / "PG_VERSION").write_text("13\n", "utf-8")
    message = f"{cluster.directory}: no PostgreSQL server of version 13 here, only 14, 16; install that version, or delete"
    with pytest.raises(PostgresMissing, match=message):
        cluster.start(tmp_path / "log")


def test_a_directory_too_deep_for_a_socket_is_told_before_anything_is_made(tmp_path: Path) -> None:
    deep = tmp_path / ("가" * 40)
    with pytest.raises(RuntimeError, match="too long a path"):
        Cluster(deep).create()
    assert not deep.exists()


async def asked(cluster: Cluster, server: subprocess.Popen[bytes]) -> int:
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(cluster.url)
    while server.poll() is None:
        try:
            async with engine.connect() as connection:
                return int((await connection.execute(text("SELECT 1"))).scalar_one())
        except (OSError, asyncpg.CannotConnectNowError):
            await asyncio.sleep(0.1)
        finally:
            await engine.dispose()
    raise RuntimeError("the database ended")
