"""Opens any local input as streams of bytes: files, tar and zip archives, compressed or not, and directories of these.

Nothing is unpacked to disk, and sizes stated in archives are not trusted: ``ReadLimits`` bounds the decompressed size.
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase, translate
from pathlib import Path
from stat import S_ISLNK
from typing import IO, Any

from korealbert.artifact.files import files_of
from korealbert.artifact.tar import TarFault, TarReader
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import (
    BYTES_PER_READ,
    COMPRESSED_BYTES_PER_READ,
    Inflate,
    RawFile,
    ReadFault,
    ReadLimits,
    Unfolding,
    ZipLzma,
    unfold,
)

_TAR_SUFFIXES = (".tar", *(f".tar.{kind}" for kind in ("gz", "bz2", "xz", "zst")), ".tgz", ".tbz2", ".txz", ".tzst")
_ZIP_SUFFIX = ".zip"
MAX_EMPTY_MEMBERS = 1 << 16
"""Members without a byte in one archive, beyond ``_EMPTY_PER_FILE`` for each other file; each costs an entry of the quarantine,
or if it is a directory or a link, a header."""
_EMPTY_PER_FILE = 4
_ZIP_UTF8_NAME, _ZIP_UNKNOWN_SIZE, _ZIP_ENCRYPTED = 0x800, 0x8, 0x1
"""Flags of a member of a zip archive."""
_ZIP_HEADER = struct.Struct("<4s5H3I2H")
_ZIP_SIGNATURE = b"PK\x03\x04"
_ZIP_DESCRIPTOR = b"PK\x07\x08"
"""What follows a member whose header did not know its sizes: this, its checksum and both sizes."""
_ZIP_LONGEST_DESCRIPTOR = 24


class Members:
    """Which files within directories and archives are meant: those that a pattern matches and no other pattern excludes.

    Patterns are those of fnmatch, on the path within the directory or archive. Of what macOS packs beside each file
    none is meant.
    """

    def __init__(self, pattern: str = "*", exclude: Sequence[str] = ()) -> None:
        self.pattern = pattern
        self.twins = 0
        """Twins of macOS that were passed over."""
        self._excluded = re.compile("|".join(map(translate, exclude))) if exclude else None

    def takes(self, name: str) -> bool:
        """Whether a file is to be read; twins are counted."""
        if not fnmatchcase(name, self.pattern):
            return False
        twin = is_twin(name)
        self.twins += twin
        return not twin and (self._excluded is None or self._excluded.match(name) is None)


def is_twin(name: str) -> bool:
    """Whether a file within a directory or archive is what macOS writes beside another one, for its Finder: ``._1.txt``.

    These are in AppleDouble format, and no text: https://www.rfc-editor.org/rfc/rfc1740.
    """
    parts = name.split("/")
    return parts[-1].startswith("._") or "__MACOSX" in parts[:-1]


def open_files(paths: Sequence[Path], members: str | Members, limits: ReadLimits) -> Iterator[RawFile | Quarantined]:
    """All streams of ``paths`` in the order given; directories sorted by relative path, archives in archive order.

    ``members`` says which files within directories and archives, a pattern alone or a whole ``Members``. A stream is valid
    until the next one is requested. Names hold no directory above a path; of equal names the second is ``2/name``. Raises
    FileNotFoundError naming a path that does not exist.
    """
    wanted = Members(members) if isinstance(members, str) else members
    taken: Counter[str] = Counter()
    for path, name in _listed(paths, wanted):
        taken[name] += 1
        yield from _open_file(path, name if taken[name] == 1 else f"{taken[name]}/{name}", wanted, limits)


def is_archive(name: str) -> bool:
    """Whether a name means a zip archive, or a tar archive, compressed or not."""
    return name.lower().endswith((*_TAR_SUFFIXES, _ZIP_SUFFIX)) and not is_twin(name)


def _listed(paths: Sequence[Path], members: Members) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if path.is_dir():
            inside = sorted((p.relative_to(path).as_posix(), p) for p in files_of(path))
            yield from ((file, name) for name, file in inside if is_archive(name) or members.takes(name))
        elif path.exists():
            yield path, path.name
        else:
            raise FileNotFoundError(f"{path}: no such file or directory")


def _open_file(path: Path, name: str, members: Members, limits: ReadLimits) -> Iterator[RawFile | Quarantined]:
    with path.open("rb") as handle:
        if name.lower().endswith(_ZIP_SUFFIX):
            yield from _Zip(RawFile(name, handle, limits), handle, members).opened()
            return
        file = RawFile(name, handle, limits)
        unfolding = Unfolding(limits, lambda: file.bytes_read)  # A pipe has no `tell`.
        raw = unfold(file, lambda: file.bytes_read, unfolding)
        if is_archive(name):
            yield from _Tar(raw, unfolding, members).opened()
        else:
            yield raw


class _Members:
    """The members of one archive that match a pattern, under limits that hold for all of them together."""

    def __init__(self, archive: RawFile, unfolding: Unfolding, members: Members) -> None:
        self._archive, self._unfolding, self._wanted = archive, unfolding, members
        self._matched = self._empty = 0
        self._last: RawFile | None = None

    def opened(self) -> Iterator[RawFile | Quarantined]:
        """The members, then why the archive could not be read on, unless the last member's own fault said so."""
        try:
            yield from self._members()
        except (TarFault, ReadFault) as error:
            if self._last is None or self._last.fault is None:
                yield self._archive.quarantined(error if isinstance(error, ReadFault) else _fault_of_archive(error))
            return
        if not self._matched:
            remedy = f"no member matches {self._wanted.pattern!r}: correct `members` of the extract spec"
            yield Quarantined(self._archive.name, "byte 0", "", "no_members", remedy)

    def _members(self) -> Iterator[RawFile | Quarantined]:
        raise NotImplementedError

    def _wants(self, name: str, size: int) -> bool:
        """Whether a member is to be opened. Raises ReadFault at too many empty ones."""
        self._count(name, size)
        wanted = self._wanted.takes(name)
        self._matched += wanted
        return wanted

    def _count(self, name: str, size: int) -> None:
        self._empty = self._empty + 1 if size == 0 else max(0, self._empty - _EMPTY_PER_FILE)
        if self._empty > MAX_EMPTY_MEMBERS:
            remedy = f"more than {MAX_EMPTY_MEMBERS:,} members are empty, or no files; pack the archive again without them"
            raise ReadFault("too_many_empty_members", f"member {name}", remedy)

    def _open(self, inner: RawFile) -> Iterator[RawFile]:
        self._last = unfold(inner, lambda: inner.bytes_read, self._unfolding)
        self._last.records = self._archive.records
        self._last.records.add(1, 0, 1)  # A member costs as much as a record, whatever it holds.
        yield self._last
        if self._last.fault is not None and self._last.fault.reason in ("decompression_bomb", "empty_records"):
            raise self._last.fault  # the next member would only say it again


def _fault_of_archive(error: TarFault) -> ReadFault:
    reason = {"truncated": "truncated_file", "corrupt": "corrupt_archive"}.get(error.reason, error.reason)
    return ReadFault(reason, f"byte {error.byte}", f"{error.detail}; the members before are kept; fetch the archive again")


class _Tar(_Members):
    def _members(self) -> Iterator[RawFile | Quarantined]:
        reader = TarReader(self._archive.read)
        for member in reader:
            if not member.is_file:
                self._count(member.name, 0)
                continue
            if not self._wants(member.name, member.size):
                continue
            inner = RawFile(f"{self._archive.name}::{member.name}", reader, self._archive.limits)
            if member.is_sparse:
                remedy = "a sparse file is not read: pack the archive again without --sparse"
                yield Quarantined(inner.name, "byte 0", "", "sparse_file", remedy)
            else:
                yield from self._open(inner)


class _Zip(_Members):
    """The members in the order of the archive's directory; without it (a truncated file) from the beginning on.

    The directory is read by ``zipfile``, the data here: its readers unfold bzip2 and LZMA without a limit.
    """

    def __init__(self, archive: RawFile, handle: IO[bytes], members: Members) -> None:
        self._handle = handle
        self._size = os.fstat(handle.fileno()).st_size
        super().__init__(archive, Unfolding(archive.limits, lambda: self._size), members)
        archive.records.folded = lambda: self._size

    def _members(self) -> Iterator[RawFile | Quarantined]:
        try:
            listed = zipfile.ZipFile(self._handle).infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            self._handle.seek(0)
            if self._handle.read(len(_ZIP_SIGNATURE)) != _ZIP_SIGNATURE:
                remedy = "if it is none, give it the ending of what it is; otherwise fetch the archive again"
                raise ReadFault("corrupt_archive", "byte 0", f"{error}; {remedy}") from error
            yield from self._salvaged()
            return
        for member in listed:
            name = _zip_name(member)
            linked = S_ISLNK(member.external_attr >> 16)  # Its content is the path that it leads to.
            if not member.is_dir() and not linked and self._wants(name, member.file_size):
                header = _local_header(self._handle, member.header_offset)
                if header is None:
                    remedy = f"no member begins at byte {member.header_offset}; fetch the archive again, or pack it as tar"
                    yield Quarantined(f"{self._archive.name}::{name}", "byte 0", "", "corrupt_file", remedy)
                    continue
                known = {"crc": member.CRC, "compressed": member.compress_size, "size": member.file_size}
                header = replace(header, name=name, flags=member.flag_bits, **known)
                yield from self._opened(header, _Member(self._handle, header))

    def _opened(self, header: _LocalHeader, stream: _Member) -> Iterator[RawFile | Quarantined]:
        name, limits = f"{self._archive.name}::{header.name}", self._archive.limits
        if header.flags & _ZIP_ENCRYPTED:
            yield Quarantined(name, "byte 0", "", "encrypted_file", "it needs a password: unpack the archive first")
        elif header.method not in _METHODS:
            remedy = f"compression {header.method} is not read; pack it as tar, or with deflate"
            yield Quarantined(name, "byte 0", "", "corrupt_file", remedy)
        else:
            yield from self._open(RawFile(name, stream, limits, Unfolding(limits, stream.folded, self._unfolding)))

    def _salvaged(self) -> Iterator[RawFile | Quarantined]:
        """Members by the header that each has of its own. Ends in a ReadFault."""
        position = 0
        while (header := _local_header(self._handle, position, alone=True)) is not None:
            stream = _Member(self._handle, header)
            if not header.name.endswith("/") and self._wants(header.name, header.size):
                yield from self._opened(header, stream)
            if (end := stream.end()) is None:
                break
            position = end
        where = f"byte {position if header is None else header.data}"
        detail = "the archive ends without its directory; the members before were found by their own headers and are kept"
        raise ReadFault("truncated_file", where, f"{detail}; fetch the archive again")


@dataclass(frozen=True, slots=True)
class _LocalHeader:
    name: str
    flags: int
    method: int
    crc: int
    compressed: int | None
    """Bytes of the compressed data; None where the header does not know."""
    size: int
    data: int
    """Where the data begin."""


def _local_header(handle: IO[bytes], position: int, *, alone: bool = False) -> _LocalHeader | None:
    """The header of the member that begins at a position, or None where none does, or not a whole one.

    ``alone``: no directory tells the size of stored data, which are then looked through for their end.
    """
    if position < 0:
        return None
    handle.seek(position)
    block = handle.read(_ZIP_HEADER.size)
    if len(block) < _ZIP_HEADER.size or not block.startswith(_ZIP_SIGNATURE):
        return None
    _, _, flags, method, _, _, crc, compressed, size, name_bytes, extra_bytes = _ZIP_HEADER.unpack(block)
    name = handle.read(name_bytes)
    if len(name) < name_bytes or len(handle.read(extra_bytes)) < extra_bytes:
        return None
    data = position + _ZIP_HEADER.size + name_bytes + extra_bytes
    if alone and flags & _ZIP_UNKNOWN_SIZE and method == zipfile.ZIP_STORED:
        crc, compressed = _described(handle, data)
        size = compressed
    elif flags & _ZIP_UNKNOWN_SIZE or compressed == 0xFFFFFFFF:
        compressed, size = None, 1
    return _LocalHeader(_member_name(name, flags), flags, method, crc, compressed, size, data)


def _described(handle: IO[bytes], data: int) -> tuple[int, int]:
    """Checksum and size of a stored member from the descriptor behind it; where none is left, it reaches to the end."""
    position, kept = data, b""
    handle.seek(data)
    while block := handle.read(BYTES_PER_READ):
        kept += block
        found = -1
        while (found := kept.find(_ZIP_DESCRIPTOR, found + 1)) >= 0:
            handle.seek(position + found + len(_ZIP_DESCRIPTOR))
            crc, *sizes = struct.unpack("<III", handle.read(12).ljust(12, b"\xff"))
            if sizes == [position + found - data] * 2:
                return crc, sizes[0]
        handle.seek(position + len(kept))
        position += max(0, len(kept) - len(_ZIP_DESCRIPTOR))
        kept = kept[-len(_ZIP_DESCRIPTOR) :]
    return 0, handle.seek(0, os.SEEK_END) + 1 - data  # One byte more than there is: its end is missing.


_METHODS: dict[int, Any] = {
    zipfile.ZIP_STORED: None,
    zipfile.ZIP_DEFLATED: lambda: Inflate(-zlib.MAX_WBITS),
    zipfile.ZIP_BZIP2: bz2.BZ2Decompressor,
    zipfile.ZIP_LZMA: ZipLzma,
}
"""What unfolds a member, by the number of its compression; each call gives at most as many bytes as it is asked for."""


class _Member:
    """The data of one member as a stream."""

    def __init__(self, handle: IO[bytes], header: _LocalHeader) -> None:
        self._handle, self._header, self._position, self._crc, self._size = handle, header, header.data, 0, 0
        make = _METHODS.get(header.method)
        self._decompressor: Any = make() if make is not None else None
        self._ended = False

    def folded(self) -> int:
        """Compressed bytes read."""
        return self._position - self._header.data

    def _compressed(self, size: int) -> bytes:
        if self._header.compressed is not None:
            size = min(size, self._header.data + self._header.compressed - self._position)
        self._handle.seek(self._position)
        block = self._handle.read(size)
        self._position += len(block)
        return block

    def read1(self, size: int) -> bytes:
        """At most ``size`` bytes; empty at the end. Raises EOFError where the archive ends, BadZipFile for other bytes."""
        if self._ended:
            return b""
        part = self._compressed(size) if self._decompressor is None else self._unfolded(size)
        if not part and self._decompressor is None and self.folded() < (self._header.compressed or 0):
            raise EOFError("the archive ends within this member")
        self._crc = zlib.crc32(part, self._crc)
        self._size += len(part)
        if not part:
            self._ended = True
            if self._header.compressed is not None and self._crc != self._header.crc:
                raise zipfile.BadZipFile("Bad CRC-32")
        return part

    def _unfolded(self, size: int) -> bytes:
        part = b""
        while not part and not self._decompressor.eof:
            block = self._compressed(COMPRESSED_BYTES_PER_READ) if self._decompressor.needs_input else b""
            if not block and self._decompressor.needs_input:
                if self._header.compressed == self.folded() and self._size == self._header.size:
                    break  # LZMA need not have an end marker.
                raise EOFError("the archive ends within this member")
            part = self._decompressor.decompress(block, size)
        return part

    def end(self) -> int | None:
        """Where the next member's header begins, or the archive's directory; None if that cannot be known."""
        if self._header.compressed is not None:
            return self._header.data + self._header.compressed + 16 * bool(self._header.flags & _ZIP_UNKNOWN_SIZE)
        if self._decompressor is None:
            return None
        try:
            while self.read1(BYTES_PER_READ):
                pass
        except (EOFError, OSError, zlib.error, lzma.LZMAError):
            return None
        end = self._position - len(self._decompressor.unused_data)
        self._handle.seek(end)
        behind = self._handle.read(_ZIP_LONGEST_DESCRIPTOR + len(_ZIP_SIGNATURE)).find(_ZIP_SIGNATURE)
        return None if behind < 0 else end + behind


def _zip_name(member: zipfile.ZipInfo) -> str:
    try:
        return _member_name(member.filename.encode("utf-8" if member.flag_bits & _ZIP_UTF8_NAME else "cp437"), member.flag_bits)
    except UnicodeEncodeError:
        return member.filename


def _member_name(name: bytes, flags: int) -> str:
    """Archivers of Korean Windows write names in CP949 and do not say so."""
    for encoding in ("utf-8",) if flags & _ZIP_UTF8_NAME else ("cp949", "cp437"):
        try:
            return name.decode(encoding)
        except UnicodeDecodeError:
            continue
    return name.decode("utf-8", "backslashreplace")
