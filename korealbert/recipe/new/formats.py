"""What the first bytes of a file show: its encoding and its format."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

SAMPLED_RECORDS = 100
"""Records read of each file."""
_WIKIEXTRACTOR = re.compile(r"<doc\s[^>\n]*\b(id|title|url)=")
_NEXT_ARTICLE = re.compile(rf"^</doc>\s*{_WIKIEXTRACTOR.pattern}", re.MULTILINE)
"""The second article of a file whose first one lost its beginning."""
_PROLOGUE = r"(<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*"
_MEDIAWIKI = re.compile(rf"{_PROLOGUE}<(mediawiki|page)[\s>]", re.DOTALL)
_NEXT_PAGE = re.compile(r"^[^\S\n]*</page>\s*<page>\s*<title>", re.MULTILINE)
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
    spans = [(start, end) for start, end, _ in json_objects(text)]
    rest = text[spans[-1][1] if spans else text.find("\n{") + 1 :]
    begin = spans[0][0] if spans else len(text) - len(rest)
    objects = sum(end - start for start, end in spans)
    if cut and _JSON.match(rest.lstrip()):
        objects += len(rest)
    return objects >= _MIN_JSON_SHARE * (len(text) - begin) and (objects > begin or (cut and objects > 0))


def is_json_list(begin: bytes) -> bool:
    """Return whether a file is a JSON list, a part of one, or objects over several lines, rather than one object a line."""
    text = decoded(begin).lstrip()
    if text.startswith("[") or text.partition("\n")[0].rstrip() == "{":
        return True
    spans = list(islice(json_objects(text), SAMPLED_RECORDS))
    lines = sum(not text[start:end].count("\n") and not _MORE_ON_LINE.match(text, end) for start, end, _ in spans)
    return 2 * lines < len(spans)


def json_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
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


def whole_lines(begin: bytes, *, cut: bool) -> str:
    """Decode the first bytes of a file, and drop its last line if it is cut."""
    text = decoded(begin)
    return text[: text.rfind("\n") + 1] if cut else text
