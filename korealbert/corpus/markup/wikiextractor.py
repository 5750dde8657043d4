"""Output of WikiExtractor (``<doc id url title>…</doc>``): documents, and the repair of what that tool leaves.

It deletes templates but not the punctuation around them, so that articles open with ``(, 1924년 …)``; it leaves links and
templates that were not closed where they should be, cells and arguments of others, and ``formula_3`` where a formula was; it
repeats the title as the first line. Section titles are bare lines or end in a full stop (``생애.``); they stay, but for those
of dropped sections and those at the end, of whose lists nothing is left.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator

from korealbert.corpus.markup.layout import LETTER, finish
from korealbert.corpus.markup.names import no_prose, other_namespace
from korealbert.corpus.markup.wikitext import read_leftover_marks
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.records import Dropped, Outcome, Tally, bad_record, decode_record, one_line, tidy
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document, Drop, Quarantined, document_id

DOC_END = b"</doc>"

_DOC_START = re.compile(rb"(?:^|(?<=</doc>))[ \t]*<doc\s[^\n]*>[ \t\r]*$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"(\w+)=\"(.*?)\"(?=\s+\w+=\"|\s*>?\s*$)")
"""Titles hold quotes and ``>`` unescaped, so a value ends where another attribute or the line's end follows."""


def parse_docs(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """One document per ``<doc>``."""
    data, position = records.data, 0
    while start := _DOC_START.search(data, position):
        if data[position : start.start()].strip():
            remedy = "expected <doc …>: run WikiExtractor again"
            yield bad_record(records, position, start.start(), "text_outside_doc", remedy)
        end = data.find(DOC_END, start.end())
        tally.records += 1
        if following := _DOC_START.search(data, start.end(), end if end >= 0 else len(data)):
            position = following.start()
            remedy = "another <doc …> begins before </doc>: run WikiExtractor again"
            yield bad_record(records, start.start(), position, "unclosed_doc", remedy)
            continue
        if end < 0:
            remedy = "the <doc> is not closed: the output was cut off, run WikiExtractor again"
            yield bad_record(records, start.start(), len(data), "truncated_file", remedy)
            return
        position = end + len(DOC_END)
        yield _outcome(spec, records, start, end, tally)
    if data[position:].strip():
        unread = decode_record(records, position, len(data))
        remedy = "expected <doc …>: is this WikiExtractor's output?"
        outside = bad_record(records, position, len(data), "text_outside_doc", remedy)
        yield unread if isinstance(unread, Quarantined) else outside


def _outcome(spec: ExtractSpec, records: RawRecords, start: re.Match[bytes], end: int, tally: Tally) -> Outcome:
    record = decode_record(records, start.start(), end)
    if isinstance(record, Quarantined):
        return record
    start_tag, _, body = record.partition("\n")
    attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(start_tag)}
    title = one_line(attributes.get("title", ""))
    if not title:
        remedy = "<doc> has no title attribute: is this WikiExtractor's output?"
        return bad_record(records, start.start(), end, "missing_field", remedy, field="title")
    source, lost = html.unescape(body), Counter[str]()
    text = _repaired(source, spec, title, lost)
    native = attributes.get("id") or title
    document = Document(
        document_id(spec.source, native), spec.source, text, title, spec.outlet, spec.category, attributes.get("url", "")
    )
    drop = other_namespace(title) or no_prose(title) or (None if text else Drop("empty"))
    if drop:
        tally.left_out(source)
        return Dropped(document, drop)
    tally.extracted(source, text, lost)
    return document


_PLACEHOLDER = re.compile(r"(?:formula|codice)_\d+")
_RESIDUE = re.compile(
    r"(?m)^(?:[|!] *(?:[\w-]+ ?=[^\n]*|[^\n|]*\| *)"  # a cell's attributes, a template's argument
    r"|[^\n|]*(?:\| *[\w가-힣 ]{1,20}=[^\n|]*){2,}"  # the arguments of a citation
    r"|</?(?:page|ns|id|revision|parentid|timestamp|contributor|username|ip|minor|comment|origin|model|format|sha1)\b[^\n]*)$\n?"
)
_HEADING = re.compile(r"[^.,!?]{1,12}(?<![다요까죠])\.")
"""A title as WikiExtractor writes it; sentences that short end otherwise."""
_LIST_MARK = re.compile(r"(?m)^\*+ +")
_DOUBLE_STOP = re.compile(r"\.(?<=다\.\.)(?!\.)|,(?=\.(?:\s|\Z))")


def _repaired(body: str, spec: ExtractSpec, title: str, lost: Counter[str]) -> str:
    text = tidy(body)
    first, _, rest = text.partition("\n")
    if one_line(first) == title:
        lost["title"] += len(first)
        text = rest.lstrip("\n")
    if any(mark in text for mark in ("[[", "{{", "{|", "<", "://", "''", "__")):
        text = read_leftover_marks(text, spec.wiki, lost)
    lost["math"] += len(text)
    text = _PLACEHOLDER.sub(lambda found: spec.wiki.math_placeholder if found[0][0] == "f" else "", text)
    lost["math"] -= len(text)
    before = len(text)
    text = finish(_DOUBLE_STOP.sub("", _LIST_MARK.sub("", _RESIDUE.sub("", text))))
    lost["repair"] += before - len(text)
    lines = [line for line in text.split("\n") if not line or LETTER.search(line)]
    headings = {f"{name}." for name in spec.wiki.dropped_sections}
    return tidy("\n".join(line for line in _without_last_headings(lines) if line not in headings))


def _without_last_headings(lines: list[str]) -> list[str]:
    """Without the titles of sections of which nothing is left, at the end."""
    end = len(lines)
    while end > 1 and (not lines[end - 1] or _HEADING.fullmatch(lines[end - 1])):
        end -= 1
    return lines[:end]
