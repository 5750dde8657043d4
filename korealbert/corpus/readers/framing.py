"""Cuts streams of bytes into batches of whole records, fast and in bounded memory; workers parse the batches.

It only searches for delimiters and does not decode. That is safe because UTF-8 and CP949 never use the bytes of ASCII
punctuation within a character.
"""

from __future__ import annotations

import codecs
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from korealbert.corpus.readers.json_values import UNCLOSED_REMEDY, ValueScanner, is_json_object
from korealbert.corpus.readers.other_formats import remedy_for
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import BYTES_PER_READ, RawFile, ReadFault

_BOM = codecs.BOM_UTF8
_PART = "compressed stream (gzip member) of the file"
LINE_END = re.compile(rb"\n")
BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_MAX_DELIMITER_BYTES = 64
_SHORT_BLANK_LINE = re.compile(rb"\n[ \t\r]{0,%d}\n" % (_MAX_DELIMITER_BYTES - 2))
_JSON_VALUE = re.compile(rb"\{|[,\n](?=[^\s\"{}\[\]])")
"""Matches at least once for each value of an array or line that is not a string or list."""
RAW_RECORDS_BYTES = 1 << 20
"""Size at which a batch ends, after its last record."""


class OtherRecord(NamedTuple):
    """A record that is not read."""

    type: str
    address: str
    byte: int
    """Its position in the decompressed file."""


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Consecutive whole records of one file."""

    file: str
    encoding: str
    line: int
    """Line number of the first byte, from 1."""
    byte: int
    """Position of the first byte in the decompressed file, from 0."""
    data: bytes
    extents: tuple[tuple[int, int], ...] = ()
    """Begin and end of each record within ``data``, if the framing had to find them."""
    context: str = ""
    """What a file states once for all records: the CSV header, the address of the wiki."""
    last: bool = False
    """Whether this is the last batch of the file."""
    max_record_bytes: int = sys.maxsize
    """Longer records go to quarantine; framing leaves out only those that are longer by a batch."""
    others: tuple[OtherRecord, ...] = ()
    """Records of WARC files between these that hold something, but not what the format reads."""
    _counted: list[int] = field(default_factory=lambda: [0, 0], init=False, repr=False, compare=False)
    """The last offset given to ``line_at`` and the lines before it, so that a million bad records take linear time."""

    def ends(self, offset: int) -> bool:
        """Return whether the file ends at an offset within these records, or with blanks and commas after it."""
        return self.last and not self.data[offset:].strip(b" \t\r\n,")

    def line_at(self, offset: int) -> int:
        """Return the line number of a byte offset within these records."""
        begin, lines = self._counted if self._counted[0] <= offset else (0, 0)
        self._counted[:] = offset, lines + self.data.count(b"\n", begin, offset)
        return self.line + self._counted[1]


class Cursor:
    """Reads a file block by block, and keeps the position at which the next batch starts."""

    def __init__(
        self,
        raw: RawFile,
        encoding: str,
        max_record_bytes: int,
        *,
        counts: bool = True,
        record_mark: re.Pattern[bytes] | None = LINE_END,
    ) -> None:
        """``counts``: count lines and records; False if the framing does that.

        ``record_mark`` matches at least once in each record, to count records without extents. None: each batch is one record.
        """
        self.raw, self.limit = raw, max_record_bytes
        self.line, self.byte = 1, 0
        self._recoder = _utf_16_decoder() if encoding == "utf-16" else None
        self.encoding = "utf-8" if encoding in ("utf-8-sig", "utf-16") else encoding
        self.context = ""
        self._counts, self._record_mark = counts, record_mark
        self._first = True
        self._carriage_returns = False
        self._peeked = b""

    def peek(self) -> bytes:
        """Return the next block, which ``read`` will return again."""
        self._peeked = self._peeked or self.read()
        return self._peeked

    def read(self) -> bytes:
        """Return the next block: UTF-16 as UTF-8, without a byte order mark, carriage returns as line feeds.

        The latter only if the first block of the file has carriage returns and no line feed.
        """
        if self._peeked:
            block, self._peeked = self._peeked, b""
            return block
        block = self.raw.read_text(BYTES_PER_READ)
        if self._recoder is not None:
            block = self._recoded(block, self._recoder)
        if self._first:
            self._first = False
            if remedy := remedy_for(block, self.raw.format):
                raise ReadFault("other_format", "byte 0", remedy)
            if block.startswith(_BOM):
                self.byte = len(_BOM)
                block = block[len(_BOM) :]
            self._carriage_returns = b"\r" in block and b"\n" not in block
        if self._carriage_returns:
            block = block.replace(b"\r", b"\n")
        if self.encoding == "auto" and not block.isascii():
            self.encoding = _guess(block)
        return block

    def _recoded(self, block: bytes, decoder: codecs.IncrementalDecoder) -> bytes:
        try:
            return decoder.decode(block, final=not block).encode()
        except UnicodeError as error:
            position = f"within the bytes before {self.raw.bytes_read}"
            if isinstance(error, UnicodeDecodeError):
                remedy = f'{error.reason}: the file is damaged, or in another encoding; set encoding = "auto"'
            else:  # A missing byte order mark raises UnicodeError itself.
                remedy = 'it has no byte order mark: convert it to UTF-8, or set encoding = "auto" if it is in UTF-8 or CP949'
            raise ReadFault("invalid_utf16", position, remedy) from error

    def batch(
        self,
        data: bytes,
        extents: tuple[tuple[int, int], ...] = (),
        *,
        delimiter: re.Pattern[bytes] | None = None,
        last: bool = False,
    ) -> Iterator[RawRecords]:
        """Yield the bytes at the cursor as a batch, and move past them.

        If the file now has too many records for its compressed size, yield those before, up to an extent or delimiter, and
        raise ReadFault.
        """
        allowed = max(0, self.raw.records.allowed) if self._counts else len(extents)
        end, count = len(data), len(extents)
        if not extents:
            count = 1 if self._record_mark is None else sum(1 for _ in self._record_mark.finditer(data))
        if count > allowed:
            end = 0
            if extents:
                extents = extents[:allowed]
                end = extents[-1][1] if extents else 0
            elif self._record_mark is not None:
                first_excess = next(itertools.islice(self._record_mark.finditer(data), allowed, None)).start()
                end = max(0, _last_end(delimiter, data, 0, first_excess)) if delimiter else 0
        if end or not data:
            encoding = "utf-8" if self.encoding == "auto" else self.encoding  # only ASCII so far
            last = last and end == len(data)
            yield RawRecords(self.raw.name, encoding, self.line, self.byte, data[:end], extents, self.context, last, self.limit)
        position = f"byte {self.byte + end}"
        self.skip(data, count)
        if end < len(data):
            self.raw.refuse_empty_records(position)

    def skip(self, data: bytes, records: int = 0) -> None:
        """Move past ``data``, which holds that many records."""
        lines = data.count(b"\n")
        self.line += lines
        self.byte += len(data)
        if self._counts:
            self.raw.records.add(max(lines, records), len(data), records)

    def skip_damage(self) -> bool:
        """Move from damage in a compressed file to its next stream; return whether there is one."""
        if not self.raw.skip_damaged_stream():
            return False
        self._recoder = self._recoder and _utf_16_decoder()
        return True

    def too_long(self, line: int, byte: int) -> Quarantined:
        """Return the entry for a record that begins at ``line`` and ``byte``."""
        return Quarantined(self.raw.name, f"line {line}, byte {byte}", "", "record_too_long", too_long_remedy(self.limit))


def too_long_remedy(limit: int) -> str:
    """Return the remedy for a record that is longer than the limit."""
    return f"it is longer than limits.max_record_bytes ({limit:,}); raise that if it is meant to be one record"


def _utf_16_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-16")()


def _guess(block: bytes) -> str:
    for encoding in ("utf-8", "cp949"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(block)
        except UnicodeDecodeError:
            continue
        return encoding
    return "utf-8"


def quarantining_faults(
    cursor: Cursor, items: Callable[[], Iterator[RawRecords | Quarantined]], *, whole: bool = False
) -> Iterator[RawRecords | Quarantined]:
    """Yield all items, then the fault that ended the stream; a stream without records becomes an entry of the quarantine.

    After a damaged gzip member or other compressed stream, ``items`` is called again and reads from the next one, which may
    begin within a record; not if the ``whole`` file is one record. At a fault the items must have moved the cursor past what
    they had read.
    """
    found, more = False, True
    while more:
        more = False
        try:
            for item in items():
                found = True
                yield item
        except ReadFault as fault:
            more = found = not whole and cursor.skip_damage()
            entry = cursor.raw.quarantined(fault)
            if not more:
                yield entry
                return
            yield replace(entry, remedy=f"{entry.remedy}; what begins after the damage, with the next {_PART}, was read")
    name = cursor.raw.name
    if cursor.raw.bytes_read == 0:
        yield Quarantined(name, "byte 0", "", "empty_file", "remove the file from the source, or fetch it again")
    elif not found:
        yield Quarantined(name, "byte 0", "", "no_records", "the file holds no records: remove it from the source")


def frame_delimited(
    raw: RawFile,
    *,
    delimiter: bytes,
    encoding: str,
    max_record_bytes: int,
    record_mark: re.Pattern[bytes] = LINE_END,
    header: re.Pattern[bytes] | None = None,
    closing: bool = False,
) -> Iterator[RawRecords | Quarantined]:
    """Yield batches that end after a delimiter (``\\n``, ``</page>``) or with the file.

    ``record_mark`` matches at least once in each record, whether whole or broken. The group of ``header``, found in the first
    batch, is the ``context`` of all. ``closing``: yield a last batch even if nothing follows the last delimiter.
    """
    cursor = Cursor(raw, encoding, max_record_bytes, record_mark=record_mark)

    def items() -> Iterator[RawRecords | Quarantined]:
        literal = re.compile(re.escape(delimiter))
        return _delimited(cursor, literal, header=None if cursor.context else header, closing=closing)

    return quarantining_faults(cursor, items)


def frame_paragraphs(raw: RawFile, *, encoding: str, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Yield batches that end after a blank line."""
    cursor = Cursor(raw, encoding, max_record_bytes, record_mark=BLANK_LINE)

    return quarantining_faults(cursor, partial(_delimited, cursor, _SHORT_BLANK_LINE))


def _last_end(delimiter: re.Pattern[bytes], data: bytes | bytearray, start: int = 0, end: int = sys.maxsize) -> int:
    """Return the end of the last delimiter in ``data[start:end]``, or -1."""
    found = re.compile(rb"(?s:.*)" + delimiter.pattern).match(data, start, end)
    return found.end() if found else -1


def _delimited(
    cursor: Cursor, delimiter: re.Pattern[bytes], *, header: re.Pattern[bytes] | None = None, closing: bool = False
) -> Iterator[RawRecords | Quarantined]:
    """Yield batches that end after a delimiter of at most ``_MAX_DELIMITER_BYTES``, or with the file."""
    buffer = bytearray()

    def cut(end: int, *, last: bool = False) -> Iterator[RawRecords]:
        nonlocal header
        data = bytes(buffer[:end])
        del buffer[:end]
        if header is not None:
            found = header.search(data)
            cursor.context = found.group(1).decode("utf-8", "replace") if found else ""
            header = None
        yield from cursor.batch(data, delimiter=delimiter, last=last)

    try:
        while block := cursor.read():
            unseen = max(0, len(buffer) - _MAX_DELIMITER_BYTES) if len(buffer) > RAW_RECORDS_BYTES else 0
            buffer += block
            if len(buffer) < RAW_RECORDS_BYTES:
                continue
            end = _last_end(delimiter, buffer, unseen)
            if end >= 0:
                yield from cut(end)
            elif len(buffer) > cursor.limit + RAW_RECORDS_BYTES:  # for what is around a record: blanks, a dump's header
                line, byte = cursor.line, cursor.byte
                buffer = _skip_record(cursor, buffer, delimiter)
                yield cursor.too_long(line, byte)
    except ReadFault:
        if (end := _last_end(delimiter, buffer)) >= 0:
            yield from cut(end)
        cursor.skip(bytes(buffer))
        raise
    if buffer.strip() or (closing and cursor.raw.bytes_read):
        yield from cut(len(buffer), last=True)


def _skip_record(cursor: Cursor, buffer: bytearray, delimiter: re.Pattern[bytes]) -> bytearray:
    """Drop all bytes up to the end of the next delimiter; return those after it."""
    while True:
        size = max(0, len(buffer) - _MAX_DELIMITER_BYTES)  # the rest may be the beginning of a delimiter
        cursor.skip(bytes(buffer[:size]))
        del buffer[:size]
        block = cursor.read()
        if not block:
            cursor.skip(bytes(buffer))
            return bytearray()
        buffer += block
        if found := delimiter.search(buffer):
            cursor.skip(bytes(buffer[: found.end()]))
            del buffer[: found.end()]
            return buffer


def frame_whole(
    raw: RawFile, *, encoding: str, max_record_bytes: int, is_json: bool = False
) -> Iterator[RawRecords | Quarantined]:
    """Yield the whole file as one batch. It counts as one record, or if it ``is_json``, as one for each value."""
    cursor = Cursor(raw, encoding, max_record_bytes, record_mark=_JSON_VALUE if is_json else None)
    return quarantining_faults(cursor, partial(_whole, cursor), whole=True)


def _whole(cursor: Cursor) -> Iterator[RawRecords | Quarantined]:
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
        yield from cursor.batch(bytes(buffer), last=True)


def frame_json(raw: RawFile, *, encoding: str, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of the elements of a JSON array, of JSON objects in a row, or of JSON Lines, whichever the file holds."""
    cursor = Cursor(raw, encoding, max_record_bytes)
    by_line: bool | None = None

    def items() -> Iterator[RawRecords | Quarantined]:
        nonlocal by_line
        if by_line is None:
            by_line = is_json_object(cursor.peek().partition(b"\n")[0])
        return _delimited(cursor, LINE_END) if by_line else _json(cursor)  # a broken line cannot spoil the next one

    return quarantining_faults(cursor, items)


def _json(cursor: Cursor) -> Iterator[RawRecords | Quarantined]:
    scanner = ValueScanner()
    given_up: tuple[int, int] | None = None
    try:
        while block := cursor.read():
            scanner.feed(block)
            if given_up is not None:
                cursor.skip(scanner.forget() if scanner.skipping else b"")
                if not scanner.skipping:
                    yield cursor.too_long(*given_up)
                    given_up = None
            if scanner.complete_bytes >= RAW_RECORDS_BYTES or scanner.partial_bytes > cursor.limit:
                yield from _json_records(cursor, scanner)
            if scanner.partial_bytes > cursor.limit and given_up is None and scanner.resynchronise():
                yield from _json_records(cursor, scanner)
            if scanner.partial_bytes > cursor.limit and given_up is None:
                given_up = cursor.line, cursor.byte
                scanner.give_up()
                cursor.skip(scanner.forget())
    except ReadFault:
        yield from _json_records(cursor, scanner)
        cursor.skip(scanner.forget())
        raise
    unclosed = scanner.finish()
    yield from _json_records(cursor, scanner, last=True)
    if given_up is not None:
        yield cursor.too_long(*given_up)
    elif unclosed:
        yield Quarantined(cursor.raw.name, f"byte {cursor.byte}", "", unclosed, UNCLOSED_REMEDY)


def _json_records(cursor: Cursor, scanner: ValueScanner, *, last: bool = False) -> Iterator[RawRecords]:
    data, extents = scanner.take()
    if extents:
        yield from cursor.batch(data, extents, last=last)
    else:
        cursor.skip(data)
