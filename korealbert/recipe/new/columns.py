"""What the first bytes of a file tell: its encoding, and of tables and records the delimiter, the columns and the text."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.documents.tables import csv_reader

_RECORDS_LOOKED_AT, _MOST_LOOKED_AT = 100, 20_000
"""Of a file; of one in whose first records a field is empty."""
NAMUWIKI = {"namespace", "title", "text"}
"""Fields of the records of NamuWiki's dumps."""
_TEXT_NAMES = ("text", "본문")
"""Of the column of text, unless another has ten times as much prose."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "headline", "subject", "제목", "기사제목"),
    "outlet": ("outlet", "publisher", "source", "언론사"),
    "category": ("category", "section", "topic", "분류"),
    "url": ("url", "link", "주소"),
    "published": ("published", "date", "created_at", "작성일", "날짜"),
    "id": ("id", "doc_id"),
}
_NAMED = {name for names in _FIELDS.values() for name in names}
_BODIES = {*_TEXT_NAMES, "내용", "문장", "기사", "content", "body", "document", "article", "sentence", "review", "comment"}
"""Of columns that may hold the text; where the first records have nothing there, further ones are looked at."""
_KNOWN = _NAMED | _BODIES
"""Names of columns, in lower case."""
_DELIMITERS = ",;\t|"
_EXCEL = re.compile(r'\s*"?sep=(.)"?[ \t]*\r?\n')
"""The line before the header by which Excel knows the delimiter."""
_MOST_TITLES = 5
"""Lines above the header of a table: a title, a date, a unit."""
_LONGEST_NAME = 40
"""Characters of a column's name; what is longer is data."""
_NUMBER = re.compile(r"[+-]?[\d.,:/%-]*\d[\d.,:/%-]*")
_HANGUL = re.compile("[가-힣]")
_LETTERS_PER_SYLLABLE = 10
"""So much prose is a syllable, in letters of other scripts: of a text and its translation the Korean one is taken, of a text
and its category in Korean the text."""
_LITTLE = 0.1
"""Share of another field's prose below which a field is not the text."""
_MOST_FIELDS = 20
"""Fields of prose that a record has."""
_ALSO_PROSE = 0.2
"""Share of the text's prose from which on another column has prose too; a translation into English has about as much."""
_LINES_AS_ROWS = 0.8
"""Share of lines with as many fields as the first, below which quotation marks are no text: rows are of several lines."""
_FEWEST_ROWS, _ALIKE = 5, 0.95
"""Lines of a text with tabs that are a table, and the share of them with as many tabs as the first."""
_WIKIEXTRACTOR = re.compile(r"<doc\s[^>\n]*\b(id|title|url)=")
_NEXT_ARTICLE = re.compile(rf"^</doc>\s*{_WIKIEXTRACTOR.pattern}", re.MULTILINE)
_PROLOGUE = r"(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*"
_MEDIAWIKI = re.compile(rf"{_PROLOGUE}<(mediawiki|page)[\s>]", re.DOTALL)
_NEXT_PAGE = re.compile(r"^\s*</page>\s*<page>\s*<title>", re.MULTILINE)
"""Behind an article or page of which the begin was cut."""
_HTML = re.compile(rf"{_PROLOGUE}(<!doctype\s+html|<html)[\s>]", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(r'([\[,]\s*)?\{\s*"[^"\n]{1,200}"\s*:')
"""How a list, a rest of one, or an object begins."""
_MORE_ON_LINE = re.compile(r"[^\S\n]*\S")
_OBJECTS = 0.9
"""Share of a text behind its first lines from which on whole objects of JSON make it one of records."""
_CUT_CHARACTER = re.compile(rb"[\x80-\xbf]{1,3}")
"""Of UTF-8, the rest of one that was cut at the front of a file."""
_NUL_SHARE = 0.02
"""Share of zero bytes from which on a file is in an encoding of two or four bytes a character, or no text."""
_WORDS = re.compile(r"(?<!\S)[^\W\d_]+[.,!?]?(?!\S)")
"""Words of prose; an address, a code or a number has none."""


@dataclass(frozen=True)
class Table:
    """How the records of a file are written, and the first of them."""

    records: Sequence[Mapping[str, Any]] = ()
    delimiter: str = ""
    columns: tuple[str, ...] = ()
    quoted: bool = True
    """Whether quotation marks quote fields; otherwise they are text."""
    skipped: int = 0
    """Rows above the header."""
    escaped: bool = False
    """Whether quotation marks within fields stand behind a backslash, which no reader takes for an escape."""

    def with_late(self, later: Table) -> Table:
        """With the first records of a longer look that have what all of these lack."""
        lacking = self.lacking
        late = (record for record in later.records if any(record.get(name) for name in lacking))
        return replace(self, records=[*self.records, *islice(late, _RECORDS_LOOKED_AT)])

    @property
    def lacking(self) -> list[str]:
        """Fields that may hold the text by their names, and are empty in every record."""
        names = dict.fromkeys(name for record in self.records for name in record if _spelt(str(name)) in _BODIES)
        return [name for name in names if not any(record.get(name) for record in self.records)]


def format_of(begin: bytes, *, cut: bool) -> str:
    """The format that a text has by how it begins: wikiextractor, mediawiki, html, json, jsonl, else text. ``cut``: more
    follows."""
    text = decoded(begin).lstrip()
    if _WIKIEXTRACTOR.match(text) or _NEXT_ARTICLE.search(text):
        return "wikiextractor"
    if _MEDIAWIKI.match(text) or _NEXT_PAGE.search(text):
        return "mediawiki"
    if _HTML.match(text):
        return "html"
    if _JSON.match(text) or _is_json_behind(text, cut=cut):
        return "json" if is_json_list(begin) else "jsonl"
    return "text"


def _is_json_behind(text: str, *, cut: bool) -> bool:
    """Whether a text is one of JSON's objects behind a heading or the rest of a record that was cut; ``cut``: more follows."""
    spans = [(start, end) for start, end, _ in _spans(text)]
    rest = text[spans[-1][1] if spans else text.find("\n{") + 1 :]
    begin = spans[0][0] if spans else len(text) - len(rest)
    objects = sum(end - start for start, end in spans) + len(rest) * bool(cut and _JSON.match(rest.lstrip()))
    return objects >= _OBJECTS * (len(text) - begin) and (objects > begin or (cut and objects > 0))


def no_text(begin: bytes) -> str:
    """Why no reader can make characters of a file that begins so; nothing where one can."""
    if begin.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "in UTF-32"
    if begin.count(b"\0") > _NUL_SHARE * len(begin) and encoding_of(begin) != "utf-16":
        return "with NUL bytes: in UTF-16 without a byte order mark, or no text"
    return ""


def encoding_of(begin: bytes) -> str:
    """The encoding that reads a file of which these are the first bytes."""
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if begin.startswith(b"PAR1"):
        return "utf-8"
    first = _CUT_CHARACTER.match(begin)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin[first.end() if first else 0 :])  # So may the last one be.
    except UnicodeDecodeError:
        return "auto"
    return "utf-8"


def decoded(begin: bytes) -> str:
    """The characters of the first bytes of a file, of which the last may be cut."""
    encoding = {"auto": "cp949", "utf-8": "utf-8-sig"}.get(found := encoding_of(begin), found)
    return codecs.getincrementaldecoder(encoding)("replace").decode(begin)


def table_of_parquet(file: Path | bytes) -> Table:
    """The first rows of a Parquet file, and further ones where the first lack a field. Raises ArrowException."""
    parquet = pq.ParquetFile(pa.BufferReader(file) if isinstance(file, bytes) else file)
    table = Table()
    for batch in islice(parquet.iter_batches(_RECORDS_LOOKED_AT), _MOST_LOOKED_AT // _RECORDS_LOOKED_AT):
        rows = Table([{name: _characters(value) for name, value in row.items()} for row in batch.to_pylist()])
        table = table.with_late(rows) if table.records else rows
        if not table.lacking:
            break
    return table


def _characters(value: Any) -> Any:
    """A value with bytes as the characters that they are in UTF-8, as extraction reads them, or in CP949, which it quarantines;
    other bytes, as those of a picture, stay."""
    if isinstance(value, list):
        return [_characters(each) for each in value]
    if isinstance(value, dict):
        return {name: _characters(each) for name, each in value.items()}
    for encoding in ("utf-8", "cp949") if isinstance(value, bytes) else ():
        with suppress(UnicodeDecodeError):
            return value.decode(encoding)
    return value


def table_of_json(begin: bytes, *, more: bool = False) -> Table:
    """The first whole JSON objects of a list, or of lines; ``more``: many of them."""
    return Table(list(islice(_objects(decoded(begin)), _MOST_LOOKED_AT if more else _RECORDS_LOOKED_AT)))


def is_json_list(begin: bytes) -> bool:
    """Whether a file is a JSON list, or a part of one, or objects over several lines, and not an object a line."""
    text = decoded(begin).lstrip()
    if text.startswith("[") or text.partition("\n")[0].rstrip() == "{":
        return True
    spans = list(islice(_spans(text), _RECORDS_LOOKED_AT))
    lines = sum(not text[start:end].count("\n") and not _MORE_ON_LINE.match(text, end) for start, end, _ in spans)
    return 2 * lines < len(spans)


def table_of_csv(begin: bytes, *, first: str, cut: bool, more: bool = False) -> Table:
    """The first rows by the delimiter that gives most of them as many fields as the first row, ``first`` where several do.

    ``cut``: the last row need not be whole. ``more``: many rows. Titles above the header are skipped.
    """
    return _csv(whole_lines(begin, cut=cut), first, _MOST_LOOKED_AT if more else _RECORDS_LOOKED_AT)[0]


def _csv(whole: str, first: str, limit: int = _RECORDS_LOOKED_AT) -> tuple[Table, float]:
    """The table, and the share of its rows that have as many fields as its first."""
    excel = _EXCEL.match(whole)
    best: tuple[float, str, bool, int, list[list[str]]] = (0.0, first, True, 0, [])
    for delimiter in [excel[1]] if excel else sorted(_DELIMITERS, key=lambda one: one != first):
        with suppress(csv.Error):
            quoted = _is_quoted(whole, delimiter)
            rows = list(islice(_rows(whole, delimiter, quoted=quoted), limit + 1 + _MOST_TITLES))
            skipped = 1 + _titles(rows[1:]) if excel else _titles(rows)
            rows = rows[skipped:]
            alike = sum(len(row) == len(rows[0]) for row in rows) / len(rows) if rows else 0.0
            worth = alike + (1 if rows and len(rows[0]) > 1 else 0)
            if worth > best[0]:
                best = worth, delimiter, quoted, skipped, rows
    worth, delimiter, quoted, skipped, rows = best
    table = _table(rows, delimiter, quoted=quoted)
    return replace(table, skipped=skipped, escaped=_is_escaped(whole, delimiter)), worth - (worth > 1)


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """How many rows are above the header of a table, one field filled in each, or the rest of a row that was cut; none where
    the rows are no table."""
    filled = [sum(bool(field.strip()) for field in row) for row in rows]
    [(usual, _)] = Counter(map(len, rows)).most_common(1) or [(0, 0)]
    above = enumerate(zip(filled[: _MOST_TITLES + 1], rows, strict=False))
    titles = next((number for number, (fields, row) in above if fields > 1 and len(row) == usual), 0)
    apart = all(len(row) != usual for row in rows[:titles])
    header, *below = rows[titles:] or [[]]
    known = {name.strip().lower() for row in rows[:titles] for name in row} & _KNOWN
    alike = sum(len(row) == len(header) for row in below) >= _ALIKE * len(below)
    if len(below) < _FEWEST_ROWS or known or not alike:
        return 0
    whole = filled[titles] == len(header) and (_is_header(header, below) or _has_numbers(rows[titles:]))
    return titles if apart or whole else 0


def _has_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column of these rows holds nothing but numbers."""
    return any(all(_NUMBER.fullmatch(field.strip()) for field in column) for column in zip(*rows, strict=False))


def table_of_text(begin: bytes, *, cut: bool) -> Table:
    """The first rows of a text that is a table, an empty table of any other text.

    It is one if its lines, but for the first few, have as many tabs, one or more, or are rows of CSV below a header.
    """
    whole = whole_lines(begin, cut=cut)
    lines = [line.rstrip("\r") for line in whole.split("\n") if line.strip()]
    tabs = [line.count("\t") for line in lines]
    [(usual, _)] = Counter(tabs).most_common(1) or [(0, 0)]
    above = tabs.index(usual) if usual else 0
    below = len(lines) - above
    if usual and above <= _MOST_TITLES and below >= _FEWEST_ROWS and tabs.count(usual) >= _ALIKE * below:
        quoted = _is_quoted(whole, "\t")
        rows = list(islice(_rows(whole, "\t", quoted=quoted), above, above + _RECORDS_LOOKED_AT + 1))
        return replace(_table(rows, "\t", quoted=quoted), skipped=above, escaped=_is_escaped(whole, "\t"))
    if not any(map(_may_be_header, lines[: _MOST_TITLES + 1])):
        return Table()
    table, alike = _csv(whole, ",")
    names = list(table.records[0]) if table.records else []
    numbers = _has_numbers([list(record.values()) for record in table.records])
    heading = numbers or any(name.lower() in _KNOWN for name in names)
    if table.columns or len(names) < 2 or len(table.records) < _FEWEST_ROWS or alike < _ALIKE or not heading:
        return Table()
    return table


def _may_be_header(line: str) -> bool:
    """Whether ``_is_header`` may hold for a line by some delimiter: most prose need not be read as CSV."""
    split = ([name.strip(' "').lower() for name in line.split(mark)] for mark in _DELIMITERS if mark in line)
    return any(max(map(len, names)) <= _LONGEST_NAME or _KNOWN.intersection(names) for names in split)


def whole_lines(begin: bytes, *, cut: bool) -> str:
    """The characters of the first bytes of a file, without those of a line that is cut."""
    text = decoded(begin)
    return text[: text.rfind("\n") + 1] if cut else text


def _rows(text: str, delimiter: str, *, quoted: bool, **form: Any) -> Iterator[list[str]]:
    """Rows with something in a field; others count neither as titles nor as headers when they are extracted."""
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    rows = csv_reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, **form)
    return (row for row in rows if any(map(str.strip, row)))


def _rows_alike(text: str, delimiter: str, *, quoted: bool, **form: Any) -> tuple[int, int]:
    """Rows with as many fields as the first of several, up to one that cannot be read; and rows."""
    found = list[int]()
    with suppress(csv.Error):
        found.extend(len(row) for row in _rows(text, delimiter, quoted=quoted, strict=True, **form))
    first = next((fields for fields in found[: _MOST_TITLES + 1] if fields > 1), found[0] if found else 0)
    return found.count(first), len(found)


def _is_escaped(text: str, delimiter: str) -> bool:
    """Whether a table in quotation marks is read so only where a backslash escapes those within fields."""
    if '\\"' not in text:
        return False
    doubled, escaped = (_rows_alike(text, delimiter, quoted=True, escapechar=mark)[0] for mark in (None, "\\"))
    return escaped > doubled


def _is_quoted(text: str, delimiter: str) -> bool:
    """Whether quotation marks in a table quote fields, as RFC 4180 has it, and are not text.

    In tables with tabs they do where each of them can be read so and one of them is needed: for a tab, a line break, another
    quotation mark, or around every name of the header. In others they do unless some cannot be read so, and more rows are whole
    without, which are most lines.
    """
    if '"' not in text:
        return delimiter != "\t"
    (as_text, lines), (as_quotes, _) = (_rows_alike(text, delimiter, quoted=quoted) for quoted in (False, True))
    one = re.escape(delimiter)
    field = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)(?:"|\Z)|[^"{one}\n]*)(?:{one}|\r?\n|\Z)')
    position, needed = 0, all(name[:1] == '"' for name in text.partition("\n")[0].split(delimiter))
    while position < len(text) and (found := field.match(text, position)):
        position = found.end()
        needed = needed or any(mark in (found[1] or "") for mark in ('"', "\n", delimiter))
    if delimiter != "\t":
        return position == len(text) or as_text <= as_quotes or as_text < _LINES_AS_ROWS * lines
    return needed and position == len(text) and as_text <= as_quotes


def _table(rows: Sequence[Sequence[str]], delimiter: str, *, quoted: bool) -> Table:
    """The table of these rows, of which the first may name the columns."""
    if not rows:
        return Table((), delimiter)
    names = tuple(" ".join(name.split()) for name in rows[0])
    columns = () if _is_header(names, rows[1:]) else tuple(f"column{number}" for number in range(1, len(names) + 1))
    body = rows if columns else rows[1:]
    return Table([dict(zip(columns or names, row, strict=False)) for row in body], delimiter, columns, quoted)


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row of a table names its columns: short names, none of them a number, an address, or a value of its
    column, as the label of a row is."""
    known = _NAMED.union(_TEXT_NAMES)
    if not rows or known & {name.lower() for name in names}:
        return True
    data = (
        len(name) > _LONGEST_NAME or _NUMBER.fullmatch(name) or "://" in name or name[-1:] in ".?!" for name in names if name
    )
    values = any(
        name and any(row[place : place + 1] == [name] for row in rows if list(row) != list(names))
        for place, name in enumerate(names)
    )
    return not any(data) and not values and len(set(names)) == len(names)


def text_column(records: Sequence[Mapping[str, Any]]) -> str:
    """The field or column of strings with the most prose. Empty where none has a word."""
    found = _prose(records, str)
    most = max(found.values(), default=0.0)
    named = (name for name in found if name.lower() in _TEXT_NAMES and found[name] > _LITTLE * most)
    return next(named, "") or next((name for name, amount in found.most_common(1) if amount), "")


def nested_text(text: str, records: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """The list or object in the records that has more prose than the field of text, and whether that field has little of it.

    A title, an address and the like are never the text beside such a field. No reader takes text from a list or an object. The
    name is empty where there is none.
    """
    own, nested = _prose(records, str)[text], _prose(records, (list, dict))
    name, amount = next(iter(nested.most_common(1)), ("", 0.0))
    kind = "a list" if any(isinstance(record.get(name), list) for record in records) else "an object"
    little = own < _LITTLE * amount or _spelt(text) in _NAMED
    return (f"{name!r}, {kind}", little) if amount > own else ("", False)


def further_columns(text: str, records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Fields or columns besides that of the text which have prose too, and no meaning of their own."""
    taken, found = set(fields_of(text, records).values()), _prose(records, str)
    least = _ALSO_PROSE * (found[text] or max(found.values(), default=0.0))
    return tuple(name for name in found if name not in taken and found[name] > least)


def is_one_object(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether records of JSON are objects of texts by their ids: with more fields than there are records, which are numbers or
    mostly in one record alone, none of a known name or with most of the prose."""
    found = _prose(records, (str, list, dict))
    several = len(found) > max(_MOST_FIELDS, len(records)) and 2 * max(found.values()) < found.total()
    apart = sum(map(len, records)) < 2 * len(found) or all(map(_NUMBER.fullmatch, found))
    return several and apart and not any(_spelt(name) in _KNOWN for name in found)


def _prose(records: Iterable[Mapping[str, Any]], kind: type | tuple[type, ...]) -> Counter[str]:
    """Letters of prose by field, of its values of a kind and of the strings in them."""
    found: Counter[str] = Counter()
    for record in records:
        for key, value in record.items():
            if isinstance(value, kind):
                for each in _strings(value):
                    syllables = len(_HANGUL.findall(each))
                    words = sum(len(word) for word in _WORDS.findall(each) if not _HANGUL.search(word))
                    found[str(key)] += _LETTERS_PER_SYLLABLE * syllables + words
    return found


def _strings(value: Any) -> Iterator[str]:
    """The strings in a value of JSON, which holds no more levels than the parser bears."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def fields_of(text: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Fields or columns by meaning, however their names are written: ``Doc ID`` is ``doc_id``. Those that mostly hold bytes
    which are no characters, as an id may, have none."""
    spelt: dict[str, str] = {}
    of_characters: Counter[str] = Counter()
    for record in records:
        of_characters.update({str(key): -1 if isinstance(value, bytes) else 1 for key, value in record.items()})
    for key, more in of_characters.items():
        if key != text and more > 0:
            spelt.setdefault(_spelt(key), key)
    return {"text": text} | {
        role: next((spelt[name] for name in names if name in spelt), "") for role, names in _FIELDS.items()
    }


def _spelt(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a list or of lines; behind a broken one, those from the next that begins a line."""
    return (value for *_, value in _spans(text))


def _spans(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """These objects with where they begin and end."""
    decoder, position = json.JSONDecoder(strict=False), 0
    if text.lstrip()[:1] not in ("[", "{") and "\n{" in text:
        position = text.index("\n{")  # The first line is the rest of one that was cut.
    while True:
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position = text.find("\n{", position)
            if position < 0:
                return
            continue
        yield position, end, value
        position = end
