"""The first records of a file: of JSON, of Parquet, and of CSV with its delimiter, quotation marks and header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from korealbert.documents.csv import csv_reader
from korealbert.recipe.new.columns import BODY_NAMES, KNOWN_NAMES, METADATA_NAMES, NUMBER, TEXT_NAMES, normalized
from korealbert.recipe.new.formats import SAMPLED_RECORDS, decoded, json_objects, whole_lines

_MAX_SAMPLED_RECORDS = 20_000
"""Records read when a field that may hold the text is empty in all of the first ones."""
_DELIMITERS = ",;\t|"
_EXCEL_DELIMITER = re.compile(r'\s*"?sep=(.)"?[ \t]*\r?\n')
"""The line above the header that tells Excel the delimiter."""
_MAX_TITLE_ROWS = 5
"""Rows that may precede the header of a table: a title, a date, a unit."""
_MAX_NAME_CHARACTERS = 40
"""A longer first cell is data and not the name of a column."""
_MIN_TEXT_WORDS = 3
"""A first cell of so many words, and half as long as the cells below it, is one of them: a short review."""
_MIN_ONE_LINE_SHARE = 0.8
"""If a smaller share of lines has as many fields as the first, rows span lines, so quotation marks must be quoting them."""
_MIN_TABLE_ROWS, _MIN_SAME_WIDTH_SHARE = 5, 0.95
"""A text is a table only if it has this many rows and this share of them has the same number of fields."""


@dataclass(frozen=True)
class Table:
    """How the records of a file are written, and the first of them."""

    records: Sequence[Mapping[str, Any]] = ()
    delimiter: str = ""
    columns: tuple[str, ...] = ()
    """Names given to the columns of a table without a header."""
    uncertain_header: tuple[str, ...] = ()
    """The first row if it was taken for a header though none of its names is a usual one."""
    quoted: bool = True
    """Whether quotation marks quote fields; otherwise they are text."""
    skipped: int = 0
    """Rows above the header."""
    escaped: bool = False
    """Whether quotation marks within fields are escaped by a backslash, which no reader understands."""

    def extended(self, later: Table) -> Table:
        """Return this table with those later records that fill one of ``empty_bodies``."""
        empty = self.empty_bodies
        found = (record for record in later.records if any(record.get(name) for name in empty))
        return replace(self, records=[*self.records, *islice(found, SAMPLED_RECORDS)])

    @property
    def empty_bodies(self) -> list[str]:
        """Fields that may hold the text by their names, but are empty in every record."""
        names = dict.fromkeys(name for record in self.records for name in record if normalized(str(name)) in BODY_NAMES)
        return [name for name in names if not any(record.get(name) for record in self.records)]


def table_of_parquet(file: Path | bytes) -> Table:
    """Return the first rows of a Parquet file, and further ones if the first lack a text. Raises ArrowException."""
    parquet = pq.ParquetFile(pa.BufferReader(file) if isinstance(file, bytes) else file)
    return _table_of_batches(parquet.iter_batches(SAMPLED_RECORDS))


def table_of_arrow(file: Path | bytes) -> Table:
    """Return the same of an Arrow file or stream. Raises ArrowException."""
    with pa.BufferReader(file) if isinstance(file, bytes) else pa.memory_map(str(file)) as source:
        source.seek(8 if source.read(8).startswith(b"ARROW1") else 0)
        batches = ipc.open_stream(source)
        return _table_of_batches(part for batch in batches for part in _sliced(batch))


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, SAMPLED_RECORDS) for start in range(0, batch.num_rows, SAMPLED_RECORDS))


def _table_of_batches(batches: Iterable[pa.RecordBatch]) -> Table:
    table = Table()
    for batch in islice(batches, _MAX_SAMPLED_RECORDS // SAMPLED_RECORDS):
        rows = Table([{name: _with_strings(value) for name, value in row.items()} for row in batch.to_pylist()])
        table = table.extended(rows) if table.records else rows
        if not table.empty_bodies:
            break
    return table


def _with_strings(value: Any) -> Any:
    """Decode bytes in a value from UTF-8, as extraction does, or from CP949, which it quarantines; keep other bytes."""
    if isinstance(value, list):
        return [_with_strings(each) for each in value]
    if isinstance(value, dict):
        return {name: _with_strings(each) for name, each in value.items()}
    for encoding in ("utf-8", "cp949") if isinstance(value, bytes) else ():
        with suppress(UnicodeDecodeError):
            return value.decode(encoding)
    return value


def table_of_json(begin: bytes, *, more: bool) -> Table:
    """Return the first whole objects of a JSON list or of JSON lines; ``more``: up to ``_MAX_SAMPLED_RECORDS``."""
    objects = (value for *_, value in json_objects(decoded(begin)))
    return Table(list(islice(objects, _MAX_SAMPLED_RECORDS if more else SAMPLED_RECORDS)))


def table_of_csv(begin: bytes, *, first: str, cut: bool, more: bool = False) -> Table:
    """Return the first rows, split by the delimiter under which most rows have as many fields as the first one.

    ``first`` is the delimiter to prefer, ``cut`` says that the last line may be incomplete, ``more`` asks for up to
    ``_MAX_SAMPLED_RECORDS`` rows. Titles above the header are skipped.
    """
    return _parse_csv(whole_lines(begin, cut=cut), first, _MAX_SAMPLED_RECORDS if more else SAMPLED_RECORDS)[0]


def _parse_csv(text: str, first: str, limit: int = SAMPLED_RECORDS) -> tuple[Table, float]:
    """Return the table, and the share of its rows that have as many fields as its first one."""
    excel = _EXCEL_DELIMITER.match(text)
    best, best_score = Table(delimiter=first), (False, 0.0)
    for delimiter in [excel[1]] if excel else sorted(_DELIMITERS, key=lambda mark: mark != first):
        with suppress(csv.Error):
            quoted = _is_quoted(text, delimiter)
            rows = list(islice(_rows(text, delimiter, quoted=quoted), limit + 1 + _MAX_TITLE_ROWS))
            skipped = 1 + _title_rows(rows[1:]) if excel else _title_rows(rows)
            rows = rows[skipped:]
            if not rows:
                continue
            score = len(rows[0]) > 1, sum(len(row) == len(rows[0]) for row in rows) / len(rows)
            if score > best_score:
                best, best_score = _table(rows, delimiter, quoted=quoted, skipped=skipped), score
    return replace(best, escaped=_is_escaped(text, best.delimiter)), best_score[1]


def _title_rows(rows: Sequence[Sequence[str]]) -> int:
    """Count the rows above the header of a table: titles with one filled field each, or the rest of a cut row."""
    filled = [sum(bool(field.strip()) for field in row) for row in rows]
    [(usual, _)] = Counter(map(len, rows)).most_common(1) or [(0, 0)]
    candidates = enumerate(zip(filled[: _MAX_TITLE_ROWS + 1], rows, strict=False))
    titles = next((number for number, (fields, row) in candidates if fields > 1 and len(row) == usual), 0)
    if any(name.strip().lower() in KNOWN_NAMES for row in rows[:titles] for name in row):
        return 0
    header, *below = rows[titles:] or [[]]
    same_width = sum(len(row) == len(header) for row in below)
    if len(below) < _MIN_TABLE_ROWS or same_width < _MIN_SAME_WIDTH_SHARE * len(below):
        return 0
    if all(len(row) != usual for row in rows[:titles]):
        return titles
    has_header = _is_header(header, below) or _has_numbers(rows[titles:])
    return titles if filled[titles] == len(header) and has_header else 0


def _has_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether some column of these rows holds nothing but numbers."""
    return any(all(NUMBER.fullmatch(field.strip()) for field in column) for column in zip(*rows, strict=False))


def table_of_text(begin: bytes, *, cut: bool) -> Table:
    """Return the first rows of a text that is a table, and an empty table for any other text.

    A text is a table if all lines but the first few have the same number of tabs, or if it is CSV with a header.
    """
    text = whole_lines(begin, cut=cut)
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    tabs = [line.count("\t") for line in lines]
    [(usual, _)] = Counter(tabs).most_common(1) or [(0, 0)]
    above = tabs.index(usual) if usual else 0
    below = len(lines) - above
    has_rows = below >= _MIN_TABLE_ROWS and tabs.count(usual) >= _MIN_SAME_WIDTH_SHARE * below
    if usual and above <= _MAX_TITLE_ROWS and has_rows:
        quoted = _is_quoted(text, "\t")
        rows = list(islice(_rows(text, "\t", quoted=quoted), above, above + SAMPLED_RECORDS + 1))
        return replace(_table(rows, "\t", quoted=quoted, skipped=above), escaped=_is_escaped(text, "\t"))
    if not any(map(_may_be_header, lines[: _MAX_TITLE_ROWS + 1])):
        return Table()
    table, same_width = _parse_csv(text, ",")
    if table.columns or len(table.records) < _MIN_TABLE_ROWS or same_width < _MIN_SAME_WIDTH_SHARE:
        return Table()
    names = list(table.records[0])
    has_known_name = any(name.lower() in KNOWN_NAMES for name in names)
    if len(names) < 2 or not (has_known_name or _has_numbers([list(record.values()) for record in table.records])):
        return Table()
    return table


def _may_be_header(line: str) -> bool:
    """Return whether ``_is_header`` may hold for a line under some delimiter: most prose then need not be read as CSV."""
    split = ([name.strip(' "').lower() for name in line.split(mark)] for mark in _DELIMITERS if mark in line)
    return any(max(map(len, names)) <= _MAX_NAME_CHARACTERS or KNOWN_NAMES.intersection(names) for names in split)


def _rows(text: str, delimiter: str, *, quoted: bool, **dialect: Any) -> Iterator[list[str]]:
    """Yield the rows that are not blank; extraction counts blank ones neither as titles nor as headers."""
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    rows = csv_reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, **dialect)
    return (row for row in rows if any(map(str.strip, row)))


def _same_width(text: str, delimiter: str, *, quoted: bool, **dialect: Any) -> tuple[int, int]:
    """Count the rows with as many fields as the first that has several, and all rows, up to the first unreadable one."""
    widths = list[int]()
    with suppress(csv.Error):
        widths.extend(len(row) for row in _rows(text, delimiter, quoted=quoted, strict=True, **dialect))
    first = next((width for width in widths[: _MAX_TITLE_ROWS + 1] if width > 1), widths[0] if widths else 0)
    return widths.count(first), len(widths)


def _is_escaped(text: str, delimiter: str) -> bool:
    """Return whether more rows can be read if a backslash escapes quotation marks within fields."""
    if '\\"' not in text:
        return False
    doubled, escaped = (_same_width(text, delimiter, quoted=True, escapechar=mark)[0] for mark in (None, "\\"))
    return escaped > doubled


def _is_quoted(text: str, delimiter: str) -> bool:
    """Return whether quotation marks quote fields, as in RFC 4180, rather than being text.

    In tables with tabs they do if all marks can be read that way and one is needed: because its field holds a tab, a line break
    or a quotation mark, or because every name of the header is quoted. In other tables they are text only if some cannot be
    read as quotes and more rows, at least ``_MIN_ONE_LINE_SHARE`` of the lines, are whole when they are text.
    """
    if '"' not in text:
        return delimiter != "\t"
    whole_as_text, lines = _same_width(text, delimiter, quoted=False)
    whole_as_quotes, _ = _same_width(text, delimiter, quoted=True)
    mark = re.escape(delimiter)
    field = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)(?:"|\Z)|[^"{mark}\n]*)(?:{mark}|\r?\n|\Z)')
    position, needed = 0, all(name.startswith('"') for name in text.partition("\n")[0].split(delimiter))
    while position < len(text) and (found := field.match(text, position)):
        position = found.end()
        needed = needed or any(special in (found[1] or "") for special in ('"', "\n", delimiter))
    well_formed = position == len(text)
    if delimiter == "\t":
        return needed and well_formed and whole_as_text <= whole_as_quotes
    return well_formed or whole_as_text <= whole_as_quotes or whole_as_text < _MIN_ONE_LINE_SHARE * lines


def _table(rows: Sequence[Sequence[str]], delimiter: str, *, quoted: bool, skipped: int) -> Table:
    """Return the table of these rows, whose first one may be a header."""
    if not rows:
        return Table((), delimiter, skipped=skipped)
    names = tuple(" ".join(name.split()) for name in rows[0])
    columns = () if _is_header(names, rows[1:]) else tuple(f"column{number}" for number in range(1, len(names) + 1))
    body = rows if columns else rows[1:]
    known = columns or any(normalized(name) in KNOWN_NAMES for name in names)
    records = [dict(zip(columns or names, row, strict=False)) for row in body]
    return Table(records, delimiter, columns, () if known else names, quoted, skipped)


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a first row names the columns of the others.

    It does if one of its names is known. Otherwise its names must be short and different, and none may be a number, an address,
    a sentence, as long a text as those below it, or a value of its column, as the label of a first row of data is.
    """
    if not rows or any(name.lower() in METADATA_NAMES or name.lower() in TEXT_NAMES for name in names):
        return True
    if len(set(names)) < len(names):
        return False
    for place, name in enumerate(names):
        if name and (len(name) > _MAX_NAME_CHARACTERS or NUMBER.fullmatch(name) or "://" in name or name[-1] in ".?!"):
            return False
        below = [len(row[place]) for row in rows if len(row) > place and row[place]]
        if below and len(name.split()) >= _MIN_TEXT_WORDS and 2 * len(name) >= median(below):
            return False
        if name and any(row[place : place + 1] == [name] for row in rows if list(row) != list(names)):
            return False
    return True
