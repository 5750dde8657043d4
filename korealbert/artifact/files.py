"""Files that are whole or absent, and known by their bytes: atomic writes, directory swaps, JSON with a digest of itself, and
digests that are computed once per content; and the error for a full disk."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
"""The file of an artifact's directory that says what the artifact is."""

OPENING = ".opening.json"
"""Names the recipe and the input bytes that a partial directory was begun with."""

_DIGEST_HEAD = b'{\n "digest": "'
_DIGEST_END = len(_DIGEST_HEAD) + 64

_SETTLED_NS = 50_000_000
"""A file changed less than this before it was stat'ed may change again under the same time stamps: the kernel's clock of file
times ticks every 4 ms (Linux at 250 Hz), that of some shared file systems more slowly."""

_written: ContextVar[list[Path] | None] = ContextVar("_written", default=None)


class FileChanged(ValueError):
    """The bytes of a file differ from its own digest."""


@contextlib.contextmanager
def atomic_path(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write; on success it is renamed to ``path``, on error it is removed.

    ``durable``: the file and its name are fsynced, to survive the loss of power. Raises FileNotFoundError naming a directory
    that is not there.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    # Two machines may have processes of one number, and write one file in turn where one of them was given up for lost; cells
    # that run at once are threads of one process, and may learn the same of the machine at the same time.
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield temporary
        if durable:
            sync_file(temporary)
        temporary.replace(path)
        if durable:
            _sync_directory(path.parent)
        note_written(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def noting_writes() -> Iterator[list[Path]]:
    """Yield a list of all files that ``atomic_path`` puts into place within the block, or are passed to ``note_written``."""
    written: list[Path] = []
    token = _written.set(written)
    try:
        yield written
    finally:
        _written.reset(token)


def note_written(path: Path) -> None:
    """Tell ``noting_writes`` of a file, or of all files of a directory, that was written in another way than atomically."""
    if (written := _written.get()) is not None:
        written += [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def sync_file(path: Path) -> None:
    """Have a file's content survive the loss of power."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def _sync_directory(directory: Path) -> None:
    """Have the names in a directory survive the loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def utc_now() -> str:
    """The time as ISO 8601, to the second: ``2026-01-31T12:00:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def atomic_write(path: Path, content: bytes) -> None:
    """Write a whole file or nothing."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def refuse_overwriting(out: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise ValueError where a file or directory to write is an input, by whatever name or link, lies in an input that is a
    directory, or is or lies in the directory of an artifact, finished or not."""
    for each in inputs:
        same = out.exists() and each.exists() and out.samefile(each)
        if same or (each.is_dir() and out.resolve().is_relative_to(each.resolve())):
            raise ValueError(f"{out}: it is {'' if same else 'within '}{each}, which is read; name another file to write")
    for place in (out.parent.resolve() / out.name, out.resolve()):  # A link, and what it leads to.
        for directory in (place, *place.parents):
            if is_of_an_artifact(directory):
                raise ValueError(f"{out}: {directory} is the directory of an artifact; name another place to write")


def is_of_an_artifact(directory: Path) -> bool:
    """Whether a directory is that of an artifact, finished or not, also where its manifest is damaged."""
    if (directory / OPENING).is_file():
        return True
    manifest = directory / MANIFEST
    if not manifest.is_file():
        return False
    content = manifest.read_bytes()  # Other programs have files of this name.
    return content.startswith(_DIGEST_HEAD) or all(name in content for name in (b'"output_digest"', b'"recipe"'))


def write_json(path: Path, value: Any, *, indent: int = 1, sort_keys: bool = False) -> None:
    """Write a value as one whole JSON file, in UTF-8."""
    atomic_write(path, (json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys) + "\n").encode())


def digested_json(value: Mapping[str, Any], *, sort_keys: bool = False) -> bytes:
    """A JSON object (with at least one field) that begins with ``digest``, the sha256 of all bytes after it."""
    rest = b'",' + json.dumps(value, ensure_ascii=False, indent=1, sort_keys=sort_keys).encode()[1:] + b"\n"
    return _DIGEST_HEAD + hashlib.sha256(rest).hexdigest().encode() + rest


def read_digested(content: bytes) -> tuple[Any, bool]:
    """What JSON of ``digested_json`` holds, without its digest, and True; any other JSON as it is, and False.

    Raises FileChanged where the digest is not that of the bytes behind it, ValueError where it is no JSON.
    """
    if not content.startswith(_DIGEST_HEAD):
        return json.loads(content), False
    rest = content[_DIGEST_END:]
    if hashlib.sha256(rest).hexdigest().encode() != content[len(_DIGEST_HEAD) : _DIGEST_END]:
        raise FileChanged("its bytes differ from its digest")
    value = json.loads(content)
    del value["digest"]
    return value, True


def write_digested(path: Path, value: Mapping[str, Any], *, sort_keys: bool = False) -> None:
    """Write a JSON object with a digest of itself, whole or not at all."""
    atomic_write(path, digested_json(value, sort_keys=sort_keys))


def known_digested(path: Path) -> dict[str, Any] | None:
    """What ``write_digested`` wrote; None where the file is missing or anything about it is wrong."""
    try:
        value, digested = read_digested(path.read_bytes())
    except (OSError, ValueError):
        return None
    return dict(value) if digested else None


def replace_directory(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target``; whatever was there is renamed first and deleted last."""
    for directory, _, _ in os.walk(source):
        _sync_directory(Path(directory))
    aside = target.with_name(f"{target.name}.replaced")
    remove(aside)
    if os.path.lexists(target):
        target.rename(aside)
    source.rename(target)
    for parent in {source.parent, target.parent}:
        _sync_directory(parent)
    remove(aside)


def remove(path: Path) -> None:
    """Remove a directory with all that is in it, or a file or link of any kind, not what it leads to; or nothing is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def digest_of_listing(digests: Mapping[str, str]) -> str:
    """One sha256 for a set of files, by sorted relative name and content digest."""
    lines = b"".join(os.fsencode(name) + f"\0{digests[name]}\n".encode() for name in sorted(digests))
    return hashlib.sha256(lines).hexdigest()


def sha256_of_file(path: Path) -> str:
    """sha256 of a file's content, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_and_stamp(path: Path) -> tuple[str, list[int]]:
    """sha256 of a file and the ``stamp`` under which all of it was read. Raises FileChanged where it changed meanwhile."""
    before = stamp(path)
    digest = sha256_of_file(path)
    if stamp(path) != before:
        raise FileChanged(f"{path} changed while it was read; run again when nothing writes it")
    return digest, before


def stamp(path: Path) -> list[int]:
    """What of a file's status changes with its content: size, mtime and ctime.

    ctime is part of it because a changed byte under a restored mtime must not pass as unchanged.
    """
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class DigestMemory:
    """Remembers sha256 by path and ``stamp``, so that 43 GB of raw input are hashed once and not per plan.

    The memory is a directory within a store; while the store does not exist nothing is written, so that looking leaves no
    trace.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def of(self, path: Path, *, again: bool = False) -> str:
        """sha256 of a file, or of the listing of a directory's files; ``again``: computed even if it is remembered.

        Raises FileNotFoundError and FileChanged.
        """
        path = Path(path).absolute()
        if path.is_dir():
            return digest_of_listing({str(inner.relative_to(path)): self.of(inner, again=again) for inner in files_of(path)})
        known = None if again else known_digested(self._entry(path))
        if known is not None and known["stamp"] == stamp(path):
            return str(known["sha256"])
        digest, seen = sha256_and_stamp(path)
        self.remember(path, digest, seen)
        return digest

    def forget_missing(self) -> None:
        """Forget the digests of files that no longer exist."""
        for entry in self.directory.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                if not Path(json.loads(entry.read_text("utf-8"))["path"]).exists():
                    entry.unlink()

    def remember(self, path: Path, digest: str, seen: list[int]) -> None:
        """Record the digest that a file had under a stamp; not while the file is so young that it may change unnoticed."""
        if not self.directory.parent.is_dir():
            return
        entry = self._entry(path)
        readable = os.fsencode(path).decode(errors="replace")  # A file name need not be UTF-8.
        with contextlib.suppress(OSError):  # A full disk or a store that may only be read: the file is read again next time.
            if time.time_ns() - seen[2] < _SETTLED_NS:
                entry.unlink(missing_ok=True)
                return
            entry.parent.mkdir(exist_ok=True)
            with atomic_path(entry, durable=False) as temporary:
                temporary.write_bytes(digested_json({"path": readable, "stamp": seen, "sha256": digest}))

    def _entry(self, path: Path) -> Path:
        return self.directory / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def files_of(path: Path) -> list[Path]:
    """A file, or all files of a directory, sorted; those of linked directories too."""
    return sorted(inner for inner in entries_of(path) if inner.is_file()) if path.is_dir() else [path]


def entries_of(directory: Path, above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """All that is within a directory, in no order. Links to directories are followed, but to none that they are within."""
    real = os.path.realpath(directory)
    if real in above or not directory.is_dir():
        return
    for each in directory.iterdir():
        yield each
        yield from entries_of(each, above | {real})


_WORDS = ("no space left on device", "disk is full", "disk quota exceeded", "iostream error", "unexpected pos")
"""What SQLite, safetensors, a training process and (the last two) torch say of a full disk in errors of their own."""


class DiskFull(OSError):
    """A file system has no room left; finished work is kept, and the next run continues from it."""


@contextlib.contextmanager
def telling_of_a_full_disk(what: str, kept: Path) -> Iterator[None]:
    """Raise DiskFull in place of any error that comes of a full disk.

    ``what`` is being built or written; ``kept`` is the directory whose finished files the next try uses.
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
        f"Free some (`korealbert gc` lists unused artifacts), or move the store and name it with --store; "
        f"then run again: finished work is kept in {kept}, and the run continues from there"
    )


class RepeatedName(ValueError):
    """An object that gives one name twice."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the field {name!r} is given twice")
        self.name = name


def unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs: the ``object_pairs_hook`` of every decoder that reads records. Raises RepeatedName."""
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise RepeatedName(next(name for name, count in counts.items() if count > 1))
    return record
