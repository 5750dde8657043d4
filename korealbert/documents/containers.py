"""Opens files, tar and zip archives (compressed or not) and directories of them as streams of bytes.

Nothing is unpacked to disk. ``ReadLimits`` bounds the decompressed size, because sizes stated in archives cannot be trusted.
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import struct
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from pathlib import Path
from stat import S_ISLNK
from typing import IO, Any

from korealbert.artifact.files import files_of
from korealbert.artifact.tar import TarFault, TarReader
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import (
    BYTES_PER_READ,
    COMPRESSED_BYTES_PER_READ,
    MAX_WINDOW_BYTES,
    Inflate,
    RatioGuard,
    RawFile,
    ReadFault,
    ReadLimits,
    decompressed,
)

_TAR_SUFFIXES = (".tar", *(f".tar.{kind}" for kind in ("gz", "bz2", "xz", "zst")), ".tgz", ".tbz2", ".txz", ".tzst")
_ZIP_SUFFIX = ".zip"
MAX_EMPTY_MEMBERS = 1 << 16
"""Empty members, directories and links that an archive may have, in addition to ``_EMPTY_MEMBERS_PER_FILE`` for each file with
content. Each costs an entry of the quarantine or a header."""
_EMPTY_MEMBERS_PER_FILE = 4
_LONGEST_PATH = 4096
"""Longest path of Linux. Longer names of members are not composed, because that takes quadratic time."""
_ZIP_UTF8_NAME, _ZIP_UNKNOWN_SIZE, _ZIP_ENCRYPTED = 0x800, 0x8, 0x1
"""Flags of a member of a zip archive."""
_ZIP_HEADER = struct.Struct("<4s5H3I2H")
_ZIP_SIGNATURE = b"PK\x03\x04"
_ZIP_DESCRIPTOR = b"PK\x07\x08"
"""Followed by checksum and both sizes; comes after a member whose header could not state them."""
_ZIP_MAX_DESCRIPTOR_BYTES = 24
_LZMA_HEADER = struct.Struct("<HHBI")
"""Precedes the LZMA stream of a zip member: version, size of the properties, lc + 9 · (lp + 5 · pb), size of the dictionary."""


class MemberFilter:
    """Selects files of a directory or archive: those that match a pattern, match no excluded pattern, and are not hidden.

    Patterns are those of fnmatch, applied to the path within the directory or archive. A pattern of which a part begins with a
    dot also selects hidden files, but never AppleDouble ones. Both are composed (NFC), because macOS writes the letters of a
    syllable separately.
    """

    def __init__(self, pattern: str = "*", exclude: Sequence[str] = ()) -> None:
        self.pattern = pattern
        self.hidden = 0
        """Number of hidden and AppleDouble files that were skipped."""
        self._takes_hidden = is_hidden(pattern)
        self._selected = re.compile(translate(composed_name(pattern)))
        self._excluded = re.compile("|".join(translate(composed_name(each)) for each in exclude)) if exclude else None

    def takes(self, name: str) -> bool:
        """Return whether to read a file; counts hidden ones."""
        name = composed_name(name)
        if not self._selected.match(name):
            return False
        if _is_apple_double(name) or (is_hidden(name) and not self._takes_hidden):
            self.hidden += 1
            return False
        return self._excluded is None or self._excluded.match(name) is None

    def opens(self, name: str) -> bool:
        """Return whether to open a file of a directory: an archive, whose members are selected, or a file to read."""
        return (is_archive(name) and (self._takes_hidden or not is_hidden(name))) or self.takes(name)


def composed_name(name: str) -> str:
    """Return a name in NFC, in which names are compared."""
    return unicodedata.normalize("NFC", name) if len(name) <= _LONGEST_PATH else name


def member_of(path: Path, name: str) -> str:
    """Return the name of a member within an archive from the one that ``open_files`` gave it; empty for a file itself."""
    return name[len(path.name) + len("::") :]


def is_hidden(name: str) -> bool:
    """Return whether a file, or a folder around it, begins with a dot: what programs keep for themselves."""
    return any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))


def _is_apple_double(name: str) -> bool:
    """Return whether macOS wrote this file for its Finder beside another one (``._1.txt``).

    AppleDouble files hold no text: https://www.rfc-editor.org/rfc/rfc1740.
    """
    parts = name.split("/")
    return parts[-1].startswith("._") or "__MACOSX" in parts[:-1]


def open_files(
    paths: Sequence[Path], members: str | MemberFilter, limits: ReadLimits, left_out: Collection[str] = ()
) -> Iterator[RawFile | Quarantined]:
    """Yield the streams of ``paths`` in the given order, of directories by relative path, of archives in archive order.

    ``members``, a pattern or a filter, selects files within directories and archives; ``left_out`` names further files of
    directories that are not opened. A stream is valid until the next one is requested. Names are relative to the path; the
    second of two equal names becomes ``2/name``, or the next number that no other file has. Raises FileNotFoundError naming a
    path that does not exist.
    """
    selected = MemberFilter(members) if isinstance(members, str) else members
    seen, taken = Counter[str](), set[str]()
    for path, name in _listed(paths, selected, left_out):
        unique = name
        while unique in taken:
            seen[name] += 1
            unique = f"{seen[name] + 1}/{name}"
        taken.add(unique)
        yield from _open_file(path, unique, selected, limits)


def is_archive(name: str) -> bool:
    """Return whether a name is that of a zip archive, or of a tar archive, compressed or not."""
    return name.lower().endswith((*_TAR_SUFFIXES, _ZIP_SUFFIX)) and not _is_apple_double(name)


def _listed(paths: Sequence[Path], members: MemberFilter, left_out: Collection[str]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if path.is_dir():
            inside = sorted((p.relative_to(path).as_posix(), p) for p in files_of(path))
            yield from ((file, name) for name, file in inside if members.opens(name) and name not in left_out)
        elif path.exists():
            yield path, path.name
        else:
            raise FileNotFoundError(f"{path}: no such file or directory")


def _open_file(path: Path, name: str, members: MemberFilter, limits: ReadLimits) -> Iterator[RawFile | Quarantined]:
    with path.open("rb") as handle:
        if name.lower().endswith(_ZIP_SUFFIX):
            yield from _Zip(RawFile(name, handle, limits), handle, members).opened()
            return
        file = RawFile(name, handle, limits)
        guard = RatioGuard(limits, lambda: file.bytes_read)  # A pipe has no `tell`.
        raw = decompressed(file, guard)
        if is_archive(name):
            yield from _Tar(raw, guard, members).opened()
        else:
            yield raw


class _Archive:
    """Opens the selected members of one archive; the limits hold for all of them together."""

    def __init__(self, archive: RawFile, guard: RatioGuard, selected: MemberFilter) -> None:
        self._archive, self._guard, self._selected = archive, guard, selected
        self._matched = self._empty = 0
        self._last: RawFile | None = None

    def opened(self) -> Iterator[RawFile | Quarantined]:
        """Yield the members, then the archive's fault, unless the last member had one itself."""
        try:
            yield from self._members()
        except (TarFault, ReadFault) as error:
            if self._last is None or self._last.fault is None:
                yield self._archive.quarantined(error if isinstance(error, ReadFault) else _fault_of_archive(error))
            return
        if not self._matched:
            remedy = f"no member matches {self._selected.pattern!r}: correct `members` of the extract spec"
            if self._selected.pattern == "*":
                remedy = "it holds no file that is to be read: leave it out, or fetch it again"
            yield Quarantined(self._archive.name, "byte 0", "", "no_members", remedy)

    def _members(self) -> Iterator[RawFile | Quarantined]:
        raise NotImplementedError

    def _takes(self, name: str, size: int) -> bool:
        """Return whether to open a member. Raises ReadFault if too many members are empty."""
        self._count_empty(name, size)
        takes = self._selected.takes(name)
        self._matched += takes
        return takes

    def _count_empty(self, name: str, size: int) -> None:
        self._empty = self._empty + 1 if size == 0 else max(0, self._empty - _EMPTY_MEMBERS_PER_FILE)
        if self._empty > MAX_EMPTY_MEMBERS:
            remedy = f"more than {MAX_EMPTY_MEMBERS:,} members are empty, or no files; pack the archive again without them"
            raise ReadFault("too_many_empty_members", f"member {name}", remedy)

    def _open(self, inner: RawFile) -> Iterator[RawFile | Quarantined]:
        if is_archive(inner.name):
            remedy = "an archive within an archive is not read: unpack the outer one, and name its directory"
            yield Quarantined(inner.name, "byte 0", "", "packed_file", remedy)
            return
        self._last = decompressed(inner, self._guard)
        self._last.records = self._archive.records
        self._last.records.add(1, 0, 1)  # A member costs as much as a record, whatever it holds.
        yield self._last
        if self._last.fault is not None and self._last.fault.reason in ("decompression_bomb", "empty_records"):
            raise self._last.fault  # the next member would have the same fault


def _fault_of_archive(error: TarFault) -> ReadFault:
    reason = {"truncated": "truncated_file", "corrupt": "corrupt_archive"}.get(error.reason, error.reason)
    return ReadFault(reason, f"byte {error.byte}", f"{error.detail}; the members before are kept; fetch the archive again")


class _Tar(_Archive):
    def _members(self) -> Iterator[RawFile | Quarantined]:
        reader = TarReader(self._archive.read)
        for member in reader:
            if not member.is_file:
                self._count_empty(member.name, 0)
                continue
            if not self._takes(member.name, member.size):
                continue
            inner = RawFile(f"{self._archive.name}::{member.name}", reader, self._archive.limits)
            if member.is_sparse:
                remedy = "a sparse file is not read: pack the archive again without --sparse"
                yield Quarantined(inner.name, "byte 0", "", "sparse_file", remedy)
            else:
                yield from self._open(inner)


class _Zip(_Archive):
    """Opens members in the order of the archive's directory, or from the beginning on if a truncated file has none.

    ``zipfile`` reads the directory only: its readers decompress bzip2 and LZMA without a limit.
    """

    def __init__(self, archive: RawFile, handle: IO[bytes], members: MemberFilter) -> None:
        self._handle = handle
        self._size = os.fstat(handle.fileno()).st_size
        super().__init__(archive, RatioGuard(archive.limits, lambda: self._size), members)
        archive.records.compressed = lambda: self._size

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
            is_link = S_ISLNK(member.external_attr >> 16)
            if not member.is_dir() and not is_link and self._takes(name, member.file_size):
                header = _local_header(self._handle, member.header_offset)
                if header is None:
                    remedy = f"no member begins at byte {member.header_offset}; fetch the archive again, or pack it as tar"
                    yield Quarantined(f"{self._archive.name}::{name}", "byte 0", "", "corrupt_file", remedy)
                    continue
                known = {"crc": member.CRC, "compressed": member.compress_size, "size": member.file_size}
                header = replace(header, name=name, flags=member.flag_bits, **known)
                yield from self._opened(header, _ZipData(self._handle, header))

    def _opened(self, header: _LocalHeader, stream: _ZipData) -> Iterator[RawFile | Quarantined]:
        name, limits = f"{self._archive.name}::{header.name}", self._archive.limits
        if header.flags & _ZIP_ENCRYPTED:
            yield Quarantined(name, "byte 0", "", "encrypted_file", "it needs a password: unpack the archive first")
        elif header.method not in _DECOMPRESSORS:
            remedy = f"compression {header.method} is not read; pack it as tar, or with deflate"
            yield Quarantined(name, "byte 0", "", "corrupt_file", remedy)
        else:
            yield from self._open(RawFile(name, stream, limits, RatioGuard(limits, stream.compressed_bytes, self._guard)))

    def _salvaged(self) -> Iterator[RawFile | Quarantined]:
        """Find members by their own headers. Always ends in a ReadFault."""
        position = 0
        while (header := _local_header(self._handle, position, alone=True)) is not None:
            stream = _ZipData(self._handle, header)
            if not header.name.endswith("/") and self._takes(header.name, header.size):
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
    """Size of the compressed data; None if the header does not state it."""
    size: int
    data: int
    """Position of the first byte of the data."""


def _local_header(handle: IO[bytes], position: int, *, alone: bool = False) -> _LocalHeader | None:
    """Return the header of the member that begins at a position, or None if there is no whole one.

    ``alone``: there is no directory that states the size of stored data, so their end is searched for.
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
        crc, compressed = _descriptor_behind(handle, data)
        size = compressed
    elif flags & _ZIP_UNKNOWN_SIZE or compressed == 0xFFFFFFFF:
        compressed, size = None, 1
    return _LocalHeader(_member_name(name, flags), flags, method, crc, compressed, size, data)


def _descriptor_behind(handle: IO[bytes], data: int) -> tuple[int, int]:
    """Return checksum and size of a stored member from the descriptor after it; without one, the member ends with the file."""
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
    return 0, handle.seek(0, os.SEEK_END) + 1 - data  # One byte too many, so that it counts as truncated.


class _ZipLzma:
    """LZMA of zip archives (a header, raw data, not always an end marker) with the interface of ``bz2.BZ2Decompressor``."""

    def __init__(self) -> None:
        self._head = b""
        self._raw: lzma.LZMADecompressor | None = None

    @property
    def eof(self) -> bool:
        return self._raw is not None and self._raw.eof

    @property
    def needs_input(self) -> bool:
        return self._raw is None or self._raw.needs_input

    @property
    def unused_data(self) -> bytes:
        return self._raw.unused_data if self._raw is not None else b""

    def decompress(self, data: bytes, size: int) -> bytes:
        if self._raw is None:
            self._head += data
            if len(self._head) < _LZMA_HEADER.size:
                return b""
            _, properties, packed, dictionary = _LZMA_HEADER.unpack_from(self._head)
            if properties != 5 or packed >= 9 * 5 * 5:
                raise lzma.LZMAError("no LZMA properties")
            if dictionary > MAX_WINDOW_BYTES:
                raise lzma.LZMAError("Memory usage limit exceeded")
            coder = {"id": lzma.FILTER_LZMA1, "dict_size": max(dictionary, 1 << 12)}
            coder |= {"lc": packed % 9, "lp": packed // 9 % 5, "pb": packed // 45}
            self._raw = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[coder])
            data = self._head[_LZMA_HEADER.size :]
        return self._raw.decompress(data, size)


_DECOMPRESSORS: dict[int, Any] = {
    zipfile.ZIP_STORED: None,
    zipfile.ZIP_DEFLATED: lambda: Inflate(-zlib.MAX_WBITS),
    zipfile.ZIP_BZIP2: bz2.BZ2Decompressor,
    zipfile.ZIP_LZMA: _ZipLzma,
}
"""By number of the compression method. ``decompress`` returns at most as many bytes as it is asked for."""


class _ZipData:
    """The decompressed data of one member as a stream."""

    def __init__(self, handle: IO[bytes], header: _LocalHeader) -> None:
        self._handle, self._header, self._position, self._crc, self._size = handle, header, header.data, 0, 0
        make = _DECOMPRESSORS.get(header.method)
        self._decompressor: Any = make() if make is not None else None
        self._ended = False

    def compressed_bytes(self) -> int:
        """Return how many compressed bytes were read."""
        return self._position - self._header.data

    def _compressed(self, size: int) -> bytes:
        if self._header.compressed is not None:
            size = min(size, self._header.data + self._header.compressed - self._position)
        self._handle.seek(self._position)
        block = self._handle.read(size)
        self._position += len(block)
        return block

    def read1(self, size: int) -> bytes:
        """Return at most ``size`` bytes. Raises EOFError for a truncated archive, BadZipFile for a damaged one."""
        if self._ended:
            return b""
        part = self._compressed(size) if self._decompressor is None else self._decompressed(size)
        if not part and self._decompressor is None and self.compressed_bytes() < (self._header.compressed or 0):
            raise EOFError("the archive ends within this member")
        self._crc = zlib.crc32(part, self._crc)
        self._size += len(part)
        if not part:
            self._ended = True
            if self._header.compressed is not None and self._crc != self._header.crc:
                raise zipfile.BadZipFile("Bad CRC-32")
        return part

    def _decompressed(self, size: int) -> bytes:
        part = b""
        while not part and not self._decompressor.eof:
            block = self._compressed(COMPRESSED_BYTES_PER_READ) if self._decompressor.needs_input else b""
            if not block and self._decompressor.needs_input:
                if self._header.compressed == self.compressed_bytes() and self._size == self._header.size:
                    break  # LZMA need not have an end marker.
                raise EOFError("the archive ends within this member")
            part = self._decompressor.decompress(block, size)
        return part

    def end(self) -> int | None:
        """Return where the next header begins; None if that cannot be known."""
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
        behind = self._handle.read(_ZIP_MAX_DESCRIPTOR_BYTES + len(_ZIP_SIGNATURE)).find(_ZIP_SIGNATURE)
        return None if behind < 0 else end + behind


def _zip_name(member: zipfile.ZipInfo) -> str:
    try:
        return _member_name(member.filename.encode("utf-8" if member.flag_bits & _ZIP_UTF8_NAME else "cp437"), member.flag_bits)
    except UnicodeEncodeError:
        return member.filename


def _member_name(name: bytes, flags: int) -> str:
    # Some archivers write names in UTF-8 without saying so, those on Korean Windows in CP949.
    for encoding in ("utf-8",) if flags & _ZIP_UTF8_NAME else ("utf-8", "cp949", "cp437"):
        try:
            return name.decode(encoding)
        except UnicodeDecodeError:
            continue
    return name.decode("utf-8", "backslashreplace")
