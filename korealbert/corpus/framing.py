"""Cuts raw streams into pieces that hold whole records, cheaply and in bounded memory; workers parse the pieces.

A piece is found by looking for delimiters in bytes alone. UTF-8 and CP949 never use the bytes of ASCII punctuation inside a
character, so cutting before decoding is safe in both.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from korealbert.corpus.json_values import ValueScanner
from korealbert.corpus.reading import BYTES_PER_READ, RawFile, ReadFault
from korealbert.documents import Quarantined

BOM = codecs.BOM_UTF8
PIECE_BYTES = 1 << 20
"""Size towards which pieces are cut; records above it make longer pieces."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive whole records of one file."""

    file: str
    encoding: str
    line: int
    """Line of the first byte, from 1."""
    byte: int
    """Position of the first byte in the (decompressed) file, from 0."""
    data: bytes
    cuts: tuple[tuple[int, int], ...] = ()
    """Extents of the records within ``data``, where the framing had to find them."""
    context: str = ""
    """What the file said once for all its records: the CSV header, the address of the wiki."""
    last: bool = False
    """Nothing of the file follows."""

    def line_at(self, offset: int) -> int:
        """Line number of a byte offset within the piece."""
        return self.line + self.data.count(b"\n", 0, offset)


class _Cursor:
    """Where in a file the next piece starts, and in which encoding."""

    def __init__(self, raw: RawFile, encoding: str, max_record_bytes: int) -> None:
        self.raw, self.limit = raw, max_record_bytes
        self.line, self.byte = 1, 0
        self.encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        self.context = ""
        self._first = True

    def read(self) -> bytes:
        """The next block, without a leading byte order mark."""
        block = self.raw.read(BYTES_PER_READ)
        if self._first:
            self._first = False
            if block.startswith(BOM):
                self.byte = len(BOM)
                block = block[len(BOM) :]
        if self.encoding == "auto" and not block.isascii():
            self.encoding = _guess(block)
        return block

    def piece(self, data: bytes, cuts: tuple[tuple[int, int], ...] = (), *, last: bool = False) -> Piece:
        encoding = "utf-8" if self.encoding == "auto" else self.encoding  # nothing but ASCII so far
        piece = Piece(self.raw.name, encoding, self.line, self.byte, data, cuts, self.context, last)
        self.skip(data)
        return piece

    def skip(self, data: bytes) -> None:
        self.line += data.count(b"\n")
        self.byte += len(data)

    def too_long(self, line: int, byte: int) -> Quarantined:
        length = self.byte - byte
        return Quarantined(
            self.raw.name,
            f"line {line}, byte {byte}",
            "",
            "record_too_long",
            f"the record has {length:,} bytes; raise limits.max_record_bytes ({self.limit:,}) if it is meant to be one",
        )


def _guess(block: bytes) -> str:
    for encoding in ("utf-8", "cp949"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(block)
        except UnicodeDecodeError:
            continue
        return encoding
    return "utf-8"


def _empty(raw: RawFile) -> Quarantined:
    return Quarantined(raw.name, "byte 0", "", "empty_file", "remove the file from the source or fetch it again")


def _guarded(cursor: _Cursor, items: Iterator[Piece | Quarantined]) -> Iterator[Piece | Quarantined]:
    """All items before a fault of the stream, then the fault; an empty stream is one entry of the quarantine."""
    try:
        yield from items
    except ReadFault as fault:
        yield cursor.raw.quarantined(fault)
        return
    if cursor.raw.bytes_read == 0:
        yield _empty(cursor.raw)


def frame_delimited(
    raw: RawFile, delimiter: bytes, *, encoding: str, max_record_bytes: int, header: re.Pattern[bytes] | None = None
) -> Iterator[Piece | Quarantined]:
    """Pieces that end behind a delimiter (``\\n``, ``</page>``); the last ends where the file does.

    ``header`` captures, in the first piece, what becomes the ``context`` of all.
    """
    cursor = _Cursor(raw, encoding, max_record_bytes)
    return _guarded(cursor, _delimited(cursor, delimiter, header))


def _delimited(cursor: _Cursor, delimiter: bytes, header: re.Pattern[bytes] | None) -> Iterator[Piece | Quarantined]:
    buffer = bytearray()
    while block := cursor.read():
        seen = max(0, len(buffer) - len(delimiter) + 1)
        buffer += block
        if len(buffer) < PIECE_BYTES:
            continue
        end = buffer.rfind(delimiter, seen if len(buffer) > 2 * PIECE_BYTES else 0)
        if end >= 0:
            data = bytes(buffer[: end + len(delimiter)])
            del buffer[: end + len(delimiter)]
            if header is not None:
                cursor.context, header = _captured(header, data), None
            yield cursor.piece(data)
        elif len(buffer) > cursor.limit:
            line, byte = cursor.line, cursor.byte
            buffer = _skip_record(cursor, buffer, delimiter)
            yield cursor.too_long(line, byte)
    if buffer:
        data = bytes(buffer)
        if header is not None:
            cursor.context = _captured(header, data)
        yield cursor.piece(data, last=True)


def _captured(header: re.Pattern[bytes], data: bytes) -> str:
    found = header.search(data)
    return found.group(1).decode("utf-8", "replace") if found else ""


def _skip_record(cursor: _Cursor, buffer: bytearray, delimiter: bytes) -> bytearray:
    """Forget bytes up to and with the next delimiter; return what follows it."""
    while True:
        keep = len(delimiter) - 1
        forgotten = len(buffer) - keep
        cursor.skip(bytes(buffer[:forgotten]))
        del buffer[:forgotten]
        block = cursor.read()
        if not block:
            cursor.skip(bytes(buffer))
            return bytearray()
        buffer += block
        end = buffer.find(delimiter)
        if end >= 0:
            cursor.skip(bytes(buffer[: end + len(delimiter)]))
            del buffer[: end + len(delimiter)]
            return buffer


def frame_whole(raw: RawFile, *, encoding: str, max_record_bytes: int) -> Iterator[Piece | Quarantined]:
    """The whole file as one piece."""
    cursor = _Cursor(raw, encoding, max_record_bytes)
    return _guarded(cursor, _whole(cursor))


def _whole(cursor: _Cursor) -> Iterator[Piece | Quarantined]:
    buffer = bytearray()
    while block := cursor.read():
        buffer += block
        if len(buffer) > cursor.limit:
            line, byte = cursor.line, cursor.byte
            cursor.skip(bytes(buffer))
            while block := cursor.read():
                cursor.skip(block)
            yield cursor.too_long(line, byte)
            return
    if buffer:
        yield cursor.piece(bytes(buffer), last=True)


def frame_json(raw: RawFile, *, encoding: str, max_record_bytes: int) -> Iterator[Piece | Quarantined]:
    """Records of a JSON array, of a file that is one object (or several in a row), or of JSON Lines: whichever the file is."""
    cursor = _Cursor(raw, encoding, max_record_bytes)
    return _guarded(cursor, _json(cursor))


def _json(cursor: _Cursor) -> Iterator[Piece | Quarantined]:
    scanner: ValueScanner | None = None
    while block := cursor.read():
        if scanner is None:
            scanner = ValueScanner(array=block.lstrip()[:1] == b"[")
        scanner.feed(block)
        if scanner.scanned >= PIECE_BYTES:
            yield from _json_piece(cursor, scanner)
        if scanner.pending > cursor.limit:
            yield from _json_piece(cursor, scanner)
            line, byte = cursor.line, cursor.byte
            while scanner.abandoning() and (block := cursor.read()):
                cursor.skip(scanner.forget())
                scanner.feed(block)
            cursor.skip(scanner.forget())
            yield cursor.too_long(line, byte)
    if scanner is not None:
        scanner.finish()
        yield from _json_piece(cursor, scanner, last=True)


def _json_piece(cursor: _Cursor, scanner: ValueScanner, *, last: bool = False) -> Iterator[Piece]:
    data, cuts = scanner.take()
    if cuts:
        yield cursor.piece(data, cuts, last=last)
    else:
        cursor.skip(data)
