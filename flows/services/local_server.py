"""Prefect servers on loopback, each with a password: that of ``make ui`` with deployments and worker, and a temporary one for a
run."""

from __future__ import annotations

import base64
import fcntl
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, get_current_settings, temporary_settings

from flows.terminal import warn
from korealbert.artifact.files import atomic_write
from korealbert.artifact.shards import die_with_parent

FILE = Path(".env")
"""In the project's root, where every ``prefect`` command reads it."""

HOW_TO_LOG_IN = f"the page asks for user and password as one text; this prints it: sed -n s/^PREFECT_API_AUTH_STRING=//p {FILE}"

_CLIENT, _SERVER = "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"


def _new_credentials() -> dict[str, str]:
    """A user and a password that nobody can guess, for server and client."""
    return dict.fromkeys((_SERVER, _CLIENT), f"korealbert:{secrets.token_urlsafe(24)}")


def credentials(path: Path) -> dict[str, str]:
    """The server's user and password: of the environment, else of the file, else made now and written there for its owner."""
    if _SERVER in os.environ:
        return {_SERVER: os.environ[_SERVER], _CLIENT: os.environ.get(_CLIENT, os.environ[_SERVER])}
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    known = dict(line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    if _SERVER not in known:
        known |= _new_credentials()
        before = os.umask(0o077)  # From its first byte on it is its owner's alone.
        try:
            atomic_write(path, "\n".join([*lines, *(f"{key}={known[key]}" for key in (_SERVER, _CLIENT)), ""]).encode())
        finally:
            os.umask(before)
    return {_SERVER: known[_SERVER], _CLIENT: known.get(_CLIENT, known[_SERVER])}


_SECONDS_TO_START = 600
_SECONDS_TO_STOP = 15
_PASSING = (500, 502, 503, 504)
"""What Prefect's server answers while its database cannot be reached, or a proxy before it."""


def main() -> None:
    """Start everything in order, wait for Ctrl-C or SIGTERM, and stop everything."""
    root = Path(__file__).parents[2]
    url = str(get_current_settings().api.url)
    address = urlsplit(url)
    os.environ |= credentials(root / FILE) | {"PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url.removesuffix("/api")}
    running: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        running.append(
            _python("-m", "flows.services.server", "--host", str(address.hostname), "--port", str(address.port), cwd=root)
        )
        wait_until_healthy(f"{url}/health", running[0])
        if _python("-m", "flows.services.installation", cwd=root).wait():
            raise SystemExit("the deployments could not be registered: see the message above")
        running.append(_python("-m", "flows.worker", "data", cwd=root))
        print(f"\nthe UI is at {url.removesuffix('/api')}")
        print(HOW_TO_LOG_IN)
        print("in another terminal: prefect deployment run corpus-to-model\n")
        running[-1].wait()
    except KeyboardInterrupt:
        pass
    finally:
        for process in reversed(running):  # The worker first: without its server it would not end.
            stop(process)


@contextmanager
def api_for_one_run(store: Path) -> Iterator[None]:
    """The API that flows of this process report to: the configured server if it takes our credentials, else a temporary one.

    A server that the environment names is waited for while it does not answer; one that refuses us is never used.
    """
    configured = get_current_settings().api.url
    refusal = refused(configured) if configured else None
    if refusal:
        warn(f"the server at {configured} is not ours: {refusal}; this run has a temporary server of its own")
    elif os.environ.get("PREFECT_API_URL") or (configured and answers(f"{configured}/health")):
        yield
        return
    with temporary_server(store / ".prefect") as settings, temporary_settings(settings):
        try:
            yield
        finally:
            APILogWorker.drain_all(timeout=_SECONDS_TO_STOP)
            EventsWorker.drain_all(timeout=_SECONDS_TO_STOP)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Prefect redirects nowhere, and a password that is meant for one server must not reach another."""

    def http_error_302(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_ask = urllib.request.build_opener(_NoRedirect).open
_NO_ANSWER = (OSError, HTTPException, ValueError)
"""What asking something that is no HTTP server, or none that is well, ends in."""


def answers(url: str) -> bool:
    """Whether a server answers at a URL; another program on its port does not."""
    try:
        with _ask(url, timeout=2):
            return True
    except _NO_ANSWER:
        return False


def refused(api: str) -> str | None:
    """Why a server that is healthy cannot be ours: it answers a question that needs credentials otherwise than Prefect.

    None where it answers well, or not at all.
    """
    version = urllib.request.Request(f"{api}/admin/version")  # noqa: S310 (the user's own setting)
    count = urllib.request.Request(f"{api}/flow_runs/count", b"{}", {"Content-Type": "application/json"})  # noqa: S310
    try:
        for request, expected in ((version, rb'"\d+\.\d+[^"]*"'), (count, rb"\d+")):
            if known := get_current_settings().api.auth_string:
                request.add_header("Authorization", "Basic " + base64.b64encode(known.get_secret_value().encode()).decode())
            with _ask(request, timeout=10) as answer:
                if not re.fullmatch(expected, answer.read(100).strip()):
                    return "it answers otherwise than Prefect's API"
    except HTTPError as error:
        error.close()
        if error.code in (401, 403):
            return f"it refuses the user and password of this directory ({error.code})"
        return f"it answers otherwise than Prefect's API ({error.code})" if error.code not in _PASSING else None
    except _NO_ANSWER:
        return None
    return None


@contextmanager
def temporary_server(home: Path) -> Iterator[dict[Any, str]]:
    """A server of this process's own on a free port; yields the settings of its clients and stops it at the end.

    ``home`` keeps its database and log between runs; of servers that start at once each waits until the one before has made or
    migrated the database. User and password are new for each, and only in this process and the server's environment. Prefect
    would start a temporary server by itself, but not where a ``prefect.toml`` names one that is not running.
    """
    home.mkdir(parents=True, exist_ok=True)
    own = {
        **_new_credentials(),
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:///prefect.db",  # in home, which may be no URL
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",  # as prefect.toml has it
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": "2592000",
        "PREFECT_SERVER_UI_ENABLED": "false",
    }
    with (home / "server.log").open("ab") as log, (home / "migration.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        port = free_port()
        url = f"http://127.0.0.1:{port}/api"
        own |= {"PREFECT_API_URL": url, "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url.removesuffix("/api")}
        # A session of its own, since Ctrl-C is for the run: the server must outlive it to hear how it ended.
        options = {"env": os.environ | own, "stdout": log, "stderr": log, "start_new_session": True}
        server = _python("-m", "flows.services.server", "--host", "127.0.0.1", "--port", str(port), cwd=home, **options)
        try:
            wait_until_healthy(f"{url}/health", server)
            fcntl.flock(lock, fcntl.LOCK_UN)
            yield {PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: own[_CLIENT]}
        finally:
            stop(server)


def free_port() -> int:
    """A port of the loopback interface that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _python(*arguments: str, cwd: Path, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments], cwd=cwd, preexec_fn=die_with_parent, **options)  # noqa: PLW1509


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process, kindly first."""
    process.terminate()
    try:
        process.wait(timeout=_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_healthy(url: str, server: subprocess.Popen[bytes] | None) -> None:
    """Return once the server answers. Raises RuntimeError when it died or stays silent."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        if server is not None and server.poll() is not None:
            raise RuntimeError(f"the Prefect server ended with exit status {server.returncode}; is its port taken?")
        if answers(url):
            return
        time.sleep(0.5)
    raise RuntimeError(f"the Prefect server did not answer at {url} within {_SECONDS_TO_START} s")


if __name__ == "__main__":
    main()
