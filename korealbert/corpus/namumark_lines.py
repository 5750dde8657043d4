"""The lines of a NamuWiki document: headings, lists, quotes; and which lines are no prose."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.layout import FOOTNOTE_END, FOOTNOTE_START, GONE, Prose, collapse_blanks, finish
from korealbert.corpus.sources import WikiOptions

LINK_START, LINK_END = "\x03", "\x04"
"""Around the words of a link, to know how much of a line is links."""

LINE_BREAK = "\x05"
"""A line break within a list item or paragraph (``[br]``)."""

LITERAL_OPEN, LITERAL_CLOSE = "\x06", "\x07"
"""Brackets that are text, while others are still to be read."""

MAX_LINK_SHARE = 0.8
"""Lists and lines with a larger share of their letters in links are navigation, not prose."""

_HEADING = re.compile(r"(={1,6})(#?) (.*) \2\1$")
_LIST_MARK = re.compile(r"[ \t]+(?:\*|[1aAiI]\.(?:#\d+)?)[ \t]*|\*[ \t]+")
_QUOTE_MARK = re.compile(r"(?:>[ \t]?)+")
_HAT = rf"(?:\*[ \t]*)?{LINK_START}?(?:상위|하위|관련|상세|자세한|참고) ?(?:문서|내용|항목|설명){LINK_END}?[ \t]*:"
_PROSE = re.compile(rf"(?!{_HAT})[^가-힣]*+[가-힣][^가-힣]*+[가-힣]")
"""Begins a line that is worth keeping: two syllables of Hangul, and no pointer to another document."""

_PARAGRAPH = re.compile(rf"(?!{_HAT})[{LINK_START}\w\"'(“‘「『《〈](?:[가-힣]|[^가-힣]*+[가-힣][^가-힣]*+[가-힣])")
"""Begins a line of a paragraph: no heading, list, quote or rule."""

_TWO_SYLLABLES = re.compile(r"[가-힣][^가-힣]*+[가-힣]")
_LINK = re.compile(f"{LINK_START}[^{LINK_START}{LINK_END}]*+{LINK_END}")
_PLACED = (GONE, LINK_START, LINK_END, LINE_BREAK, LITERAL_OPEN, LITERAL_CLOSE)
_WORD = re.compile(r"\w+")


def lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Lines → headings, paragraphs and lists; lines with fewer than two Hangul syllables and pure link lists are left out."""
    prose = Prose(headings=options.headings, dropped_sections=options.dropped_sections, lost=lost)
    list_items: list[str] = []
    whole_lines = LINE_BREAK not in text and FOOTNOTE_START not in text
    begins_paragraph, some_gone = _PARAGRAPH.match, GONE in text
    for source_line in text.split("\n"):
        line = source_line.replace(GONE, "") if some_gone else source_line
        if whole_lines and begins_paragraph(line):
            if list_items:
                _add(prose, list_items, lost)
                list_items = []
            if LINK_START not in line:
                prose.line(line)
            elif _is_navigation(line):
                lost["link_list"] += own_length(line)
            else:
                prose.line(line.replace(LINK_START, "").replace(LINK_END, ""))
            continue
        body = line.strip()
        if not body:
            if body == source_line.strip():
                if list_items:
                    _add(prose, list_items, lost)
                    list_items = []
                prose.paragraph_break()
            continue
        heading = _HEADING.match(body) if body[0] == "=" else None
        if quote := _QUOTE_MARK.match(body):
            body = body[quote.end() :].strip()
            line = f" {body}"
        item = None if heading else _LIST_MARK.match(line)
        if item:
            list_items.append(line[item.end() :].strip())
            continue
        if list_items:
            _add(prose, list_items, lost)
            list_items = []
        if heading:
            title = collapse_blanks(heading[3].replace(LINK_START, "").replace(LINK_END, "")).strip()
            prose.heading(len(heading[1]), title if _TWO_SYLLABLES.search(title) else "")
        elif body.startswith("----") and not body.strip("-"):
            prose.paragraph_break()
        else:
            _add(prose, [body], lost)
    if list_items:
        _add(prose, list_items, lost)
    return finish(prose.text())


def _add(prose: Prose, lines: list[str], lost: Counter[str]) -> None:
    """Add the items of a list, or one line of a paragraph."""
    together = "\n".join(lines)
    if LINK_START in together:
        if _is_navigation(together):
            lost["link_list"] += own_length(together)
            return
        together = together.replace(LINK_START, "").replace(LINK_END, "")
    if LINE_BREAK in together:
        together = together.replace(LINE_BREAK, "\n")
    with_footnotes = FOOTNOTE_START in together or FOOTNOTE_END in together
    for part in together.split("\n"):
        kept = prose.hold_footnotes(part.strip()) if with_footnotes else part.strip()
        if _PROSE.match(kept):
            prose.line(kept)
        else:
            lost["line"] += len(kept)


def own_length(text: str) -> int:
    """Characters of a text that are the source's own, not marks put there while it is read."""
    return len(text) - sum(map(text.count, _PLACED))


def _is_navigation(lines: str) -> bool:
    """Whether links make up most of some lines."""
    size = len(lines)
    if 2 * max(lines.find(LINK_START), size - lines.rfind(LINK_END)) > size:
        return False  # text enough before the first link or behind the last
    rest = _without_links(lines)
    if 2 * len(rest) > size:
        return False  # spares the count of letters where the answer is plain
    letters = _letters(lines)
    return letters - _letters(rest) > MAX_LINK_SHARE * letters


def _letters(lines: str) -> int:
    return sum(map(len, _WORD.findall(lines)))


def _without_links(lines: str) -> str:
    """Lines without the words of their links; nested links count once."""
    while LINK_START in lines:
        shorter = _LINK.sub("", lines)
        if shorter == lines:
            break
        lines = shorter
    return lines
