"""Limits of work, by the processor time of the thread, which does not depend on the load of the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def linear_work() -> Iterator[None]:
    """Fail if work takes more than 60 processor seconds: a tenth if linear in the input, minutes if quadratic."""
    begun = time.thread_time()
    yield
    assert time.thread_time() - begun < 60
