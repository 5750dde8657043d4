"""The first rows of a table of delimited text: its delimiter, quotation marks, titles and header.

No file says how it is written. Of each choice the one is taken under which most rows are as wide as the first.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from statistics import median
from typing import Any

from korealbert.documents.csv import csv_reader
from korealbert.recipe.new.columns import KNOWN_NAMES, METADATA_NAMES, NUMBER, TEXT_NAMES, normalized
from korealbert.recipe.new.formats import SAMPLED_RECORDS, whole_lines
from korealbert.recipe.new.tables import MAX_SAMPLED_RECORDS, Table

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


def table_of_csv(begin: bytes, *, preferred: str, cut: bool, more: bool = False) -> Table:
    """Return the first rows of a table, which needs no header.

    ``preferred`` is the delimiter to take if others do no better. ``cut``: the last line may be incomplete. ``more``: up to
    ``MAX_SAMPLED_RECORDS`` rows.
    """
    limit = MAX_SAMPLED_RECORDS if more else SAMPLED_RECORDS
    return _most_regular(whole_lines(begin, cut=cut), preferred, limit)[0]


def table_of_text(begin: bytes, *, cut: bool) -> Table:
    """Return the first rows of a text that is a table, and an empty table for any other text.

    A text is a table if all lines but the first few have the same number of tabs, or if it is CSV with a header. ``cut``: the
    last line may be incomplete.
    """
    text = whole_lines(begin, cut=cut)
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if (found := _with_tabs(text, lines)) is not None:
        return found
    if not any(map(_may_be_header, lines[: _MAX_TITLE_ROWS + 1])):
        return Table()
    table, same_width = _most_regular(text, ",")
    names = list(table.records[0]) if table.records else []
    if table.columns or len(table.records) < _MIN_TABLE_ROWS or same_width < _MIN_SAME_WIDTH_SHARE or len(names) < 2:
        return Table()
    has_known_name = any(name.lower() in KNOWN_NAMES for name in names)
    return table if has_known_name or _has_numbers([list(record.values()) for record in table.records]) else Table()


def _with_tabs(text: str, lines: Sequence[str]) -> Table | None:
    """Return the table of a text whose lines, but for titles, have the same number of tabs, or None."""
    tabs = [line.count("\t") for line in lines]
    [(usual, times)] = Counter(tabs).most_common(1) or [(0, 0)]
    titles = tabs.index(usual) if usual else 0
    below = len(lines) - titles
    if not usual or titles > _MAX_TITLE_ROWS or below < _MIN_TABLE_ROWS or times < _MIN_SAME_WIDTH_SHARE * below:
        return None
    delimited = _Delimited(text, "\t")
    rows = list(islice(delimited.rows(), titles, titles + SAMPLED_RECORDS + 1))
    return replace(delimited.table(rows, skipped=titles), escaped=delimited.is_escaped)


def _most_regular(text: str, preferred: str, limit: int = SAMPLED_RECORDS) -> tuple[Table, float]:
    """Return the table under the delimiter by which most rows are as wide as the first, and the share of these rows."""
    excel = _EXCEL_DELIMITER.match(text)
    delimiters = [excel[1]] if excel else sorted(_DELIMITERS, key=lambda mark: mark != preferred)
    best, best_score = Table(delimiter=preferred), (False, 0.0)
    for delimiter in delimiters:
        with suppress(csv.Error):
            delimited = _Delimited(text, delimiter)
            rows = list(islice(delimited.rows(), limit + 1 + _MAX_TITLE_ROWS))
            skipped = 1 + _title_rows(rows[1:]) if excel else _title_rows(rows)
            if not (rows := rows[skipped:]):
                continue
            score = len(rows[0]) > 1, sum(len(row) == len(rows[0]) for row in rows) / len(rows)
            if score > best_score:
                best, best_score = delimited.table(rows, skipped=skipped), score
    return replace(best, escaped=_Delimited(text, best.delimiter).is_escaped), best_score[1]


@dataclass(frozen=True)
class _Delimited:
    """A text read as rows of fields between delimiters."""

    text: str
    delimiter: str

    def rows(self, *, quoted: bool | None = None, **dialect: Any) -> Iterator[list[str]]:
        """Yield the rows that are not blank; extraction counts blank ones neither as titles nor as headers.

        ``quoted`` is by default what it seems to be; ``dialect`` goes to ``csv.reader``. Raises csv.Error at an unreadable row.
        """
        quoting = csv.QUOTE_MINIMAL if (self.is_quoted if quoted is None else quoted) else csv.QUOTE_NONE
        lines = io.StringIO(self.text, newline="")
        rows = csv_reader(lines, delimiter=self.delimiter, quoting=quoting, **dialect)
        return (row for row in rows if any(map(str.strip, row)))

    def table(self, rows: Sequence[Sequence[str]], *, skipped: int) -> Table:
        """Return the table of rows, of which the first may be a header; ``skipped`` rows are above it."""
        if not rows:
            return Table((), self.delimiter, skipped=skipped)
        names = tuple(" ".join(name.split()) for name in rows[0])
        if not _is_header(names, rows[1:]):
            columns = tuple(f"column{number}" for number in range(1, len(names) + 1))
            records = [dict(zip(columns, row, strict=False)) for row in rows]
            return Table(records, self.delimiter, columns, quoted=self.is_quoted, skipped=skipped)
        records = [dict(zip(names, row, strict=False)) for row in rows[1:]]
        uncertain = () if any(normalized(name) in KNOWN_NAMES for name in names) else names
        return Table(records, self.delimiter, (), uncertain, self.is_quoted, skipped)

    @cached_property
    def is_quoted(self) -> bool:
        """Whether quotation marks quote fields, as in RFC 4180, rather than being text.

        In tables with tabs they do if all marks can be read that way and one is needed: because its field holds a tab, a line
        break or a quotation mark, or because every name of the header is quoted. In other tables they are text only if some
        cannot be read as quotes and more rows, at least ``_MIN_ONE_LINE_SHARE`` of the lines, are whole when they are text.
        """
        if '"' not in self.text:
            return self.delimiter != "\t"
        whole_as_text, lines = self._same_width(quoted=False)
        whole_as_quotes, _ = self._same_width(quoted=True)
        well_formed, needed = self._quotes()
        if self.delimiter == "\t":
            return needed and well_formed and whole_as_text <= whole_as_quotes
        return well_formed or whole_as_text <= whole_as_quotes or whole_as_text < _MIN_ONE_LINE_SHARE * lines

    def _quotes(self) -> tuple[bool, bool]:
        """Return whether all quotation marks can be read as quotes, and whether a field needs them or all names have them."""
        mark = re.escape(self.delimiter)
        field = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)(?:"|\Z)|[^"{mark}\n]*)(?:{mark}|\r?\n|\Z)')
        header = self.text.partition("\n")[0]
        needed = all(name.startswith('"') for name in header.split(self.delimiter))
        position = 0
        while position < len(self.text) and (found := field.match(self.text, position)):
            position = found.end()
            needed = needed or any(special in (found[1] or "") for special in ('"', "\n", self.delimiter))
        return position == len(self.text), needed

    @property
    def is_escaped(self) -> bool:
        """Whether more rows can be read if a backslash escapes quotation marks within fields."""
        if '\\"' not in self.text:
            return False
        doubled, escaped = (self._same_width(quoted=True, escapechar=mark)[0] for mark in (None, "\\"))
        return escaped > doubled

    def _same_width(self, *, quoted: bool, **dialect: Any) -> tuple[int, int]:
        """Count the rows with as many fields as the first that has several, and all rows, up to the first unreadable one."""
        widths = list[int]()
        with suppress(csv.Error):
            widths.extend(len(row) for row in self.rows(quoted=quoted, strict=True, **dialect))
        first = next((width for width in widths[: _MAX_TITLE_ROWS + 1] if width > 1), widths[0] if widths else 0)
        return widths.count(first), len(widths)


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


def _may_be_header(line: str) -> bool:
    """Return whether ``_is_header`` may hold for a line under some delimiter: most prose then need not be read as CSV."""
    split = ([name.strip(' "').lower() for name in line.split(mark)] for mark in _DELIMITERS if mark in line)
    return any(max(map(len, names)) <= _MAX_NAME_CHARACTERS or KNOWN_NAMES.intersection(names) for names in split)


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
