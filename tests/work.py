"""How much work something may be: bounded by the processor time of its thread, which no other load on the machine lengthens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def linear_work(seconds: float = 60) -> Iterator[None]:
    """A tenth of a second where work grows with the input; minutes where it grows with its square."""
    begun = time.thread_time()
    yield
    assert time.thread_time() - begun < seconds
