"""Locks that the kernel frees when their holder dies: one builder per artifact, on one machine or several.

They are ``flock`` locks on files in the store. Linux carries them over NFS (v4: freed when a lost client's lease ends), CephFS
and GPFS, and over Lustre mounted with ``flock``. Builders cannot share a file system that keeps locks on one machine (sshfs,
most object-store mounts).

A run also holds a lock while it lives, on a small record of the artifacts that it uses. ``gc`` does not remove these.
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

from korealbert.artifact.files import explaining_full_disk, utc_now

_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Errors of opening a file for writing in a read-only store."""


class ReadOnlyStore(OSError):
    """Something must be built, but the store is read-only."""


@contextlib.contextmanager
def exclusive(path: Path, *, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold a lock file's lock. If another process holds it, call ``waiting`` with that holder and wait.

    Raises ReadOnlyStore if the file cannot be written.
    """
    while True:
        with _opened(path) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is not None:
                    waiting(holder(path))
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_file_of(handle, path):  # Otherwise gc removed it while this process waited.
                _write_holder(handle)
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
        yield _is_file_of(handle, path)


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
    """Describe who took the lock last: ``process 4711 on node-3 since 2026-01-31T12:00:00Z``."""
    try:
        note = json.loads(path.read_text("utf-8"))
        return f"process {note['pid']} on {note['host']} since {note['since']}"
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


def _write_holder(handle: IO[bytes]) -> None:
    note = {"host": socket.gethostname(), "pid": os.getpid(), "since": utc_now()}
    with contextlib.suppress(OSError):  # A full disk: the lock holds without its note.
        handle.truncate(0)
        handle.write(json.dumps(note).encode())
        handle.flush()


def _is_file_of(handle: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


DIRECTORY = ".runs"
_CLEANING = "cleaning.lock"
"""Locked while gc looks at the records and removes artifacts, so that no run starts meanwhile."""


@dataclass(frozen=True)
class Run:
    """The record of a run: what it is, or was, about to build."""

    recipe: str
    """The recipe's absolute path."""
    until: str | None
    began: str
    artifacts: Mapping[str, str]
    """Names of the artifacts that it needs, by label."""
    live: bool
    """Whether its process lives."""


@contextlib.contextmanager
def recorded(store: Path, recipe: Path, until: str | None, artifacts: Mapping[str, str]) -> Iterator[None]:
    """Record a run. A run of a whole recipe replaces that recipe's earlier records.

    Nothing is recorded in a read-only store, because nothing can be removed from it either. Raises DiskFull.
    """
    directory = store / DIRECTORY
    began = utc_now()
    resolved = str(recipe.resolve())
    fact: dict[str, Any] = {"recipe": resolved, "until": until, "began": began, "artifacts": dict(artifacts)}
    key = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:16]
    path = directory / f"{key}-{time.time_ns()}-{socket.gethostname()}-{os.getpid()}.json"
    try:
        with explaining_full_disk("run", store), exclusively(store):
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
    """Keep runs from starting, and others from calling this, until the block ends. Raises ReadOnlyStore."""
    return exclusive(store / DIRECTORY / _CLEANING)


def runs(store: Path) -> list[Run]:
    """Return every recorded run, oldest first."""
    found = []
    for path in sorted((store / DIRECTORY).glob("*.json")):
        # A run that was killed early leaves an incomplete record.
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            fact = json.loads(path.read_text("utf-8"))
            names = {str(label): str(name) for label, name in fact["artifacts"].items()}
            found.append(Run(str(fact["recipe"]), fact["until"], str(fact["began"]), names, is_held(path)))
    return sorted(found, key=lambda run: run.began)


def _forget_earlier(directory: Path, newest: Path, until: str | None) -> None:
    """Remove records that the newest replaces: all of its recipe after a whole run, else those of the same part."""
    for path in directory.glob(f"{newest.name.split('-')[0]}-*.json"):
        if path == newest or is_held(path):
            continue
        try:
            earlier = json.loads(path.read_text("utf-8"))["until"]
        except (ValueError, KeyError, TypeError):
            earlier = until
        if until is None or earlier == until:
            path.unlink(missing_ok=True)
