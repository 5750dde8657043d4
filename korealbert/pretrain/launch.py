"""Start training processes on this machine and others, follow their output, and leave none behind.

On one machine the rendezvous of the ranks is a file rather than torch's TCP server, which listens on all addresses.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from korealbert.pretrain.crew import LOST, Crew
from korealbert.pretrain.processes import LocalRanks

GRACE_SECONDS = 30.0
"""How long processes that were asked to stop may take to save a checkpoint."""

TAIL_LINES = 60
"""Lines of each process that an error shows at most."""

SETTLE_SECONDS = 2.0
"""How long the other ranks may take to fail after the first."""

KILL_SECONDS = 10.0
"""How long the news of a killed process may take from another machine."""

LOST_A_PEER = (
    "onnection closed by peer",
    "onnection reset by peer",
    "Broken pipe",
    "remote process exited",
    "ncclRemoteError",
    "Socket closed",
    "recvValue failed",
    "sendBytes failed",
)
"""What gloo, NCCL and torch's store say in a process that ends because another has."""

log = logging.getLogger(__name__)


class RankFailed(RuntimeError):
    """A training process ended with an error; the message holds its own last lines."""


class RankKilled(RankFailed):
    """A training process was killed from outside, which may not happen again; the run resumes from its last checkpoint."""


def run_ranks(
    module: str,
    arguments: Sequence[str],
    *,
    processes: int,
    threads: int,
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
    crew: Crew | None = None,
) -> None:
    """Run ``python -m module *arguments --init-method URL --parent PID`` once per rank until all have ended.

    ``processes`` ranks run here, with ``threads`` CPU threads among them; those of other machines are the ``crew``'s.
    ``on_line`` receives the lines of rank 0; those of the others go to the log. Whenever this function is left early (an
    exception of ``on_line``, a cancelled run), the processes are asked to stop, and killed after ``GRACE_SECONDS``. Raises
    ``RankFailed`` when one fails, with the output of the first that did.
    """
    with tempfile.TemporaryDirectory(prefix="korealbert-ranks-") as directory, _terminated_like_an_error():
        world_size = processes + (crew.processes if crew else 0)
        run = _Run(world_size, crew.names if crew else {}, on_line)
        meeting = crew.meeting_point() if crew else (Path(directory) / "rendezvous").as_uri()
        command = [*arguments, "--init-method", meeting]
        own = {**(crew.environment if crew else {}), **(environment or {})}
        with _stoppable(run):
            try:
                here = LocalRanks(
                    module,
                    command,
                    ranks=range(processes),
                    world_size=world_size,
                    threads=threads,
                    environment=own,
                    tell=run.tell,
                )
                run.machines.append(here)
                if crew:
                    crew.start(module, command, world_size=world_size, environment=environment or {}, tell=run.tell)
                    run.machines.append(crew)
                run.follow()
            finally:
                run.end()


def stop_all() -> bool:
    """Ask all ranks that this process follows to save and end; whether there are any. For handlers of signals."""
    for run in list(_followed):
        run.ask_to_stop()
    return bool(_followed)


_followed: list[_Run] = []
"""The runs of this process, for ``stop_all``."""


class _Run:
    """What is known of all ranks of one run."""

    def __init__(self, world_size: int, names: Mapping[int, str], on_line: Callable[[str], None]) -> None:
        self.machines: list[LocalRanks | Crew] = []
        self._names = names
        self._on_line = on_line
        self._told: queue.SimpleQueue[tuple[int, str | int]] = queue.SimpleQueue()
        self._tails: list[deque[str]] = [deque(maxlen=TAIL_LINES) for _ in range(world_size)]
        self._running = set(range(world_size))
        self._failed: dict[int, int] = {}
        """Exit statuses other than 0 by rank, in the order in which they became known."""

    def tell(self, rank: int, what: str | int) -> None:
        """A line or the exit status of a rank, from any thread."""
        self._told.put((rank, what))

    def follow(self) -> None:
        """Pass lines on until all have ended. Raises ``RankFailed`` soon after the first failure."""
        while self._running:
            self._take(*self._told.get())
            if self._failed:
                self._settle()
                raise self._first_failure()

    def ask_to_stop(self) -> None:
        """Ask all ranks to save and end."""
        for machine in self.machines:
            machine.terminate()

    def end(self) -> None:
        """Ask what still runs to save and stop, then kill it."""
        if self._running:
            self.ask_to_stop()
            self._wait(GRACE_SECONDS, heard=False)
        self._kill()
        for machine in self.machines:
            machine.join()

    def _take(self, rank: int, what: str | int, *, heard: bool = True) -> None:
        if isinstance(what, int):
            self._running.discard(rank)
            if what:
                self._failed.setdefault(rank, what)
            return
        self._tails[rank].append(what)
        if rank:
            log.info("rank %d: %s", rank, what)
        elif heard:
            self._on_line(what)

    def _wait(self, seconds: float, *, heard: bool) -> None:
        """Wait for the ranks to end; whether rank 0 is ``heard`` meanwhile."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(queue.Empty):
            while self._running:
                self._take(*self._told.get(timeout=max(0.0, deadline - time.monotonic())), heard=heard)

    def _settle(self) -> None:
        """After one failure: let the others fail too, then kill those that wait for a rank that is gone."""
        self._wait(SETTLE_SECONDS, heard=True)
        failed = dict(self._failed)
        self._kill()
        self._failed = failed  # Those that we ended did not fail.
        self._running.clear()  # Who does not even tell of its end by now is beyond reach.

    def _kill(self) -> None:
        if self._running:
            for machine in self.machines:
                machine.kill()
            self._wait(KILL_SECONDS, heard=False)

    def _first_failure(self) -> RankFailed:
        """What the process that failed by itself said; a rank that lost its peer fails too, inside a collective operation."""
        first = min(self._failed, key=self._lost_a_peer)  # Of equals the one that was known first.
        status, name = self._failed[first], self._names.get(first, "")
        which = f"training process {first} of {len(self._tails)}" + (f" on {name}" if name else "")
        kind, ended = RankFailed, f"ended with status {status}"
        if status == LOST:
            kind, ended = RankKilled, f"was lost with its machine: the connection to {name} has closed"
        elif status < 0:
            kind, ended = RankKilled, f"was killed by {_signal_name(-status)}"
            if -status == signal.SIGKILL:
                ended += " (out of memory?)"
        told = "\n".join(_traceback_first(list(self._tails[first])))
        return kind(f"{which} {ended}; its own words:\n{told}")

    def _lost_a_peer(self, rank: int) -> bool:
        return any(words in line for line in self._tails[rank] for words in LOST_A_PEER)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _traceback_first(lines: list[str]) -> list[str]:
    starts = [index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    return lines[starts[0] :] if starts else lines


@contextlib.contextmanager
def _stoppable(run: _Run) -> Iterator[None]:
    """Let ``stop_all`` know of a run."""
    _followed.append(run)
    try:
        yield
    finally:
        _followed.remove(run)


@contextlib.contextmanager
def _terminated_like_an_error() -> Iterator[None]:
    """Turn SIGTERM into SystemExit where nobody else handles it, so that ``finally`` lets the ranks save a checkpoint.

    Another one does not cut that short; SIGINT and SIGKILL do.
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
