"""The lines of a NamuWiki document: headings, lists, quotes; and which lines are no prose."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.layout import GONE, LETTER, Prose, collapse_blanks, finish
from korealbert.corpus.sources import WikiOptions

LINK_START, LINK_END = "\x03", "\x04"
"""Around the words of a link, to know how much of a line is links."""

LINE_BREAK = "\x05"
"""A line break within a list item or paragraph (``[br]``)."""

MARKS = dict.fromkeys(range(8))
"""Deletes, as a table of ``str.translate``, what the parsers put into the text to mark places."""

MAX_LINK_SHARE = 0.8
"""Lists and lines with a larger share of their letters in links are navigation, not prose."""

_HEADING = re.compile(r"(={1,6})(#?) (.*) \2\1$")
_LIST_MARK = re.compile(r"[ \t]+(?:\*|[1aAiI]\.(?:#\d+)?)[ \t]*")
_QUOTE_MARK = re.compile(r"(?:>[ \t]?)+")
_HAT = re.compile(r"(?:\*[ \t]*)?(?:상위|하위|관련|상세|자세한|참고) ?(?:문서|내용|항목|설명)[ \t]*:")
_TWO_SYLLABLES = re.compile(r"[가-힣][^가-힣]*[가-힣]")
_LINK = re.compile(f"{LINK_START}[^{LINK_START}{LINK_END}]*{LINK_END}")
_WORD = re.compile(r"\w+")


def lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Lines → headings, paragraphs and lists; lines with fewer than two Hangul syllables and pure link lists are left out."""
    prose = Prose(headings=options.headings, dropped_sections=options.dropped_sections, lost=lost)
    list_items: list[str] = []

    def end_list() -> None:
        if list_items:
            _add(prose, list_items, lost)
            list_items.clear()

    for source_line in text.split("\n"):
        line = source_line.replace(GONE, "") if GONE in source_line else source_line
        body = line.strip()
        if not body:
            if body == source_line.strip():
                end_list()
                prose.paragraph_break()
            continue
        heading = _HEADING.match(body) if body[0] == "=" else None
        if heading:
            end_list()
            title = collapse_blanks(heading[3].replace(LINK_START, "").replace(LINK_END, "")).strip()
            prose.heading(len(heading[1]), title if _TWO_SYLLABLES.search(title) else "")
            continue
        quote = _QUOTE_MARK.match(body)
        if quote:
            line, body = f" {body[quote.end() :]}", body[quote.end() :].strip()
        item = _LIST_MARK.match(line)
        if item:
            list_items.append(line[item.end() :].strip())
            continue
        end_list()
        if body.startswith("----") and not body.strip("-"):
            prose.paragraph_break()
            continue
        _add(prose, [body], lost)
    end_list()
    return finish(prose.text())


def _add(prose: Prose, lines: list[str], lost: Counter[str]) -> None:
    """Add the items of a list, or one line of a paragraph."""
    if any(LINK_START in line for line in lines) and _is_navigation(lines):
        lost["link_list"] += sum(map(len, lines))
        return
    for line in lines:
        for part in line.replace(LINK_START, "").replace(LINK_END, "").split(LINE_BREAK):
            kept = prose.hold_footnotes(part.strip())
            if not kept:
                continue
            if _HAT.match(kept) or not _TWO_SYLLABLES.search(kept):
                lost["line"] += len(kept)
            elif LETTER.search(kept):
                prose.line(kept)


def _is_navigation(lines: list[str]) -> bool:
    rest = [_without_links(line) for line in lines]
    if sum(map(len, rest)) > 0.5 * sum(map(len, lines)):
        return False  # spares the count of letters where the answer is plain
    letters = sum(map(_letters, lines))
    return letters - sum(map(_letters, rest)) > MAX_LINK_SHARE * letters


def _letters(line: str) -> int:
    return sum(map(len, _WORD.findall(line)))


def _without_links(line: str) -> str:
    """A line without its links' words; nested links count once."""
    while LINK_START in line:
        shorter = _LINK.sub("", line)
        if shorter == line:
            break
        line = shorter
    return line
