"""Directories that the workers of a test run share, so that what several of them need is built by the first alone."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def shared_directory(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A directory of this name, the same for all workers of the run; one at a time is inside, the others wait.

    Whoever enters builds what is not there yet. What is left there may be read at any time and must not be changed.
    """
    own = factory.getbasetemp()
    path = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"shared-{name}"
    path.mkdir(exist_ok=True)
    with (path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
