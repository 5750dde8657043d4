"""Reads one file as a stream of bytes, decompressed if its name ends in .gz, .bz2, .xz or .zst.

A truncated or corrupt file and a decompression bomb raise ``ReadFault``, but only after all bytes before the fault were
returned.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pydantic import Field

from korealbert.artifact import Spec
from korealbert.artifact.tar import TarFault
from korealbert.documents.schema import Quarantined

_MAGIC = (
    (b"\x1f\x8b\x08", "gzip", ".gz"),
    (b"BZh", "bzip2", ".bz2"),
    (b"\xfd7zXZ\0", "xz", ".xz"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    (b"7z\xbc\xaf\x27\x1c", "7z", ""),
    (b"PK\x03\x04", "zip", ".zip"),
)
"""First bytes of a compressed file, its kind, and the suffix under which it is read; no suffix if it is never read."""
_ZIP_HEADER_BYTES = 30
"""Bytes before the name of the first member of a ZIP archive."""
_OFFICE_MEMBERS = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"word/", b"xl/", b"ppt/", b"mimetypeapplication/")
"""Names with which the first member of an office document begins."""
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
"""What follows ``BZh`` and a digit in bzip2: a block, or the end of an empty file. Text could begin with ``BZh`` too."""

BYTES_PER_READ = 1 << 18
"""Decompressed bytes read at once."""
_MAX_BLANK_BYTES = 4 << 20
"""Longest run of blanks and line ends; each line costs as much time as a record."""
ANY_RATIO_BYTES = 16 << 20
"""Decompressed size up to which the compression ratio is not checked."""
_REPETITION_FACTOR = 8
"""Multiplies ``max_decompression_ratio`` between ``ANY_RATIO_BYTES`` and ``ratio_applies_above_bytes``: only one repeated byte
compresses so well."""
MAX_EMPTY_STREAMS = 10_000
"""Empty compressed streams in a row within one file."""
MAX_WINDOW_BYTES = 128 << 20
"""Largest window that a header may ask for, of up to 4 GB: twice that of ``xz -9``, and the limit of zstd's own decoder."""

MAX_EMPTY_RECORDS = 1 << 18
"""A file with more lines or records than this must have ``_MIN_RECORD_BYTES`` for each: parsing one takes 10 to 120 µs."""
_MIN_RECORD_BYTES = 4
"""One Hangul syllable and a line end."""
FREE_RECORDS = 1 << 15
"""A file with more records than this must have one compressed byte for each further one: parsing and writing one takes 10 to
120 µs, whatever it holds. Wikipedia's empty and redirecting pages have 40 bytes and more."""

_HEADERS = {
    ".gz": re.compile(rb"\x1f\x8b\x08[\0-\x1f].{4}[\0\2\4][\0-\r\xff]", re.DOTALL),
    ".bz2": re.compile(rb"BZh[1-9]1AY&SY"),
    ".xz": re.compile(rb"\xfd7zXZ\0\0[\0\1\4\n]"),
}
"""First bytes of a compressed stream, by the suffix of files that are joined from several."""
_MAX_HEADER_BYTES = 10
_KEPT_BYTES = 1 << 20
"""Compressed bytes before the place where a decompressor notices damage, in which the next stream may begin. A block of bzip2
has up to 900,000."""
_MAX_DAMAGED_STREAMS = 1_000
"""Damaged streams of a file after which it is not read on, because each costs time."""

COMPRESSED_BYTES_PER_READ = 1 << 14
"""Small, because unused input is copied for each gzip member."""
_ZSTANDARD_BYTES_PER_READ = 1 << 10

_SALVAGED = "what comes before is kept, up to its last whole record; fetch the file again"


class ReadLimits(Spec):
    """How large a source may become by decompression before it counts as an attack or an accident.

    Two limits hold for one compressed stream, for one in another, and for all members of an archive together.
    """

    max_record_bytes: int = Field(default=64 << 20, ge=1024)
    """Longest raw record (line, page, JSON value, one-document file) in bytes; longer ones go to quarantine unread."""
    max_decompression_ratio: int = Field(default=1000, ge=1)
    """Decompressed bytes per compressed byte. Text compresses 3- to 30-fold, boilerplate rarely above 200-fold."""
    ratio_applies_above_bytes: int = Field(default=1 << 30, ge=0)
    """Decompressed size up to which a higher ratio is fine, though not above eight times that ratio."""


class ReadFault(Exception):
    """Raised where a stream cannot be read any further."""

    def __init__(self, reason: str, position: str, remedy: str) -> None:
        super().__init__(f"{position}: {reason}; {remedy}")
        self.reason, self.position, self.remedy = reason, position, remedy


class RatioGuard:
    """Compares the decompressed size of a stream with its compressed size, also on behalf of the archive around it."""

    def __init__(self, limits: ReadLimits, compressed: Callable[[], int], outer: RatioGuard | None = None) -> None:
        """``compressed`` returns how many compressed bytes were read so far."""
        self._limits, self._compressed, self._outer = limits, compressed, outer
        self._decompressed = 0

    def add(self, size: int, position: str) -> None:
        """Count ``size`` more decompressed bytes. Raises ReadFault beyond a limit."""
        self._decompressed += size
        if self._decompressed > min(ANY_RATIO_BYTES, self._limits.ratio_applies_above_bytes):
            self._check(position)
        if self._outer is not None:
            self._outer.add(size, position)

    def _check(self, position: str) -> None:
        limit, compressed = self._limits.max_decompression_ratio, max(1, self._compressed())
        if self._decompressed <= self._limits.ratio_applies_above_bytes:
            limit *= _REPETITION_FACTOR
        if self._decompressed > limit * compressed:
            remedy = (
                f"{compressed:,} compressed bytes unfold to more than {self._decompressed:,}, all members and streams together,"
                f" and the limit is {limit:,}-fold; if that is right, raise limits.max_decompression_ratio"
            )
            raise ReadFault("decompression_bomb", position, remedy)


@dataclass(slots=True)
class _RecordCount:
    """Number and size of the records that were read of a file, or of all members of an archive."""

    count: int = 0
    """Number of lines or of records, whichever is greater."""
    content_bytes: int = 0
    """Size of these lines or records: without headers in WARC files, of the texts alone in Parquet."""
    parsed: int = 0
    """Number of records that become documents or entries of the quarantine, and of members of an archive."""
    compressed: Callable[[], int] | None = None
    """Returns how many bytes of the file itself were read; None if nobody counts them."""

    def add(self, count: int, content_bytes: int, parsed: int) -> None:
        """Add to the three numbers."""
        self.count += count
        self.content_bytes += content_bytes
        self.parsed += parsed

    @property
    def allowed(self) -> int:
        """How many more records the file may have; negative if it already has too many."""
        return FREE_RECORDS + (self.compressed() - self.parsed if self.compressed is not None else 0)


class RawFile:
    """One named stream of bytes: a file, or a member of an archive."""

    def __init__(self, name: str, stream: IO[bytes] | Any, limits: ReadLimits, guard: RatioGuard | None = None) -> None:
        self.name = name.encode("utf-8", "backslashreplace").decode()  # names on disk need not be UTF-8, shards must be
        """File name, ``directory-relative/path``, or ``archive.tar.zst::member``."""
        self.limits = limits
        self.bytes_read = 0
        self.fault: ReadFault | None = None
        self.records = _RecordCount()
        """Filled by the framing; all members of an archive share one object."""
        self.must_be_plain = False
        """Raise ReadFault if the first bytes are those of a compressed file, whose name does not say so."""
        self.format = ""
        """The format by which the recipe reads it; set by the framing."""
        self._stream, self._guard = stream, guard
        self._suffix = Path(name).suffix if isinstance(stream, _ConcatenatedStreams | _Zstandard) else ""
        self._blank_bytes = 0

    def read(self, size: int = BYTES_PER_READ) -> bytes:
        """Return the next ``size`` bytes, or fewer at the end. Raises ReadFault once all bytes before it were returned."""
        if self.fault:
            raise self.fault
        parts: list[bytes] = []
        missing = size
        while missing > 0:
            try:
                part = self._read_some(min(missing, BYTES_PER_READ))
            except ReadFault as fault:
                self.fault = fault
                if parts:
                    break
                raise
            if not part:
                break
            parts.append(part)
            missing -= len(part)
            self.bytes_read += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def skip_damaged_stream(self) -> bool:
        """Move from damage within a compressed stream (a gzip member) to the next stream; return whether there is one.

        The bytes read next are the first of that stream.
        """
        damaged = self.fault is not None and self.fault.reason in ("corrupt_file", "truncated_file")
        if not (damaged and isinstance(self._stream, _ConcatenatedStreams)):
            return False
        try:
            found = self._stream.skip_to_next()
        except ReadFault:  # of the file that contains this one
            found = False
        self.fault = None if found else self.fault
        return found

    def read_text(self, size: int = BYTES_PER_READ) -> bytes:
        """``read``, but millions of empty records, or of blanks and line ends in a row, are a fault: they only cost time."""
        self.refuse_empty_records(f"byte {self.bytes_read}")
        block = self.read(size)
        if block.isspace():
            self._blank_bytes += len(block)
        else:
            self._blank_bytes = len(block) - len(block.rstrip())
        if self._blank_bytes > _MAX_BLANK_BYTES:
            remedy = f"more than {_MAX_BLANK_BYTES:,} bytes of blanks and line ends in a row; {_SALVAGED}, or remove the blanks"
            self.fault = ReadFault("blank_bytes", f"byte {self.bytes_read}", remedy)
            raise self.fault
        return block

    def refuse_empty_records(self, position: str) -> None:
        """Raise ReadFault if the records counted so far are too small, or come from too few compressed bytes."""
        if self.fault is not None and self.fault.reason == "empty_records":
            raise self.fault
        count, size = self.records.count, self.records.content_bytes
        if self.records.allowed < 0:
            problem = "come of fewer compressed bytes, so they hold nothing, or the same again and again"
            count, remedy = self.records.parsed, f"{_SALVAGED}, unpack it, or leave it out"
        elif count > MAX_EMPTY_RECORDS and size < _MIN_RECORD_BYTES * count:
            problem, remedy = f"hold fewer than {_MIN_RECORD_BYTES} bytes each", f"{_SALVAGED}, or leave it out"
        else:
            return
        message = f"{count:,} lines or records of this file, all its members together, {problem}; {remedy}"
        self.fault = ReadFault("empty_records", position, message)
        raise self.fault

    def _read_some(self, size: int) -> bytes:
        position = f"byte {self.bytes_read}"
        try:
            part: bytes = self._stream.read1(size) if hasattr(self._stream, "read1") else self._stream.read(size)
        except ReadFault as fault:  # of the file that contains this one
            raise ReadFault(fault.reason, position, fault.remedy) from fault
        except (EOFError, OSError, zlib.error, lzma.LZMAError, TarFault, zipfile.BadZipFile, pa.ArrowInvalid) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the disk, not of a decompressor
            raise _fault_of(error, position, self._suffix) from error
        if self._guard is not None:
            self._guard.add(len(part), position)
        if self.must_be_plain and self.bytes_read == 0:
            _refuse_compressed(part)
        return part

    def quarantined(self, fault: ReadFault) -> Quarantined:
        """Return the fault as an entry of the quarantine."""
        return Quarantined(self.name, fault.position, "", fault.reason, fault.remedy)


def _refuse_compressed(first_bytes: bytes) -> None:
    for magic, kind, suffix in _MAGIC:
        if first_bytes.startswith(magic) and (suffix != ".bz2" or first_bytes[4:].startswith(_BZIP2_BLOCKS)):
            remedy = f"name it …{suffix}, or unpack it before it comes by standard input" if suffix else "unpack it first"
            if kind == "zip" and first_bytes.startswith(_OFFICE_MEMBERS, _ZIP_HEADER_BYTES):
                remedy = "these bytes are an office document (DOCX, HWPX, ODT): convert it to text (.txt), for it is not read"
                raise ReadFault("other_format", "byte 0", remedy)
            raise ReadFault("packed_file", "byte 0", f"these bytes are {kind}, which its name does not say: {remedy}")


def _fault_of(error: Exception, position: str, suffix: str) -> ReadFault:
    """Translate an error of a decompressor or an archive; ``suffix`` is that of a compressed file, else empty."""
    text = str(error) or type(error).__name__
    truncated = isinstance(error, EOFError) or "runcated" in text
    if isinstance(error, TarFault):
        truncated = error.reason == "truncated"
        text = f"{error.detail} (byte {error.byte} of the archive)"
    if "emory" in text:  # "Memory usage limit exceeded" (xz), "Frame requires too much memory for decoding" (zstd)
        remedy = f"{text}: a window of more than {MAX_WINDOW_BYTES:,} bytes; pack it again without --long or with xz -9 or less"
        return ReadFault("decompression_bomb", position, remedy)
    remedy = _SALVAGED
    if suffix and not truncated and position == "byte 0":
        remedy = f"if it is no {suffix} file, give it the ending of what it is; otherwise fetch the file again"
    return ReadFault("truncated_file" if truncated else "corrupt_file", position, f"{text}; {remedy}")


def decompressed(raw: RawFile, outer: RatioGuard | None) -> RawFile:
    """Return the decompressed stream of a file, or the file itself if its name does not say that it is compressed.

    ``outer`` is the guard of the archive or file around it.
    """

    def compressed_bytes() -> int:
        return raw.bytes_read

    stream = _STREAMS.get(Path(raw.name).suffix.lower().replace(".t", "."))  # .tgz is .gz
    if stream is None:
        raw.must_be_plain, opened = True, raw
    else:
        opened = RawFile(raw.name, stream(raw), raw.limits, RatioGuard(raw.limits, compressed_bytes, outer))
    opened.records.compressed = compressed_bytes
    return opened


class Inflate:
    """zlib with the interface of ``bz2.BZ2Decompressor``; the default window is that of gzip."""

    def __init__(self, window: int = 16 + zlib.MAX_WBITS) -> None:
        self._inflate = zlib.decompressobj(window)
        self._full = False

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the stream."""
        return self._inflate.unused_data

    @property
    def needs_input(self) -> bool:
        """Whether ``decompress`` needs more data."""
        return not self._inflate.unconsumed_tail and not self._full

    def decompress(self, data: bytes, size: int) -> bytes:
        """Return at most ``size`` decompressed bytes."""
        part = self._inflate.decompress(self._inflate.unconsumed_tail + data, size)
        self._full = len(part) == size
        return part


class _ConcatenatedStreams:
    """Reads gzip, bz2 or xz streams one after the other.

    The standard library's readers stop without an error if other bytes follow the first stream.
    """

    def __init__(self, source: Callable[[int], bytes], decompressor: Callable[[], Any], header: re.Pattern[bytes]) -> None:
        """``header`` matches the first bytes of a stream."""
        self._source, self._decompressor_of, self._header = source, decompressor, header
        self._decompressor = decompressor()
        self._empty = self._damaged = 0
        self._pending = b""
        """Bytes to decompress before those of the source."""
        self._recent = bytearray()
        """The last compressed bytes of the current stream, without its first."""

    def skip_to_next(self) -> bool:
        """Leave a damaged stream and begin the next one; return whether there is one."""
        self._damaged += 1
        while self._damaged <= _MAX_DAMAGED_STREAMS:
            if found := self._header.search(self._recent):
                self._pending = bytes(self._recent[found.start() :])
                self._recent = bytearray(self._pending[1:])
                self._decompressor = self._decompressor_of()
                return True
            block = self._source(COMPRESSED_BYTES_PER_READ)
            if not block:
                break
            self._recent = self._recent[1 - _MAX_HEADER_BYTES :] + block
        return False

    def _read_source(self) -> bytes:
        data = self._source(COMPRESSED_BYTES_PER_READ)
        self._recent += data if self._recent else data[1:]
        if len(self._recent) > 2 * _KEPT_BYTES:
            del self._recent[:-_KEPT_BYTES]
        return data

    def read1(self, size: int) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        while True:
            data = b""
            if self._decompressor.eof:
                data = (self._decompressor.unused_data or self._source(COMPRESSED_BYTES_PER_READ)).lstrip(b"\0")
                while not data:  # zeros between and after streams are padding
                    block = self._source(COMPRESSED_BYTES_PER_READ)
                    if not block:
                        return b""
                    data = block.lstrip(b"\0")
                self._decompressor, self._recent = self._decompressor_of(), bytearray(data[1:])
                self._empty += 1
                if self._empty > MAX_EMPTY_STREAMS:
                    remedy = f"more than {MAX_EMPTY_STREAMS:,} empty streams in a row; {_SALVAGED}"
                    raise ReadFault("decompression_bomb", "", remedy)
            elif self._decompressor.needs_input:
                data, self._pending = self._pending or self._read_source(), b""
                if not data:
                    raise EOFError("the compressed file ended before its end-of-stream marker")
            part: bytes = self._decompressor.decompress(data, size)
            if part:
                self._empty = 0
                return part


class _ArrowInput:
    """A file of compressed bytes for Arrow.

    Arrow's stream refers to it from C++, where the garbage collector sees nothing: an object that also held that stream would
    keep both, and the decoder's memory, until the process ends.
    """

    closed = False

    def __init__(self, source: RawFile) -> None:
        self._source = source

    def read(self, size: int = -1) -> bytes:
        """Return compressed bytes."""
        return self._source.read(min(size, _ZSTANDARD_BYTES_PER_READ))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing: the owner of the source closes it."""


class _Zstandard:
    """Reads zstd with Arrow, and recovers the bytes before an error.

    Nothing after an error is read, because a damaged block may take in the beginning of the next frame.

    Arrow does not say how many bytes it wrote before it failed. So the buffer is filled with 0xFF, which no text in UTF-8 or
    CP949 contains, and what differs was read. Blocks are small because what a failing block holds is lost.
    """

    def __init__(self, source: RawFile) -> None:
        self._fault: Exception | None = None
        self._stream = pa.CompressedInputStream(pa.PythonFile(_ArrowInput(source), mode="r"), "zstd")

    def read1(self, size: int) -> bytes:
        """Return at most ``size`` decompressed bytes; none at the end."""
        if self._fault is not None:
            raise self._fault
        buffer = bytearray(b"\xff") * size
        try:
            return bytes(memoryview(buffer)[: self._stream.readinto(buffer)])
        except (ReadFault, OSError, pa.ArrowInvalid) as fault:
            self._fault = fault
            found = bytes(buffer.rstrip(b"\xff"))
            if not found:
                raise
            return found


_STREAMS: dict[str, Callable[[RawFile], Any]] = {
    ".gz": lambda raw: _ConcatenatedStreams(raw.read, Inflate, _HEADERS[".gz"]),
    ".bz2": lambda raw: _ConcatenatedStreams(raw.read, bz2.BZ2Decompressor, _HEADERS[".bz2"]),
    ".xz": lambda raw: _ConcatenatedStreams(
        raw.read, lambda: lzma.LZMADecompressor(memlimit=MAX_WINDOW_BYTES), _HEADERS[".xz"]
    ),
    ".zst": _Zstandard,
}
