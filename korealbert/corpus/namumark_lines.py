"""The lines of a NamuWiki document: headings, lists, quotes; and which lines are no prose."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.layout import FOOTNOTE_START, GONE, Prose
from korealbert.corpus.sources import WikiOptions

LINK_START, LINK_END = "\x03", "\x04"
"""Around the words of a link, to know how much of a line is links."""

LINE_BREAK = "\x05"
"""A line break within a list item or paragraph (``[br]``)."""

LITERAL_OPEN, LITERAL_CLOSE = "\x06", "\x07"
"""Brackets that are text, while others are still to be read."""

MAX_LINK_SHARE = 0.8
"""Lists and lines with a larger share of their letters in links are navigation, not prose."""

_HAT = rf"(?:\*[ \t]*)?{LINK_START}?(?:상위|하위|관련|상세|자세한|참고) ?(?:문서|내용|항목|설명){LINK_END}?[ \t]*:"
_SYLLABLES = "[가-힣][^가-힣]*+[가-힣]"
_PROSE = re.compile(rf"(?!{_HAT})[^가-힣]*+{_SYLLABLES}")
"""Begins a line that is worth keeping: two syllables of Hangul, and no pointer to another document."""

_PARAGRAPH = re.compile(
    rf"(?:(?=[^{LINK_START}상하관자참])|(?!{_HAT}))[{LINK_START}\w\"'(“‘「『《〈](?:(?<=[가-힣])[가-힣]|(?<=[가-힣])[^가-힣]*+[가-힣]|[^가-힣]*+{_SYLLABLES})"
)
"""Begins such a line if it is no heading, list, quote or rule either."""

_HEADING = re.compile(r"(={1,6})(#?) (.*) \2\1[ \t]*$")
_BROKEN_HEADING = re.compile(rf"^={{1,6}}#? .*{LINE_BREAK}.*", re.MULTILINE)
_LIST_MARK = re.compile(r"[ \t]+(?:\*|[1aAiI]\.(?:#\d+)?)[ \t]*|\*[ \t]+")
_QUOTE_MARK = re.compile(r"(?:>[ \t]?)+")
_TWO_SYLLABLES = re.compile(_SYLLABLES)
_LINK = re.compile(f"{LINK_START}[^{LINK_START}{LINK_END}]*+{LINK_END}")
_WORD = re.compile(r"\w+")


def lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Lines → headings, paragraphs and lists; lines with fewer than two Hangul syllables and pure link lists are left out."""
    prose = Prose(headings=options.headings, dropped_sections=options.dropped_sections, lost=lost)
    if LINE_BREAK in text:
        text = _BROKEN_HEADING.sub(lambda heading: heading[0].replace(LINE_BREAK, " "), text)
        text = text.replace(LINE_BREAK, f"\n{GONE}")
    some_gone, some_footnotes = GONE in text, FOOTNOTE_START in text
    begins_paragraph = _PARAGRAPH.match
    lines: list[str] = []  # of one section, with empty ones between paragraphs
    items: list[str] = []
    for line in text.split("\n"):
        if some_gone and GONE in line:
            line = line.replace(GONE, "")
            if not line or line.isspace():
                continue  # no blank line of the source, so the paragraph goes on
        if some_footnotes:
            line = prose.hold_footnotes(line)
        elif not line:
            if items:
                lines += _worth_keeping(items, lost)
                items = []
            if lines and lines[-1]:
                lines.append("")
            continue
        if begins_paragraph(line):
            if items:
                lines += _worth_keeping(items, lost)
                items = []
            links_end = line.rfind(LINK_END)
            # Where half of a line lies before its first link and behind its last, it is text.
            if 2 * (links_end - line.find(LINK_START)) > len(line) and links_end > 0 and _is_navigation(line):
                lost["link_list"] += own_length(line)
            else:
                lines.append(line.rstrip())
            continue
        body = line.strip()
        if body.startswith(">") and (quote := _QUOTE_MARK.match(body)):
            body = body[quote.end() :].strip()
            line = f" {body}"
        if line.startswith((" ", "*", "\t")) and (mark := _LIST_MARK.match(line)):
            items.append(line[mark.end() :].rstrip())
            continue
        if items:
            lines += _worth_keeping(items, lost)
            items = []
        heading = _HEADING.match(body) if body.startswith("=") else None
        if heading or not body or (body.startswith("----") and not body.strip("-")):
            if heading or some_footnotes:
                _add(lines, prose)
                lines = []
                prose.paragraph_break()
            elif lines and lines[-1]:
                lines.append("")
        else:
            lines += _worth_keeping([body], lost)
        if heading:
            title = " ".join(heading[3].replace(LINK_START, "").replace(LINK_END, "").split())
            prose.heading(len(heading[1]), title if _TWO_SYLLABLES.search(title) else "")
    _add(lines + _worth_keeping(items, lost), prose)
    return prose.text().replace(LINK_START, "").replace(LINK_END, "")


def _add(lines: list[str], prose: Prose) -> None:
    if lines and not lines[-1]:
        lines.pop()
    if lines:
        prose.lines(lines)


def _worth_keeping(lines: list[str], lost: Counter[str]) -> list[str]:
    """The items of a list, or one line of a paragraph, without what is no prose."""
    together = "\n".join(lines)
    if LINK_START in together and _is_navigation(together):
        lost["link_list"] += own_length(together)
        return []
    kept = [line for line in lines if _PROSE.match(line)]
    if len(kept) < len(lines):
        lost["line"] += sum(map(own_length, lines)) - sum(map(own_length, kept))
    return kept


def own_length(text: str) -> int:
    """Characters of a text that are the source's own, not marks put there while it is read."""
    return len(text) - text.count(GONE) - 2 * text.count(LINK_END)


def _is_navigation(lines: str) -> bool:
    """Whether links make up most of some lines."""
    rest = _without_links(lines)
    if 2 * len(rest) > len(lines):
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
