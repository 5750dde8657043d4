"""Directories that the workers of a test run share, so that only the first one builds what several of them need."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def shared_directory(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Yield the directory of this name, which all workers of the run share, while no other worker has it.

    The caller builds what the directory lacks. Its files may be read at any time and must not be changed.
    """
    own = factory.getbasetemp()
    path = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"shared-{name}"
    path.mkdir(exist_ok=True)
    with (path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
