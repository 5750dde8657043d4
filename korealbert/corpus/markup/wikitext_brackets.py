"""The brackets of a MediaWiki page: ``[[links]]``, ``{{templates}}``, ``{| tables |}``.

Constructs without nested ones, which are nearly all, are read at once by kind. The others are read by tokens (module
``frames``); templates and tables that show nothing are skipped to their ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

from korealbert.corpus.markup.frames import LINK, MAX_DEPTH, Frame, NestedMarkup, Reader, blank_until, invisible_link
from korealbert.corpus.markup.layout import INVISIBLE_LINKS, LANGUAGES, REMOVED, SISTER_PROJECTS
from korealbert.corpus.markup.templates import COUNTRIES, DISAMBIGUATION, country_of_code, inline_text, is_inline, template_key
from korealbert.corpus.readers.spec import WikiOptions

_BRACES, _TABLE = "{{", "{|"
_NESTING = ("[[", "]]", "{{", "}}", "{|", "|}")
_LABELLED = dict.fromkeys(LANGUAGES, "interwiki") | INVISIBLE_LINKS
_UNLABELLED = dict.fromkeys(SISTER_PROJECTS, "interwiki") | _LABELLED

_HANGUL = re.compile("[가-힣]")
_WORD = re.compile("[가-힣A-Za-z0-9]")
_LANGUAGE_CHARACTERS, _LINE_CHARACTERS = 4_000, 200
_TOKEN = re.compile(
    r"\[\[|\]\]|\{\{+|\}\}+|\||\n(?:[ \t:*#;\0]*\{\||[ \t\0]*\|\}?|(?==++[^\n]*=[ \t\0]*$)|[ \t]*(?=\n))", re.MULTILINE
)
_NESTED = re.compile(r"\{\{+|\}\}+|\n(?:[ \t:*#;\0]*\{\||[ \t\0]*\|\}|(?==++[^\n]*=[ \t\0]*$))", re.MULTILINE)
_PLAIN_LINK = re.compile(r"\[\[(?:[^\[\]{}|\n:]*+\||(?![:#])(?=[^\[\]{}|\n:]++\]\]))(?![ \t\0]*+\])([^\[\]{}|\n]++)\]\]")
"""A link without nested markup and prefix; captures its text."""
_WHOLE_LINK = re.compile(r"\[\[([^\[\]{}|\n]*+)((?>(?:\|[^\[\]{}|\n]*+)*))\]\]")
_PLAIN_TEMPLATE = re.compile(r"\{\{(?<!\{\{\{)([^{}\[\]|\n]*+\n?+)((?>(?:\|(?>(?:[^{}\[\]\n]++|\n(?!=))*))?))\}\}(?!\})")
"""A template without nested markup and headings; braces with a heading between them are not a pair."""
_LINE = re.compile(r"[^\n]*\n\s*")
PARAGRAPH_TAGS = ("p", "hr")
"""Names of tags that begin a paragraph."""
LINE_TAGS = (
    *("br", "div", "center", "blockquote", "ul", "ol", "li", "dl", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("table", "tbody", "thead", "tfoot", "tr", "caption", "poem", "section"),
)
"""Names of tags that begin a line."""
_BREAK = re.compile(rf"\n|</?(?:{'|'.join((*LINE_TAGS, *PARAGRAPH_TAGS))})(?=[\s/>])[^<>]*>", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"[^|{}\[\]<\0]*+(?=[|{}])")


class Brackets(NestedMarkup):
    """Links, templates and tables of one page."""

    token = _TOKEN
    invisible_links = _LABELLED

    def __init__(self, source: str, options: WikiOptions, lost: Counter[str]) -> None:
        super().__init__(source, options, lost)
        self.disambiguation = False
        self._endless_until = -1

    def readers(self) -> Mapping[str, Reader]:
        """Return the readers of tokens by their first character."""
        return {
            "[": self.open_link,
            "]": self._link_end,
            "{": self._open_braces,
            "}": self._close_braces,
            "|": self._pipe,
            "\n": self._line_start,
        }

    def link_text(self, target: str, label: str | None) -> tuple[str, str]:
        """Return the text of a link; links to files, categories and other languages show nothing."""
        if ":" in target and (construct := invisible_link(target, _UNLABELLED if label is None else _LABELLED)):
            return "", construct
        if label is None:
            return target.lstrip(":#"), ""
        return label if label.strip() else _unqualified(target), ""

    def _link_end(self, found: re.Match[str]) -> int:
        if self.stack and self.stack[-1].kind == LINK:
            self.close_link(found.end())
        return found.end()

    def run(self) -> str:
        """Read constructs without nested ones at once by kind, then the others by tokens, which most pages do not have."""
        text = self.source
        if "[[" in text:
            shown = "".join(_PLAIN_LINK.split(text))
            self.lost["link"] += len(text) - len(shown)
            text = _WHOLE_LINK.sub(self._whole_link, shown)
        for _ in range(2):  # twice, for templates in templates
            if "{{" in text:
                text = _PLAIN_TEMPLATE.sub(self._plain_template, text)
        self.source = text
        return super().run() if any(mark[0] in text and mark in text for mark in _NESTING) else text

    def _whole_link(self, found: re.Match[str]) -> str:
        target, arguments = found.groups()
        label = arguments.replace("|", "") if arguments else None
        text, construct = self.link_text(target.replace(REMOVED, "").strip(), label)
        self.lost[construct or "link"] += _width(found) - len(text)
        return REMOVED if construct else text

    def _plain_template(self, found: re.Match[str]) -> str:
        key, text = template_key(found[1]), ""
        if is_inline(key, self.options.inline_templates):
            text = inline_text(key, found[2].split("|")[1:], self.options.inline_templates)
        elif key in DISAMBIGUATION:
            self.disambiguation = True
        elif (country := _country(found)) and self._is_korean:
            text = country
        self.lost["template"] += _width(found) - len(text)
        return text or REMOVED

    @cached_property
    def _is_korean(self) -> bool:
        """Whether the names of countries are to be Korean: a tenth of the beginning is Hangul, but not a name in a text."""
        begin = self.source[:_LANGUAGE_CHARACTERS]
        return 10 * len(_HANGUL.findall(begin)) > len(begin)

    def _open_braces(self, found: re.Match[str]) -> int:
        """Skip a template that shows nothing, or open a frame for another one."""
        start, end = found.span()
        if end - start == 2 and (name := _NAME.match(self.source, end)):
            key = template_key(name[0])
            if not is_inline(key, self.options.inline_templates) and (close := self._end_of(end, table=False)) > 0:
                self.disambiguation |= key in DISAMBIGUATION
                return self.remove(start, close, "template")
        self.open(_BRACES, start, end - start)
        return end

    def _end_of(self, position: int, *, table: bool) -> int:
        """Return the end of the table or template whose content begins at ``position``, or -1 if a heading comes first.

        The text that a failed search has passed is read by frames and not searched again.
        """
        if position < self._endless_until:
            return -1
        source, opened = self.source, [0 if table else 2]  # 0 means a table, else braces not yet closed
        while found := _NESTED.search(source, position):
            position = found.end()
            mark = found[0]
            if mark[0] == "{":
                opened.append(position - found.start())
            elif mark[0] == "}":
                closing = position - found.start()
                while closing >= 2 and opened and opened[-1]:
                    used = 3 if closing >= 3 and opened[-1] >= 3 else 2
                    closing -= used
                    opened[-1] -= used
                    if opened[-1] < 2:
                        opened.pop()
                if not opened:
                    return position - closing
            elif mark[-1] == "|":
                opened.append(0)
            elif opened[-1] and mark[-1] == "}" and source.startswith("}", position):
                position -= 1  # ``|}}`` ends a template with an empty last argument
            elif opened[-1]:
                break
            elif mark[-1] == "}":
                opened.pop()
                if not opened:
                    return position
        self._endless_until = found.start() if found else len(source)
        return -1

    def _pipe(self, found: re.Match[str]) -> int:
        if self.stack and self.stack[-1].kind != _TABLE:
            self.stack[-1].pipes.append(len(self.out))
        else:
            self.out.append("|")
        return found.end()

    def _line_start(self, found: re.Match[str]) -> int:
        """Read the beginning of a heading, a blank line, or a line that begins or ends a table or starts with a pipe."""
        token, (start, end) = found[0], found.span()
        if token.endswith("{|"):
            self.out.append("\n")
            if not self.options.keep_tables and (close := self._end_of(end, table=True)) > 0:
                return self.remove(start, close, "table", "\n", kept=1)
            self.open(_TABLE, start)
        elif token.endswith("|}"):
            return self._table_end(found)
        elif token.endswith("|"):
            if self.stack and self.stack[-1].kind != _TABLE:
                self.out.append("\n")
                self._pipe(found)
            else:
                self.out.append(token)
        else:
            if self.source.startswith("=", end):
                self.give_up(LINK, _BRACES)
            else:
                self.give_up(LINK)
            self.out.append("\n")
        return end

    def _table_end(self, found: re.Match[str]) -> int:
        stack, end = self.stack, found.end()
        if stack and stack[-1].kind == _BRACES and self.source.startswith("}", end):
            self.out.append("\n")
            self._pipe(found)
            return end - 1  # ``|}}`` ends a template with an empty last argument
        if not self.opened[_TABLE]:
            self.out.append("\n")
            return end
        while stack[-1].kind != _TABLE:
            self.close()
        frame = self.close()
        if len(stack) >= MAX_DEPTH:
            return end
        if self.options.keep_tables:
            text = _linear_table("".join(self.out[frame.start :]))
            del self.out[frame.start :]
            self.out.append(f"{text}\n")
        else:
            self.replace_frame(frame, end, "table", "\n")
        return end

    def _close_braces(self, found: re.Match[str]) -> int:
        start, end = found.span()
        closing = end - start
        while closing >= 2 and self.stack and self.stack[-1].kind == _BRACES:
            frame = self.stack[-1]
            used = 3 if closing >= 3 and frame.braces >= 3 else 2
            closing -= used
            if len(self.stack) <= MAX_DEPTH:
                self._evaluate(frame, end - closing, parameter=used == 3)
            frame.braces -= used
            frame.pipes.clear()
            if frame.braces < 2:
                self.close()
        return end

    def _evaluate(self, frame: Frame, end: int, *, parameter: bool) -> None:
        out, pipes = self.out, frame.pipes
        key = template_key("".join(out[frame.start : pipes[0] if pipes else None]))
        if key in DISAMBIGUATION:
            self.disambiguation = True
        if parameter or not is_inline(key, self.options.inline_templates):
            self.replace_frame(frame, end, "template")
            return
        bounds = [*pipes, len(out)]
        arguments = ["".join(out[a:b]) for a, b in pairwise(bounds)]
        text = inline_text(key, arguments, self.options.inline_templates)
        self.replace_frame(frame, end, "template", text or REMOVED, kept=len(text))

    def abandon(self, frame: Frame) -> int:
        """Remove an unclosed table up to the next blank line; an unclosed template with its line and the lines of arguments."""
        if frame.kind == _TABLE:
            self.lost["table"] += 1
            return blank_until(self.out, frame.start, "\n\n")
        if frame.kind == _BRACES:
            last = frame.start
            for pipe in frame.pipes:
                if not _LINE.fullmatch("".join(self.out[last:pipe])):
                    break
                self.out[last:pipe] = [""] * (pipe - last)
                last = pipe
            return blank_until(self.out, last, "\n")
        return self.abandon_link(frame) if frame.pipes else 0


def _country(found: re.Match[str]) -> str:
    """Return the country whose code names a template in a line or list; alone in a line that is no item, it is a picture."""
    name, end = found[1].strip(), found.end()
    if name not in COUNTRIES:
        return ""
    if _is_within_line(found):
        return country_of_code(name, found.string, end)
    before = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    return COUNTRIES[name] if before.lstrip(f" \t{REMOVED}")[:1] in tuple("*#:;") else ""


def _is_within_line(found: re.Match[str]) -> bool:
    """Return whether there are words beside a template in its line; alone in it, it is a picture."""
    source, (start, end) = found.string, found.span()
    before = source[source.rfind("\n", 0, start) + 1 : start]
    return _WORD.search(before) is not None or _WORD.search(source[end : end + _LINE_CHARACTERS].partition("\n")[0]) is not None


def _width(found: re.Match[str]) -> int:
    """Return the source characters of a match; earlier removals are already counted."""
    return found.end() - found.start() - found[0].count(REMOVED)


def _unqualified(target: str) -> str:
    """Return the name that a link with an empty label shows: 서울 for ``[[서울 (동음이의)|]]`` and ``[[분류:서울|]]``."""
    name = target.removeprefix(":")
    name = name.partition(":")[2].lstrip() or name
    for left, right in ("()", "（）"):
        if name.endswith(right):
            name = name.rpartition(left)[0].rstrip() or name
    return name


def on_one_line(text: str) -> str:
    """Return the text of a footnote or cell with blanks for breaks."""
    return _BREAK.sub(" ", text)


def _linear_table(content: str) -> str:
    """Write the rows of a table as lines with a space between cells; ``content`` is between ``{|`` and ``|}``."""
    rows: list[list[str]] = [[]]
    for line in content.split("\n")[1:]:
        row = line.strip()
        if row.startswith("|-"):
            rows.append([])
        elif row.startswith(("|", "!")):
            body = row[2:] if row.startswith("|+") else row[1:]
            cells = re.split(r"\|\||!!" if row.startswith("!") else r"\|\|", body)
            rows[-1].extend(_cell(cell) for cell in cells)
        elif row and rows[-1]:
            rows[-1][-1] += f" {on_one_line(row)}"
    return "\n".join(" ".join(filter(None, row)) for row in rows if row)


def _cell(cell: str) -> str:
    attributes, pipe, text = cell.partition("|")
    return on_one_line(text if pipe and "=" in attributes else cell).strip()
