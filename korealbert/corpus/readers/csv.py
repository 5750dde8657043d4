"""Books and other tables: finds the rows of a CSV file, quoted fields over several lines included, and reads them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, Cursor, RawRecords, guarded
from korealbert.corpus.readers.records import Outcome, Tally, bad_record, document_of, one_line, read_each
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault
from korealbert.documents.tables import csv_reader

_BLANK_LINES = re.compile(rb"(?>(?:\r?\n)+)")


_MAX_FIELDS = 1 << 20
"""Delimiters from which on a row counts as an attack or an accident: each field costs memory, however short."""

_PLACES = 3
"""Rows of a shard that hold others, as it seems, which its statistics name; the lines of further ones are counted together."""


class _RowTooLong(Exception):
    """A physical line, or the lines of one row, exceed the limit."""


class _TooManyFields(Exception):
    """A row has more than ``_MAX_FIELDS`` delimiters."""


class _RowLines:
    """Feeds a csv reader physical lines and remembers the bytes of the row that it is at."""

    def __init__(self, cursor: Cursor, delimiter: str) -> None:
        self.row = bytearray()
        self.lines_forgotten = self.bytes_forgotten = 0
        self._delimiter, self._delimiters = delimiter.encode(), 0
        self._cursor, self._buffer, self._position = cursor, b"", 0

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        begun = len(self.row)
        if not begun and (blank := _BLANK_LINES.match(self._buffer, self._position)):
            self._position = blank.end()
            self.row += blank[0]
            return "\n"  # one empty row, because files may have millions
        forgotten_before = self.bytes_forgotten
        while True:
            end = self._buffer.find(b"\n", self._position) + 1
            part = self._buffer[self._position : end or None]
            self._position += len(part)
            self.row += part
            if len(self.row) > self._cursor.limit:
                self.lines_forgotten += self.row.count(b"\n")
                self.bytes_forgotten += len(self.row)
                self.row.clear()
            if end:
                break
            self._buffer, self._position = self._cursor.read(), 0
            if not self._buffer:
                break
        if self.bytes_forgotten > forgotten_before:
            raise _RowTooLong
        if len(self.row) == begun:
            raise StopIteration
        self._delimiters = self.row.count(self._delimiter, begun) + (self._delimiters if begun else 0)
        if self._delimiters > _MAX_FIELDS:
            raise _TooManyFields(f"more than {_MAX_FIELDS:,} fields")
        return self.row[begun:].decode("latin-1")  # only finds where rows end, so bytes and characters stay one to one

    def give_back(self, start: int) -> None:
        """Read the current row's bytes from ``start`` on again, as rows of their own."""
        self._buffer = bytes(self.row[start:]) + self._buffer[self._position :]
        self._position = 0
        del self.row[start:]

    def forget(self, cursor: Cursor) -> None:
        """Move the cursor past the current row without keeping it."""
        cursor.line += self.lines_forgotten
        cursor.byte += self.bytes_forgotten
        self.lines_forgotten = self.bytes_forgotten = 0
        cursor.skip(bytes(self.row))
        self.row.clear()


def frame_csv(
    raw: RawFile, *, delimiter: str, columns: int, skip: int, quoted: bool, encoding: str, max_record_bytes: int
) -> Iterator[RawRecords | Quarantined]:
    """Batches of whole rows, in bounded memory; the header row is the ``context`` (decoded as Latin-1) of each.

    Empty lines are no rows. ``columns``: how many there are where no header row is; 0 where one is. ``skip``: rows before
    either that are left out. ``quoted``: fields may be in quotation marks and over several lines.
    """
    cursor = Cursor(raw, encoding, max_record_bytes, marks=None)
    cursor.context = delimiter.join("x" * columns)
    return guarded(cursor, _rows(cursor, delimiter, skip=skip, quoted=quoted))


def _rows(cursor: Cursor, delimiter: str, *, skip: int, quoted: bool) -> Iterator[RawRecords | Quarantined]:
    lines = _RowLines(cursor, delimiter)
    reader = _reader(lines, delimiter, quoted=quoted, strict=True)
    data, cuts = bytearray(), list[tuple[int, int]]()

    def flush() -> Iterator[RawRecords]:
        if data:
            yield from cursor.batch(bytes(data), tuple(cuts))
        data.clear()
        cuts.clear()

    while True:
        try:
            fields = next(reader, None)
        except ReadFault:
            yield from flush()
            raise
        except (_RowTooLong, _TooManyFields, csv.Error) as error:
            yield from flush()
            if isinstance(error, _RowTooLong):
                yield cursor.too_long(cursor.line, cursor.byte)
            else:
                lines.give_back(_next_row(bytes(lines.row), cursor.context, delimiter))
                remedy = f"{error}: correct the quotes of this row" if quoted else f"{error}: correct this row"
                excerpt = lines.row[:200].decode("utf-8", "replace")
                yield Quarantined(cursor.raw.name, f"line {cursor.line}", "", "malformed_csv", remedy, excerpt)
            lines.forget(cursor)
            continue
        if fields is None:
            break
        filled = any(field.strip() for field in fields)
        if skip:
            skip -= filled
            lines.forget(cursor)
            continue
        if not cursor.context:
            if filled:  # blank lines may come before the header
                cursor.context = lines.row.decode("latin-1")
            lines.forget(cursor)
            continue
        if fields:
            cuts.append((len(data), len(data) + len(lines.row)))
        data += lines.row
        lines.row.clear()
        if len(data) >= RAW_RECORDS_BYTES:
            yield from flush()
    yield from flush()


def _next_row(row: bytes, header: str, delimiter: str) -> int:
    """Where, in a row that an unclosed quote made too long, a line begins that is a row by itself; its end if none does."""
    columns = len(_fields(header, delimiter))
    start = row.find(b"\n") + 1
    while 0 < start < len(row) and columns > 1:
        end = row.find(b"\n", start) + 1 or len(row)
        try:
            few = row.count(delimiter.encode(), start, end) <= _MAX_FIELDS
            if (
                few
                and len(next(csv_reader([row[start:end].decode("latin-1")], delimiter=delimiter, strict=True), [])) == columns
            ):
                return start
        except csv.Error:
            pass
        start = end
    return len(row)


def parse_rows(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """One document per row; a row with another number of fields than the header goes to quarantine.

    Blanks and byte order marks around column names do not count. Where the header names a column twice that the field map
    uses, no row can be read.
    """
    first = records.context.encode("latin-1").decode(records.encoding, "replace")
    header = list(spec.columns) or [one_line(name) for name in _fields(first, spec.delimiter, quoted=spec.quoted)]
    ambiguous = next((name for name in spec.field_map.names if header.count(name) > 1), None)

    def read(text: str, start: int, end: int) -> Outcome:
        fields = _fields(text, spec.delimiter, quoted=spec.quoted)
        if spec.quoted and "\n" in text[:-1] and (within := _rows_within(text, spec.delimiter, len(header))):
            seen = tally.rows_in_quotes
            seen[f"{records.file}, line {records.line_at(start)}" if len(seen) < _PLACES else "further rows"] += within
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

    return read_each(records, records.cuts, tally, read)


def _rows_within(row: str, delimiter: str, columns: int) -> int:
    """Lines of a row after its first that would be rows by themselves, as each of its lines would.

    Then a quotation mark that is text may have begun the field, and another ended it lines later. Prose that has a comma in
    each of its lines is no row of two columns.
    """
    first, *others = (line.count(delimiter) == columns - 1 for line in row.rstrip("\n").split("\n"))
    likely = columns > 2 or (columns == 2 and delimiter == "\t")
    return len(others) if likely and first and all(others) else 0


def _fields(row: str, delimiter: str, *, quoted: bool = True) -> list[str]:
    lines = io.StringIO(row, newline="\n")  # Lines as the framing has them.
    return next(_reader(lines, delimiter, quoted=quoted), [])


def _reader(lines: Iterable[str], delimiter: str, *, quoted: bool, strict: bool = False) -> Any:
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    return csv_reader(lines, delimiter=delimiter, quoting=quoting, strict=strict)
