"""The whole installation as processes: PostgreSQL, a Prefect server with a password on loopback, a data and a training worker.

Usage: python -m korealbert.flows.services.topology up | down | status [--home DIR] [--port N] [--store DIR]

``up`` returns when everything answers; a supervisor remains, which restarts processes that die. Its home holds the database,
logs and process ids. Credentials are made once and written to ``.env`` in the working directory, which every ``prefect``
command there reads; so are, as long as the installation is up, its address and its store, which every ``korealbert`` command
there reads.
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

from korealbert.artifact.files import write_json
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
    """One process that is started again when it dies."""

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    stop: Callable[[subprocess.Popen[bytes]], None] = stop
    beside: Service | None = None
    """The service whose process this one's must not outlive."""
    process: subprocess.Popen[bytes] | None = None
    deaths: list[float] = field(default_factory=list)
    _begun_beside: subprocess.Popen[bytes] | None = None

    def tend(self) -> subprocess.Popen[bytes]:
        """Start the process if it does not run, after a wait that grows with its recent deaths; returns the one that runs."""
        if self.beside is not None and self._begun_beside is not self.beside.process:
            self.end()
        if self.process is not None and self.process.poll() is None:
            return self.process
        if self.process is not None:
            now = time.monotonic()
            self.deaths = [*(moment for moment in self.deaths if now - moment < 60), now]
            _say(f"{self.name} ended with {self.process.returncode}; starting it again")
            time.sleep(min(2.0 ** len(self.deaths) / 4, 15))
        self._begun_beside = self.beside.process if self.beside is not None else None
        self.process = self.start()
        return self.process

    def end(self) -> None:
        """Stop the process if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.stop(self.process)


class Topology:
    """The processes, their home and their addresses."""

    def __init__(self, home: Path, listener: socket.socket, store: Path) -> None:
        self.home, self.store = home.resolve(), store.resolve()
        self.listener = listener
        """The server's; it stays open here while a server is started again, so that nobody else can have the port."""
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
        """Start everything in order, keep it running until SIGTERM, stop everything."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o711)  # PostgreSQL may be another user's process; secret files below have modes of their own.
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
                for service in reversed(services):
                    service.end()
                forget_services(ENVIRONMENT_FILE, self.facts)
                (self.home / "processes.json").unlink(missing_ok=True)

    def _services(self) -> list[Service]:
        cluster = Cluster(self.home / "database")
        _say("making the database, where there is none")
        cluster.create()
        self.environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = cluster.url
        log = self.logs / "database.log"
        database = Service("database", lambda: cluster.start(log, preexec_fn=die_with_parent), cluster.stop)
        return [
            database,
            # A server that outlives its database may answer on and record no event any more: no task run, no automation.
            Service("server", lambda: self._python("server", *serving(self.listener)), beside=database),
            Service("data worker", lambda: self._worker("data")),
            Service("training worker", lambda: self._worker("gpu")),
        ]

    def _come_up(self, services: list[Service]) -> None:
        database, server, *workers = services
        _say("starting the database and Prefect's server")
        database.tend()
        wait_until_healthy(f"{self.url}/health", server.tend())
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
        """Restart processes that died or must not outlive another; one that cannot be started now is tried again next time."""
        try:
            for service in services:
                service.tend()
            self._note(services)
        except OSError as error:  # A full disk, no process or memory left: what runs shall run on.
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
    if running(home) is not None:
        raise SystemExit(f"{home}: already up; `make down` ends it")
    listener = listen("127.0.0.1", port)
    home.mkdir(parents=True, exist_ok=True)
    (home / "processes.json").unlink(missing_ok=True)  # Of a supervisor that was killed.
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
    told = 0
    while not (home / "processes.json").exists():
        told = _pass_on(log, told)
        if supervisor.poll() is not None or time.monotonic() > deadline:
            stop(supervisor)
            raise SystemExit(f"it did not come up:\n{log.read_text('utf-8', 'replace')[-4000:]}\nmore in {home / 'logs'}")
        time.sleep(0.2)
    _pass_on(log, told)
    print(f"up: http://127.0.0.1:{port}; store at {store.resolve()}; logs in {home / 'logs'}")
    print(HOW_TO_LOG_IN)
    print("prefect deployment run corpus-to-model    # from this directory; make down ends it all")


def _pass_on(log: Path, told: int) -> int:
    """Print the whole lines that a log has beyond ``told`` bytes; how many bytes are told then."""
    new, end, _ = log.read_bytes()[told:].rpartition(b"\n")
    if end:
        print(new.decode("utf-8", "replace"), flush=True)
    return told + len(new + end)


def down(home: Path) -> None:
    """End the supervisor and with it everything. Raises SystemExit when it does not end."""
    supervisor = running(home)
    if supervisor is None:
        with suppress(FileNotFoundError):  # A supervisor that was killed could not take back what it had told.
            forget_services(ENVIRONMENT_FILE, json.loads((home / "processes.json").read_text("utf-8")).get("up", {}))
        print(f"{home}: nothing is up")
        return
    os.kill(supervisor, signal.SIGTERM)
    deadline = time.monotonic() + _SECONDS_TO_GO_DOWN
    while running(home) is not None:
        if time.monotonic() > deadline:
            raise SystemExit(f"the supervisor {supervisor} did not end within {_SECONDS_TO_GO_DOWN} s; see {home / 'logs'}")
        time.sleep(0.2)
    print("down")


def running(home: Path) -> int | None:
    """The supervisor's process id while it lives."""
    try:
        with (home / "supervisor.lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _supervisor(home)


def _say(what: str) -> None:
    """A line in the supervisor's log, if the disk has room for it."""
    with suppress(OSError):
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def _supervisor(home: Path) -> int | None:
    for _ in range(_SECONDS_TO_COME_UP):  # It holds the lock before it has anything to tell.
        try:
            return int(json.loads((home / "processes.json").read_text("utf-8"))["supervisor"])
        except FileNotFoundError:
            time.sleep(1)
    return None


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", choices=("up", "down", "status", "serve"))
    parser.add_argument("--home", type=Path, default=Path(".service"))
    parser.add_argument("--port", type=int, default=4200)
    parser.add_argument("--store", type=Path, default=default_store())
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)  # of the server, for serve
    options = parser.parse_args()
    home = options.home.resolve()
    if options.command == "up":
        up(home, options.port, options.store)
    elif options.command == "down":
        down(home)
    elif options.command == "serve":
        Topology(home, socket.socket(fileno=options.socket), options.store).serve()
    else:
        print((home / "processes.json").read_text("utf-8") if running(home) else "nothing is up")


if __name__ == "__main__":
    main()
