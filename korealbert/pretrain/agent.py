"""Runs the ranks of one machine under torch's elastic agent: ``python -m korealbert.pretrain.agent … MODULE ARGUMENTS``.

The launcher starts one agent on each machine of a run. The first machine's agent (node 0) hosts torch's TCPStore, through which
the agents find each other, send heartbeats and exchange the outcomes of their ranks. When ranks fail or a machine is lost, the
other agents end their ranks, and node 0 reports the cause on its standard output. On a single machine there is no store: the
ranks find each other through a file.

Ranks never restart within a run. The next run, which may have another number of ranks, resumes from the last checkpoint.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil
from torch._C._distributed_c10d import HashStore, Store, TCPStore
from torch.distributed.elastic.agent.server.api import WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousInfo
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from korealbert.artifact.shards import die_with_parent
from korealbert.artifact.subprocess_build import SPIN_ROUNDS
from korealbert.pretrain.job import AGENT_MARK, JOINED, Failure, Outcome

_CONNECT_SECONDS = 120
"""Timeout for connecting to the store, and for its answers."""

_BEAT_SECONDS = 0.5
"""Pause between two heartbeats."""

_SETTLE_SECONDS = 2.0
"""Time for ranks to fail by themselves after those of another machine have failed."""

_SHUTDOWN_SECONDS = 30
"""Time for ranks to end after they were asked to, before they are killed."""

_TAIL_LINES = 60
"""Last lines of a rank's output that an error shows."""


class _Machines:
    """The machines of a run, as one agent sees them in the store. Node 0 watches all others, which watch node 0."""

    def __init__(self, place: argparse.Namespace, store: Store) -> None:
        self.store = store
        self._place, self._count = place, 0
        self._beats: dict[int, tuple[bytes, float]] = {}
        self.outcomes: dict[int, Outcome] = {}
        """Outcomes of the watched machines whose ranks have ended."""

    def look(self) -> None:
        """Send a heartbeat and read those of the watched machines."""
        self._count += 1
        self.store.set(f"beat/{self._place.node}", str(self._count))
        for node in self._running():
            if self.store.check([f"end/{node}"]):
                self.outcomes[node] = Outcome.of(self.store.get(f"end/{node}"))
            elif self.store.check([f"beat/{node}"]):
                beat = self.store.get(f"beat/{node}")
                if node not in self._beats or self._beats[node][0] != beat:
                    self._beats[node] = beat, time.monotonic()

    def _running(self) -> list[int]:
        watched = [0] if self._place.node else range(1, self._place.nodes)
        return [node for node in watched if node not in self.outcomes]

    def _lost(self) -> list[int]:
        seen_since = time.monotonic() - self._place.lost_seconds
        return [node for node in self._running() if node in self._beats and self._beats[node][1] < seen_since]

    @property
    def lost(self) -> list[str]:
        """Names of the machines that are lost."""
        return [self.name_of(node) for node in self._lost()]

    @property
    def patience(self) -> float | None:
        """Seconds until the ranks of this machine are killed because those of others ended; None while nothing has failed."""
        if self._lost():
            return 0.0
        faults = [outcome for outcome in self.outcomes.values() if not outcome.well]
        if not faults:
            return None
        asked = all(failure.asked for fault in faults for failure in fault.failures) and not any(f.problem for f in faults)
        return float(_SHUTDOWN_SECONDS) if asked else _SETTLE_SECONDS

    def name_of(self, node: int) -> str:
        """Return the name of a machine."""
        return self.store.get(f"name/{node}").decode() if self.store.check([f"name/{node}"]) else f"node {node}"

    def collect(self, own: Outcome) -> Outcome:
        """Publish the outcome of this machine. Node 0 waits for the other machines to end or be lost, and returns the outcome
        of all."""
        self.store.set(f"end/{self._place.node}", own.text())
        if self._place.node:
            return own
        self.look()
        while (set(self._running()) & set(self._beats)) - set(self._lost()):  # Machines that never joined are not waited for.
            time.sleep(_BEAT_SECONDS / 5)
            self.look()
        outcomes = [own, *self.outcomes.values()]
        failures = [failure for outcome in outcomes for failure in outcome.failures]
        return Outcome(failures, self.lost, next((outcome.problem for outcome in outcomes if outcome.problem), ""))


class _Watch(threading.Thread):
    """Stops the ranks of this machine on request, and kills them after those of other machines have ended."""

    def __init__(self, machines: _Machines | None, place: argparse.Namespace) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        """Set when all ranks are asked to save and end."""
        self.over = threading.Event()
        """Set when the ranks are killed because the run is over elsewhere."""
        self.problem = ""
        self._machines, self._place = machines, place
        self._closed = threading.Event()
        self._looked = time.monotonic()
        self._asked: set[int] = set()

    def run(self) -> None:
        """Watch until ``close``."""
        since: float | None = None
        while not self._closed.wait(_BEAT_SECONDS):
            if self.stop.is_set():
                self.ask()  # Also ranks that were started since.
            if self._machines is None:
                continue
            try:
                self._look(self._machines)
            except RuntimeError as error:  # The type of torch's store errors.
                self._give_up(str(error))
                return
            self._looked = time.monotonic()
            if (patience := self._machines.patience) is None:
                continue
            since = since or time.monotonic()
            if time.monotonic() - since >= patience:
                self._kill()

    def check(self) -> None:
        """Kill the ranks if the store has not answered for long: torch itself waits as long as the kernel resends packets."""
        limit = self._place.lost_seconds
        if self._machines and self.is_alive() and time.monotonic() - self._looked > limit:
            self._give_up(f"no answer for {limit:g} s")

    def _give_up(self, why: str) -> None:
        self.problem = f"the first machine of the run has gone, or cannot be reached ({why})"
        self._kill()

    def _kill(self) -> None:
        self.over.set()
        for process in psutil.Process().children():
            process.kill()

    def _look(self, machines: _Machines) -> None:
        machines.look()
        if self.stop.is_set() and not self._place.node:
            machines.store.set("stop", "")
        elif machines.store.check(["stop"]):
            self.stop.set()

    def ask(self) -> None:
        """Ask all ranks to save and end."""
        self.stop.set()
        for process in psutil.Process().children():
            if process.pid not in self._asked:
                self._asked.add(process.pid)
                process.terminate()

    def close(self) -> None:
        """End the thread, or leave it behind if it waits for a machine that is gone."""
        self._closed.set()
        self.join(2 * _BEAT_SECONDS if self.problem else None)


class _Rendezvous(StaticTCPRendezvous):
    """torch's static rendezvous, which additionally waits until all machines have joined."""

    def __init__(self, place: argparse.Namespace, store: Store, watch: _Watch) -> None:
        host, _, port = place.endpoint.rpartition(":")
        super().__init__(host, int(port), place.node, place.nodes, "ranks", _CONNECT_SECONDS)
        self._store, self._place, self._watch = store, place, watch

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for all machines. Raises ConnectionError naming those that have joined."""
        assert self._store is not None
        nodes, deadline = range(self._place.nodes), time.monotonic() + self._place.join_seconds
        self._store.set(f"name/{self._place.node}", self._place.name)
        while not self._store.check([f"name/{node}" for node in nodes]):
            if self._watch.stop.wait(0.1):
                raise ConnectionError("the run was asked to stop before all its machines had met")
            if self._watch.over.is_set() or time.monotonic() > deadline:
                came = [self._store.get(f"name/{node}").decode() for node in nodes[1:] if self._store.check([f"name/{node}"])]
                raise ConnectionError(
                    f"{len(nodes)} machines should meet; {self._store.get('name/0').decode()} was joined by "
                    f"{', '.join(came) or 'none'} within {self._place.join_seconds:g} s"
                )
        print(JOINED, flush=True)
        return super().next_rendezvous()

    def num_nodes_waiting(self) -> int:
        """Return 0, since ranks never restart. The agent calls this ten times a second, so it also checks the watch."""
        self._watch.check()
        return 0


def run(place: argparse.Namespace, directory: Path) -> Outcome:
    """Run the ranks of this machine until they end; ``directory`` is for their logs and error records."""
    connect: Callable[..., TCPStore] | None = None
    if place.endpoint:
        host, _, port = place.endpoint.rpartition(":")
        _choose_interface(host)
        timeout = timedelta(seconds=_CONNECT_SECONDS)
        connect = partial(TCPStore, host, int(port), None, timeout=timeout, wait_for_workers=False)
        server = connect(is_master=True, master_listen_fd=place.listen_fd) if place.listen_fd is not None else None
        assert (server is None) == bool(place.node)
    else:
        place.endpoint = "localhost:0"
        place.arguments += ["--init-method", (directory / "rendezvous").as_uri()]
    machines = _Machines(place, connect(is_master=False)) if connect else None
    watch = _Watch(machines, place)
    signal.signal(signal.SIGTERM, lambda *_: watch.ask())
    if machines:
        machines.look()
    watch.start()
    rendezvous = _Rendezvous(place, connect(is_master=False) if connect else HashStore(), watch)
    own = _run_agent(place, rendezvous, directory, watch)
    watch.close()
    if machines and watch.stop.is_set() and not place.node:
        machines.store.set("stop", "")  # The ranks here may have ended before the watch passed it on.
    own.problem = own.problem or watch.problem
    return own if machines is None or watch.problem else machines.collect(own)


def _run_agent(place: argparse.Namespace, rendezvous: _Rendezvous, directory: Path, watch: _Watch) -> Outcome:
    spec = WorkerSpec(
        role="rank",
        local_world_size=place.processes,
        entrypoint=sys.executable,
        args=("-m", place.module, *place.arguments, "--parent", str(os.getpid())),
        rdzv_handler=rendezvous,
        max_restarts=0,
        monitor_interval=0.1,
    )
    # Standard output of rank 0 goes to the launcher; that of other ranks is kept for error messages.
    redirects = {local: Std.ERR if local + place.node == 0 else Std.ALL for local in range(place.processes)}
    logs = DefaultLogsSpecs(log_dir=str(directory / "logs"), redirects=redirects, tee=Std.ERR)
    prefix = f"{place.name}, rank ${{rank}}: "
    agent = LocalElasticAgent(
        spec, logs, exit_barrier_timeout=10, log_line_prefix_template=prefix, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    try:
        result = agent.run()
    except Exception as error:
        return Outcome(problem=str(error) if isinstance(error, ConnectionError) else f"{type(error).__name__}: {error}")
    failures = list(result.failures.items())
    failed = [(rank, failure) for rank, failure in failures if not _was_killed_here(failure, failures, watch)]
    return Outcome([_failure(rank, failure, directory, place.name) for rank, failure in failed])


def _was_killed_here(failure: ProcessFailure, failures: list[tuple[int, ProcessFailure]], watch: _Watch) -> bool:
    """Return whether a rank did not fail itself but was killed here after the failure of another."""
    late = failure.timestamp - min(other.timestamp for _, other in failures) >= _SHUTDOWN_SECONDS - 1
    return failure.exitcode == -signal.SIGKILL and (late or watch.over.is_set())


def _failure(rank: int, failure: ProcessFailure, directory: Path, machine: str) -> Failure:
    record = Path(failure.error_file)
    if record.is_file():
        message = failure.error_file_data["message"]
        words = message if isinstance(message, str) else message["extraInfo"]["py_callstack"]
        return Failure(rank, failure.exitcode, record.stat().st_mtime, words.rstrip(), machine)
    written = sorted(directory.glob(f"logs/*/*/{failure.local_rank}/std*.log"), reverse=True)  # Standard error comes last.
    lines = "".join(path.read_text("utf-8", "replace") for path in written).splitlines()[-_TAIL_LINES:]
    lines = lines[next((i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")), 0) :]
    return Failure(rank, failure.exitcode, max(path.stat().st_mtime for path in written), "\n".join(lines), machine)


def _choose_interface(host: str) -> None:
    """Make gloo and NCCL use the network interface towards ``host``, unless the environment names one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        own = str(probe.getsockname()[0])
    names = [name for name, addresses in psutil.net_if_addrs().items() if own in {each.address for each in addresses}]
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if found := "lo" if own.startswith("127.") else next(iter(names), ""):
            os.environ.setdefault(variable, found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line of the launcher and run; return the exit status."""
    parser = argparse.ArgumentParser(description="Run the training processes of one machine.")
    parser.add_argument("--node", type=int, required=True, help="number of this machine")
    parser.add_argument("--nodes", type=int, required=True, help="number of machines")
    parser.add_argument("--name", required=True, help="name of this machine in messages")
    parser.add_argument("--processes", type=int, required=True, help="ranks on this machine")
    parser.add_argument("--threads", type=int, required=True, help="CPU threads of all ranks together")
    parser.add_argument("--endpoint", default="", help="ADDRESS:PORT of node 0's store; none on a single machine")
    parser.add_argument("--listen-fd", type=int, help="file descriptor of the socket of node 0's store")
    parser.add_argument("--join-seconds", type=float, required=True, help="time for all machines to join")
    parser.add_argument("--lost-seconds", type=float, required=True, help="a machine without heartbeats for longer is lost")
    parser.add_argument("--parent", type=int, help="process id that this one must not outlive")
    parser.add_argument("module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    place = parser.parse_args(arguments)
    if place.parent is not None:
        die_with_parent(place.parent)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.ERROR)
    os.environ["OMP_NUM_THREADS"] = str(max(1, place.threads // place.processes))
    os.environ.setdefault(*SPIN_ROUNDS)
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGQUIT"  # SIGTERM is handled by ``run``: ranks save, and the agent waits.
    with tempfile.TemporaryDirectory(prefix="korealbert-ranks-") as directory:
        outcome = run(place, Path(directory))
    if place.node and outcome.problem:
        print(f"{place.name}: {outcome.problem}", file=sys.stderr)
    print(AGENT_MARK + outcome.text(), flush=True)
    return 0 if outcome.well else 1


if __name__ == "__main__":
    sys.exit(main())
