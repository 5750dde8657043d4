"""Starts the ranks of a run on this machine and others, follows their output, and ends all of them when the run ends.

Ranks run under an agent on each machine (``korealbert.pretrain.agent``). This module starts the agent of this machine, which
reports how the ranks of all machines have ended. It does not import torch.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from korealbert.pretrain.job import AGENT_MARK, JOINED, Outcome
from korealbert.pretrain.machines import Place, Rendezvous, open_rendezvous, world_size
from korealbert.pretrain.runtime import TrainingRuntime

_GRACE_SECONDS = 60.0
"""Time for ranks to save a checkpoint after they were asked to stop."""

_READ_SECONDS = 5.0
"""Time to read the rest of the output after the agent has ended; a child of a rank may keep the pipe open for ever."""

_TAIL_LINES = 20
"""Last lines of the agent's output that an error shows if it ended without a report."""

log = logging.getLogger(__name__)


class RankFailed(RuntimeError):
    """A training process ended with an error; the message holds its traceback."""


class RankKilled(RankFailed):
    """A rank or a machine was killed or lost, so a retry may succeed; it resumes from the last checkpoint."""


class RanksStopped(RankFailed):
    """The ranks were asked to stop before they could save a checkpoint: while they started, or while machines met."""


def run_ranks(module: str, arguments: Sequence[str], *, runtime: TrainingRuntime, on_line: Callable[[str], None]) -> None:
    """Run ``python -m module *arguments --parent PID`` once per rank until all have ended.

    ``on_line`` receives the lines of rank 0's standard output; all other output goes to the log. If this function is left early
    (by an exception of ``on_line``, or a cancelled run), the ranks are asked to stop, and killed after ``_GRACE_SECONDS``.
    Raises ``RankFailed`` with the traceback of the rank that failed first, ``RankKilled`` naming what was killed or lost,
    ``RanksStopped``, and ConnectionError if machines do not join.
    """
    with _terminated_like_an_error(), open_rendezvous(runtime, module, arguments) as (place, rendezvous):
        run = _Run(place, rendezvous, module, arguments, on_line)
        _followed.append(run)
        try:
            run.follow(world_size(runtime))
        finally:
            run.end()
            _followed.remove(run)


def stop_all() -> bool:
    """Ask all ranks of this process's runs to save and end; return whether there are any. For signal handlers."""
    for run in list(_followed):
        run.ask_to_stop()
    return bool(_followed)


_followed: list[_Run] = []
"""The runs of this process, for ``stop_all``."""


class _Run:
    """A run, followed through the agent of this machine."""

    def __init__(
        self, place: Place, rendezvous: Rendezvous, module: str, arguments: Sequence[str], on_line: Callable[[str], None]
    ) -> None:
        self._rendezvous, self._on_line, self._place = rendezvous, on_line, place
        self._agent = place.start_agent(
            module, arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, listener=rendezvous.listener
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """Lines of the standard output of agent and rank 0; None when the agent has ended."""
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._joined = self._asked = False
        self._outcome: Outcome | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def follow(self, ranks: int) -> None:
        """Pass on lines until all ``ranks`` have ended. Raises as ``run_ranks``."""
        while (line := self._next()) is not None:
            if not line.startswith(AGENT_MARK):
                self._on_line(line)
            elif line == JOINED:
                self._joined = True
            else:
                self._outcome = Outcome.of(line.removeprefix(AGENT_MARK))
        fault: Exception | None
        if self._outcome is None:
            ended = "\n".join([f"status {self._agent.returncode}", *self._tail])
            kind = RankKilled if self._agent.returncode < 0 else RankFailed
            fault = kind(f"the agent of the training processes on {self._place.name} ended with {ended}")
        else:
            fault = _fault(self._outcome, ranks, alone=self._rendezvous.listener is None)
        if self._asked and isinstance(fault, RankKilled | ConnectionError):  # Its cause is the request, and no retry is wanted.
            raise RanksStopped("the training processes were stopped before they could save") from fault
        if fault:
            raise fault

    def ask_to_stop(self) -> None:
        """Ask all ranks to save and end."""
        self._asked = True
        self._agent.terminate()

    def end(self) -> None:
        """Ask the remaining ranks to save and end, then kill them."""
        if self._agent.poll() is None:
            self.ask_to_stop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._agent.wait(_GRACE_SECONDS)
        self._agent.kill()
        self._agent.wait()

    def _next(self) -> str | None:
        while True:
            try:
                return self._lines.get(timeout=0.5)
            except queue.Empty:
                if not self._joined:
                    self._rendezvous.check()

    def _watch(self) -> None:
        readers = [threading.Thread(target=read, daemon=True) for read in (self._read_output, self._read_log)]
        for reader in readers:
            reader.start()
        self._agent.wait()
        deadline = time.monotonic() + _READ_SECONDS
        for reader in readers:
            reader.join(max(0.0, deadline - time.monotonic()))
        self._lines.put(None)

    def _read_output(self) -> None:
        assert self._agent.stdout is not None
        with self._agent.stdout as stream:
            for line in stream:
                self._lines.put(line.rstrip("\n"))

    def _read_log(self) -> None:
        assert self._agent.stderr is not None
        with self._agent.stderr as stream:
            for line in stream:
                self._tail.append(line.rstrip("\n"))
                log.info("%s", line.rstrip("\n"))


def _fault(outcome: Outcome, ranks: int, *, alone: bool) -> Exception | None:
    """Return the error of a run: a lost machine, else the rank that failed first, else a problem of the agents."""
    if outcome.lost:
        names = " and ".join(outcome.lost)
        return RankKilled(f"{names} gave no sign of life any more: the machine was lost, or its network; the next run resumes")
    if outcome.failures:
        cause = outcome.failures[0]
        which = f"training process {cause.rank} of {ranks}" + ("" if alone else f" on {cause.machine}")
        status = cause.status
        if status >= 0:
            return RankFailed(f"{which} ended with status {status}:\n{cause.words}")
        ended = f"was killed by {_signal_name(-status)}" + (" (out of memory?)" if -status == signal.SIGKILL else "")
        return RankKilled(f"{which} {ended}:\n{cause.words}")
    return ConnectionError(outcome.problem) if outcome.problem else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextlib.contextmanager
def _terminated_like_an_error() -> Iterator[None]:
    """Turn SIGTERM into SystemExit unless it has a handler, so that ``finally`` lets the ranks save a checkpoint.

    A second SIGTERM does not interrupt the saving; SIGINT and SIGKILL do.
    """
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
