"""The whole installation as processes: PostgreSQL, a Prefect server with a password on loopback, a data and a training worker.

Usage: python -m korealbert.flows.services.topology up | down | status [--home DIR] [--port N] [--store DIR]

``up`` returns when everything answers; a supervisor remains, which restarts processes that die. Its home contains the database,
logs and process ids. Credentials are created once and written to ``.env`` in the working directory, which every ``prefect``
command there reads. While the installation is up, that file also contains its address and store, for every ``korealbert``
command there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from korealbert.artifact.files import expanded, write_json
from korealbert.artifact.shards import die_with_parent
from korealbert.artifact.store import ENVIRONMENT_FILE, STORE_VARIABLE, default_store
from korealbert.flows.services.local_server import (
    HOW_TO_LOG_IN,
    credentials,
    forget_services,
    listen,
    name_services,
    serving,
    stop,
    wait_until_healthy,
)
from korealbert.flows.services.postgres import Cluster

_SECONDS_TO_COME_UP = 900
_SECONDS_TO_GO_DOWN = 60
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Service:
    """A process that is restarted when it dies."""

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    stop: Callable[[subprocess.Popen[bytes]], None] = stop
    depends_on: Service | None = None
    """The service that this one must not outlive."""
    process: subprocess.Popen[bytes] | None = None
    deaths: list[float] = field(default_factory=list)
    _started_with: subprocess.Popen[bytes] | None = None

    def tend(self) -> subprocess.Popen[bytes]:
        """Start the process unless it runs, after a wait that grows with its recent deaths; returns the running one."""
        if self.depends_on is not None and self._started_with is not self.depends_on.process:
            self.end()
        if self.process is not None and self.process.poll() is None:
            return self.process
        if self.process is not None:
            now = time.monotonic()
            self.deaths = [*(moment for moment in self.deaths if now - moment < 60), now]
            _say(f"{self.name} ended with {self.process.returncode}; starting it again")
            time.sleep(min(2.0 ** len(self.deaths) / 4, 15))
        self._started_with = self.depends_on.process if self.depends_on is not None else None
        self.process = self.start()
        return self.process

    def end(self) -> None:
        """Stop the process if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.stop(self.process)


class Topology:
    """All processes, their home and their addresses."""

    def __init__(self, home: Path, listener: socket.socket, store: Path) -> None:
        self.home, self.store = home.resolve(), store.resolve()
        self.listener = listener
        """The server's socket. It stays open here while a server is restarted, so that nobody else can take the port."""
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
        self.logs = self.home / "logs"
        self.facts = {STORE_VARIABLE: str(self.store), "PREFECT_API_URL": self.url}
        self._noted: dict[str, int] = {}
        self.environment = os.environ | {
            **self.facts,
            "PREFECT_HOME": str(self.home / "prefect"),
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": self.url.removesuffix("/api"),
        }

    def serve(self) -> None:
        """Start everything in order, keep it running until SIGTERM, then stop everything."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o711)  # PostgreSQL may run as another user; secret files inside have stricter modes.
        with (self.home / "supervisor.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
            services = self._services()
            try:
                self._come_up(services)
                while True:
                    time.sleep(0.5)
                    self.tend(services)
            finally:
                for number in (signal.SIGTERM, signal.SIGINT):  # A second one would leave services and lines of .env behind.
                    signal.signal(number, signal.SIG_IGN)
                for service in reversed(services):
                    service.end()
                forget_services(ENVIRONMENT_FILE, self.facts)
                (self.home / "processes.json").unlink(missing_ok=True)

    def _services(self) -> list[Service]:
        cluster = Cluster(self.home / "database")
        _say("creating the database if needed")
        cluster.create()
        self.environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = cluster.url
        log = self.logs / "database.log"
        database = Service("database", lambda: cluster.start(log, preexec_fn=die_with_parent), cluster.stop)
        return [
            database,
            # A server that outlives its database may still answer but record no events: no task runs, no automations.
            Service("server", lambda: self._python("server", *serving(self.listener)), depends_on=database),
            Service("data worker", lambda: self._worker("data")),
            Service("training worker", lambda: self._worker("gpu")),
        ]

    def _come_up(self, services: list[Service]) -> None:
        database, server, *workers = services
        _say("starting the database and Prefect's server")
        database.tend()
        remedy = f"see {self.logs / 'server.log'} and {self.logs / 'database.log'}"
        wait_until_healthy(f"{self.url}/health", server.tend(), remedy=remedy)
        _say("registering the deployments")
        installed = self._python("installation", "-m", "korealbert.flows.services.installation").wait()
        if installed:
            raise SystemExit(f"the deployments could not be registered; see {self.logs / 'installation.log'}")
        _say("starting the workers")
        for worker in workers:
            worker.tend()
        name_services(ENVIRONMENT_FILE, self.facts)
        self._note(services)

    def tend(self, services: list[Service]) -> None:
        """Restart services that died or must not outlive another. What cannot be started now is tried again next time."""
        try:
            for service in services:
                service.tend()
            self._note(services)
        except OSError as error:  # Disk, memory or processes ran out: keep the others running.
            _say(f"not everything could be started again: {error}")

    def _note(self, services: list[Service]) -> None:
        ids = {service.name: service.process.pid for service in services if service.process is not None}
        if ids != self._noted:
            write_json(self.home / "processes.json", {"supervisor": os.getpid(), **ids, "up": self.facts})
            self._noted = ids

    def _worker(self, pool: str) -> subprocess.Popen[bytes]:
        return self._python(f"{pool}-worker", "-m", "korealbert.flows.worker", pool)

    def _python(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.logs / f"{log}.log").open("ab") as stream:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=self.environment,
                stdout=stream,
                stderr=stream,
                pass_fds=[self.listener.fileno()] if log == "server" else [],
                preexec_fn=die_with_parent,  # noqa: PLW1509
            )


def up(home: Path, port: int, store: Path) -> None:
    """Start the supervisor in the background and return when all is up. Raises SystemExit with the end of its log."""
    if _running(home) is not None:
        raise SystemExit(f"{home}: already up; `make down` ends it")
    listener = listen("127.0.0.1", port)
    home.mkdir(parents=True, exist_ok=True)
    (home / "processes.json").unlink(missing_ok=True)  # From a killed supervisor.
    log = home / "supervisor.log"
    environment = os.environ | credentials(ENVIRONMENT_FILE)
    options = {"--home": home, "--socket": listener.fileno(), "--store": store}
    command = [sys.executable, "-m", "korealbert.flows.services.topology", "serve"]
    command += [str(each) for pair in options.items() for each in pair]
    with listener, log.open("wb") as stream:
        supervisor = subprocess.Popen(
            command,
            env=environment,
            stdout=stream,
            stderr=stream,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    deadline = time.monotonic() + _SECONDS_TO_COME_UP
    printed = 0
    while not (home / "processes.json").exists():
        printed = _pass_on(log, printed)
        if supervisor.poll() is not None or time.monotonic() > deadline:
            stop(supervisor)
            raise SystemExit(
                f"the services did not start:\n{log.read_text('utf-8', 'replace')[-4000:]}\nmore in {home / 'logs'}"
            )
        time.sleep(0.2)
    _pass_on(log, printed)
    print(f"up: http://127.0.0.1:{port}; store at {store.resolve()}; logs in {home / 'logs'}")
    print(HOW_TO_LOG_IN)
    print("prefect deployment run corpus-to-model    # from this directory; make down ends it all")


def _pass_on(log: Path, printed: int) -> int:
    """Print the complete lines of a log after its first ``printed`` bytes; returns the new number of printed bytes."""
    new, end, _ = log.read_bytes()[printed:].rpartition(b"\n")
    if end:
        print(new.decode("utf-8", "replace"), flush=True)
    return printed + len(new + end)


def down(home: Path) -> None:
    """Stop the supervisor and with it everything. Raises SystemExit if it does not end."""
    supervisor = _running(home)
    if supervisor is None:
        with suppress(FileNotFoundError):  # A killed supervisor could not remove its lines from .env.
            forget_services(ENVIRONMENT_FILE, json.loads((home / "processes.json").read_text("utf-8")).get("up", {}))
        print(f"{home}: nothing is up")
        return
    os.kill(supervisor, signal.SIGTERM)
    deadline = time.monotonic() + _SECONDS_TO_GO_DOWN
    while _running(home) is not None:
        if time.monotonic() > deadline:
            raise SystemExit(f"the supervisor {supervisor} did not end within {_SECONDS_TO_GO_DOWN} s; see {home / 'logs'}")
        time.sleep(0.2)
    print("down")


def _running(home: Path) -> int | None:
    """Return the supervisor's process id while it lives. One that is starting holds the lock before it writes its id."""
    deadline = time.monotonic() + _SECONDS_TO_COME_UP
    while _locked(home) and time.monotonic() < deadline:
        try:
            return int(json.loads((home / "processes.json").read_text("utf-8"))["supervisor"])
        except FileNotFoundError:
            time.sleep(1)
    return None


def _locked(home: Path) -> bool:
    """Whether a supervisor lives."""
    try:
        with (home / "supervisor.lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def _say(what: str) -> None:
    """Write a line to the supervisor's log, unless the disk is full."""
    with suppress(OSError):
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", choices=("up", "down", "status", "serve"))
    parser.add_argument("--home", type=Path, default=Path(".service"))
    parser.add_argument("--port", type=int, default=4200)
    parser.add_argument("--store", type=expanded, default=default_store())
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)  # the server's socket, for serve
    options = parser.parse_args()
    home = options.home.resolve()
    if options.command == "up":
        up(home, options.port, options.store)
    elif options.command == "down":
        down(home)
    elif options.command == "serve":
        Topology(home, socket.socket(fileno=options.socket), options.store).serve()
    else:
        print((home / "processes.json").read_text("utf-8") if _running(home) else "nothing is up")


if __name__ == "__main__":
    main()
