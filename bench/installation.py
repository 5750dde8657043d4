"""An installation for a bench alone (PostgreSQL, server, two workers), and runs on it that the command starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from korealbert.flows.services.local_server import listen
from korealbert.flows.services.topology import ROOT

AUTH = "bench:not-a-secret"


class Installation:
    """A running topology."""

    def __init__(self, place: Path, more: Mapping[str, str]) -> None:
        self.place, self.home, self.store = place, place / "service", place / "store"
        with listen("127.0.0.1", 0) as probe:
            self.port = probe.getsockname()[1]
        own = {"PREFECT_SERVER_API_AUTH_STRING": AUTH, "PREFECT_API_AUTH_STRING": AUTH, "PREFECT_HOME": str(place / "prefect")}
        own |= {"PREFECT_API_URL": f"http://127.0.0.1:{self.port}/api", "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT")} | own | more

    def topology(self, command: str) -> None:
        options = ["--home", str(self.home), "--port", str(self.port), "--store", str(self.store)]
        arguments = [sys.executable, "-m", "korealbert.flows.services.topology", command, *options]
        subprocess.run(arguments, cwd=self.place, env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def processes(self) -> list[psutil.Process]:
        """Return the supervisor and its descendants that live now."""
        supervisor = psutil.Process(json.loads((self.home / "processes.json").read_text("utf-8"))["supervisor"])
        return [supervisor, *supervisor.children(recursive=True)]

    def kill(self, name: str) -> None:
        os.kill(json.loads((self.home / "processes.json").read_text("utf-8"))[name], signal.SIGKILL)

    def begin(self, deployment: str, **parameters: Any) -> UUID:
        """Start a run by ``prefect deployment run NAME``; returns its id."""
        options = [part for key, value in parameters.items() for part in ("--param", f"{key}={json.dumps(value)}")]
        command = [sys.executable, "-m", "prefect", "deployment", "run", deployment, *options]
        output = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=True).stdout
        return UUID(next(line.split()[-1] for line in output.splitlines() if "UUID:" in line))

    def ended(self, client: SyncPrefectClient, run: UUID, seconds: float) -> Any:
        """Wait until a run has ended and return it, asking again while the server is down. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                found = client.read_flow_run(run)
                if found.state is not None and found.state.is_final():
                    return found
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"run {run} did not end within {seconds} s; logs in {self.home / 'logs'}")


@contextmanager
def installation(
    environment: Callable[[Path], Mapping[str, str]] = lambda place: {},
) -> Iterator[tuple[Installation, SyncPrefectClient]]:
    """Start an installation, yield it with a client of its server, and remove it afterwards.

    ``environment`` returns more variables for all its processes, given their directory.
    """
    place = Path(tempfile.mkdtemp(prefix="korealbert-bench-"))
    place.chmod(0o711)  # Root's PostgreSQL runs as another user, who must reach it.
    here = Installation(place, environment(place))
    settings = {PREFECT_API_URL: here.environment["PREFECT_API_URL"], PREFECT_API_AUTH_STRING: AUTH}
    here.topology("up")
    try:
        with temporary_settings(settings), get_client(sync_client=True) as client:
            yield here, client
    finally:
        here.topology("down")
        shutil.rmtree(place, ignore_errors=True)
