"""Opens any local input as streams of bytes: files, tar and zip archives, compressed or not, and directories of these.

Nothing is unpacked to disk.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, Self, cast

from korealbert.corpus.readers.streams import BYTES_PER_READ, RawFile, Readable, ReadFault, ReadLimits, unfold
from korealbert.documents.schema import Quarantined

TAR_SUFFIXES = (".tar", *(f".tar.{kind}" for kind in ("gz", "bz2", "xz", "zst")), ".tgz", ".tbz2", ".txz", ".tzst")
ZIP_SUFFIX = ".zip"
_ZIP_UTF8_NAME, _ZIP_ENCRYPTED = 0x800, 0x1
"""Flags of a member of a zip archive."""


def open_files(paths: Sequence[Path], members: str, limits: ReadLimits) -> Iterator[RawFile | Quarantined]:
    """All streams behind ``paths`` in the order given; directories sorted by relative path, archives in archive order.

    ``members`` is an fnmatch pattern on the path within a directory or archive. A stream is valid until the next one is
    asked for. Names do not tell where a source lay; of equal ones the second is ``2/name``. Raises FileNotFoundError naming a
    path that does not exist.
    """
    taken: Counter[str] = Counter()
    for path, name in _listed(paths, members):
        taken[name] += 1
        yield from _open_file(path, name if taken[name] == 1 else f"{taken[name]}/{name}", members, limits)


def _listed(paths: Sequence[Path], members: str) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if path.is_dir():
            inside = sorted((p.relative_to(path).as_posix(), p) for p in path.rglob("*") if p.is_file())
            yield from ((file, name) for name, file in inside if _is_archive(name) or fnmatchcase(name, members))
        elif path.exists():
            yield path, path.name
        else:
            raise FileNotFoundError(f"{path}: no such file or directory; it is named by `paths` of an extract spec")


def _is_archive(name: str) -> bool:
    return name.lower().endswith((*TAR_SUFFIXES, ZIP_SUFFIX))


def _open_file(path: Path, name: str, members: str, limits: ReadLimits) -> Iterator[RawFile | Quarantined]:
    with path.open("rb") as handle:
        if name.lower().endswith(ZIP_SUFFIX):
            yield from _open_zip(RawFile(name, handle, limits), handle, members, limits)
            return
        raw = unfold(RawFile(name, handle, limits), handle.tell)
        if _is_archive(name):
            yield from _open_members(raw, members, limits)
        else:
            yield raw


def _fault_of_archive(error: Exception, byte: int) -> ReadFault:
    reason = "truncated_file" if "nexpected end" in str(error) else "corrupt_archive"
    return ReadFault(reason, f"byte {byte}", f"{error}; fetch the archive again, members before were read")


class _Member(tarfile.TarInfo):
    """A header of an archive. ``TarFile.next`` takes a damaged one, and a missing end, for the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        """Raises ReadError for anything but a header or the end-of-archive block."""
        if len(buf) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError("unexpected end of the archive")
        try:
            return super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
        except tarfile.HeaderError as error:
            if not any(buf):
                raise  # the end
            raise tarfile.ReadError(f"damaged header of a member ({error})") from error


def _check_end(stream: IO[bytes]) -> None:
    """Raises ReadError if anything but zeros follows the end-of-archive block."""
    while block := stream.read(BYTES_PER_READ):
        if any(block):
            raise tarfile.ReadError("there is data behind the end of the archive")


def _open_members(archive: RawFile, members: str, limits: ReadLimits) -> Iterator[RawFile | Quarantined]:
    matched = 0
    inner: RawFile | None = None
    try:
        with tarfile.open(fileobj=cast(Any, Readable(archive)), mode="r|", tarinfo=_Member) as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # else a long archive's headers all stay in memory
                if not member.isfile() or not fnmatchcase(member.name, members):
                    continue
                stream = tar.extractfile(member)
                assert stream is not None
                matched += 1
                inner = RawFile(f"{archive.name}::{member.name}", stream, limits)
                yield unfold(inner, lambda inner=inner: inner.bytes_read)  # type: ignore[misc]
            _check_end(cast(Any, tar.fileobj))
    except (tarfile.TarError, EOFError, ReadFault) as error:
        if inner is None or inner.fault is None:  # else the member has told already
            yield archive.quarantined(error if isinstance(error, ReadFault) else _fault_of_archive(error, archive.bytes_read))
        return
    if not matched:
        yield _no_members(archive, members)


def _no_members(archive: RawFile, members: str) -> Quarantined:
    remedy = f"no member matches {members!r}: correct `members` of the extract spec"
    return Quarantined(archive.name, "byte 0", "", "no_members", remedy)


def _open_zip(archive: RawFile, handle: IO[bytes], members: str, limits: ReadLimits) -> Iterator[RawFile | Quarantined]:
    """The members in the order of the archive's directory. Each may unfold as far as any stream, and so may all together."""
    matched = unfolded = 0
    most = max(limits.ratio_applies_above_bytes, limits.max_decompression_ratio * os.fstat(handle.fileno()).st_size)
    try:
        packed = zipfile.ZipFile(handle)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        yield archive.quarantined(ReadFault("corrupt_archive", "byte 0", f"{error}; fetch the archive again"))
        return
    with packed:
        for member in packed.infolist():
            name = _member_name(member)
            if member.is_dir() or not fnmatchcase(name, members):
                continue
            matched += 1
            if unfolded > most:
                remedy = "its members unfold too far together; if that is right, raise limits.max_decompression_ratio"
                yield archive.quarantined(ReadFault("decompression_bomb", f"member {name}", remedy))
                return
            inner = _open_zipped(packed, member, f"{archive.name}::{name}", limits)
            if isinstance(inner, Quarantined):
                yield inner
                continue
            yield unfold(inner, lambda inner=inner: inner.bytes_read)  # type: ignore[misc]
            unfolded += inner.bytes_read
    if not matched:
        yield _no_members(archive, members)


def _open_zipped(packed: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, limits: ReadLimits) -> RawFile | Quarantined:
    if member.flag_bits & _ZIP_ENCRYPTED:
        return Quarantined(name, "byte 0", "", "encrypted_file", "it needs a password: unpack the archive first")
    try:
        return RawFile(name, packed.open(member), limits, lambda: member.compress_size)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        return Quarantined(name, "byte 0", "", "corrupt_file", f"{error}; fetch the archive again, or pack it as tar")


def _member_name(member: zipfile.ZipInfo) -> str:
    """Archivers of Korean Windows write names in CP949 and do not say so; they are read as CP437 then."""
    if member.flag_bits & _ZIP_UTF8_NAME:
        return member.filename
    try:
        return member.filename.encode("cp437").decode("cp949")
    except UnicodeError:
        return member.filename
