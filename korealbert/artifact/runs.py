"""Which artifacts the runs of a store refer to: one small record per run, so that a clean-up knows what is still wanted."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from korealbert.artifact import locks

DIRECTORY = ".runs"
_CLEANING = "cleaning.lock"
"""Held while a clean-up looks at the records and removes, so that no run begins meanwhile."""


@dataclass(frozen=True)
class Run:
    """What a run is (or was) about to build."""

    recipe: str
    """The recipe's path as the run resolved it."""
    until: str | None
    began: str
    artifacts: Mapping[str, str]
    """Names of the artifacts it needs, by label."""
    live: bool
    """Whether its process lives."""


@contextlib.contextmanager
def recorded(store: Path, recipe: Path, until: str | None, artifacts: Mapping[str, str]) -> Iterator[None]:
    """Record a run while it lives and after; a run of a whole recipe takes the place of that recipe's earlier records.

    In a store that may only be read nothing is recorded, for nothing can be removed from it either.
    """
    directory = store / DIRECTORY
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    resolved = str(recipe.resolve())
    fact: dict[str, Any] = {"recipe": resolved, "until": until, "began": began, "artifacts": dict(artifacts)}
    path = directory / f"{_key(resolved)}-{time.time_ns()}-{socket.gethostname()}-{os.getpid()}.json"
    try:
        with exclusively(store):
            handle = path.open("xb")
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.write(json.dumps(fact, ensure_ascii=False, indent=1).encode())
            handle.flush()
            _forget_earlier(directory, path, until)
    except locks.ReadOnlyStore:
        yield
        return
    with handle:
        yield


def exclusively(store: Path) -> AbstractContextManager[None]:
    """Keep runs from beginning, and others from doing what needs that, meanwhile. Raises ReadOnlyStore."""
    return locks.exclusive(store / DIRECTORY / _CLEANING)


def runs(store: Path) -> list[Run]:
    """Every recorded run, oldest first."""
    found = []
    for path in sorted((store / DIRECTORY).glob("*.json")):
        # One that was killed before it was written is none.
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            fact = json.loads(path.read_text("utf-8"))
            names = {str(label): str(name) for label, name in fact["artifacts"].items()}
            found.append(Run(str(fact["recipe"]), fact["until"], str(fact["began"]), names, locks.is_held(path)))
    return sorted(found, key=lambda run: run.began)


def _key(recipe: str) -> str:
    return hashlib.sha256(os.fsencode(recipe)).hexdigest()[:16]


def _forget_earlier(directory: Path, newest: Path, until: str | None) -> None:
    """Remove records that the newest makes old: all of its recipe after a whole run, else those of the same part."""
    for path in directory.glob(f"{newest.name.split('-')[0]}-*.json"):
        if path == newest or locks.is_held(path):
            continue
        try:
            earlier = json.loads(path.read_text("utf-8"))["until"]
        except (ValueError, KeyError, TypeError):
            earlier = until
        if until is None or earlier == until:
            path.unlink(missing_ok=True)
