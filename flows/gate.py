"""Who may run now: one stage that takes the whole machine, or as many cells as their number and memory allow.

First come, first served: whoever waits is passed by nobody, so that no stage waits for ever.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

from korealbert.pretrain.runtime import TrainingRuntime


class Gate:
    """Lets stages through. All of them must pass the same gate; those that wait must not be waited for by those inside."""

    def __init__(self, runtime: TrainingRuntime) -> None:
        self.cells, self.memory = runtime.cells_at_once, runtime.memory_bytes
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._running = 0
        self._taken = 0
        self._alone = False

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nothing runs, and keep all others out."""
        with self._entered(lambda: self._running == 0, bytes_needed=0, alone=True):
            yield

    @contextlib.contextmanager
    def cell(self, bytes_needed: int | None) -> Iterator[None]:
        """Wait for a place and for memory. What needs nobody knows how much (None) runs alone where memory is limited."""
        if self.memory is None:
            with self._entered(lambda: self._running < self.cells, bytes_needed=0, alone=False):
                yield
            return
        if bytes_needed is None or bytes_needed > self.memory:
            with self.alone():
                yield
            return
        limit, needed = self.memory, bytes_needed
        with self._entered(
            lambda: self._running < self.cells and self._taken + needed <= limit, bytes_needed=needed, alone=False
        ):
            yield

    @contextlib.contextmanager
    def _entered(self, free: Callable[[], bool], *, bytes_needed: int, alone: bool) -> Iterator[None]:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is ticket and not self._alone and free())
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
            self._running, self._taken, self._alone = self._running + 1, self._taken + bytes_needed, alone
        try:
            yield
        finally:
            with self._changed:
                self._running, self._taken, self._alone = self._running - 1, self._taken - bytes_needed, False
                self._changed.notify_all()
