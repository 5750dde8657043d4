"""Locks that the kernel frees when their holder dies: one builder per artifact, on one machine or several.

They are ``flock`` locks on files in the store. Linux carries them over NFS (v4: freed when a lost client's lease ends), CephFS
and GPFS, and over Lustre mounted with ``flock``; a file system that keeps locks to the machine they were taken on (sshfs,
most object-store mounts) cannot be shared by builders.

A run holds one as long as it lives; its small record names the artifacts that it refers to, which a clean-up leaves.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from korealbert.artifact.files import utc_now

_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""What opening a file for writing ends with in a store that may only be read."""


class ReadOnlyStore(OSError):
    """Something must be built in a store that may only be read."""


@contextlib.contextmanager
def exclusive(path: Path, *, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock file's lock, waiting for it as long as another holds it; ``waiting`` is then called with the holder.

    Raises ReadOnlyStore where the file cannot be written.
    """
    while True:
        with _opened(path) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is not None:
                    waiting(holder(path))
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is(handle, path):  # Else a clean-up removed it while this process waited.
                _sign(handle)
                yield
                return


@contextlib.contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Hold the lock if nobody else does; yields whether it is held."""
    with _opened(path) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield _is(handle, path)


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock of this file."""
    try:
        with path.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def holder(path: Path) -> str:
    """Who took the lock last, as people read it: ``process 4711 on node-3 since 2026-01-31T12:00:00Z``."""
    try:
        told = json.loads(path.read_text("utf-8"))
        return f"process {told['pid']} on {told['host']} since {told['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _opened(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        message = (
            f"{path.parent.parent} may only be read ({error.strerror}); mount it writable, or name another store with --store"
        )
        raise ReadOnlyStore(error.errno, message) from None


def _sign(handle: IO[bytes]) -> None:
    told = {"host": socket.gethostname(), "pid": os.getpid(), "since": utc_now()}
    with contextlib.suppress(OSError):  # A full disk: the lock holds without its note.
        handle.truncate(0)
        handle.write(json.dumps(told).encode())
        handle.flush()


def _is(handle: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


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
    began = utc_now()
    resolved = str(recipe.resolve())
    fact: dict[str, Any] = {"recipe": resolved, "until": until, "began": began, "artifacts": dict(artifacts)}
    key = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:16]
    path = directory / f"{key}-{time.time_ns()}-{socket.gethostname()}-{os.getpid()}.json"
    try:
        with exclusively(store):
            handle = path.open("xb")
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.write(json.dumps(fact, ensure_ascii=False, indent=1).encode())
            handle.flush()
            _forget_earlier(directory, path, until)
    except ReadOnlyStore:
        yield
        return
    with handle:
        yield


def exclusively(store: Path) -> AbstractContextManager[None]:
    """Keep runs from beginning, and others from doing what needs that, meanwhile. Raises ReadOnlyStore."""
    return exclusive(store / DIRECTORY / _CLEANING)


def runs(store: Path) -> list[Run]:
    """Every recorded run, oldest first."""
    found = []
    for path in sorted((store / DIRECTORY).glob("*.json")):
        # One that was killed before it was written is none.
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            fact = json.loads(path.read_text("utf-8"))
            names = {str(label): str(name) for label, name in fact["artifacts"].items()}
            found.append(Run(str(fact["recipe"]), fact["until"], str(fact["began"]), names, is_held(path)))
    return sorted(found, key=lambda run: run.began)


def _forget_earlier(directory: Path, newest: Path, until: str | None) -> None:
    """Remove records that the newest makes old: all of its recipe after a whole run, else those of the same part."""
    for path in directory.glob(f"{newest.name.split('-')[0]}-*.json"):
        if path == newest or is_held(path):
            continue
        try:
            earlier = json.loads(path.read_text("utf-8"))["until"]
        except (ValueError, KeyError, TypeError):
            earlier = until
        if until is None or earlier == until:
            path.unlink(missing_ok=True)
