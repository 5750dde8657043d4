"""One stream of bytes, plain or decompressed as its name says (gz, bz2, xz, zst), never read whole.

A fault of a stream (truncated or corrupt compression, a decompression bomb) is raised as ``ReadFault`` only after everything
readable before it was handed out.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pydantic import Field

from korealbert.artifact import Spec
from korealbert.documents.schema import Quarantined

COMPRESSED = {
    ".gz": "gz",
    ".tgz": "gz",
    ".bz2": "bz2",
    ".tbz2": "bz2",
    ".xz": "xz",
    ".txz": "xz",
    ".zst": "zst",
    ".tzst": "zst",
}
"""Name endings that mean a compression."""

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
"""What follows ``BZh`` and a digit: a block, or the end of an empty file. Text could begin with ``BZh`` alone."""

BYTES_PER_READ = 1 << 18
"""Decompressed bytes asked for at once; what a fault can lose beyond the fault itself."""


_COMPRESSED_BYTES_PER_READ = 1 << 16
_ZSTANDARD_BYTES_PER_READ = 1 << 10
"""What a fault of a zst stream loses where it is not read again."""
_REPLAYED_BYTES = 4 << 20


class ReadLimits(Spec):
    """How much a source may unfold to before it counts as an attack or an accident."""

    max_record_bytes: int = Field(default=64 << 20, ge=1024)
    """Longest raw record (line, page, JSON value, one-document file) in bytes; longer ones go to quarantine unread."""
    max_decompression_ratio: int = Field(default=1000, ge=1)
    """Decompressed bytes per compressed byte. Text compresses 3- to 30-fold, boilerplate rarely above 200-fold."""
    ratio_applies_above_bytes: int = Field(default=1 << 30, ge=0)
    """Decompressed size up to which any ratio is fine."""


class ReadFault(Exception):
    """A stream that cannot be read on."""

    def __init__(self, reason: str, position: str, remedy: str) -> None:
        super().__init__(f"{position}: {reason}; {remedy}")
        self.reason, self.position, self.remedy = reason, position, remedy


class RawFile:
    """One named stream of bytes: a file, or a member of an archive."""

    def __init__(
        self, name: str, stream: IO[bytes], limits: ReadLimits, compressed_bytes: Callable[[], int] | None = None
    ) -> None:
        self.name = name.encode("utf-8", "backslashreplace").decode()  # names on disk need not be UTF-8, shards must be
        """File name, ``directory-relative/path``, or ``archive.tar.zst::member``."""
        self.bytes_read = 0
        self.fault: ReadFault | None = None
        self._stream, self._limits, self._compressed_bytes = stream, limits, compressed_bytes
        self._may_be_packed = True

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

    def refuse_packed(self) -> None:
        """From now on, bytes of a packed file are a fault: the name does not say how to read them."""
        self._may_be_packed = False

    def _read_some(self, size: int) -> bytes:
        position = f"byte {self.bytes_read}"
        try:
            part: bytes = self._stream.read1(size) if hasattr(self._stream, "read1") else self._stream.read(size)
        except (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, pa.ArrowInvalid) as error:
            raise _fault_of(error, position) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise _fault_of(error, position) from error
        if self._compressed_bytes is not None:
            self._check_ratio(self.bytes_read + len(part), position)
        if not self._may_be_packed and self.bytes_read == 0:
            _check_plain(part)
        return part

    def _check_ratio(self, unfolded: int, position: str) -> None:
        if unfolded <= self._limits.ratio_applies_above_bytes or self._compressed_bytes is None:
            return
        ratio = unfolded / max(1, self._compressed_bytes())
        if ratio > self._limits.max_decompression_ratio:
            raise ReadFault(
                "decompression_bomb",
                position,
                f"it unfolds {ratio:,.0f}-fold; if that is right, raise limits.max_decompression_ratio",
            )

    def quarantined(self, fault: ReadFault) -> Quarantined:
        """The fault as an entry of the quarantine."""
        return Quarantined(self.name, fault.position, "", fault.reason, fault.remedy)


def _check_plain(begin: bytes) -> None:
    """Raises ReadFault for the first bytes of a packed file."""
    for magic, kind, suffix in _MAGIC:
        if begin.startswith(magic) and (suffix != ".bz2" or begin[4:].startswith(_BZIP2_BLOCKS)):
            named = f"name it …{suffix}, or unpack it before it comes by standard input" if suffix else "unpack it first"
            raise ReadFault("packed_file", "byte 0", f"these bytes are {kind}, which its name does not say: {named}")


def _fault_of(error: Exception, position: str) -> ReadFault:
    text = str(error) or type(error).__name__
    truncated = isinstance(error, EOFError) or "runcated" in text or "nexpected end" in text or "ended before" in text
    if truncated:
        return ReadFault("truncated_file", position, f"{text}; fetch the file again, what stands before was read")
    return ReadFault("corrupt_file", position, f"{text}; fetch the file again, what stands before was read")


def unfold(raw: RawFile, compressed_bytes: Callable[[], int]) -> RawFile:
    """The decompressed stream of a file whose name says that it is compressed, else the file itself."""
    kind = COMPRESSED.get(Path(raw.name).suffix.lower())
    source: Any = Readable(raw)
    stream: Any
    if kind is None:
        raw.refuse_packed()
        return raw
    if kind == "gz":
        stream = gzip.GzipFile(fileobj=source, mode="rb")
    elif kind == "bz2":
        stream = _Streams(source, bz2.BZ2Decompressor)
    elif kind == "xz":
        stream = _Streams(source, lzma.LZMADecompressor)
    else:
        stream = _Zstandard(source)
    return RawFile(raw.name, stream, raw._limits, compressed_bytes)


class Readable:
    """The part of a binary file that decompressors and tarfile ask for."""

    closed = False

    def __init__(self, source: RawFile) -> None:
        self._source = source

    def read(self, size: int = -1) -> bytes:
        """See ``RawFile.read``."""
        return self._source.read(size)

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """The owner of the source closes it."""


class _Streams:
    """bz2 or xz streams in a row. The standard library's readers take whatever is no stream behind the first for the end."""

    def __init__(self, source: Readable, decompressor: Callable[[], Any]) -> None:
        self._source, self._decompressor_of = source, decompressor
        self._decompressor = decompressor()

    def read1(self, size: int) -> bytes:
        """At most ``size`` bytes; empty at the end."""
        while True:
            data = b""
            if self._decompressor.eof:
                data = (self._decompressor.unused_data or self._source.read(_COMPRESSED_BYTES_PER_READ)).lstrip(b"\0")
                while not data:  # zeros between and behind streams are padding
                    block = self._source.read(_COMPRESSED_BYTES_PER_READ)
                    if not block:
                        return b""
                    data = block.lstrip(b"\0")
                self._decompressor = self._decompressor_of()
            elif self._decompressor.needs_input:
                data = self._source.read(_COMPRESSED_BYTES_PER_READ)
                if not data:
                    raise EOFError("the compressed file ended before its end-of-stream marker")
            part: bytes = self._decompressor.decompress(data, size)
            if part:
                return part


class _Zstandard:
    """Arrow's decompressor, whose failing read loses all that the same call has read.

    So reads are small, and while the compressed bytes so far fit into ``_REPLAYED_BYTES`` they are kept and read once more,
    byte by byte, after a fault.
    """

    closed = False

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._seen: bytearray | None = bytearray()
        self._returned = 0
        self._fault: Exception | None = None
        self._stream = pa.CompressedInputStream(pa.PythonFile(self, mode="r"), "zstd")

    def read(self, size: int = -1) -> bytes:
        """Compressed bytes, for Arrow."""
        block = self._source.read(size)
        if self._seen is not None:
            self._seen += block
            if len(self._seen) > _REPLAYED_BYTES:
                self._seen = None
        return block

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
        parts: list[bytes] = []
        try:
            while size > 0 and (part := self._stream.read(min(size, _ZSTANDARD_BYTES_PER_READ))):
                parts.append(part)
                size -= len(part)
                self._returned += len(part)
        except (ReadFault, OSError, pa.ArrowInvalid) as fault:
            self._fault = fault
            parts.append(self._read_again())
            if not any(parts):
                raise
        return b"".join(parts)

    def _read_again(self) -> bytes:
        """What the failing call had read."""
        found = bytearray()
        if self._seen is None:
            return b""
        stream = pa.CompressedInputStream(pa.BufferReader(bytes(self._seen)), "zstd")
        try:
            missing = self._returned
            while missing > 0 and (part := stream.read(min(missing, _ZSTANDARD_BYTES_PER_READ))):
                missing -= len(part)
            while byte := stream.read(1):
                found += byte
        except (OSError, pa.ArrowInvalid):
            pass  # the fault is raised once these bytes were returned
        return bytes(found)
