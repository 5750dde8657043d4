"""Training processes of this machine: started, read, and asked to end.

They are direct children in this process's own group (a new session would survive the cancellation of a Prefect run), and the
kernel kills them when it dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

SECONDS_TO_READ = 1.0
"""How long output is read after the end of a process: a child of its own may hold the pipe open for ever."""

Tell = Callable[[int, str | int], None]
"""Receives a rank with a line of its output, or with its exit status, which is the last thing it hears of that rank."""


class LocalRanks:
    """Some consecutive ranks on this machine, each ``python -m MODULE ARGUMENTS --parent PID``."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        ranks: range,
        world_size: int,
        threads: int,
        environment: Mapping[str, str],
        tell: Tell,
    ) -> None:
        """Start them; ``threads`` CPU threads are divided among them. ``tell`` is called from threads of their own."""
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._tell = tell
        self._threads: list[threading.Thread] = []
        command = [sys.executable, "-m", module, *arguments, "--parent", str(os.getpid())]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
        for rank in ranks:
            own = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank - ranks.start),
                "WORLD_SIZE": str(world_size),
                "LOCAL_WORLD_SIZE": str(len(ranks)),
                "OMP_NUM_THREADS": str(max(1, threads // len(ranks))),
            }
            self._processes[rank] = subprocess.Popen(
                command,
                env={**inherited, **own, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
            self._threads.append(threading.Thread(target=self._watch, args=(rank,), daemon=True))
            self._threads[-1].start()

    @property
    def running(self) -> bool:
        """Whether one of them has not ended."""
        return any(process.poll() is None for process in self._processes.values())

    def terminate(self) -> None:
        """Ask all to save and end."""
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()

    def kill(self) -> None:
        """End all at once."""
        for process in self._processes.values():
            process.kill()

    def join(self) -> None:
        """Wait until all have ended and their last words were told."""
        for thread in self._threads:
            thread.join()

    def _watch(self, rank: int) -> None:
        process = self._processes[rank]
        reader = threading.Thread(target=self._read, args=(rank,), daemon=True)
        reader.start()
        status = process.wait()
        reader.join(SECONDS_TO_READ)
        self._tell(rank, status)

    def _read(self, rank: int) -> None:
        stream = self._processes[rank].stdout
        assert stream is not None
        with stream:
            for line in stream:
                self._tell(rank, line.rstrip("\n"))
