"""How a flow run ends: within seconds of being cancelled, and one that a worker started with its worker."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from flows.recovery import RUN
from korealbert.artifact.shards import die_with_parent

_SECONDS_TO_SAVE = 4.0
"""How long training may take to write a checkpoint after a cancellation before everything is ended."""


@contextmanager
def of_a_worker() -> Iterator[None]:
    """Bind this process to the worker that started it; does nothing in any other process.

    When the worker dies, so does this process, and with it (each asks the kernel for that) every process of its stages; a
    worker that is started again takes the run up anew. SIGTERM, by which Prefect cancels, goes on to Prefect's own handler,
    and a stage that has not ended after SECONDS_TO_SAVE is left where it stands; what it finished is on the disk.
    """
    if RUN not in os.environ or threading.current_thread() is not threading.main_thread():
        yield
        return
    die_with_parent()
    before = signal.getsignal(signal.SIGTERM)

    def cancelled(number: int, frame: FrameType | None) -> None:
        leave_soon()
        if callable(before):
            before(number, frame)
        else:
            raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, cancelled)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def leave_soon() -> None:
    """End this process after SECONDS_TO_SAVE, wherever it stands by then; what it finished is on the disk."""
    ending = threading.Timer(_SECONDS_TO_SAVE, os._exit, (128 + signal.SIGTERM,))
    ending.daemon = True
    ending.start()
