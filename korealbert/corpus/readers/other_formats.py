"""Recognises files that are in another format, or another encoding, than the recipe states, by their first bytes."""

import codecs
import csv
import io
import json
import re
from contextlib import suppress

from korealbert.corpus.readers.json_values import is_json_list
from korealbert.documents.csv import csv_reader

_BINARY = {
    b"%PDF-": "PDF",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a document of an office program (HWP, DOC, XLS)",
    b"HWP Document File": "HWP",
    b"{\\rtf": "RTF",
    b"SQLite format 3\0": "SQLite",
    b"FEA1": "Feather of version 1",
    b"Obj\1": "Avro",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"\x93NUMPY": "NumPy",
    b"ORC": "ORC",
    b"\x80\x04\x95": "a pickle",
}
"""Formats that are not read, by the first bytes of a file."""
_ISO_2022_KR = b"\x1b$)C"
"""Beginning of Korean in seven bits, which passes for ASCII."""
_WARC = re.compile(rb"WARC/\d\.\d\r?\n")
_PROLOGUE = rb"\s*(?:<\?xml[^>]{0,200}>\s*)?"
_MARKUP = {
    "wikiextractor": re.compile(rb'\s*<doc\s[^>\n]{0,1000}\b(?:id|title|url)="'),
    "mediawiki": re.compile(_PROLOGUE + rb"<mediawiki(?:\s[^>]{0,2000})?>\s*<"),
    "html": re.compile(_PROLOGUE + rb"<(?:!doctype\s+html|html)(?:\s[^>]{0,2000})?>\s*<", re.IGNORECASE),
    "json": re.compile(rb'\s*(?:\[\s*)?\{\s*"[^"\n]{1,200}"\s*:'),
}
"""Beginnings of files that are not plain text, by their format; ``json`` reads JSON Lines too."""
_RECORDS = ("json", "jsonl", "news", "namuwiki")
"""Formats of JSON."""
_OWN_MARKS = {
    **dict.fromkeys(_RECORDS, re.compile(rb'^[ \t]*[\[{]|\}\s*,\s*\{\s*"', re.MULTILINE)),
    "mediawiki": re.compile(rb"<(?:page|mediawiki)\b"),
    "wikiextractor": re.compile(rb"</?doc\b"),
    "html": re.compile(rb"<[a-zA-Z!/]"),
}
"""What files of a format have somewhere at their beginning, although their first record may be broken."""
_XML = re.compile(rb"\s*<\?xml[\s?]")
_DIALECTS = ((",", csv.QUOTE_MINIMAL), (";", csv.QUOTE_MINIMAL), ("\t", csv.QUOTE_NONE), ("\t", csv.QUOTE_MINIMAL))
_MIN_ROWS_WITHOUT_HEADER, _MIN_SAME_WIDTH_SHARE = 5, 0.95
"""What makes a table: fewest rows if nothing names the columns, share of rows with the same width."""
_TABLE_BYTES = 1 << 16
_COLUMN_NAMES = {
    *("id", "text", "title", "body", "content", "document", "sentence", "review", "label", "category", "date", "url"),
    *("제목", "본문", "내용", "문장", "기사", "분류", "날짜", "작성일", "언론사", "번호"),
}
"""Names of columns by which a line with commas is the header of a table, not a list of words."""
_COLUMN_NAME = re.compile(r"\S(?:[^\n]{0,38}[^\s.?!])?")
_ITEM = re.compile(
    r"[^\w\s]+|[①-⓿]|제\d+[장절조항편]|[\[(<]?(?:제?\d+(?:[-.]\d+)*[장절조항편]?|[IVXivx]+|[가-힣A-Za-z])[.:)\]>]+"
)
"""What stands before a tab at the beginning of an item of a list: 1., (가), 제1조, •."""
_UNREADABLE = re.compile("[\0-\x08\x0e-\x1f\ufffd]")
"""What no text has, but a binary file."""
_HANGUL = re.compile("[가-힣]")
_JSON_ARRAY = re.compile(rb"\s*\[\s*\{")


def _looks_like_arrow(first_bytes: bytes) -> bool:
    """Return whether a file begins like an Arrow file or an Arrow stream."""
    return first_bytes.startswith((b"ARROW1", b"\xff\xff\xff\xff"))


def remedy_for(block: bytes, format: str) -> str:
    """Return what to do with a file that begins with ``block`` and is not in this format; empty if it may be.

    The format is empty if it is unknown.
    """
    block = block.removeprefix(codecs.BOM_UTF8)
    first_line, _, others = block.partition(b"\n")
    remedy = ""
    if block.startswith(b"PAR1"):
        remedy = 'these bytes are Parquet: set format = "parquet"'
    elif found := next((name for magic, name in _BINARY.items() if block.startswith(magic)), ""):
        remedy = f"these bytes are {found}, which is not read: convert the file to text (.txt) or JSON Lines, or leave it out"
    elif format in ("warc", "wet") or (format == "arrow" and _looks_like_arrow(block)):
        pass
    elif _looks_like_arrow(block):
        remedy = 'these bytes are Arrow: set format = "arrow"'
    elif _WARC.match(block):
        remedy = 'these bytes are WARC: set format = "warc", or format = "wet" if its records are texts (conversion)'
    elif block.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        remedy = "these bytes are UTF-32, which is not read: convert the file to UTF-8 (iconv -f utf-32 -t utf-8)"
    elif block.startswith(_ISO_2022_KR):
        remedy = "these bytes are ISO-2022-KR, which is not read: convert the file to UTF-8 (iconv -f iso-2022-kr -t utf-8)"
    elif format not in ("", "html", "parquet") and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        remedy = 'these bytes are UTF-16: set encoding = "utf-16"'
    elif format == "jsonl" and _JSON_ARRAY.match(block) and not (others.strip() and is_json_list(first_line)):
        remedy = 'these bytes are a JSON array: set format = "json"'
    elif format in ("text", "news_text"):
        remedy = _markup_remedy(block, format) or _table_remedy(block)
    else:
        remedy = _markup_remedy(block, format) or _plain_remedy(block, format)
    return remedy


def _markup_remedy(block: bytes, format: str) -> str:
    """Return the remedy for a file that begins like JSON or like a dump or page that this format is not; else empty."""
    found = next((name for name, begin in _MARKUP.items() if begin.match(block)), "")
    about_json = found == "json" and format in ("text", "news_text", "csv", "books") and _is_text_about_json(block)
    if not found or format in ("", found) or (found == "json" and format in _RECORDS) or about_json:
        return ""
    return f'these bytes are {found}: set format = "{found}"'


def _table_remedy(block: bytes, *, any_table: bool = False) -> str:
    if not (delimiter := _delimiter_of_table(block, any_table=any_table)):
        return ""
    mark = "" if delimiter == "," else f" and delimiter = {json.dumps(delimiter)}"
    return f'these bytes are a table: set format = "csv"{mark}'


def _plain_remedy(block: bytes, format: str) -> str:
    """Return the remedy for XML, tables and plain text in a format that is none of these; empty for a broken first record."""
    if format in ("", "csv", "books") or (format in _OWN_MARKS and _OWN_MARKS[format].search(block)):
        return ""
    if _XML.match(block):
        return "these bytes are XML, which is not read: convert the file to JSON Lines"
    text = _decoded(block)
    if not text.strip() or _UNREADABLE.search(text) or (format in _RECORDS and _is_json_value(text.lstrip())):
        return ""
    if remedy := _table_remedy(block, any_table=True):
        return remedy
    has_lines = re.search(r"\s", text.strip()) is not None and (len(block) < _TABLE_BYTES or "\n" in text)
    remedy = 'these bytes are plain text: set format = "text", or leave the file out by `members`'
    return remedy if has_lines and format != "html" else ""


def _is_json_value(text: str) -> bool:
    """Return whether a text begins with a string, or its first line is a number, true, false or null."""
    first_line = text.partition("\n")[0].strip().rstrip(",")
    return (
        first_line.startswith('"')
        or first_line in ("true", "false", "null")
        or re.fullmatch(r"-?\d[\d.eE+-]*", first_line) is not None
    )


def _decoded(block: bytes) -> str:
    text = block.decode("utf-8", "ignore")
    if len(text.encode()) < len(block) - 3:  # more is missing than a character that is cut
        text = block.decode("cp949", "replace")
    return text


def _delimiter_of_table(block: bytes, *, any_table: bool = False) -> str:
    """Return the delimiter of CSV or TSV; empty for other text.

    A table has rows of one width below a header: short names, among them a usual one. Without a header, five lines with the
    same number of tabs are a table, but not a list or a dialogue. ``any_table``: where no prose is meant to be, five rows of
    one width are enough.
    """
    block = block[:_TABLE_BYTES]
    text = _decoded(block)
    is_cut = len(block) == _TABLE_BYTES
    if is_cut:
        text = text[: text.rfind("\n") + 1]
    first_line = text.lstrip().partition("\n")[0]
    for delimiter, quoting in _DIALECTS:
        if delimiter not in first_line:
            continue
        rows = list[list[str]]()
        with suppress(csv.Error):
            reader = csv_reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
            rows.extend(filter(any, reader))
        if is_cut:
            del rows[-1:]  # Its quoted field may go on.
        if sum(len(row) == len(rows[0]) for row in rows) < max(2, _MIN_SAME_WIDTH_SHARE * len(rows)):
            continue
        if any_table and len(rows) >= _MIN_ROWS_WITHOUT_HEADER and len(rows[0]) > 1:
            return delimiter
        names = [name.lower() for name in rows[0]]
        is_header = len(set(names)) == len(names) and all(map(_COLUMN_NAME.fullmatch, names))
        if is_header and any(name in _COLUMN_NAMES or name.endswith("_id") for name in names):
            return delimiter
        has_tabs = delimiter == "\t" and bool(names[0].strip())
        if has_tabs and len(rows) >= _MIN_ROWS_WITHOUT_HEADER and not _is_list_or_dialogue(rows):
            return delimiter
    return ""


def _is_list_or_dialogue(rows: list[list[str]]) -> bool:
    """Return whether most rows begin like an item of a list, or all are a line of one of a few speakers."""
    first = [row[0].strip() for row in rows]
    items = sum(_ITEM.fullmatch(cell) is not None for cell in first)
    is_dialogue = len(rows[0]) == 2 and 2 * len(set(first)) <= len(rows) and all(map(_HANGUL.search, first))
    return 2 * items > len(rows) or is_dialogue


def _is_text_about_json(block: bytes) -> bool:
    """Return whether a JSON value at the beginning of a file is followed by something else than JSON."""
    text = block.decode("utf-8", "replace").lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # The value is longer than the block, or broken.
        return False
    rest = text[end:].lstrip()
    return bool(rest) and rest[0] not in "{[,"
