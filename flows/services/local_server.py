"""Prefect servers on loopback: the one of ``make ui`` with deployments and worker, and a temporary one for a run."""

from __future__ import annotations

import os
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
from urllib.parse import urlsplit

from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

from flows.services.credentials import FILE, credentials
from korealbert.artifact.shards import die_with_parent

SECONDS_TO_START = 600
SECONDS_TO_STOP = 15


def main() -> None:
    """Start everything in order, wait for Ctrl-C or SIGTERM, and stop everything."""
    root = Path(__file__).parents[2]
    url = str(get_current_settings().api.url)
    address = urlsplit(url)
    os.environ |= credentials(root / FILE)
    running: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        running.append(
            _python("-m", "prefect", "server", "start", "--host", str(address.hostname), "--port", str(address.port), cwd=root)
        )
        wait_until_healthy(f"{url}/health", running[0])
        if _python("-m", "flows.services.installation", cwd=root).wait():
            raise SystemExit("the deployments could not be registered: see the message above")
        running.append(_python("-m", "flows.worker", "data", cwd=root))
        print(f"\nthe UI is at {url.removesuffix('/api')}, user and password are in {FILE}")
        print("in another terminal: prefect deployment run corpus-to-model\n")
        running[-1].wait()
    except KeyboardInterrupt:
        pass
    finally:
        for process in reversed(running):  # The worker first: without its server it would not end.
            stop(process)


@contextmanager
def api_for_one_run(store: Path) -> Iterator[None]:
    """The API that flows of this process report to: the configured server if it answers, else a temporary one."""
    configured = get_current_settings().api.url
    if "PREFECT_API_URL" in os.environ or (configured and answers(f"{configured}/health")):
        yield
        return
    with temporary_server(store / ".prefect") as url, temporary_settings({PREFECT_API_URL: url}):
        try:
            yield
        finally:
            APILogWorker.drain_all(timeout=SECONDS_TO_STOP)
            EventsWorker.drain_all(timeout=SECONDS_TO_STOP)


def answers(url: str) -> bool:
    """Whether a server answers at a URL; another program on its port does not."""
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 (the user's own setting)
            return True
    except (OSError, HTTPException):
        return False


@contextmanager
def temporary_server(home: Path) -> Iterator[str]:
    """A server of this process's own on a free port; yields its API's URL and stops it at the end.

    ``home`` keeps its database and log between runs. Prefect would start a temporary server by itself, but not where a
    ``prefect.toml`` names one that is not running.
    """
    home.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    own = {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home / 'prefect.db'}",
        "PREFECT_SERVER_UI_ENABLED": "false",
    }
    with (home / "server.log").open("wb") as log:
        # A session of its own, since Ctrl-C is for the run: the server must outlive it to hear how it ended.
        options = {"env": os.environ | own, "stdout": log, "stderr": log, "start_new_session": True}
        server = _python("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), cwd=home, **options)
        try:
            wait_until_healthy(f"{url}/health", server)
            yield url
        finally:
            stop(server)


def _python(*arguments: str, cwd: Path, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments], cwd=cwd, preexec_fn=die_with_parent, **options)  # noqa: PLW1509


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process, kindly first."""
    process.terminate()
    try:
        process.wait(timeout=SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_healthy(url: str, server: subprocess.Popen[bytes] | None) -> None:
    """Return once the server answers. Raises RuntimeError when it died or stays silent."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if server is not None and server.poll() is not None:
            raise RuntimeError(f"the Prefect server ended with exit status {server.returncode}; is its port taken?")
        if answers(url):
            return
        time.sleep(0.5)
    raise RuntimeError(f"the Prefect server did not answer at {url} within {SECONDS_TO_START} s")


if __name__ == "__main__":
    main()
