"""The machines of a training run: started over ssh by the first one, or all by the same command (srun, torchrun, by hand).

With a hostfile, the leader starts the agents of the other machines over ssh, for one job. If the same command runs on each
machine, node 0 leads, and the others start agents for all jobs of the run: they read what to start from ``.hosts/MEETING.json``
in the store, which the leader writes. While they live, the leader holds the lock ``.hosts/MEETING.lock`` and the other machines
``.hosts/MEETING.N.lock``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from korealbert.artifact import locks
from korealbert.artifact.files import atomic_write
from korealbert.pretrain.runtime import TrainingRuntime

_PASSED_ON = ("PYTHONPATH", "PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CC", "TORCH_COMPILE_DISABLE")
"""Environment variables that are passed on over ssh, besides those with ``_PASSED_ON_PREFIXES``."""

_PASSED_ON_PREFIXES = ("NCCL_", "GLOO_", "UCX_")

JOIN_SECONDS = 600.0
"""Time for all machines to join."""

LOST_SECONDS = 20.0
"""A machine that has joined and sent no heartbeat for longer is lost."""

LATE_SECONDS = 30.0
"""How long a finished run waits for machines that join late, or have not noticed its end."""

_POLL_SECONDS = 0.2
"""Pause between two reads of the leader's file."""


class LeaderGone(ConnectionError):
    """The leader of the run did not appear, vanished or failed."""


@dataclass(frozen=True)
class Host:
    """One line of a hostfile."""

    name: str
    slots: int


def read_hostfile(path: Path) -> list[Host]:
    """Parse DeepSpeed's format: lines ``NAME slots=N``, comments after ``#``. Raises ValueError naming file and line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no hostfile that can be read ({error}); write NAME slots=N in each line") from None
    hosts: list[Host] = []
    for number, line in enumerate(lines, start=1):
        words = line.split("#", maxsplit=1)[0].split()
        if not words:
            continue
        slots = words[1].removeprefix("slots=") if len(words) == 2 and words[1].startswith("slots=") else ""
        if not slots.isascii() or not slots.isdigit() or int(slots) < 1 or words[0].startswith("-"):
            raise ValueError(f"{path}, line {number}: {line!r} is not of the form NAME slots=N with N ≥ 1")
        if words[0] in {host.name for host in hosts}:
            raise ValueError(f"{path}, line {number}: {words[0]} is named twice; give each machine one line")
        hosts.append(Host(words[0], int(slots)))
    if not hosts:
        raise ValueError(f"{path}: names no machine; write NAME slots=N, this machine first")
    return hosts


def world_size(runtime: TrainingRuntime) -> int:
    """Return the number of ranks on all machines. Raises ValueError for a hostfile that cannot be read."""
    if runtime.hostfile is not None:
        return sum(host.slots for host in read_hostfile(runtime.hostfile))
    return runtime.processes * runtime.nodes


def started_together(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return ``nodes``, ``node``, ``rendezvous`` and ``address`` of a runtime under srun or torchrun; {} otherwise.

    Raises ValueError for a variable that is not a number, and if several processes were started on one machine: the command
    itself starts the ranks.
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        if _number(environment, "LOCAL_WORLD_SIZE", 1) > 1:
            raise ValueError(
                f"torchrun has started {environment['LOCAL_WORLD_SIZE']} processes on this machine; let it start one "
                "(--nproc-per-node 1), and say with --processes how many ranks there are to be"
            )
        nodes, node = _number(environment, "GROUP_WORLD_SIZE", 1), _number(environment, "GROUP_RANK", 0)
        name, address = f"torchrun-{environment['TORCHELASTIC_RUN_ID']}", environment.get("MASTER_ADDR", "")
    elif "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment:
        nodes, node = _number(environment, "SLURM_STEP_NUM_NODES", 1), _number(environment, "SLURM_NODEID", 0)
        if _number(environment, "SLURM_STEP_NUM_TASKS", nodes) != nodes:
            raise ValueError(
                f"srun has started {environment['SLURM_STEP_NUM_TASKS']} tasks on {nodes} machines; let it start one on each "
                "(--ntasks-per-node=1), and say with --processes how many ranks there are to be"
            )
        name = f"slurm-{environment.get('SLURM_JOB_ID', '')}.{environment['SLURM_STEP_ID']}"
        address = environment.get("SLURMD_NODENAME", "")
    else:
        return {}
    if nodes == 1:
        return {}
    return {"nodes": nodes, "node": node, "rendezvous": re.sub(r"[^A-Za-z0-9_.-]", "-", name), "address": address}


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name, str(default))
    if not (value.isascii() and value.isdigit()):
        raise ValueError(
            f"{name} = {value!r} in the environment is no number; start with srun or torchrun, or give --nodes and --node"
        )
    return int(value)


@dataclass(frozen=True)
class Place:
    """A machine and its part in a run."""

    name: str
    node: int
    nodes: int
    processes: int
    threads: int
    endpoint: str = ""
    """ADDRESS:PORT where the machines meet; empty for a single machine."""

    def command(self, module: str, arguments: Sequence[str], *options: str) -> list[str]:
        """Return the command that starts its agent."""
        where = ["--node", str(self.node), "--nodes", str(self.nodes), "--name", self.name]
        where += ["--processes", str(self.processes), "--threads", str(self.threads)]
        where += ["--join-seconds", str(JOIN_SECONDS), "--lost-seconds", str(LOST_SECONDS)]
        where += ["--endpoint", self.endpoint] if self.endpoint else []
        return [sys.executable, "-m", "korealbert.pretrain.agent", *where, *options, module, *arguments]

    def start_agent(
        self, module: str, arguments: Sequence[str], *, listener: socket.socket | None = None, **pipes: Any
    ) -> subprocess.Popen[str]:
        """Start the agent of this machine in its own session; it ends with this process."""
        options = ["--parent", str(os.getpid()), *(["--listen-fd", str(listener.fileno())] if listener else [])]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
        return subprocess.Popen(
            self.command(module, arguments, *options),
            env=inherited,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
            pass_fds=[listener.fileno()] if listener else [],
            start_new_session=True,  # Signals of a terminal go to the leader alone, which asks the ranks to save.
            **pipes,
        )


@dataclass
class Rendezvous:
    """Where the agents of a run meet, as the leader sees it."""

    listener: socket.socket | None = None
    """The socket of node 0's store; None on a single machine."""
    shells: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """The remote shells that run the agents of other machines, by machine."""

    def check(self) -> None:
        """Raise ConnectionError if a remote shell has failed, so that its machine cannot join."""
        for name, shell in self.shells.items():
            if shell.poll():
                raise ConnectionError(
                    f"{len(self.shells) + 1} machines should meet; the remote shell of {name} ended with status "
                    f"{shell.returncode}, see above"
                )


@contextlib.contextmanager
def open_rendezvous(runtime: TrainingRuntime, module: str, arguments: Sequence[str]) -> Iterator[tuple[Place, Rendezvous]]:
    """Ask the other machines of a run to start ``module``; yield this machine's place, and where they meet.

    Raises ValueError for invalid hostfiles and addresses, ConnectionError for machines that have left.
    """
    alone = Place(socket.gethostname(), 0, 1, runtime.processes, runtime.threads)
    if runtime.hostfile is not None:
        here, *others = read_hostfile(runtime.hostfile)
        alone = replace(alone, name=here.name, processes=here.slots)
        if others:
            with _listening(runtime.address or here.name) as (listener, endpoint):
                place = replace(alone, nodes=len(others) + 1, endpoint=endpoint)
                with _started_over_ssh(runtime, place, others, module, arguments) as shells:
                    yield place, Rendezvous(listener, shells)
            return
    elif runtime.nodes > 1:
        with leading(runtime) as leader, _listening(runtime.address or alone.name) as (listener, endpoint):
            assert leader is not None
            leader.announce(endpoint=endpoint, module=module, arguments=list(arguments))
            yield replace(alone, nodes=runtime.nodes, endpoint=endpoint), Rendezvous(listener)
        return
    yield alone, Rendezvous()


@contextlib.contextmanager
def _listening(name: str) -> Iterator[tuple[socket.socket, str]]:
    address = _address(name)
    with socket.create_server((address, 0), backlog=256) as listener:
        yield listener, f"{address}:{listener.getsockname()[1]}"


def _address(name: str) -> str:
    """Return the IPv4 address of a name. Raises ValueError if it is unknown, or if other machines cannot reach it."""
    try:
        found = socket.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(f"address {name!r} cannot be resolved ({error}); name this machine as others reach it") from None
    address = str(found[0][4][0])
    if address.startswith("127.") and name not in ("localhost", address):
        raise ValueError(
            f"address {name!r} means {address}, which no other machine reaches; give the name that others reach it by (address)"
        )
    return address


@contextlib.contextmanager
def _started_over_ssh(
    runtime: TrainingRuntime, here: Place, others: Sequence[Host], module: str, arguments: Sequence[str]
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    passed_on = [name for name in os.environ if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)]
    settings = [f"{name}={os.environ[name]}" for name in passed_on]
    shells: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for node, host in enumerate(others, start=1):
            place = replace(here, name=host.name, node=node, processes=host.slots)
            line = f"cd {shlex.quote(os.getcwd())} && exec env {shlex.join([*settings, *place.command(module, arguments)])}"  # noqa: PTH109
            shell = [*shlex.split(runtime.remote_shell), host.name, line]
            shells[host.name] = subprocess.Popen(shell, stdin=subprocess.DEVNULL)
        yield shells
    finally:
        for process in shells.values():  # Agents end by themselves when that of node 0 has ended.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=LATE_SECONDS)
            process.kill()
            process.wait()


class _Leader:
    """The leader of the machines on which the same command was started, for a whole run."""

    def __init__(self, runtime: TrainingRuntime) -> None:
        self._files = _Files(runtime.store, runtime.rendezvous)
        self._others = range(1, runtime.nodes)
        self._state: dict[str, Any] = {"run": secrets.token_hex(8), "job": 0, "end": ""}
        self._state |= {"nodes": runtime.nodes, "processes": runtime.processes}
        self._write()

    def announce(self, **job: Any) -> None:
        """Make the other machines start their agents. Raises ConnectionError naming one that has left."""
        for node in self._others:
            if self._has_left(node):
                raise ConnectionError(f"node {node}, {locks.holder(self._files.lock(node))}, has left the run; start it again")
        self._state |= {**job, "job": self._state["job"] + 1}
        self._write()

    def end(self, *, well: bool) -> None:
        """Release the other machines, including late ones."""
        self._state["end"] = "well" if well else "failed"
        self._write()
        deadline = time.monotonic() + LATE_SECONDS
        while time.monotonic() < deadline and not all(map(self._has_left, self._others)):
            time.sleep(_POLL_SECONDS)
        for path in (self._files.state, *map(self._files.lock, self._others)):
            path.unlink(missing_ok=True)

    def _has_left(self, node: int) -> bool:
        lock = self._files.lock(node)
        return lock.exists() and lock.stat().st_size > 0 and not locks.is_held(lock)

    def _write(self) -> None:
        self._files.state.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self._files.state, json.dumps(self._state).encode())


_leader: ContextVar[_Leader | None] = ContextVar("leader", default=None)
"""The leader of this process's run, if there is one."""


@contextlib.contextmanager
def leading(runtime: TrainingRuntime) -> Iterator[_Leader | None]:
    """Lead the machines of ``runtime.nodes`` for a whole run of several stages; yield None if there is only one machine."""
    if runtime.nodes == 1 or _leader.get() is not None:
        yield _leader.get()
        return
    files = _Files(runtime.store, runtime.rendezvous)
    if not locks.is_held(files.lock(0)):
        for left in (files.state, *map(files.lock, range(1, runtime.nodes))):
            left.unlink(missing_ok=True)  # By an earlier run that was killed.

    def refuse(holder: str) -> None:
        if files.state.exists():  # Otherwise another machine was only checking the lock.
            raise ValueError(
                f"{holder} leads a run named {runtime.rendezvous!r} in this store; give this one another (--rendezvous)"
            )

    with locks.exclusive(files.lock(0), waiting=refuse):
        leader = _Leader(runtime)
        token = _leader.set(leader)
        well = False
        try:
            yield leader
            well = True
        finally:
            _leader.reset(token)
            leader.end(well=well)


@dataclass(frozen=True)
class _Files:
    """The files through which the machines of a run find each other in the store."""

    store: Path
    name: str

    @property
    def state(self) -> Path:
        """The leader's message."""
        return self.store.resolve() / ".hosts" / f"{self.name}.json"

    def lock(self, node: int) -> Path:
        """Return the lock that a machine holds while it belongs to the run."""
        return self.state.with_name(f"{self.name}{f'.{node}' if node else ''}.lock")

    def read(self) -> dict[str, Any]:
        """Return the leader's message, or {}."""
        try:
            found: dict[str, Any] = json.loads(self.state.read_text("utf-8"))
            return found
        except (OSError, ValueError):
            return {}


def serve(runtime: TrainingRuntime) -> None:
    """Run the ranks of machine ``runtime.node`` for all jobs of the leader, until it ends the run.

    Raises LeaderGone if there is no leader, this machine does not fit its run, or the run does not end well.
    """
    files = _Files(runtime.store, runtime.rendezvous)
    deadline = time.monotonic() + JOIN_SECONDS
    while not (locks.is_held(files.lock(0)) and files.read()):
        if time.monotonic() > deadline:
            raise LeaderGone(f"no leader within {JOIN_SECONDS:.0f} s at {files.state}; do all machines see the same store?")
        time.sleep(_POLL_SECONDS)
    joined = files.read()
    if runtime.node >= joined["nodes"]:
        raise LeaderGone(f"node {runtime.node} is none of 1 to {joined['nodes'] - 1}; give every machine a number of its own")
    if runtime.processes != joined["processes"]:
        raise LeaderGone(f"{runtime.processes} processes here, but the leader has {joined['processes']}; start all alike")
    lock = files.lock(runtime.node)

    def refuse(holder: str) -> None:
        if lock.stat().st_size:  # Otherwise the leader was only checking the lock.
            raise LeaderGone(f"node {runtime.node} has joined already: {holder}; give every machine a number of its own")

    with locks.exclusive(lock, waiting=refuse):
        _serve(runtime, files, joined["run"])


def _serve(runtime: TrainingRuntime, files: _Files, run: str) -> None:
    agent: subprocess.Popen[str] | None = None

    def terminate(number: int, frame: object) -> None:
        if agent is None or agent.poll() is not None:
            raise SystemExit(128 + number)
        agent.terminate()  # Its ranks save together with those of the other machines, and the leader ends the run.

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if in_main_thread else None
    last_job, name = 0, socket.gethostname()
    try:
        while True:
            leads = locks.is_held(files.lock(0))
            state = files.read()
            if state.get("run") != run or (not leads and not state["end"]):
                raise LeaderGone("the leader has gone, or its machine cannot be reached; the next run resumes")
            if state["end"] == "failed":
                raise LeaderGone("the run has failed; its leader says why")
            if state["end"]:
                return
            if state["job"] > last_job:
                last_job = state["job"]
                place = Place(name, runtime.node, state["nodes"], runtime.processes, runtime.threads, state["endpoint"])
                agent = place.start_agent(state["module"], state["arguments"], stdout=subprocess.DEVNULL)
                agent.wait()
            time.sleep(_POLL_SECONDS)
    finally:
        if agent is not None:
            agent.kill()
            agent.wait()
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)
