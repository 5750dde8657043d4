"""The lines of a NamuWiki document: headings, lists and quotes; lines that are not prose are removed."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.markup.layout import FOOTNOTE_START, LETTER, LINE_BREAK, REMOVED, Prose
from korealbert.corpus.readers.spec import WikiOptions

LINK_START, LINK_END = "\x03", "\x04"
"""Marks around the text of a link, to measure how much of a line is links."""

OUTSIDE = "\x08"
"""Follows ``LINK_START`` if the link leads out of the wiki."""

LITERAL_OPEN, LITERAL_CLOSE = "\x06", "\x07"
"""Stand-ins for brackets that are not markup, while other brackets are read."""

_MAX_LINK_SHARE = 0.8
"""Lists and lines with a larger share of their letters in links are links alone: names, headings or navigation."""

_POINTER = rf"(?:\*[ \t]*)?{LINK_START}?(?:상위|하위|관련|상세|자세한|참고) ?(?:문서|내용|항목|설명){LINK_END}?[ \t]*:"
"""The label of a pointer to another document, or of text."""
_LABEL = re.compile(_POINTER)
_PROSE = re.compile(rf"(?!{_POINTER})[\W_]*+[^\W_]")
"""The beginning of a kept line: it has a letter or digit, and no such label."""

_PARAGRAPH = re.compile(
    rf"(?:(?=[^{LINK_START}상하관자참])|(?!{_POINTER}))(?:[^\W_]|[{LINK_START}_\"'(“‘「『《〈][\W_]*+[^\W_])"
)
"""The beginning of a kept line that is not a heading, list, quote, rule or such a label."""

_HEADING = re.compile(r"(={1,6})(#?) (.*) \2\1[ \t]*$")
_BROKEN_HEADING = re.compile(rf"^={{1,6}}#? .*{LINE_BREAK}.*", re.MULTILINE)
_LIST_MARK = re.compile(r"[ \t]+(?:\*|[1aAiI]\.(?:#\d+)?)[ \t]*|\*[ \t]+")
_QUOTE_MARK = re.compile(r"(?:>[ \t]?)+")
_LINK = re.compile(f"{LINK_START}[^{LINK_START}{LINK_END}]*+{LINK_END}")
_OUTSIDE_LINK = re.compile(f"{LINK_START}{OUTSIDE}[^{LINK_START}{LINK_END}]*+{LINK_END}")
_MARKS = dict.fromkeys(map(ord, (LINK_START, LINK_END, OUTSIDE)))
_SITE = re.compile("홈페이지|사이트|누리집|링크|영상|기사|블로그|채널|카페|트위터|페이스북|인스타그램|유튜브|공식|출처|원문")
"""What a link to a site says that is no heading."""
_BACK = re.compile(
    rf"{LINK_END}\s*(?:[|/>»])\s*{LINK_START}"
    rf"|{LINK_START}\W*[←⇐◀◁«]|[→⇒▶▷»]\W*{LINK_END}"
    rf"|(?:돌아 ?가기|바로 ?가기|(?:메인|대문|처음|목록|문서)으?로){LINK_END}"
)
"""Links in a row of separators, with arrows at their ends, or back to a page: no heading."""
_SERIES = re.compile(rf"{LINK_END}(?:[,·]|\s*(?:및|그리고)) *{LINK_START}")
"""Between names, not between the parts of a menu."""
_SENTENCE = re.compile(r"[가-힣][다요까죠][.?!](?!\w)")
_LINKED_SENTENCE = re.compile(rf"[다요까죠]\.[\"'”’)]*{LINK_END}")
"""The end of a sentence that is the text of a link; titles of articles elsewhere have no full stop."""
_REFERENCE = re.compile("참[고조]")
_INTRODUCTION = re.compile(r"다음|아래|:\s*$")
_NAVIGATION = re.compile(
    "(?:관련|연관|하위|상위|상세|외부|바깥|참고|다른) ?(?:문서|항목|링크|고리|연결|사이트|누리집|자료|영상)"
    "|둘러보기|[같함][이께] ?보기|링크|바로 ?가기|같은 이름|동음이의어?|동명이인"
)
"""The heading of a section whose links lead elsewhere."""
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
    """Collects lines in order. Links alone in a line or list are held until it is known what follows."""

    def __init__(self, options: WikiOptions, lost: Counter[str], *, some_footnotes: bool) -> None:
        self.prose = Prose(options, lost)
        self.some_footnotes = some_footnotes
        self._lost = lost
        self._lines: list[str] = []  # of a section, with empty ones between paragraphs
        self._items: list[str] = []  # of the current list
        self._links: list[tuple[str, bool]] = []  # lines of links alone, and whether they are names if no prose follows
        self._before: str | None = None  # the line of prose before, "" after a heading, None before all text
        self._blank = False  # since that line
        self._heading: str | None = None
        self._navigation_level = 0

    def paragraph_line(self, line: str) -> None:
        """Add a line that matches ``_PARAGRAPH``."""
        if self._items:
            self._end_list()
        links_end = line.rfind(LINK_END)
        # A line is prose if at least half of it is before its first link and after its last.
        if links_end > 0 and 2 * (links_end - line.find(LINK_START)) > len(line) and _is_links(line) and not _says(line):
            self._hold([line.rstrip()], of_list=False)
        else:
            self._add([line.rstrip()])

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
            title = " ".join(heading[3].translate(_MARKS).split())
            self._begin_section(len(heading[1]), title if LETTER.search(title) else "")
        elif body.startswith("----") and not body.strip("-"):
            self.blank_line()
        else:
            self._end_list()
            self._only_prose([body], of_list=False)

    def blank_line(self) -> None:
        """End a paragraph."""
        self._end_list()
        self._end_links(before_prose=False)
        self._blank = True
        if self.some_footnotes:
            self._end_section()
            self.prose.paragraph_break()
        elif self._lines and self._lines[-1]:
            self._lines.append("")

    def text(self) -> str:
        """Return everything that was added."""
        self._end_section()
        return self.prose.text().translate(_MARKS)

    def _begin_section(self, level: int, title: str) -> None:
        self.prose.heading(level, title)
        self._before, self._heading = "", title.replace(" ", "")
        if not self._navigation_level or level <= self._navigation_level:
            self._navigation_level = level if _NAVIGATION.fullmatch(title) else 0

    def _end_list(self) -> None:
        if self._items:
            items, self._items = self._items, []
            self._only_prose(items, of_list=True)

    def _only_prose(self, lines: list[str], *, of_list: bool) -> None:
        """Add the items of a list, or a single line, that are prose; hold them if they are links alone."""
        kept = [line for line in lines if _PROSE.match(line) or _is_labelled_text(line)]
        if len(kept) < len(lines):
            self._lost["line"] += sum(map(source_length, lines)) - sum(map(source_length, kept))
        together = "\n".join(kept)
        if LINK_START in together and _is_links(together) and not (len(kept) == 1 and _says(together)):
            self._hold(kept, of_list=of_list)
        elif kept:
            self._add(kept)

    def _add(self, lines: list[str]) -> None:
        if self._links:
            self._end_links(before_prose=True)
        self._lines += lines
        self._before, self._blank = lines[-1], False

    def _hold(self, lines: list[str], *, of_list: bool) -> None:
        """Hold links alone; they are names in a list or series below a heading, or if a heading or text introduces them."""
        before = self._before
        introduced = before is not None and (not before or not self._blank or _INTRODUCTION.search(before) is not None)
        for line in lines:
            listed = self._heading is not None and (of_list or _SERIES.search(line) is not None)
            self._links.append((line, not self._navigation_level and (introduced or listed)))

    def _end_links(self, *, before_prose: bool) -> None:
        """Add those of the held lines that are names, or a heading, which stands before prose."""
        lines, self._links = self._links, []
        last = len(lines) - 1 if before_prose else -1
        for index, (line, names) in enumerate(lines):
            if _says(line) or self._is_text(line, names=names, is_heading=index == last):
                self._lines.append(line)
            else:
                self._lost["link_list"] += source_length(line)

    def _is_text(self, line: str, *, names: bool, is_heading: bool) -> bool:
        """Return whether links alone in a line are names or a heading, rather than navigation."""
        is_heading = is_heading and not _BACK.search(line)
        text = line.translate(_MARKS)
        if OUTSIDE in line and 2 * _count_letters(_OUTSIDE_LINK.sub("", line)) < _count_letters(text):
            return is_heading and not _SITE.search(text)
        is_own_part = text.rpartition("/")[2].replace(" ", "") == self._heading
        return is_heading or (names and not is_own_part)

    def _end_section(self) -> None:
        self._end_list()
        self._end_links(before_prose=False)
        lines, self._lines = self._lines, []
        ends_paragraph = bool(lines) and not lines[-1]
        if ends_paragraph:
            lines.pop()
        if lines:
            self.prose.lines(lines)
        if ends_paragraph:
            self.prose.paragraph_break()


def source_length(text: str) -> int:
    """Return the characters of a text without the marks that reading has put into it."""
    return len(text) - text.count(REMOVED) - text.count(OUTSIDE) - 2 * text.count(LINK_END)


def _without_links(lines: str) -> str:
    rest, before = lines, ""
    while LINK_START in rest and rest != before:  # again, for links within links
        before, rest = rest, _LINK.sub("", rest)
    return rest


def _says(line: str) -> bool:
    """Return whether a line is a sentence or definition, which may be the text of a link, and does not refer to its links."""
    rest = _LINK.sub("가", line)
    says = _SENTENCE.search(rest) or _LINKED_SENTENCE.search(line) or (line.endswith(".") and OUTSIDE not in line)
    return bool(says) and not _REFERENCE.search(rest)


def _is_labelled_text(line: str) -> bool:
    """Return whether text follows a label, rather than links to which it points."""
    label = _LABEL.match(line)
    if label is None:
        return False
    rest = line[label.end() :]
    outside = _without_links(rest)
    return 2 * _count_letters(outside) > _count_letters(rest) and not _REFERENCE.search(outside)


def _is_links(lines: str) -> bool:
    """Return whether most letters of some lines are in links."""
    rest = _without_links(lines)
    if 2 * len(rest) > len(lines):
        return False  # without counting letters, because it is obvious
    letters = _count_letters(lines)
    return letters - _count_letters(rest) > _MAX_LINK_SHARE * letters


def _count_letters(lines: str) -> int:
    return sum(map(len, _WORD.findall(lines)))
