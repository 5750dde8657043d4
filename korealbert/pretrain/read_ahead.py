"""Read the next batches while the device computes: gathered, and on GPUs pinned, by a thread of their own.

What comes next is only guessed (the stretch of the training order behind the last one); another request is served as well,
just not ahead of time. So batches never depend on reading ahead, nor on where a run resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """``load(start, count)`` for stretches of the training order, with the next one under way.

    The thread ends with the object.
    """

    def __init__(self, load: Callable[[int, int], T]) -> None:
        self._load = load
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._guess: tuple[int, int] | None = None
        self._coming: Future[T] | None = None

    def take(self, start: int, count: int) -> T:
        """What ``load`` gives for ``count`` sequences from position ``start``; raises what it raises."""
        coming = self._coming if self._guess == (start, count) else None
        loaded = coming.result() if coming is not None else self._load(start, count)
        self._guess = (start + count, count)
        self._coming = self._reader.submit(self._load, *self._guess)
        return loaded
