"""The lines of a NamuWiki document: headings, lists, quotes; and which lines are no prose."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.markup.layout import FOOTNOTE_START, GONE, LETTER, LINE_BREAK, Prose
from korealbert.corpus.readers.spec import WikiOptions

LINK_START, LINK_END = "\x03", "\x04"
"""Around the words of a link, to know how much of a line is links."""

LITERAL_OPEN, LITERAL_CLOSE = "\x06", "\x07"
"""Brackets that are text, while others are still to be read."""

_MAX_LINK_SHARE = 0.8
"""Lists and lines with a larger share of their letters in links are navigation, not prose."""

_HAT = rf"(?:\*[ \t]*)?{LINK_START}?(?:상위|하위|관련|상세|자세한|참고) ?(?:문서|내용|항목|설명){LINK_END}?[ \t]*:"
_PROSE = re.compile(rf"(?!{_HAT})[\W_]*+[^\W_]")
"""Begins a line that is worth keeping: a letter or digit, and no pointer to another document."""

_PARAGRAPH = re.compile(rf"(?:(?=[^{LINK_START}상하관자참])|(?!{_HAT}))(?:[^\W_]|[{LINK_START}_\"'(“‘「『《〈][\W_]*+[^\W_])")
"""Begins such a line if it is no heading, list, quote or rule either."""

_HEADING = re.compile(r"(={1,6})(#?) (.*) \2\1[ \t]*$")
_BROKEN_HEADING = re.compile(rf"^={{1,6}}#? .*{LINE_BREAK}.*", re.MULTILINE)
_LIST_MARK = re.compile(r"[ \t]+(?:\*|[1aAiI]\.(?:#\d+)?)[ \t]*|\*[ \t]+")
_QUOTE_MARK = re.compile(r"(?:>[ \t]?)+")
_LINK = re.compile(f"{LINK_START}[^{LINK_START}{LINK_END}]*+{LINK_END}")
_WORD = re.compile(r"\w+")


def lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Lines → headings, paragraphs and lists; lines without a letter and pure link lists are left out."""
    if LINE_BREAK in text:
        text = _BROKEN_HEADING.sub(lambda heading: heading[0].replace(LINE_BREAK, " "), text)
        text = text.replace(LINE_BREAK, f"\n{GONE}")
    page = _Page(options, lost, some_footnotes=FOOTNOTE_START in text)
    begins_paragraph, some_gone = _PARAGRAPH.match, GONE in text
    for source_line in text.split("\n"):
        line = source_line.replace(GONE, "") if some_gone and GONE in source_line else source_line
        if line is not source_line and (not line or line.isspace()):
            continue  # no blank line of the source, so the paragraph continues
        if page.some_footnotes:
            line = page.prose.hold_footnotes(line)
        if begins_paragraph(line):
            page.paragraph_line(line)
        elif line:
            page.other_line(line)
        else:
            page.blank_line()
    return page.text()


class _Page:
    """Takes lines in order."""

    def __init__(self, options: WikiOptions, lost: Counter[str], *, some_footnotes: bool) -> None:
        self.prose = Prose(options, lost)
        self.some_footnotes = some_footnotes
        self._lost = lost
        self._lines: list[str] = []  # of one section, with empty ones between paragraphs
        self._items: list[str] = []  # of the list that has not ended

    def paragraph_line(self, line: str) -> None:
        """A line that ``_PARAGRAPH`` begins."""
        if self._items:
            self._end_list()
        links_end = line.rfind(LINK_END)
        # Where half of a line is before its first link and after its last, it is text.
        if links_end > 0 and 2 * (links_end - line.find(LINK_START)) > len(line) and _is_navigation(line):
            self._lost["link_list"] += own_length(line)
        else:
            self._lines.append(line.rstrip())

    def other_line(self, line: str) -> None:
        """An item of a list, a heading, a quote, a rule, or a line that may be no prose."""
        body = line.strip()
        if body.startswith(">") and (quote := _QUOTE_MARK.match(body)):
            body = body[quote.end() :].strip()
            line = f" {body}"
        if line.startswith((" ", "*", "\t")) and (mark := _LIST_MARK.match(line)):
            self._items.append(line[mark.end() :].rstrip())
        elif not body:
            self.blank_line()
        elif body.startswith("=") and (heading := _HEADING.match(body)):
            self._end_section()
            title = " ".join(heading[3].replace(LINK_START, "").replace(LINK_END, "").split())
            self.prose.heading(len(heading[1]), title if LETTER.search(title) else "")
        elif body.startswith("----") and not body.strip("-"):
            self.blank_line()
        else:
            self._end_list()
            self._lines += _worth_keeping([body], self._lost)

    def blank_line(self) -> None:
        """The end of a paragraph."""
        self._end_list()
        if self.some_footnotes:
            self._end_section()
            self.prose.paragraph_break()
        elif self._lines and self._lines[-1]:
            self._lines.append("")

    def text(self) -> str:
        """Everything, lines joined."""
        self._end_section()
        return self.prose.text().replace(LINK_START, "").replace(LINK_END, "")

    def _end_list(self) -> None:
        if self._items:
            self._lines += _worth_keeping(self._items, self._lost)
            self._items = []

    def _end_section(self) -> None:
        self._end_list()
        lines, self._lines = self._lines, []
        if lines and not lines[-1]:
            lines.pop()
            self._add(lines)
            self.prose.paragraph_break()
        else:
            self._add(lines)

    def _add(self, lines: list[str]) -> None:
        if lines:
            self.prose.lines(lines)


def _worth_keeping(lines: list[str], lost: Counter[str]) -> list[str]:
    """The items of a list, or one line of a paragraph, without anything but prose."""
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
    return letters - _letters(rest) > _MAX_LINK_SHARE * letters


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
