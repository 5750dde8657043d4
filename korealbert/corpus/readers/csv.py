"""Finds the rows of a CSV file, whose quoted fields may have several lines, and reads them."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, Cursor, RawRecords, quarantining_faults
from korealbert.corpus.readers.records import NUL_REMEDY, Outcome, Tally, bad_record, document_of, one_line, read_each
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.csv import csv_reader
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault

_BLANK_LINES = re.compile(rb"(?>(?:\r?\n)+)")
_AROUND_ROW = codecs.BOM_UTF8 + b"\r\n"
_MAX_FIELDS = 1 << 20
"""Largest number of delimiters of a row, because each field costs memory, however short."""
_MAX_SHOWN_ROWS = 3
"""Number of rows with other rows in their quoted fields that the statistics of a shard name; the rest is only counted."""


class _RowTooLong(Exception):
    """Raised if a row is longer than ``max_record_bytes``."""


class _TooManyFields(Exception):
    """Raised if a row has more than ``_MAX_FIELDS`` delimiters."""


class _RowLines:
    """Iterates over physical lines for a csv reader, and remembers the bytes of the current row."""

    def __init__(self, cursor: Cursor, delimiter: str) -> None:
        self.row = bytearray()
        self.dropped_lines = self.dropped_bytes = 0
        """What was removed from ``row`` because the row is too long."""
        self._delimiter, self._delimiters = delimiter.encode(), 0
        self._cursor, self._buffer, self._position = cursor, b"", 0

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        line_start = len(self.row)
        if not line_start and (blank := _BLANK_LINES.match(self._buffer, self._position)):
            self._position = blank.end()
            self.row += blank[0]
            return "\n"  # a single empty row, because files may have millions
        dropped_before = self.dropped_bytes
        while True:
            end = self._buffer.find(b"\n", self._position) + 1
            part = self._buffer[self._position : end or None]
            self._position += len(part)
            self.row += part
            if len(self.row) > self._cursor.limit + len(b"\r\n"):
                self.dropped_lines += self.row.count(b"\n")
                self.dropped_bytes += len(self.row)
                self.row.clear()
            if end:
                break
            self._buffer, self._position = self._cursor.read(), 0
            if not self._buffer:
                break
        if self.dropped_bytes > dropped_before:
            raise _RowTooLong
        if len(self.row) == line_start:
            raise StopIteration
        self._delimiters = self.row.count(self._delimiter, line_start) + (self._delimiters if line_start else 0)
        if self._delimiters > _MAX_FIELDS:
            raise _TooManyFields(f"more than {_MAX_FIELDS:,} fields")
        return self.row[line_start:].decode("latin-1")  # one character a byte, because only the ends of rows matter

    def give_back(self, start: int) -> None:
        """Cut the current row at ``start``; the bytes after it will be read again as further rows."""
        self._buffer = bytes(self.row[start:]) + self._buffer[self._position :]
        self._position = 0
        del self.row[start:]

    def drop(self, cursor: Cursor) -> None:
        """Move the cursor past the current row."""
        cursor.line += self.dropped_lines
        cursor.byte += self.dropped_bytes
        self.dropped_lines = self.dropped_bytes = 0
        cursor.skip(bytes(self.row))
        self.row.clear()


def frame_csv(
    raw: RawFile, *, delimiter: str, columns: int, skip: int, quoted: bool, encoding: str, max_record_bytes: int
) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of whole rows, whose ``context`` is the header row, decoded as Latin-1.

    Empty lines are skipped, and the header where it recurs, as in joined files. ``columns`` is their number if there is no
    header row, else 0. ``skip`` is the number of rows before the header or first row that are skipped. ``quoted``: fields
    may be in quotation marks and have several lines.
    """
    cursor = Cursor(raw, encoding, max_record_bytes, record_mark=None)
    cursor.context = delimiter.join("x" * columns)

    def items() -> Iterator[RawRecords | Quarantined]:
        nonlocal skip
        rows = _rows(cursor, delimiter, skip=skip, quoted=quoted, is_given=columns > 0)
        skip = 0
        return rows

    return quarantining_faults(cursor, items)


def _rows(  # noqa: PLR0912, PLR0915 (one reader, whose rows end in several ways)
    cursor: Cursor, delimiter: str, *, skip: int, quoted: bool, is_given: bool
) -> Iterator[RawRecords | Quarantined]:
    """Yield the rows up to a fault; ``is_given`` says that the context is not a row of the file."""
    lines = _RowLines(cursor, delimiter)
    reader = _reader(lines, delimiter, quoted=quoted, strict=True)
    data, extents = bytearray(), list[tuple[int, int]]()
    header = b"" if is_given else cursor.context.encode("latin-1").strip(_AROUND_ROW)

    def flush(*, last: bool = False) -> Iterator[RawRecords]:
        if data:
            yield from cursor.batch(bytes(data), tuple(extents), last=last)
        data.clear()
        extents.clear()

    while True:
        try:
            fields = next(reader, None)
        except ReadFault:
            yield from flush()
            lines.drop(cursor)
            raise
        except (_RowTooLong, _TooManyFields, csv.Error) as error:
            yield from flush()
            if isinstance(error, _RowTooLong):
                yield cursor.too_long(cursor.line, cursor.byte)
            else:
                lines.give_back(_next_row(bytes(lines.row), cursor.context, delimiter))
                where = " the quotes of" if quoted else ""
                reason, remedy = "malformed_csv", f"{error}: correct{where} this row"
                if b"\0" in lines.row:
                    reason, remedy = "nul_bytes", NUL_REMEDY
                excerpt = lines.row[:200].decode("utf-8", "replace")
                yield Quarantined(cursor.raw.name, f"line {cursor.line}", "", reason, remedy, excerpt)
            lines.drop(cursor)
            continue
        if fields is None:
            break
        if skip or not cursor.context:
            is_blank = not any(field.strip() for field in fields)
            if skip and not is_blank:
                skip -= 1
            elif b"\0" in lines.row:
                position = f"line {cursor.line}"
                lines.drop(cursor)
                raise ReadFault("nul_bytes", position, NUL_REMEDY)
            elif not is_blank:
                cursor.context = lines.row.decode("latin-1")
                header = bytes(lines.row).strip(_AROUND_ROW)
            lines.drop(cursor)
            continue
        if len(fields) > 1 and bytes(lines.row).strip(_AROUND_ROW) == header:
            yield from flush()  # the header of another file that was joined to this one
            lines.drop(cursor)
            continue
        if fields:
            extents.append((len(data), len(data) + len(lines.row)))
        data += lines.row
        lines.row.clear()
        if len(data) >= RAW_RECORDS_BYTES:
            yield from flush()
    yield from flush(last=True)


def _next_row(row: bytes, header: str, delimiter: str) -> int:
    """Return where a line begins that is a whole row, within a row that an unclosed quote made too long; else the row's end."""
    columns = len(_fields(header, delimiter))
    start = row.find(b"\n") + 1
    while 0 < start < len(row) and columns > 1:
        end = row.find(b"\n", start) + 1 or len(row)
        if row.count(delimiter.encode(), start, end) <= _MAX_FIELDS:
            line = row[start:end].decode("latin-1")
            with suppress(csv.Error):
                if len(next(csv_reader([line], delimiter=delimiter, strict=True), [])) == columns:
                    return start
        start = end
    return len(row)


def parse_rows(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield a document for each row; a row with another number of fields than the header is quarantined.

    Blanks and byte order marks around column names are removed. If the header has a column of the field map twice, all rows are
    quarantined.
    """
    first = records.context.encode("latin-1").decode(records.encoding, "replace")
    header = list(spec.columns) or [one_line(name) for name in _fields(first, spec.delimiter, quoted=spec.quoted)]
    ambiguous = next((name for name in spec.field_map.names if header.count(name) > 1), None)

    def read(text: str, start: int, end: int) -> Outcome:
        fields = _fields(text, spec.delimiter, quoted=spec.quoted)
        if spec.quoted and "\n" in text[:-1] and (within := _rows_within(text, spec.delimiter, len(header))):
            counts = tally.rows_in_quotes
            place = f"{records.file}, line {records.line_at(start)}" if len(counts) < _MAX_SHOWN_ROWS else "further rows"
            counts[place] += within
        if len(fields) != len(header):
            remedy = (
                f"the row has {len(fields)} fields, the header {len(header)}: quote the fields that hold {spec.delimiter!r}"
            )
            position = f"line {records.line_at(start)}"
            return bad_record(records, start, end, "wrong_number_of_fields", remedy, position=position)
        if ambiguous is not None:
            remedy = "the header names this column more than once: rename all but one"
            return bad_record(records, start, end, "duplicate_column", remedy, field=ambiguous)
        return document_of(spec, dict(zip(header, fields)), records, (start, end), tally)

    return read_each(records, records.extents, tally, read)


def _rows_within(row: str, delimiter: str, columns: int) -> int:
    """Return the number of lines after the first if each line of the row looks like a row itself, else 0.

    Then a quotation mark in the text may have begun the field, and another ended it lines later. With two columns only tabs
    count, because prose may well have a comma in each line.
    """
    if columns < 2 or (columns == 2 and delimiter != "\t"):
        return 0
    lines = row.rstrip("\n").split("\n")
    return len(lines) - 1 if all(line.count(delimiter) == columns - 1 for line in lines) else 0


def _fields(row: str, delimiter: str, *, quoted: bool = True) -> list[str]:
    lines = io.StringIO(row, newline="\n")  # cut at line feeds only, as the framing does
    return next(_reader(lines, delimiter, quoted=quoted), [])


def _reader(lines: Iterable[str], delimiter: str, *, quoted: bool, strict: bool = False) -> Any:
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    return csv_reader(lines, delimiter=delimiter, quoting=quoting, strict=strict)
