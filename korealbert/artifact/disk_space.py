"""A full disk, told as what it is: which file system, how full, and how to go on."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_WORDS = ("no space left on device", "disk is full", "disk quota exceeded", "iostream error", "unexpected pos")
"""What SQLite, safetensors, a training process and (the last two) torch say of a full disk in errors of their own."""


class DiskFull(OSError):
    """A file system has no room left; what was finished is kept, and the next run goes on from it."""


@contextlib.contextmanager
def telling_of_a_full_disk(what: str, kept: Path) -> Iterator[None]:
    """Raise DiskFull in place of any error that comes of a full disk.

    ``what`` is being built or written; ``kept`` is the directory whose finished files the next try goes on from.
    """
    try:
        yield
    except Exception as error:
        cause = _of_a_full_disk(error)
        if cause is None or isinstance(error, DiskFull):
            raise
        named = getattr(cause, "filename", None)
        place = _fullest([Path(named)] if isinstance(named, str) else [kept, Path(tempfile.gettempdir())])
        raise DiskFull(_message(what, place, kept)) from error


def room(path: Path, wanted: int, what: str) -> None:
    """Raise DiskFull when the file system of ``path`` has fewer than ``wanted`` bytes free."""
    free = shutil.disk_usage(path).free
    if free < wanted:
        message = f"{what} needs {wanted / 1e6:,.1f} MB, the file system {_mount_of(path)} has {free / 1e6:,.1f} MB free"
        raise DiskFull(f"{message}; free some (`korealbert gc`) or name another store")


def _of_a_full_disk(error: BaseException) -> BaseException | None:
    seen: BaseException | None = error
    while seen is not None:
        full = isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or any(word in str(seen).lower() for word in _WORDS):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _fullest(paths: list[Path]) -> Path:
    existing = [next(p for p in (path, *path.absolute().parents) if p.exists()) for path in paths]
    return min(existing, key=lambda path: shutil.disk_usage(path).free)


def _mount_of(path: Path) -> Path:
    """Where the file system that holds a path is mounted."""
    path = path.resolve()
    while not os.path.ismount(path) and path != path.parent:
        path = path.parent
    return path


def _message(what: str, place: Path, kept: Path) -> str:
    usage = shutil.disk_usage(place)
    return (
        f"{what}: the file system {_mount_of(place)} is full ({usage.free / 1e6:,.1f} of {usage.total / 1e6:,.0f} MB free). "
        f"Free some (`korealbert gc` lists what nothing refers to), or move the store and name it with --store; "
        f"then run again: what is finished is kept in {kept}, and the run goes on from there"
    )
