"""Start training processes on this machine, follow their output, and leave none behind.

The processes are direct children in the parent's own process group (a new session would survive the cancellation of a Prefect
run), and the kernel kills them when the parent dies. Their rendezvous is a file rather than torchrun's TCP server, which
listens on all addresses.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 30.0
"""How long processes that were asked to stop may take to save a checkpoint."""

TAIL_LINES = 60
"""Lines of each process that an error shows at most."""

SETTLE_SECONDS = 2.0
"""How long the other ranks may take to fail after the first."""

Lines = queue.SimpleQueue[tuple[int, str | None]]
"""Lines by rank; None ends a rank's output."""

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
) -> None:
    """Run ``python -m module *arguments --parent PID --init-method URL`` once per rank until all have ended.

    ``threads`` CPU threads are divided among the processes. ``on_line`` receives the lines of rank 0; those of the others go
    to the log. Whenever this function is left early (an exception of ``on_line``, a cancelled run), the processes are asked
    to stop, and killed after ``GRACE_SECONDS``. Raises ``RankFailed`` when one fails, with the output of the first that did.
    """
    lines: Lines = queue.SimpleQueue()
    tails: list[deque[str]] = [deque(maxlen=TAIL_LINES) for _ in range(processes)]
    ranks: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    with tempfile.TemporaryDirectory(prefix="korealbert-ranks-") as directory, _terminated_like_an_error():
        command = [sys.executable, "-m", module, *arguments, "--parent", str(os.getpid())]
        command += ["--init-method", (Path(directory) / "rendezvous").as_uri()]
        try:
            for rank in range(processes):
                ranks.append(_start(command, rank, processes, threads, environment or {}))
                readers.append(threading.Thread(target=_read, args=(ranks[rank], rank, lines), daemon=True))
                readers[rank].start()
            _follow(ranks, lines, tails, on_line)
        finally:
            _end(ranks)
            for reader in readers:
                reader.join()


def _start(
    command: list[str], rank: int, processes: int, threads: int, environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    own = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "OMP_NUM_THREADS": str(max(1, threads // processes)),
    }
    return subprocess.Popen(
        command,
        env={**os.environ, **own, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _read(process: subprocess.Popen[str], rank: int, lines: Lines) -> None:
    assert process.stdout is not None
    with process.stdout as stream:
        for line in stream:
            lines.put((rank, line.rstrip("\n")))
    lines.put((rank, None))


def _follow(ranks: list[subprocess.Popen[str]], lines: Lines, tails: list[deque[str]], on_line: Callable[[str], None]) -> None:
    running = set(range(len(ranks)))
    while running:
        rank, line = lines.get()
        if line is None:
            running.discard(rank)
            if ranks[rank].wait() != 0:
                _settle(ranks, lines, tails)
                raise _first_failure(ranks, tails)
            continue
        tails[rank].append(line)
        if rank == 0:
            on_line(line)
        else:
            log.info("rank %d: %s", rank, line)


def _settle(ranks: list[subprocess.Popen[str]], lines: Lines, tails: list[deque[str]]) -> None:
    """After one failure: let the others fail too, then kill those that wait for a rank that is gone, and read to the end."""
    deadline = time.monotonic() + SETTLE_SECONDS
    for process in ranks:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    survivors = [process for process in ranks if process.poll() is None]
    for process in survivors:
        process.kill()
        process.wait()
        process.returncode = 0  # It did not fail: we ended it.
    with contextlib.suppress(queue.Empty):
        while True:
            rank, line = lines.get(timeout=0.1)
            if line is not None:
                tails[rank].append(line)


def _first_failure(ranks: list[subprocess.Popen[str]], tails: list[deque[str]]) -> RankFailed:
    """What the process that failed by itself said; a rank that lost its peer fails too, inside a collective operation."""
    failed = [rank for rank, process in enumerate(ranks) if process.returncode != 0]
    failed.sort(key=lambda rank: any("onnection closed by peer" in line for line in tails[rank]))
    first = failed[0]
    status = ranks[first].returncode
    kind, ended = RankFailed, f"ended with status {status}"
    if status < 0:
        kind = RankKilled
        ended = f"was killed by {signal.Signals(-status).name}"
        if -status == signal.SIGKILL:
            ended += " (out of memory?)"
    told = "\n".join(_traceback_first(list(tails[first])))
    return kind(f"training process {first} of {len(ranks)} {ended}; its own words:\n{told}")


def _traceback_first(lines: list[str]) -> list[str]:
    starts = [index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    return lines[starts[0] :] if starts else lines


def _end(ranks: list[subprocess.Popen[str]]) -> None:
    """Ask what still runs to save and stop, then kill it."""
    for process in ranks:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in ranks:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _terminated_like_an_error() -> Iterator[None]:
    """Turn SIGTERM into SystemExit where nobody else handles it, so that ``finally`` lets the ranks save a checkpoint."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
