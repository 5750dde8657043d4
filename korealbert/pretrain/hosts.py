"""How the machines of a training run come together: started over ssh by the first one, or all by the same command.

A hostfile names machines that the leader starts over ssh for one job. Or srun, torchrun or a person starts the same command on
each; then they stay together for all jobs of a run.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from korealbert.pretrain.crew import Crew
from korealbert.pretrain.runtime import TrainingRuntime

PASSED_ON = ("PYTHONPATH", "PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
"""Environment variables that machines started over ssh get from the leader, beside those of ``PASSED_ON_PREFIXES``."""

PASSED_ON_PREFIXES = ("NCCL_", "GLOO_", "UCX_")


@dataclass(frozen=True)
class Host:
    """One line of a hostfile."""

    name: str
    slots: int


def read_hostfile(path: Path) -> list[Host]:
    """DeepSpeed's form: ``NAME slots=N`` a line, comments from ``#``. Raises ValueError naming file and line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no hostfile that can be read ({error})") from None
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


def ranks_of(runtime: TrainingRuntime) -> tuple[int, int]:
    """Ranks on this machine, and on all machines together. Raises ValueError for a hostfile that cannot be read."""
    if runtime.hostfile is not None:
        slots = [host.slots for host in read_hostfile(runtime.hostfile)]
        return slots[0], sum(slots)
    return runtime.processes, runtime.processes * runtime.nodes


_open: ContextVar[Crew | None] = ContextVar("crew", default=None)
"""The crew of the run that this process leads, while there is one."""


@contextlib.contextmanager
def leading(runtime: TrainingRuntime) -> Iterator[None]:
    """Keep the machines of ``runtime.nodes`` together for a whole run of several stages; nothing where there is one machine."""
    if runtime.nodes == 1:
        yield
        return
    crew = Crew(
        runtime.store, runtime.meeting, runtime.address or socket.gethostname(), [runtime.processes] * (runtime.nodes - 1)
    )
    token = _open.set(crew)
    well = False
    try:
        yield
        well = True
    finally:
        _open.reset(token)
        crew.await_late_ones()  # Who comes when all is done, or has failed already, should hear of it.
        crew.close(well=well)


@contextlib.contextmanager
def crew_of(runtime: TrainingRuntime) -> Iterator[Crew | None]:
    """The other machines, all there and with their ranks; None where this machine is alone.

    Raises ValueError for hostfiles and addresses that cannot be, ConnectionError for machines that do not come.
    """
    if runtime.hostfile is not None:
        with _started_over_ssh(runtime, read_hostfile(runtime.hostfile)) as crew:
            yield crew
    elif runtime.nodes > 1 and (crew := _open.get()) is not None:
        crew.gather(runtime.processes)
        yield crew
    elif runtime.nodes > 1:
        with leading(runtime), crew_of(runtime) as crew:
            yield crew
    else:
        yield None


@contextlib.contextmanager
def _started_over_ssh(runtime: TrainingRuntime, hosts: Sequence[Host]) -> Iterator[Crew | None]:
    """The machines of a hostfile but the first, which is this one; started for one job."""
    here, *others = hosts
    if not others:
        yield None
        return
    meeting = secrets.token_hex(8)
    crew = Crew(runtime.store, meeting, runtime.address or here.name, [host.slots for host in others])
    shells: list[subprocess.Popen[bytes]] = []
    well = False
    try:
        for node, host in enumerate(others, start=1):
            own = {
                **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
                **{name: value for name, value in os.environ.items() if name.startswith(PASSED_ON_PREFIXES)},
            }
            arguments = ["--store", str(runtime.store.resolve()), "--meeting", meeting, "--node", str(node)]
            arguments += ["--processes", str(host.slots), "--threads", str(runtime.threads)]
            member = [sys.executable, "-m", "korealbert.pretrain.member", *arguments]
            settings = [f"{name}={value}" for name, value in own.items()]
            line = f"cd {shlex.quote(os.getcwd())} && exec env {shlex.join([*settings, *member])}"  # noqa: PTH109
            shell = [*shlex.split(runtime.remote_shell), host.name, line]
            shells.append(subprocess.Popen(shell, stdin=subprocess.DEVNULL))
        crew.gather(here.slots, shells)
        yield crew
        well = True
    finally:
        crew.close(well=well)
        for shell_process in shells:
            _finish(shell_process)


def _finish(shell: subprocess.Popen[bytes]) -> None:
    """Wait for a remote shell whose member has been let go."""
    try:
        shell.wait(timeout=10)
    except subprocess.TimeoutExpired:
        shell.kill()
        shell.wait()
