"""What the first bytes of a file show: encoding, format, and for tables and records the delimiter, columns and text."""

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
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.documents.csv import csv_reader

_SAMPLED_RECORDS = 100
"""Records read of each file."""
_MAX_SAMPLED_RECORDS = 20_000
"""Records read when a field that may hold the text is empty in all of the first ones."""
NAMUWIKI = {"namespace", "title", "text"}
"""Fields that identify the records of NamuWiki's dumps."""
_TEXT_NAMES = ("text", "본문")
"""A column of this name is the text unless another one has ten times as much prose (``_MIN_TEXT_SHARE``)."""
_NAMES_BY_ROLE: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "headline", "subject", "제목", "기사제목"),
    "outlet": ("outlet", "publisher", "source", "언론사"),
    "category": ("category", "section", "topic", "분류"),
    "url": ("url", "link", "주소"),
    "published": ("published", "date", "created_at", "작성일", "날짜"),
    "id": ("id", "doc_id"),
}
_METADATA_NAMES = {name for names in _NAMES_BY_ROLE.values() for name in names}
_BODY_NAMES = {*_TEXT_NAMES, "내용", "문장", "기사", "content", "body", "document", "article", "sentence", "review", "comment"}
"""Names of columns that may hold the text. If one is empty in the first records, more records are read."""
_KNOWN_NAMES = _METADATA_NAMES | _BODY_NAMES
_DELIMITERS = ",;\t|"
_EXCEL_DELIMITER = re.compile(r'\s*"?sep=(.)"?[ \t]*\r?\n')
"""The line above the header that tells Excel the delimiter."""
_MAX_TITLE_ROWS = 5
"""Rows that may precede the header of a table: a title, a date, a unit."""
_MAX_NAME_CHARACTERS = 40
"""A longer first cell is data and not the name of a column."""
_MIN_TEXT_WORDS = 3
"""A first cell of so many words, and half as long as the cells below it, is one of them: a short review."""
_NUMBER = re.compile(r"[+-]?[\d.,:/%-]*\d[\d.,:/%-]*")
_HANGUL = re.compile("[가-힣]")
_LETTERS_PER_SYLLABLE = 10
"""A Hangul syllable counts as this many letters of other scripts. So the Korean side of a translation is the text, but a
category in Korean beside an English article is not."""
_MIN_TEXT_SHARE = 0.1
"""A field with a smaller share of another field's prose is not the text."""
_MAX_PROSE_FIELDS = 20
"""Fields with prose in one record. A JSON object with more of them may hold texts by their ids."""
_MIN_PROSE_SHARE = 0.2
"""Columns with a larger share of the text's prose are reported too; an English translation of Korean has about this share."""
_MIN_ONE_LINE_SHARE = 0.8
"""If a smaller share of lines has as many fields as the first, rows span lines, so quotation marks must be quoting them."""
_MIN_TABLE_ROWS, _MIN_SAME_WIDTH_SHARE = 5, 0.95
"""A text is a table only if it has this many rows and this share of them has the same number of fields."""
_WIKIEXTRACTOR = re.compile(r"<doc\s[^>\n]*\b(id|title|url)=")
_NEXT_ARTICLE = re.compile(rf"^</doc>\s*{_WIKIEXTRACTOR.pattern}", re.MULTILINE)
"""The second article of a file whose first one lost its beginning."""
_PROLOGUE = r"(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*"
_MEDIAWIKI = re.compile(rf"{_PROLOGUE}<(mediawiki|page)[\s>]", re.DOTALL)
_NEXT_PAGE = re.compile(r"^\s*</page>\s*<page>\s*<title>", re.MULTILINE)
"""The second page of a dump whose first one lost its beginning."""
_HTML = re.compile(rf"{_PROLOGUE}(<!doctype\s+html|<html)[\s>]", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(r'([\[,]\s*)?\{\s*"[^"\n]{1,200}"\s*:')
"""The beginning of an object, of a list of objects, or of the rest of such a list."""
_MORE_ON_LINE = re.compile(r"[^\S\n]*\S")
_MIN_JSON_SHARE = 0.9
"""A text whose first lines are no JSON is a file of records if objects fill this share of the rest."""
_CONTINUATION_BYTES = re.compile(rb"[\x80-\xbf]{1,3}")
"""The rest of a UTF-8 character that was cut at the beginning of a file."""
_MAX_NUL_SHARE = 0.02
"""A file with a larger share of zero bytes uses two or four bytes for each character, or is not text."""
_WORDS = re.compile(r"(?<!\S)[^\W\d_]+[.,!?]?(?!\S)")
"""Words of prose; addresses, codes and numbers have none."""


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
        return replace(self, records=[*self.records, *islice(found, _SAMPLED_RECORDS)])

    @property
    def empty_bodies(self) -> list[str]:
        """Fields that may hold the text by their names, but are empty in every record."""
        names = dict.fromkeys(name for record in self.records for name in record if _normalized(str(name)) in _BODY_NAMES)
        return [name for name in names if not any(record.get(name) for record in self.records)]


def format_of(begin: bytes, *, cut: bool) -> str:
    """Return the format of a text file: wikiextractor, mediawiki, html, json, jsonl or text. ``cut``: the file is longer."""
    text = decoded(begin).lstrip()
    if _WIKIEXTRACTOR.match(text) or _NEXT_ARTICLE.search(text):
        return "wikiextractor"
    if _MEDIAWIKI.match(text) or _NEXT_PAGE.search(text):
        return "mediawiki"
    if _HTML.match(text):
        return "html"
    if _JSON.match(text) or _has_json_below(text, cut=cut):
        return "json" if is_json_list(begin) else "jsonl"
    return "text"


def _has_json_below(text: str, *, cut: bool) -> bool:
    """Return whether a text consists of JSON objects below a heading or below the rest of a cut record."""
    spans = [(start, end) for start, end, _ in _spans(text)]
    rest = text[spans[-1][1] if spans else text.find("\n{") + 1 :]
    begin = spans[0][0] if spans else len(text) - len(rest)
    objects = sum(end - start for start, end in spans)
    if cut and _JSON.match(rest.lstrip()):
        objects += len(rest)
    return objects >= _MIN_JSON_SHARE * (len(text) - begin) and (objects > begin or (cut and objects > 0))


def decoding_fault(begin: bytes) -> str:
    """Return why a file cannot be decoded, as a phrase to follow its name, or "" if it can."""
    if begin.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "in UTF-32"
    if begin.count(b"\0") > _MAX_NUL_SHARE * len(begin) and encoding_of(begin) != "utf-16":
        return "with NUL bytes: in UTF-16 without a byte order mark, or no text"
    return ""


def encoding_of(begin: bytes) -> str:
    """Return the ``encoding`` of an ``[extract]`` table that reads a file with these first bytes."""
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if begin.startswith(b"PAR1"):
        return "utf-8"
    cut = _CONTINUATION_BYTES.match(begin)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin[cut.end() if cut else 0 :])  # Its last character may be cut too.
    except UnicodeDecodeError:
        return "auto"
    return "utf-8"


def decoded(begin: bytes) -> str:
    """Decode the first bytes of a file, whose last character may be cut."""
    encoding = encoding_of(begin)
    decoder = codecs.getincrementaldecoder({"auto": "cp949", "utf-8": "utf-8-sig"}.get(encoding, encoding))
    return decoder("replace").decode(begin)


def table_of_parquet(file: Path | bytes) -> Table:
    """Return the first rows of a Parquet file, and further ones if the first lack a text. Raises ArrowException."""
    parquet = pq.ParquetFile(pa.BufferReader(file) if isinstance(file, bytes) else file)
    table = Table()
    for batch in islice(parquet.iter_batches(_SAMPLED_RECORDS), _MAX_SAMPLED_RECORDS // _SAMPLED_RECORDS):
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


def table_of_json(begin: bytes, *, more: bool = False) -> Table:
    """Return the first whole objects of a JSON list or of JSON lines; ``more``: up to ``_MAX_SAMPLED_RECORDS``."""
    objects = (value for *_, value in _spans(decoded(begin)))
    return Table(list(islice(objects, _MAX_SAMPLED_RECORDS if more else _SAMPLED_RECORDS)))


def is_json_list(begin: bytes) -> bool:
    """Return whether a file is a JSON list, a part of one, or objects over several lines, rather than one object a line."""
    text = decoded(begin).lstrip()
    if text.startswith("[") or text.partition("\n")[0].rstrip() == "{":
        return True
    spans = list(islice(_spans(text), _SAMPLED_RECORDS))
    lines = sum(not text[start:end].count("\n") and not _MORE_ON_LINE.match(text, end) for start, end, _ in spans)
    return 2 * lines < len(spans)


def table_of_csv(begin: bytes, *, first: str, cut: bool, more: bool = False) -> Table:
    """Return the first rows, split by the delimiter under which most rows have as many fields as the first one.

    ``first`` is the delimiter to prefer, ``cut`` says that the last line may be incomplete, ``more`` asks for up to
    ``_MAX_SAMPLED_RECORDS`` rows. Titles above the header are skipped.
    """
    return _parse_csv(whole_lines(begin, cut=cut), first, _MAX_SAMPLED_RECORDS if more else _SAMPLED_RECORDS)[0]


def _parse_csv(text: str, first: str, limit: int = _SAMPLED_RECORDS) -> tuple[Table, float]:
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
    if any(name.strip().lower() in _KNOWN_NAMES for row in rows[:titles] for name in row):
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
    return any(all(_NUMBER.fullmatch(field.strip()) for field in column) for column in zip(*rows, strict=False))


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
        rows = list(islice(_rows(text, "\t", quoted=quoted), above, above + _SAMPLED_RECORDS + 1))
        return replace(_table(rows, "\t", quoted=quoted, skipped=above), escaped=_is_escaped(text, "\t"))
    if not any(map(_may_be_header, lines[: _MAX_TITLE_ROWS + 1])):
        return Table()
    table, same_width = _parse_csv(text, ",")
    if table.columns or len(table.records) < _MIN_TABLE_ROWS or same_width < _MIN_SAME_WIDTH_SHARE:
        return Table()
    names = list(table.records[0])
    has_known_name = any(name.lower() in _KNOWN_NAMES for name in names)
    if len(names) < 2 or not (has_known_name or _has_numbers([list(record.values()) for record in table.records])):
        return Table()
    return table


def _may_be_header(line: str) -> bool:
    """Return whether ``_is_header`` may hold for a line under some delimiter: most prose then need not be read as CSV."""
    split = ([name.strip(' "').lower() for name in line.split(mark)] for mark in _DELIMITERS if mark in line)
    return any(max(map(len, names)) <= _MAX_NAME_CHARACTERS or _KNOWN_NAMES.intersection(names) for names in split)


def whole_lines(begin: bytes, *, cut: bool) -> str:
    """Decode the first bytes of a file, and drop its last line if it is cut."""
    text = decoded(begin)
    return text[: text.rfind("\n") + 1] if cut else text


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
    known = columns or any(_normalized(name) in _KNOWN_NAMES for name in names)
    records = [dict(zip(columns or names, row, strict=False)) for row in body]
    return Table(records, delimiter, columns, () if known else names, quoted, skipped)


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a first row names the columns of the others.

    It does if one of its names is known. Otherwise its names must be short and different, and none may be a number, an address,
    a sentence, as long a text as those below it, or a value of its column, as the label of a first row of data is.
    """
    if not rows or any(name.lower() in _METADATA_NAMES or name.lower() in _TEXT_NAMES for name in names):
        return True
    if len(set(names)) < len(names):
        return False
    for place, name in enumerate(names):
        if name and (len(name) > _MAX_NAME_CHARACTERS or _NUMBER.fullmatch(name) or "://" in name or name[-1] in ".?!"):
            return False
        below = [len(row[place]) for row in rows if len(row) > place and row[place]]
        if below and len(name.split()) >= _MIN_TEXT_WORDS and 2 * len(name) >= median(below):
            return False
        if name and any(row[place : place + 1] == [name] for row in rows if list(row) != list(names)):
            return False
    return True


def text_column(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the field or column of strings with the most prose, or "" if none has a word."""
    prose = _prose(records, str)
    if not prose:
        return ""
    name, most = prose.most_common(1)[0]
    named = (name for name in prose if name.lower() in _TEXT_NAMES and prose[name] > _MIN_TEXT_SHARE * most)
    return next(named, name if most else "")


def nested_text(text: str, records: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """Find a list or object with more prose than the field of the text; no reader takes text from either.

    Returns its name and kind, or "", and whether the field of the text has little prose beside it. Fields of titles, addresses
    and the like always count as little.
    """
    own, nested = _prose(records, str)[text], _prose(records, (list, dict))
    name, amount = next(iter(nested.most_common(1)), ("", 0.0))
    if amount <= own:
        return "", False
    kind = "a list" if any(isinstance(record.get(name), list) for record in records) else "an object"
    return f"{name!r}, {kind}", own < _MIN_TEXT_SHARE * amount or _normalized(text) in _METADATA_NAMES


def further_columns(text: str, records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the other fields or columns that have prose, except those with a role of their own."""
    taken, prose = set(fields_of(text, records).values()), _prose(records, str)
    least = _MIN_PROSE_SHARE * (prose[text] or max(prose.values(), default=0.0))
    return tuple(name for name in prose if name not in taken and prose[name] > least)


def is_one_object(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether JSON objects hold texts by their ids instead of being records.

    Such objects have many fields with prose, more than there are objects, and none of a known name or with most of the prose.
    Their names are numbers, or mostly occur in one object only.
    """
    prose = _prose(records, (str, list, dict))
    if len(prose) <= max(_MAX_PROSE_FIELDS, len(records)) or 2 * max(prose.values()) >= prose.total():
        return False
    are_ids = sum(map(len, records)) < 2 * len(prose) or all(map(_NUMBER.fullmatch, prose))
    return are_ids and not any(_normalized(name) in _KNOWN_NAMES for name in prose)


def _prose(records: Iterable[Mapping[str, Any]], kind: type | tuple[type, ...]) -> Counter[str]:
    """Count the letters of prose in the values of a kind, by field. A syllable counts as ``_LETTERS_PER_SYLLABLE``."""
    found: Counter[str] = Counter()
    for record in records:
        for key, value in record.items():
            if isinstance(value, kind):
                for text in _strings(value):
                    syllables = len(_HANGUL.findall(text))
                    letters = sum(len(word) for word in _WORDS.findall(text) if not _HANGUL.search(word))
                    found[str(key)] += _LETTERS_PER_SYLLABLE * syllables + letters
    return found


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value. The parser limits how deeply it is nested."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def fields_of(text: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the field or column of each role, "" if there is none; ``Doc ID`` matches ``doc_id``.

    A column that mostly holds bytes which are not characters, as binary ids are, has no role.
    """
    balance: Counter[str] = Counter()
    for record in records:
        balance.update({str(key): -1 if isinstance(value, bytes) else 1 for key, value in record.items()})
    columns: dict[str, str] = {}
    for key, more in balance.items():
        if key != text and more > 0:
            columns.setdefault(_normalized(key), key)
    roles = {role: next((columns[name] for name in names if name in columns), "") for role, names in _NAMES_BY_ROLE.items()}
    return {"text": text} | roles


def _normalized(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _spans(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the start, end and value of each JSON object of a list or of lines.

    After a broken object, reading continues at the next one that begins a line.
    """
    decoder, position = json.JSONDecoder(strict=False), 0
    if text.lstrip()[:1] not in ("[", "{") and "\n{" in text:
        position = text.index("\n{")  # The first line is the rest of a cut record.
    while (position := text.find("{", position)) >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            if (position := text.find("\n{", position)) < 0:
                return
            continue
        yield position, end, value
        position = end
