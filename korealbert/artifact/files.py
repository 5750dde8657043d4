"""Atomic writes, directory swaps, JSON with a digest of itself, cached digests of files, and the error for a full disk."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
"""The file in an artifact's directory that says what the artifact is."""

OPENING = ".opening.json"
"""Names the recipe and the input bytes from which a partial directory was started."""

DIGESTS = ".digests"
"""The directory of a store for digests of input files. Every store has one, by which it is recognised."""

_DIGEST_HEAD = b'{\n "digest": "'
_DIGEST_END = len(_DIGEST_HEAD) + 64

_SETTLED_NS = 50_000_000
"""A file changed less than this before it was stat'ed may change again without new times: the kernel's clock of file times
ticks every 4 ms (Linux at 250 Hz), that of some shared file systems more slowly."""

_written: ContextVar[list[Path] | None] = ContextVar("_written", default=None)


class FileChanged(ValueError):
    """The bytes of a file differ from its own digest."""


@contextlib.contextmanager
def atomic_path(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write; on success it is renamed to ``path``, on error it is removed.

    ``durable`` fsyncs the file and its name, so that they survive a power failure. Raises OSError if the directory does not
    exist. An error in writing names ``path``.
    """
    if not path.parent.is_dir():
        code = errno.ENOTDIR if path.parent.exists() else errno.ENOENT
        raise OSError(code, os.strerror(code), str(path.parent))
    # Two machines may write the same file from processes with the same id, if one machine was taken for lost. Cells that run at
    # the same time are threads of one process.
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield temporary
        if durable:
            sync_file(temporary)
        temporary.replace(path)
        if durable:
            _sync_directory(path.parent)
        note_written(path)
    except OSError as error:
        if error.filename == str(temporary):
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def recording_writes() -> Iterator[list[Path]]:
    """Yield a list of all files that ``atomic_path`` writes within the block, or that are passed to ``note_written``."""
    written: list[Path] = []
    token = _written.set(written)
    try:
        yield written
    finally:
        _written.reset(token)


def note_written(path: Path) -> None:
    """Report to ``recording_writes`` a file, or all files of a directory, written without ``atomic_path``."""
    if (written := _written.get()) is not None:
        written += [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def sync_file(path: Path) -> None:
    """Make a file's content survive a power failure."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def _sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def utc_now() -> str:
    """Return the time as ISO 8601, to the second: ``2026-01-31T12:00:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def refuse_overwriting(out: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise ValueError if writing ``out`` would change an input or an artifact.

    That is so if it is an input under any name or link, lies in an input that is a directory, or is or lies in the directory of
    an artifact, finished or not.
    """
    for each in inputs:
        same = out.exists() and each.exists() and out.samefile(each)
        if same or (each.is_dir() and out.resolve().is_relative_to(each.resolve())):
            raise ValueError(f"{out}: it is {'' if same else 'within '}{each}, which is read; name another file to write")
    for place in (out.parent.resolve() / out.name, out.resolve()):  # A link and its target.
        for directory in (place, *place.parents):
            if is_of_an_artifact(directory):
                raise ValueError(f"{out}: {directory} is the directory of an artifact; name another place to write")


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with a home directory in place of ``~`` or ``~user``; that of an unknown user stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (Path's raises RuntimeError)


_REMEDIES = {
    errno.ENOENT: "check its path, or name another",
    errno.ENOTDIR: "a part of its path is a file; name another",
    errno.EISDIR: "name a file",
    errno.EEXIST: "name another",
    errno.EACCES: "change its permissions (chmod), or name another",
    errno.EPERM: "change its permissions (chmod), or name another",
    errno.EROFS: "name a place that can be written",
    errno.ELOOP: "its links lead in a circle; name another",
    errno.ENAMETOOLONG: "name a shorter one",
}
"""What to do about an error of the operating system that names a file."""


def with_remedy(error: OSError) -> str:
    """Return the message of an error of the operating system that names a file, with what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error.filename}: {error.strerror}" + (f"; {remedy}" if remedy else "")


def is_of_an_artifact(directory: Path) -> bool:
    """Whether a directory belongs to an artifact, finished or not, even if its manifest is damaged."""
    if (directory / OPENING).is_file():
        return True
    manifest = directory / MANIFEST
    if not manifest.is_file():
        return False
    content = manifest.read_bytes()  # Other programs use this file name too.
    return content.startswith(_DIGEST_HEAD) or all(name in content for name in (b'"output_digest"', b'"recipe"'))


def write_json(path: Path, value: Any, *, indent: int = 1, sort_keys: bool = False) -> None:
    """Write a value as a JSON file in UTF-8, completely or not at all."""
    atomic_write(path, (json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys) + "\n").encode())


def digested_json(value: Mapping[str, Any], *, sort_keys: bool = False) -> bytes:
    """Return a JSON object (with at least one field) that begins with ``digest``, the sha256 of all bytes after it."""
    rest = b'",' + json.dumps(value, ensure_ascii=False, indent=1, sort_keys=sort_keys).encode()[1:] + b"\n"
    return _DIGEST_HEAD + hashlib.sha256(rest).hexdigest().encode() + rest


def read_digested(content: bytes) -> tuple[Any, bool]:
    """Return the value of ``digested_json``, without its digest, and True; for other JSON the value and False.

    Raises FileChanged if the digest does not match, ValueError if it is not JSON.
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
    """Write a JSON object with a digest of itself, completely or not at all."""
    atomic_write(path, digested_json(value, sort_keys=sort_keys))


def known_digested(path: Path) -> dict[str, Any] | None:
    """Return what ``write_digested`` wrote, or None if the file is missing or damaged."""
    try:
        value, digested = read_digested(path.read_bytes())
    except (OSError, ValueError):
        return None
    return dict(value) if digested else None


def replace_directory(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target``. An existing target is renamed first and deleted last."""
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
    """Remove a directory tree, a file or a link (not its target), if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def digest_of_listing(digests: Mapping[str, str]) -> str:
    """Return one sha256 over relative names and content digests of a set of files."""
    lines = b"".join(os.fsencode(name) + f"\0{digests[name]}\n".encode() for name in sorted(digests))
    return hashlib.sha256(lines).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Return the sha256 of a file, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_and_stamp(path: Path) -> tuple[str, list[int]]:
    """Return the sha256 of a file and its ``stamp``. Raises FileChanged if the stamp changed while the file was read."""
    before = stamp(path)
    digest = sha256_of_file(path)
    if stamp(path) != before:
        raise FileChanged(f"{path} changed while it was read; run again when nothing writes it")
    return digest, before


def stamp(path: Path) -> list[int]:
    """Return what changes with a file's content: size, mtime and ctime.

    ctime shows a changed byte even if the mtime was restored.
    """
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class DigestMemory:
    """Caches sha256 by path and ``stamp``, so that planning does not hash 43 GB of raw input again.

    The cache is a directory that ``Store.make`` creates. Nothing is written while it does not exist, so that planning leaves
    no trace, and the directory around a copied artifact is not taken for a store.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def of(self, path: Path, *, again: bool = False) -> str:
        """Return the sha256 of a file, or of the listing of a directory's files; ``again`` ignores the cache.

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
        """Remove cached digests of files that no longer exist."""
        for entry in self.directory.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                if not Path(json.loads(entry.read_text("utf-8"))["path"]).exists():
                    entry.unlink()

    def remember(self, path: Path, digest: str, seen: list[int]) -> None:
        """Cache a file's digest under its stamp, unless the file is so young that it may change without a new stamp."""
        if not self.directory.is_dir():
            return
        entry = self._entry(path)
        readable = os.fsencode(path).decode(errors="replace")  # A file name need not be UTF-8.
        with contextlib.suppress(OSError):  # A full disk or read-only store: it is hashed again next time.
            if time.time_ns() - seen[2] < _SETTLED_NS:
                entry.unlink(missing_ok=True)
                return
            with atomic_path(entry, durable=False) as temporary:
                temporary.write_bytes(digested_json({"path": readable, "stamp": seen, "sha256": digest}))

    def _entry(self, path: Path) -> Path:
        return self.directory / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or all files of a directory except those of stores in it, sorted. Links to directories are
    followed.

    Raises ValueError naming a file whose name is not UTF-8, which no record of a run could hold.
    """
    found = sorted(inner for inner in entries_of(path) if inner.is_file()) if path.is_dir() else [path]
    for each in found:
        if (shown := os.fsencode(each).decode("utf-8", "replace")) != str(each):
            raise ValueError(f"{shown}: this name is not UTF-8; rename it (convmv -f cp949 -t utf-8 -r --notest DIRECTORY)")
    return found


def entries_of(directory: Path, above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield everything within a directory, in no order. Links to directories are followed, except to their own parents.

    Stores are left out, because a run in one would change what it reads.
    """
    real = os.path.realpath(directory)
    if real in above or not directory.is_dir():
        return
    for each in directory.iterdir():
        if (each / DIGESTS).is_dir():
            continue
        yield each
        yield from entries_of(each, above | {real})


_WORDS = ("no space left on device", "disk is full", "disk quota exceeded", "iostream error", "unexpected pos")
"""How SQLite, safetensors, training processes and (the last two) torch report a full disk in errors of their own."""


_ROOM = 64_000_000
"""With more bytes free, a file system is hardly the full one."""


class DiskFull(OSError):
    """A file system is full. Finished work is kept, and the next run continues from it."""


@contextlib.contextmanager
def explaining_full_disk(what: str, place: Path, *, resumes: bool = True) -> Iterator[None]:
    """Raise DiskFull in place of any error that a full disk caused.

    ``what`` is being built or written in ``place``, from which the next try continues if it ``resumes``.
    """
    try:
        yield
    except Exception as error:
        full = disk_full(error, what, [place, Path(tempfile.gettempdir())], kept=place if resumes else None)
        if full is None or full is error:
            raise
        raise full from error


def disk_full(error: BaseException, what: str, places: Iterable[Path], kept: Path | None = None) -> DiskFull | None:
    """Return a DiskFull that names the file system, if a full disk caused an error, else None.

    The file system is that of the file which the error names, else the fullest of ``places``.
    """
    cause = _of_a_full_disk(error)
    if cause is None or isinstance(cause, DiskFull):
        return cause
    named = getattr(cause, "filename", None)
    return DiskFull(_message(what, _fullest([Path(named)] if isinstance(named, str) else places), kept))


def require_space(path: Path, wanted: int, what: str) -> None:
    """Raise DiskFull if the file system of ``path`` has fewer than ``wanted`` bytes free."""
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


def _fullest(paths: Iterable[Path]) -> Path:
    existing = [next(p for p in (path, *path.absolute().parents) if os.path.exists(p)) for path in paths]  # noqa: PTH110 (of any name)
    return min(existing, key=lambda path: shutil.disk_usage(path).free)


def _mount_of(path: Path) -> Path:
    """Return the mount point of a path's file system."""
    path = path.resolve()
    while not os.path.ismount(path) and path != path.parent:
        path = path.parent
    return path


def _message(what: str, place: Path, kept: Path | None) -> str:
    usage = shutil.disk_usage(place)
    full = f"the file system {_mount_of(place)} is full ({usage.free / 1e6:,.1f} of {usage.total / 1e6:,.0f} MB free)"
    if kept is None:
        if usage.free > _ROOM:
            full = "a file system or a quota is full"
        return f"{what}: {full}. Free some (`korealbert gc` lists unused artifacts), or write elsewhere; then start again"
    return (
        f"{what}: {full}. Free some (`korealbert gc` lists unused artifacts), or move the store and name it with --store; "
        f"then run again: finished work is kept in {kept}, and the run continues from there"
    )


class RepeatedName(ValueError):
    """A JSON object has the same name twice."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the field {name!r} is given twice")
        self.name = name


def unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return these pairs as a dict; the ``object_pairs_hook`` of every decoder that reads records. Raises RepeatedName."""
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise RepeatedName(next(name for name, count in counts.items() if count > 1))
    return record


def json_fault(error: Exception) -> str:
    """Return what is wrong with JSON, by the error that a decoder raised: RecursionError, or ValueError."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if "integer string conversion" in str(error):
        return f"a number with more than {sys.get_int_max_str_digits():,} digits"
    return str(error)
