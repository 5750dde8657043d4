"""Output of WikiExtractor (``<doc id url title>…</doc>``): documents, and the repair of what that tool leaves.

It deletes templates but not the punctuation around them, so that articles open with ``(, 1924년 …)``; it writes section titles
as lines that end in a full stop (``생애.``) or as bare lines, and repeats the title as the first line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from korealbert.corpus.framing import Piece
from korealbert.corpus.layout import collapse_blanks, repair
from korealbert.corpus.records import Dropped, Outcome, Tally, bad_record, decode_record, one_line, tidy
from korealbert.corpus.sources import ExtractSpec
from korealbert.corpus.wiki_names import NON_ARTICLE_PREFIXES
from korealbert.documents import Document, Drop, Quarantined, document_id

DOC_END = b"</doc>"

_DOC_START = re.compile(rb"<doc\s[^>\n]*>")
_ATTRIBUTE = re.compile(r"(\w+)=\"([^\"]*)\"")
_LEFTOVER = re.compile(
    r"</?(?:br|ref|references|nowiki|small|sub|sup|templatestyles|onlyinclude|noinclude)\b[^<>]*>|__[A-Z가-힣]+__"
)


def parse_docs(spec: ExtractSpec, piece: Piece, tally: Tally) -> Iterator[Outcome]:
    """One document per ``<doc>``."""
    data, position = piece.data, 0
    while start := _DOC_START.search(data, position):
        if data[position : start.start()].strip():
            yield bad_record(piece, position, start.start(), "text_outside_doc", "expected <doc …>: run WikiExtractor again")
        end = data.find(DOC_END, start.end())
        tally.records += 1
        if end < 0:
            remedy = "the <doc> is not closed: the output was cut off, run WikiExtractor again"
            yield bad_record(piece, start.start(), len(data), "truncated_file", remedy)
            return
        position = end + len(DOC_END)
        yield _outcome(spec, piece, start, end, tally)
    if data[position:].strip():
        yield bad_record(piece, position, len(data), "text_outside_doc", "expected <doc …>: is this WikiExtractor's output?")


def _outcome(spec: ExtractSpec, piece: Piece, start: re.Match[bytes], end: int, tally: Tally) -> Outcome:
    record = decode_record(piece, start.start(), end)
    if isinstance(record, Quarantined):
        return record
    opening, _, body = record.partition(">")
    attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(opening)}
    title = one_line(attributes.get("title", ""))
    if not title:
        remedy = "<doc> has no title attribute: is this WikiExtractor's output?"
        return bad_record(piece, start.start(), end, "missing_field", remedy, field="title")
    text = _repaired(html.unescape(body), title, tally)
    native = attributes.get("id") or title
    document = Document(
        document_id(spec.source, native), spec.source, text, title, spec.outlet, spec.category, attributes.get("url", "")
    )
    prefix = title.partition(":")[0].strip().lower() if ":" in title else ""
    if prefix in NON_ARTICLE_PREFIXES:
        return Dropped(document, Drop("namespace", f"title begins with {prefix}:"))
    if title.endswith("(동음이의)"):
        return Dropped(document, Drop("disambiguation", "title"))
    if title.endswith("의 목록"):
        return Dropped(document, Drop("list_page", "title"))
    return document if text else Dropped(document, Drop("empty"))


def _repaired(body: str, title: str, tally: Tally) -> str:
    text = tidy(body)
    first, _, rest = text.partition("\n")
    if one_line(first) == title:
        text = rest
    before = len(text)
    text = repair(collapse_blanks(_LEFTOVER.sub("", text)))
    tally.lost_characters["repair"] += before - len(text)
    return tidy(text)
