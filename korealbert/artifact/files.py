"""Files that are whole or absent: atomic writes, directory swaps, and digests that are computed once per content."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write; on success it is fsynced and renamed to ``path``, on error it is removed."""
    # Two machines may have processes of one number, and write one file in turn where one of them was given up for lost; cells
    # that run at once are threads of one process, and may learn the same of the machine at the same time.
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write(path: Path, content: bytes) -> None:
    """Write a whole file or nothing."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any, *, indent: int = 1, sort_keys: bool = False) -> None:
    """Write a value as one whole JSON file, in UTF-8."""
    atomic_write(path, (json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys) + "\n").encode())


def replace_directory(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target``; what was there is moved aside first and deleted last."""
    aside = target.with_name(f"{target.name}.replaced")
    shutil.rmtree(aside, ignore_errors=True)
    if target.exists():
        target.rename(aside)
    source.rename(target)
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    shutil.rmtree(aside, ignore_errors=True)


def digest_of_listing(digests: Mapping[str, str]) -> str:
    """One sha256 for a set of files, by sorted relative name and content digest."""
    lines = b"".join(os.fsencode(name) + f"\0{digests[name]}\n".encode() for name in sorted(digests))
    return hashlib.sha256(lines).hexdigest()


def sha256_of_file(path: Path) -> str:
    """sha256 of a file's content, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


class DigestMemory:
    """Remembers sha256 by path, size, mtime and ctime, so that 43 GB of raw input are hashed once and not per plan.

    ctime is part of the memory because a changed byte under a restored mtime must not pass as unchanged. The memory is a
    directory within a store; while the store does not exist nothing is written, so that looking leaves no trace.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def of(self, path: Path) -> str:
        """sha256 of a file, or of the listing of a directory's files. Raises FileNotFoundError."""
        path = Path(path).absolute()
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file())
            return digest_of_listing({str(p.relative_to(path)): self.of(p) for p in inside})
        stamp = self._stamp(path)
        entry = self._entry(path)
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError, KeyError):
            known = json.loads(entry.read_text("utf-8"))
            if known["stamp"] == stamp:
                return str(known["sha256"])
        digest = sha256_of_file(path)
        self._record(path, stamp, digest)
        return digest

    def read_again(self, path: Path) -> str:
        """sha256 of a file, read whatever is remembered of it, and remembered anew."""
        path = Path(path).absolute()
        stamp = self._stamp(path)
        digest = sha256_of_file(path)
        self._record(path, stamp, digest)
        return digest

    def forget_missing(self) -> None:
        """Drop what is remembered of files that are gone."""
        for entry in self.directory.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                if not Path(json.loads(entry.read_text("utf-8"))["path"]).exists():
                    entry.unlink()

    def remember(self, digests: Mapping[Path, str]) -> None:
        """Record digests that were just computed under another name of the same file (before a rename)."""
        for path, digest in digests.items():
            self._record(path, self._stamp(path), digest)

    def _record(self, path: Path, stamp: list[int], digest: str) -> None:
        if not self.directory.parent.is_dir():
            return
        entry = self._entry(path)
        readable = os.fsencode(path).decode(errors="replace")  # A file name need not be UTF-8.
        with contextlib.suppress(OSError):  # A full disk or a store that may only be read: the file is read again next time.
            entry.parent.mkdir(exist_ok=True)
            write_json(entry, {"path": readable, "stamp": stamp, "sha256": digest})

    def _entry(self, path: Path) -> Path:
        return self.directory / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"

    @staticmethod
    def _stamp(path: Path) -> list[int]:
        status = path.stat()
        return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
