"""One stream of bytes, plain or decompressed as its name says (gz, bz2, xz, zst), never read whole.

A fault of a stream (truncated or corrupt compression, a decompression bomb) is raised as ``ReadFault`` only after everything
readable before it was handed out.
"""

from __future__ import annotations

import bz2
import lzma
import struct
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
"""First bytes of a packed file, its kind, and the ending under which it is read; none for what must be unpacked first."""
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes after ``BZh`` and a digit: a block, or the end of an empty file. Text could begin with ``BZh`` alone."""

BYTES_PER_READ = 1 << 18
"""Decompressed bytes read at once."""
_MAX_BLANK_BYTES = 4 << 20
"""Blanks and line ends in a row beyond which a file counts as an attack or an accident: each line costs as much as a record."""
ANY_RATIO_BYTES = 16 << 20
"""Decompressed size up to which nothing is too strongly compressed."""
_REPETITION_FACTOR = 8
"""Above ``ANY_RATIO_BYTES``, a ratio of this many times ``max_decompression_ratio`` is one repeated byte, never text."""
MAX_EMPTY_STREAMS = 10_000
"""Empty compressed streams in a row within one file."""
_WINDOW_BYTES = 128 << 20
"""Memory that a header may ask for: twice that of ``xz -9``, and what zstd's own decoder grants. Headers may say 4 GB."""

MAX_EMPTY_RECORDS = 1 << 18
"""Lines or records from which on a file of fewer than ``_FEWEST_BYTES`` for each counts as an attack or an accident: parsing
one costs 10 to 120 µs."""
_FEWEST_BYTES = 4
"""One Hangul syllable and a line end."""
FREE_RECORDS = 1 << 15
"""Records of a file that may be packed into any number of bytes; each further one needs a compressed byte, because parsing and
writing one costs 10 to 120 µs whatever it holds. Wikipedia's empty and redirecting pages take 40 and more."""

COMPRESSED_BYTES_PER_READ = 1 << 14
"""Unused input is copied for each gzip member, so blocks are small."""
_ZSTANDARD_BYTES_PER_READ = 1 << 10
_LZMA_HEADER = struct.Struct("<HHBI")
"""Before a zip member's LZMA stream: version, bytes of the properties, lc + 9 · (lp + 5 · pb), bytes of the dictionary."""

SALVAGED = "what comes before is kept, up to its last whole record; fetch the file again"
"""The part of a damaged stream that is kept, and the remedy."""


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
    """A stream that cannot be read on."""

    def __init__(self, reason: str, position: str, remedy: str) -> None:
        super().__init__(f"{position}: {reason}; {remedy}")
        self.reason, self.position, self.remedy = reason, position, remedy


class Unfolding:
    """How many bytes came out of something compressed, against how many went in; also counted for what contains it."""

    def __init__(self, limits: ReadLimits, folded: Callable[[], int], around: Unfolding | None = None) -> None:
        self.limits, self.unfolded = limits, 0
        self._folded, self._around = folded, around

    def add(self, size: int, position: str) -> None:
        """Count ``size`` bytes more. Raises ReadFault beyond a limit."""
        self.unfolded += size
        if self.unfolded > min(ANY_RATIO_BYTES, self.limits.ratio_applies_above_bytes):
            self._check(position)
        if self._around is not None:
            self._around.add(size, position)

    def _check(self, position: str) -> None:
        limit, folded = self.limits.max_decompression_ratio, max(1, self._folded())
        if self.unfolded <= self.limits.ratio_applies_above_bytes:
            limit *= _REPETITION_FACTOR
        if self.unfolded > limit * folded:
            remedy = (
                f"{folded:,} compressed bytes unfold to more than {self.unfolded:,}, all members and streams together, and the"
                f" limit is {limit:,}-fold; if that is right, raise limits.max_decompression_ratio"
            )
            raise ReadFault("decompression_bomb", position, remedy)


@dataclass(slots=True)
class Records:
    """What was read of a file that was opened, all members of an archive together."""

    count: int = 0
    """Lines, or records where these are more."""
    content_bytes: int = 0
    """Bytes that they hold: of a WARC without headers, of Parquet the texts alone."""
    parsed: int = 0
    """Records alone, each of which a parser makes a document or an entry of the quarantine, and members of an archive."""
    folded: Callable[[], int] | None = None
    """How many bytes of the file itself were read; None where nobody counts them."""

    def add(self, count: int, content_bytes: int, parsed: int) -> None:
        """Count some more."""
        self.count += count
        self.content_bytes += content_bytes
        self.parsed += parsed

    @property
    def room(self) -> int:
        """How many records more are no fault; a negative number at a fault."""
        return FREE_RECORDS + (self.folded() if self.folded is not None else self.parsed) - self.parsed


class RawFile:
    """One named stream of bytes: a file, or a member of an archive."""

    def __init__(self, name: str, stream: IO[bytes] | Any, limits: ReadLimits, unfolding: Unfolding | None = None) -> None:
        self.name = name.encode("utf-8", "backslashreplace").decode()  # names on disk need not be UTF-8, shards must be
        """File name, ``directory-relative/path``, or ``archive.tar.zst::member``."""
        self.limits = limits
        self.bytes_read = 0
        self.fault: ReadFault | None = None
        self.records = Records()
        """Counted by whoever cuts the file into records; one object for all members of an archive."""
        self.may_be_packed = True
        """Else bytes of a packed file are a fault: the name does not say how to read them."""
        self._stream, self._unfolding = stream, unfolding
        self._packed = Path(name).suffix if isinstance(stream, _Streams | _Zstandard) else ""
        self._blank_bytes = 0

    def read(self, size: int = BYTES_PER_READ) -> bytes:
        """The next ``size`` bytes, fewer only at the end; empty at the end. Raises ReadFault once all before it is returned."""
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

    def read_text(self, size: int = BYTES_PER_READ) -> bytes:
        """``read``, but millions of blanks and line ends in a row, or of empty records, are a fault: they cost time and hold
        nothing.
        """
        self.refuse_empty_records(f"byte {self.bytes_read}")
        block = self.read(size)
        if block.isspace():
            self._blank_bytes += len(block)
        else:
            self._blank_bytes = len(block) - len(block.rstrip())
        if self._blank_bytes > _MAX_BLANK_BYTES:
            remedy = f"more than {_MAX_BLANK_BYTES:,} bytes of blanks and line ends in a row; {SALVAGED}, or remove the blanks"
            self.fault = ReadFault("blank_bytes", f"byte {self.bytes_read}", remedy)
            raise self.fault
        return block

    def refuse_empty_records(self, position: str) -> None:
        """Raise ReadFault where the records counted so far hold too little, or came of too few compressed bytes."""
        if self.fault is not None and self.fault.reason == "empty_records":
            raise self.fault
        count, size = self.records.count, self.records.content_bytes
        if self.records.room < 0:
            said = "come of fewer compressed bytes, so they hold nothing, or the same again and again"
            count, remedy = self.records.parsed, f"{SALVAGED}, unpack it, or leave it out"
        elif count > MAX_EMPTY_RECORDS and size < _FEWEST_BYTES * count:
            said, remedy = f"hold fewer than {_FEWEST_BYTES} bytes each", f"{SALVAGED}, or leave it out"
        else:
            return
        told = f"{count:,} lines or records of this file, all its members together, {said}; {remedy}"
        self.fault = ReadFault("empty_records", position, told)
        raise self.fault

    def _read_some(self, size: int) -> bytes:
        position = f"byte {self.bytes_read}"
        try:
            part: bytes = self._stream.read1(size) if hasattr(self._stream, "read1") else self._stream.read(size)
        except ReadFault as fault:  # of the file that contains this one
            raise ReadFault(fault.reason, position, fault.remedy) from fault
        except (EOFError, zlib.error, lzma.LZMAError, TarFault, zipfile.BadZipFile, pa.ArrowInvalid) as error:
            raise _fault_of(error, position, self._packed) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise _fault_of(error, position, self._packed) from error
        if self._unfolding is not None:
            self._unfolding.add(len(part), position)
        if not self.may_be_packed and self.bytes_read == 0:
            _check_plain(part)
        return part

    def quarantined(self, fault: ReadFault) -> Quarantined:
        """The fault as an entry of the quarantine."""
        return Quarantined(self.name, fault.position, "", fault.reason, fault.remedy)


def _check_plain(begin: bytes) -> None:
    """Raises ReadFault for the first bytes of a packed file."""
    for magic, kind, suffix in _MAGIC:
        if begin.startswith(magic) and (suffix != ".bz2" or begin[4:].startswith(_BZIP2_BLOCKS)):
            named = f"name it …{suffix}, or unpack it before it comes by standard input" if suffix else "unpack it first"
            raise ReadFault("packed_file", "byte 0", f"these bytes are {kind}, which its name does not say: {named}")


def _fault_of(error: Exception, position: str, packed: str) -> ReadFault:
    """The fault of a stream that ends in an error of a decompressor or an archive; ``packed``: the ending of its name."""
    text = str(error) or type(error).__name__
    truncated = isinstance(error, EOFError) or "runcated" in text
    if isinstance(error, TarFault):
        truncated = error.reason == "truncated"
        text = f"{error.detail} (byte {error.byte} of the archive)"
    if "emory" in text:  # "Memory usage limit exceeded" (xz), "Frame requires too much memory for decoding" (zstd)
        remedy = f"{text}: a window of more than {_WINDOW_BYTES:,} bytes; pack it again without --long or with xz -9 or less"
        return ReadFault("decompression_bomb", position, remedy)
    kept = SALVAGED
    if packed and not truncated and position == "byte 0":
        kept = f"if it is no {packed} file, give it the ending of what it is; otherwise fetch the file again"
    return ReadFault("truncated_file" if truncated else "corrupt_file", position, f"{text}; {kept}")


def unfold(raw: RawFile, folded: Callable[[], int], around: Unfolding | None = None) -> RawFile:
    """The decompressed stream of a file whose name says that it is compressed, else the file itself.

    ``folded`` says how many compressed bytes were read; ``around`` counts for the archive or file around it.
    """
    stream = _STREAMS.get(Path(raw.name).suffix.lower().replace(".t", "."))  # .tgz is .gz
    if stream is None:
        raw.may_be_packed, unfolded = False, raw
    else:
        unfolded = RawFile(raw.name, stream(raw), raw.limits, Unfolding(raw.limits, folded, around))
    unfolded.records.folded = folded
    return unfolded


class Inflate:
    """zlib with the interface of the standard library's other decompressors: gzip members, or raw deflate."""

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
        """Whether ``decompress`` needs bytes."""
        return not self._inflate.unconsumed_tail and not self._full

    def decompress(self, data: bytes, size: int) -> bytes:
        """At most ``size`` bytes more."""
        part = self._inflate.decompress(self._inflate.unconsumed_tail + data, size)
        self._full = len(part) == size
        return part


class ZipLzma:
    """LZMA as zip archives have it, with the same interface: properties in a header of its own, then raw data."""

    def __init__(self) -> None:
        self._head = b""
        self._raw: lzma.LZMADecompressor | None = None

    @property
    def eof(self) -> bool:
        """Whether an end marker was reached; not every stream has one."""
        return self._raw is not None and self._raw.eof

    @property
    def needs_input(self) -> bool:
        """Whether ``decompress`` needs bytes."""
        return self._raw is None or self._raw.needs_input

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the stream."""
        return self._raw.unused_data if self._raw is not None else b""

    def decompress(self, data: bytes, size: int) -> bytes:
        """At most ``size`` bytes more. Raises LZMAError."""
        if self._raw is None:
            self._head += data
            if len(self._head) < _LZMA_HEADER.size:
                return b""
            _, properties, packed, dictionary = _LZMA_HEADER.unpack_from(self._head)
            if properties != 5 or packed >= 9 * 5 * 5:
                raise lzma.LZMAError("no LZMA properties")
            if dictionary > _WINDOW_BYTES:
                raise lzma.LZMAError("Memory usage limit exceeded")
            coder = {"id": lzma.FILTER_LZMA1, "dict_size": max(dictionary, 1 << 12)}
            coder |= {"lc": packed % 9, "lp": packed // 9 % 5, "pb": packed // 45}
            self._raw = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[coder])
            data = self._head[_LZMA_HEADER.size :]
        return self._raw.decompress(data, size)


class _Streams:
    """gzip, bz2 or xz streams in a row.

    The standard library's readers treat any bytes after the first stream that are no stream as the end.
    """

    def __init__(self, source: Callable[[int], bytes], decompressor: Callable[[], Any]) -> None:
        self._source, self._decompressor_of = source, decompressor
        self._decompressor = decompressor()
        self._empty = 0

    def read1(self, size: int) -> bytes:
        """At most ``size`` bytes; empty at the end."""
        while True:
            data = b""
            if self._decompressor.eof:
                data = (self._decompressor.unused_data or self._source(COMPRESSED_BYTES_PER_READ)).lstrip(b"\0")
                while not data:  # zeros between and after streams are padding
                    block = self._source(COMPRESSED_BYTES_PER_READ)
                    if not block:
                        return b""
                    data = block.lstrip(b"\0")
                self._decompressor = self._decompressor_of()
                self._empty += 1
                if self._empty > MAX_EMPTY_STREAMS:
                    remedy = f"more than {MAX_EMPTY_STREAMS:,} empty streams in a row; {SALVAGED}"
                    raise ReadFault("decompression_bomb", "", remedy)
            elif self._decompressor.needs_input:
                data = self._source(COMPRESSED_BYTES_PER_READ)
                if not data:
                    raise EOFError("the compressed file ended before its end-of-stream marker")
            part: bytes = self._decompressor.decompress(data, size)
            if part:
                self._empty = 0
                return part


class _Zstandard:
    """Arrow's decompressor, whose failing read does not say how much of the buffer it had filled.

    The buffer holds bytes 0xFF before, which no text in UTF-8 or CP949 has, so what differs was read. Compressed bytes are
    handed over in small blocks, because those of a failing block are lost.
    """

    closed = False

    def __init__(self, source: RawFile) -> None:
        self._source = source
        self._fault: Exception | None = None
        self._stream = pa.CompressedInputStream(pa.PythonFile(self, mode="r"), "zstd")

    def read(self, size: int = -1) -> bytes:
        """Compressed bytes, for Arrow."""
        return self._source.read(min(size, _ZSTANDARD_BYTES_PER_READ))

    def readable(self) -> bool:
        """For Arrow."""
        return True

    def seekable(self) -> bool:
        """For Arrow."""
        return False

    def close(self) -> None:
        """The owner of the source closes it."""

    def read1(self, size: int) -> bytes:
        """At most ``size`` decompressed bytes; empty at the end."""
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
    ".gz": lambda raw: _Streams(raw.read, Inflate),
    ".bz2": lambda raw: _Streams(raw.read, bz2.BZ2Decompressor),
    ".xz": lambda raw: _Streams(raw.read, lambda: lzma.LZMADecompressor(memlimit=_WINDOW_BYTES)),
    ".zst": _Zstandard,
}
"""The reader of each compression, by the ending of a name that means it."""
