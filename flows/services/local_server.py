"""Prefect servers on loopback, each with a password: that of ``make ui`` with deployments and a worker, and a temporary one."""

from __future__ import annotations

import base64
import errno
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit

import httpx
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, get_current_settings, temporary_settings

from korealbert.artifact import locks
from korealbert.artifact.files import atomic_write, require_space
from korealbert.artifact.shards import die_with_parent
from korealbert.artifact.store import ENVIRONMENT_FILE, STORE_VARIABLE, default_store
from korealbert.flows.services.port_owner import other_owner
from korealbert.flows.terminal import warn

HOW_TO_LOG_IN = (
    f"the page asks for user and password as one text; this prints it: sed -n s/^PREFECT_API_AUTH_STRING=//p {ENVIRONMENT_FILE}"
)

_DATABASE_GROWTH = 16_000_000
"""Bytes that the database of a run's temporary server may take."""

_CLIENT, _SERVER = "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"


def _new_credentials() -> dict[str, str]:
    """Return a user and a random password for server and client."""
    return dict.fromkeys((_SERVER, _CLIENT), f"korealbert:{secrets.token_urlsafe(24)}")


def credentials(path: Path) -> dict[str, str]:
    """Return the server's user and password from the environment, else from the file; else create and write them."""
    if _SERVER in os.environ:
        return {_SERVER: os.environ[_SERVER], _CLIENT: os.environ.get(_CLIENT, os.environ[_SERVER])}
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    known = dict(line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    if _SERVER not in known:
        known |= _new_credentials()
        _write(path, [*lines, *(f"{key}={known[key]}" for key in (_SERVER, _CLIENT))])
    return {_SERVER: known[_SERVER], _CLIENT: known.get(_CLIENT, known[_SERVER])}


def name_services(path: Path, facts: Mapping[str, str]) -> None:
    """Write the store and address of running services to a directory's environment file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    _write(path, [*(line for line in lines if line.split("=")[0] not in facts), *_lines(facts)])


def forget_services(path: Path, facts: Mapping[str, str]) -> None:
    """Remove what ``name_services`` wrote; what other services wrote later stays."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    left = [line for line in lines if line not in _lines(facts)]
    if left != lines:
        _write(path, left)


def _lines(facts: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in facts.items()]


def _write(path: Path, lines: list[str]) -> None:
    before = os.umask(0o077)  # Only the owner may read it, from its first byte on.
    try:
        atomic_write(path, "".join(f"{line}\n" for line in lines).encode())
    finally:
        os.umask(before)


_SECONDS_TO_START = 600
_SECONDS_TO_STOP = 15
_SECONDS_BETWEEN_STARTS = 5
_SECONDS_TO_ANSWER = 5
_SECONDS_TO_IDENTIFY = 30
_TEMPORARY_ERRORS = (500, 502, 503, 504)
"""Answers of Prefect's server while its database is unreachable, or of a proxy in front of it."""


def main() -> None:
    """Start everything in order, wait for Ctrl-C or SIGTERM, and stop everything."""
    root = Path(__file__).resolve().parents[2]
    url = str(get_current_settings().api.url)
    address = urlsplit(url)
    file, store = root / ENVIRONMENT_FILE, default_store()
    facts = {STORE_VARIABLE: str(store.resolve())}
    listener = listen(str(address.hostname), address.port or 80)  # Kept open to the end, so that nobody else can take the port.
    os.environ |= credentials(file) | {"PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url.removesuffix("/api")}
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        with _server(listener, url, remedy="see its messages above", cwd=root):
            if _python("-m", "korealbert.flows.services.installation", cwd=root).wait():
                raise SystemExit("the deployments could not be registered: see the message above")
            worker = _python("-m", "korealbert.flows.worker", "data", cwd=root)
            try:
                name_services(file, facts)
                print(f"\nthe UI is at {url.removesuffix('/api')}, the store at {store.resolve()}")
                print(HOW_TO_LOG_IN)
                print("in another terminal: prefect deployment run corpus-to-model\n")
                worker.wait()
            finally:
                stop(worker)  # It would not end without its server.
    except KeyboardInterrupt:
        pass
    finally:
        forget_services(file, facts)


@contextmanager
def api_for_one_run(store: Path) -> Iterator[None]:
    """Provide the API for flows of this process: the configured server if it accepts our credentials, else a temporary one.

    If the environment names a server, wait until it answers. A server that refuses us is never used. Raises SystemExit if it
    never answers, and DiskFull if the temporary one had no space for its database.
    """
    configured = get_current_settings().api.url
    named = bool(os.environ.get("PREFECT_API_URL"))
    if configured and named:
        _wait_for(configured)
    if configured and (named or answers(f"{configured}/health")):
        if (refusal := refused(configured, waited_for=named)) is None:
            yield
            return
        warn(f"the server at {configured} is not ours: {refusal}; this run has a temporary server of its own")
    with temporary_server(store / ".prefect") as settings, temporary_settings(settings), without_errors_of_logging():
        try:
            yield
        except httpx.HTTPError:
            require_space(store, _DATABASE_GROWTH, "the database of Prefect")
            raise


@contextmanager
def without_errors_of_logging() -> Iterator[None]:
    """Keep Prefect from printing two lines for each batch of log lines that the server cannot store, as on a full disk.

    They would hide the one line with which the run itself then ends.
    """
    before, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        yield
    finally:
        logging.raiseExceptions = before


def _wait_for(api: str) -> None:
    if answers(f"{api}/health"):
        return
    warn(f"waiting for the server at {api}, which PREFECT_API_URL names and which does not answer")
    deadline = time.monotonic() + _SECONDS_TO_START
    while not answers(f"{api}/health"):
        if time.monotonic() > deadline:
            raise SystemExit(
                f"the server at {api} did not answer within {_SECONDS_TO_START} s; start it, or unset PREFECT_API_URL"
            )
        time.sleep(1)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Prefect never redirects, and a password for one server must not reach another."""

    def http_error_302(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_ask = urllib.request.build_opener(_NoRedirect).open
_NO_ANSWER = (OSError, HTTPException, ValueError)
"""Errors of asking something that is no HTTP server, or a broken one."""


T = TypeVar("T")


def _in_time(seconds: float, ask: Callable[[], T], late: T) -> T:
    """Return what ``ask`` returns, or ``late``: a socket's timeout starts again with every byte that a server sends."""
    answers_given: list[T] = []
    asking = threading.Thread(target=lambda: answers_given.append(ask()), daemon=True)
    asking.start()
    asking.join(seconds)
    return answers_given[0] if answers_given else late


def answers(url: str) -> bool:
    """Whether a server answers at a URL. Another kind of program on its port does not."""

    def answered() -> bool:
        try:
            with _ask(url, timeout=_SECONDS_TO_ANSWER):
                return True
        except _NO_ANSWER:
            return False

    return _in_time(_SECONDS_TO_ANSWER, answered, late=False)


def refused(api: str, *, waited_for: bool = False) -> str | None:
    """Return why a server cannot be ours: another user's process listens there, or it does not answer like Prefect with our
    password.

    Returns None if it answers well; with ``waited_for`` also if it is unreachable or temporarily broken. The password is sent
    to no other user's process on this machine (``other_owner``).
    """
    if other := other_owner(api):
        return other
    known = get_current_settings().api.auth_string
    late: str | None = f"its answer had not ended after {_SECONDS_TO_IDENTIFY} s"
    password = known.get_secret_value() if known else ""
    return _in_time(_SECONDS_TO_IDENTIFY, lambda: _wrong_answer(api, password, waited_for=waited_for), late)


def _wrong_answer(api: str, known: str, *, waited_for: bool) -> str | None:
    version = urllib.request.Request(f"{api}/admin/version")  # noqa: S310 (the user's own setting)
    count = urllib.request.Request(f"{api}/flow_runs/count", b"{}", {"Content-Type": "application/json"})  # noqa: S310
    try:
        for request, expected in ((version, rb'"\d+\.\d+[^"]*"'), (count, rb"\d+")):
            if known:
                request.add_header("Authorization", "Basic " + base64.b64encode(known.encode()).decode())
            with _ask(request, timeout=10) as answer:
                if not re.fullmatch(expected, answer.read(100).strip()):
                    return "it does not answer like Prefect's API"
    except HTTPError as error:
        error.close()
        if error.code in (401, 403):
            return f"it refuses the user and password of this directory ({error.code})"
        temporary = waited_for and error.code in _TEMPORARY_ERRORS
        return None if temporary else f"it does not answer like Prefect's API ({error.code})"
    except _NO_ANSWER:
        return None if waited_for else "it answers nothing except that it is healthy"
    return None


@contextmanager
def temporary_server(home: Path) -> Iterator[dict[Any, str]]:
    """Run a server of this process's own on a free port; yields its clients' settings and stops it at the end.

    ``home`` keeps its database and log between runs. Servers that start at once wait for each other while one creates or
    migrates the database. User and password are new each time, and only in this process and the server's environment. Prefect
    would start a temporary server itself, but not if a ``prefect.toml`` names one that is not running.
    """
    home.mkdir(parents=True, exist_ok=True)
    own = {
        **_new_credentials(),
        "PREFECT_HOME": str(home),
        # Relative to PREFECT_HOME, because not every path can be part of a URL.
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:///prefect.db",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",  # as prefect.toml has it
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": "2592000",
        "PREFECT_SERVER_UI_ENABLED": "false",
    }
    with ExitStack() as migrating, (home / "server.log").open("ab") as log, listen("127.0.0.1", 0) as listener:
        migrating.enter_context(locks.exclusive(home / "migration.lock", waiting=_say_who_starts))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
        own |= {"PREFECT_API_URL": url, "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url.removesuffix("/api")}
        remedy = f"see the end of {log.name}; if its database is damaged, delete {home}, which holds records of runs alone"
        with _server(listener, url, remedy=remedy, cwd=home, env=os.environ | own, stdout=log, stderr=log):
            migrating.close()
            try:
                yield {PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: own[_CLIENT]}
            finally:  # Prefect would wait for them at the end of the process, for ever without the server.
                APILogWorker.drain_all(timeout=_SECONDS_TO_STOP)
                EventsWorker.drain_all(timeout=_SECONDS_TO_STOP)


def _say_who_starts(holder: str) -> None:
    warn(f"waiting for {holder}, which starts its Prefect server")


@contextmanager
def _server(listener: socket.socket, url: str, *, remedy: str, **options: Any) -> Iterator[None]:
    """Run a Prefect server on a socket, start it again whenever it dies, and stop it at the end.

    This process keeps the socket open, so clients wait for a new server instead of being refused. Without one they would wait
    for ever. Raises RuntimeError, with ``remedy``, if the first server dies before it answers.
    """

    def start() -> subprocess.Popen[bytes]:
        # In its own session, so that Ctrl-C reaches only this process, and the server still hears how a run ended.
        return _python(*serving(listener), pass_fds=[listener.fileno()], start_new_session=True, **options)

    server, ending, lock = start(), False, threading.Lock()

    def restart() -> None:
        nonlocal server
        while True:
            status = server.wait()
            with lock:
                if ending:
                    return
                warn(f"Prefect's server ended with exit status {status}; it is started again")
                server = start()
            time.sleep(_SECONDS_BETWEEN_STARTS)

    try:
        wait_until_healthy(f"{url}/health", server, remedy=remedy)
        threading.Thread(target=restart, daemon=True).start()
        yield
    finally:
        with lock:
            ending = True
            stop(server)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket for a server that is still to start: another process could take a port in the meantime.

    Raises SystemExit if the port is taken or may not be used.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        problem = "it is taken by another program" if error.errno == errno.EADDRINUSE else error.strerror
        raise SystemExit(f"port {port} of {host}: {problem}; name another one (--port, or make up PORT=…)") from error


def serving(listener: socket.socket) -> list[str]:
    """Return Python's arguments for a Prefect server on a socket that its process inherits (``pass_fds``)."""
    return ["-m", "korealbert.flows.services.server", "--socket", str(listener.fileno())]


def _python(*arguments: str, cwd: Path, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments], cwd=cwd, preexec_fn=die_with_parent, **options)  # noqa: PLW1509


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(timeout=_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], *, remedy: str) -> None:
    """Return once the server answers. Raises RuntimeError, with ``remedy``, if it died or does not answer in time."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the Prefect server ended with exit status {server.returncode}; {remedy}")
        if answers(url):
            return
        time.sleep(0.5)
    raise RuntimeError(f"the Prefect server did not answer at {url} within {_SECONDS_TO_START} s; {remedy}")


if __name__ == "__main__":
    main()
