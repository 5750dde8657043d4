"""The lines of a NamuWiki document: headings, lists and quotes; lines that are not prose are removed."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.markup.layout import FOOTNOTE_START, LETTER, LINE_BREAK, REMOVED, Prose
from korealbert.corpus.readers.spec import WikiOptions

LINK_START, LINK_END = "\x03", "\x04"
"""Marks around the text of a link, to measure how much of a line is links."""

LITERAL_OPEN, LITERAL_CLOSE = "\x06", "\x07"
"""Stand-ins for brackets that are not markup, while other brackets are read."""

_MAX_LINK_SHARE = 0.8
"""Lists and lines with a larger share of their letters in links are navigation."""

_POINTER = rf"(?:\*[ \t]*)?{LINK_START}?(?:상위|하위|관련|상세|자세한|참고) ?(?:문서|내용|항목|설명){LINK_END}?[ \t]*:"
"""A pointer to another document."""
_PROSE = re.compile(rf"(?!{_POINTER})[\W_]*+[^\W_]")
"""The beginning of a kept line: it has a letter or digit, and is not a pointer."""

_PARAGRAPH = re.compile(
    rf"(?:(?=[^{LINK_START}상하관자참])|(?!{_POINTER}))(?:[^\W_]|[{LINK_START}_\"'(“‘「『《〈][\W_]*+[^\W_])"
)
"""The beginning of a kept line that is not a heading, list, quote or rule."""

_HEADING = re.compile(r"(={1,6})(#?) (.*) \2\1[ \t]*$")
_BROKEN_HEADING = re.compile(rf"^={{1,6}}#? .*{LINE_BREAK}.*", re.MULTILINE)
_LIST_MARK = re.compile(r"[ \t]+(?:\*|[1aAiI]\.(?:#\d+)?)[ \t]*|\*[ \t]+")
_QUOTE_MARK = re.compile(r"(?:>[ \t]?)+")
_LINK = re.compile(f"{LINK_START}[^{LINK_START}{LINK_END}]*+{LINK_END}")
_WORD = re.compile(r"\w+")


def lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Lay out headings, paragraphs and lists; remove lines without letters, pointers and navigation."""
    if LINE_BREAK in text:
        text = _BROKEN_HEADING.sub(lambda heading: heading[0].replace(LINE_BREAK, " "), text)
        text = text.replace(LINE_BREAK, f"\n{REMOVED}")
    page = _Page(options, lost, some_footnotes=FOOTNOTE_START in text)
    begins_paragraph, some_gone = _PARAGRAPH.match, REMOVED in text
    for source_line in text.split("\n"):
        line = source_line.replace(REMOVED, "") if some_gone and REMOVED in source_line else source_line
        if line is not source_line and (not line or line.isspace()):
            continue  # not blank in the source, so the paragraph continues
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
    """Collects lines in order."""

    def __init__(self, options: WikiOptions, lost: Counter[str], *, some_footnotes: bool) -> None:
        self.prose = Prose(options, lost)
        self.some_footnotes = some_footnotes
        self._lost = lost
        self._lines: list[str] = []  # of a section, with empty ones between paragraphs
        self._items: list[str] = []  # of the current list

    def paragraph_line(self, line: str) -> None:
        """Add a line that matches ``_PARAGRAPH``."""
        if self._items:
            self._end_list()
        links_end = line.rfind(LINK_END)
        # A line is prose if at least half of it is before its first link and after its last.
        if links_end > 0 and 2 * (links_end - line.find(LINK_START)) > len(line) and _is_navigation(line):
            self._lost["link_list"] += source_length(line)
        else:
            self._lines.append(line.rstrip())

    def other_line(self, line: str) -> None:
        """Add a heading, an item of a list, a quote, or a rule; or a line that may not be prose."""
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
            self._lines += _only_prose([body], self._lost)

    def blank_line(self) -> None:
        """End a paragraph."""
        self._end_list()
        if self.some_footnotes:
            self._end_section()
            self.prose.paragraph_break()
        elif self._lines and self._lines[-1]:
            self._lines.append("")

    def text(self) -> str:
        """Return everything that was added."""
        self._end_section()
        return self.prose.text().replace(LINK_START, "").replace(LINK_END, "")

    def _end_list(self) -> None:
        if self._items:
            self._lines += _only_prose(self._items, self._lost)
            self._items = []

    def _end_section(self) -> None:
        self._end_list()
        lines, self._lines = self._lines, []
        ends_paragraph = bool(lines) and not lines[-1]
        if ends_paragraph:
            lines.pop()
        if lines:
            self.prose.lines(lines)
        if ends_paragraph:
            self.prose.paragraph_break()


def _only_prose(lines: list[str], lost: Counter[str]) -> list[str]:
    """Return the items of a list, or a single line, that are prose."""
    together = "\n".join(lines)
    if LINK_START in together and _is_navigation(together):
        lost["link_list"] += source_length(together)
        return []
    kept = [line for line in lines if _PROSE.match(line)]
    if len(kept) < len(lines):
        lost["line"] += sum(map(source_length, lines)) - sum(map(source_length, kept))
    return kept


def source_length(text: str) -> int:
    """Return the characters of a text without the marks that reading has put into it."""
    return len(text) - text.count(REMOVED) - 2 * text.count(LINK_END)


def _is_navigation(lines: str) -> bool:
    """Return whether most letters of some lines are in links."""
    rest, before = lines, ""
    while LINK_START in rest and rest != before:  # again, for links within links
        before, rest = rest, _LINK.sub("", rest)
    if 2 * len(rest) > len(lines):
        return False  # without counting letters, because it is obvious
    letters = _count_letters(lines)
    return letters - _count_letters(rest) > _MAX_LINK_SHARE * letters


def _count_letters(lines: str) -> int:
    return sum(map(len, _WORD.findall(lines)))
