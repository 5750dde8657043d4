"""Locks that the kernel frees when their holder dies: one builder per artifact, on one machine or several.

They are ``flock`` locks on files in the store. Linux carries them over NFS (v4: freed when a lost client's lease ends), CephFS
and GPFS, and over Lustre mounted with ``flock``; a file system that keeps locks to the machine they were taken on (sshfs,
most object-store mounts) cannot be shared by builders.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""What opening a file for writing ends with in a store that may only be read."""


class ReadOnlyStore(OSError):
    """Something must be built in a store that may only be read."""


@contextlib.contextmanager
def exclusive(path: Path, *, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock file's lock, waiting for it as long as another holds it; ``waiting`` is then told who does.

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
    told = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    with contextlib.suppress(OSError):  # A full disk: the lock holds without its note.
        handle.truncate(0)
        handle.write(json.dumps(told).encode())
        handle.flush()


def _is(handle: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
