"""NamuWiki markup (namumark) → text, by one tokenising pass over nested constructs.

Links, footnotes and ``{{{`` groups are frames (``wiki_frames``); what is removed whole (tables, macros, code) is skipped by
matched ends that are found once. Nothing raises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from korealbert.corpus.layout import FOOTNOTE_END, FOOTNOTE_START, GONE, URL, WikiText, prepare
from korealbert.corpus.namumark_lines import LINE_BREAK, LINK_END, LINK_START, lay_out
from korealbert.corpus.sources import WikiOptions
from korealbert.corpus.wiki_frames import LINK, MAX_DEPTH, Frame, NestedMarkup, Reader, blank_until, unseen_link
from korealbert.corpus.wiki_literals import decode_entities, literal
from korealbert.corpus.wiki_names import UNSEEN_LINKS

_MAX_TABLE_DEPTH = 4
"""Tables within cells within tables that ``keep_tables`` follows."""

_GROUP, _FOOTNOTE, _BRACKET = "{{{", "[*", "["

_TOKEN = re.compile(
    r"\[\[([^\[\]{}|\n\\<]*+)(?:\|([^\[\]{}|\n\\<]*+))?+\]\]|\[\*([^\[\]{}\n\\<]*+)\]"  # nothing nested: one token each
    r"|\[\[|\]\]|\{\{\{|\}\}\}|\[|\]|\||\\|<math>"
    r"|\n(?:##[^\n]*|[ \t>]*(?=\|)|(?=={1,6}\#?[ ][^\n]*[ ]\#?=+[ \t]*$)|[ \t]*(?=\n))",
    re.MULTILINE | re.IGNORECASE,
)
_REDIRECT = re.compile(r"\s*#(?:redirect|넘겨주기)\s+\S", re.IGNORECASE)
_GROUP_MARK = re.compile(r"\{\{\{|\}\}\}")
_GROUP_HEAD = re.compile(
    r"\{\{\{(?:#!([a-z]+)([^\n{}]*+)|[+-][1-5](?:[ ]|(?=\n))|\#[0-9a-z]+(?:,\#?[0-9a-z]+)?(?:[ ]|(?=\n)))", re.IGNORECASE
)
_STYLE = re.compile(r"(?:\s*+(?:dark-)?style=\"[^\"\n]*+\"|\s*+(?:dark-)?style=&quot;[^\n]*?&quot;)+\s*", re.IGNORECASE)
_MACRO = re.compile(
    r"\[(include|youtube|kakaotv|nicovideo|navertv|vimeo|spotify|목차|tableofcontents|toc|datetime|date|pagecount|clearfix|br|age|dday"
    r"|ruby|anchor|각주|footnote|math|pagelist|펼접|html)(?:\(|\])",
    re.IGNORECASE,
)
_ROW_MARK = re.compile(r"\{\{\{|\|\|[ \t]*(?=\n|\Z)|\n(?=[ \t]*\n|={1,6}\#? )")
_NEXT_ROW = re.compile(r"[ \t]*\n[ \t>]*(?=\|\|)")
_CELL_MARK = re.compile(r"\{\{\{|\|\|?")
_CELL_OPTION = re.compile(r"(?:<[^<>\n]*+>)+")
_CAPTION = re.compile(r"\|[^|\n]++(?=\|)")
_HTML_TAG = re.compile(r"<(style|script)\b[^<>]*>[^<]*</\1\s*>|<[^<>]*>", re.IGNORECASE)
_DOLLAR_MATH = re.compile(r"\$(?=[^\s$])[^$\n가-힣]{1,300}(?<=\S)\$(?!\d)")
_RUBY = re.compile(r"\[ruby\(([^,()\[\]]*+)", re.IGNORECASE)


def extract_namumark(source: str, options: WikiOptions) -> WikiText:
    """The text of one document's source; empty for a redirect."""
    lost: Counter[str] = Counter()
    if _REDIRECT.match(source):
        return WikiText("", lost, redirect=True)
    text = _Parser(prepare(source), options, lost).run()
    return WikiText(lay_out(_inline(text, options, lost), options, lost), lost)


class _Parser(NestedMarkup):
    """Nested constructs of one document, or of one table cell."""

    token = _TOKEN
    unseen_links = UNSEEN_LINKS

    def __init__(self, source: str, options: WikiOptions, lost: Counter[str], depth: int = 0) -> None:
        super().__init__(source, options, lost)
        self.depth = depth
        self._macro_end = -1
        self._rowless_until = self._line_end = -1
        self._unclosed_math = False
        self._group_ends = _group_ends(self.source) if "{{{" in source else {}

    def readers(self) -> Mapping[str, Reader]:
        """By the first character of a token."""
        return {
            "[": self._open_bracket,
            "]": self._close_bracket,
            "\n": self._line_start,
            "|": self._pipe,
            "{": self._open_group,
            "}": self._close_group,
            "\\": self._escape,
            "<": self._math,
        }

    def link_text(self, target: str, label: str | None) -> tuple[str, str]:
        """A link's words are put between marks, to know how much of a line is links."""
        construct = unseen_link(target, UNSEEN_LINKS)
        if construct:
            return "", construct
        if label is None:
            if "://" in target:
                label = target.partition(" ")[2]
            else:
                label = target.removeprefix(":").partition("#")[0].removeprefix("../").lstrip("/")
        return (f"{LINK_START}{label}{LINK_END}", "") if label.replace(GONE, "").strip() else ("", "link")

    def _escape(self, found: re.Match[str]) -> int:
        end = found.end()
        escaped = self.source[end : end + 1]
        self.out.append(literal(escaped) if escaped != "\n" else "\\\n")
        return end + 1

    def _math(self, found: re.Match[str]) -> int:
        start, end = found.span()
        at = -1 if self._unclosed_math else self.source.find("</math>", end)
        if at < 0:
            self._unclosed_math = True
            return self.leave_out(start, end, "math")
        return self.leave_out(start, at + len("</math>"), "math", self.options.math_placeholder or GONE)

    # brackets

    def _open_bracket(self, found: re.Match[str]) -> int:
        start, end = found.span()
        if found.lastindex == 3:
            return self._footnote(found)
        if found.lastindex or end - start == 2:
            return self.read_link(found)
        if self.source.startswith("*", end):
            self.open(_FOOTNOTE, start)
            return end + 1
        macro = _MACRO.match(self.source, start)
        if macro:
            return self._macro(macro)
        if self.opened[_FOOTNOTE]:
            self.open(_BRACKET, start)
        self.out.append("[")
        return end

    def _footnote(self, found: re.Match[str]) -> int:
        """A footnote without anything nested in it; where to read on."""
        if not self.options.keep_footnotes or self.opened[_FOOTNOTE]:
            return self.leave_out(*found.span(), "footnote")
        self.out.append(f"{FOOTNOTE_START}{found[3].partition(' ')[2]}{FOOTNOTE_END}")
        return found.end()

    def _macro(self, macro: re.Match[str]) -> int:
        name, start, end = macro[1].lower(), macro.start(), macro.end()
        if macro[0].endswith("("):
            if self._macro_end < end:
                at = self.source.find(")]", end)
                self._macro_end = at if at >= 0 else len(self.source)
            if self._macro_end == len(self.source):
                return self.leave_out(start, end, "macro")
            end = self._macro_end + 2
        if name == "br":
            return self.leave_out(start, end, "macro", LINE_BREAK)
        if name == "math":
            return self.leave_out(start, end, "math", self.options.math_placeholder or GONE)
        if name == "ruby" and (base := _RUBY.match(self.source, start)):
            return self.leave_out(start, end, "macro", base[1])
        return self.leave_out(start, end, "macro")

    def _close_bracket(self, found: re.Match[str]) -> int:
        start, end = found.span()
        top = self.stack[-1].kind if self.stack else ""
        if end - start == 2:
            if top == LINK:
                self.close_link(end)
                return end
            if top not in (_FOOTNOTE, _BRACKET):
                return end
            end = start + 1
        if top == _FOOTNOTE:
            self._close_footnote(end)
            return end
        if top == _BRACKET:
            self.close()
        self.out.append("]")
        return end

    def _close_footnote(self, end: int) -> None:
        frame = self.close()
        if len(self.stack) >= MAX_DEPTH:
            return
        if self.options.keep_footnotes and not self.opened[_FOOTNOTE]:
            note = "".join(self.out[frame.start :]).partition(" ")[2].replace("\n", " ")
            del self.out[frame.start :]
            self.out.append(f"{FOOTNOTE_START}{note}{FOOTNOTE_END}")
        else:
            self.replace(frame, end, "footnote")

    def _pipe(self, found: re.Match[str]) -> int:
        if self.stack and self.stack[-1].kind == LINK and not self.stack[-1].pipes:
            self.stack[-1].pipes.append(len(self.out))
        else:
            self.out.append("|")
        return found.end()

    # {{{ groups }}}

    def _open_group(self, found: re.Match[str]) -> int:
        start, end = found.span()
        head = _GROUP_HEAD.match(self.source, start)
        close = self._group_ends.get(start, -1)
        kind = (head[1] or "").lower() if head else ""
        if head and not kind:
            self.open(_GROUP, start)
            return head.end()
        if head and kind in ("wiki", "folding"):
            return self._open_block(head, close, kind)
        if close < 0:
            return head.end() if head else end
        if kind == "html":
            self.out.append(_HTML_TAG.sub("", self.source[head.end(1) if head else end : close]).strip())
            return close + 3
        content = self.source[end:close]
        if kind or "\n" in content:
            return self.leave_out(start, close + 3, "code")
        self.out.append(literal(content))
        return close + 3

    def _open_block(self, head: re.Match[str], close: int, kind: str) -> int:
        """A block whose first line holds a style or a title, which go; its body is markup like any other."""
        self.open(_GROUP, head.start())
        line_end = self._end_of_line(head.end())
        if kind == "wiki" and not self.source[max(head.end(1), line_end - 80) : line_end].rstrip().endswith('"'):
            style = _STYLE.match(self.source, head.end(1))  # the body begins on the same line
            return style.end() if style else head.end(1)
        body = head.end() if 0 <= close < line_end else line_end
        self.lost["folding_title"] += body - head.end(1)
        if self.source.startswith("\n", body):
            self.out.append(GONE)
        return body

    def _close_group(self, found: re.Match[str]) -> int:
        """Close the innermost group; links and footnotes opened within it and not closed are given up."""
        if self.opened[_GROUP]:
            self.give_up(LINK, _FOOTNOTE, _BRACKET)
            self.close()
        return found.end()

    # lines

    def _line_start(self, found: re.Match[str]) -> int:
        start, end = found.span()
        if found[0].startswith("\n##"):
            self.lost["comment"] += end - start
            return end
        if self.source.startswith("|", end):
            return self._table(start, end)
        if self.source.startswith("=", end):
            self.give_up(LINK, _FOOTNOTE, _BRACKET)
        else:
            self.give_up(LINK)
        self.out.append("\n")
        return end

    def _end_of_line(self, position: int) -> int:
        if position > self._line_end:
            at = self.source.find("\n", position)
            self._line_end = at if at >= 0 else len(self.source)
        return self._line_end

    def _table(self, line_start: int, start: int) -> int:
        """Rows from ``start`` on, where a pipe is; where to read on."""
        position = start
        rows: list[tuple[int, int]] = []
        while (row_end := self._row_end(position)) > 0:
            rows.append((position, row_end))
            following = _NEXT_ROW.match(self.source, row_end)
            if not following:
                break
            position = following.end()
        if not rows:
            if not self.source.startswith("||", start):  # a line that only starts with a pipe
                self.out.append(self.source[line_start : start + 1])
                return start + 1
            return self.leave_out(line_start, self._end_of_line(start), "table", "\n")
        kept = ""
        if self.options.keep_tables and self.depth < _MAX_TABLE_DEPTH:
            kept = "\n".join(filter(None, (self._row(*row) for row in rows)))
        end = rows[-1][1]
        self.leave_out(line_start, end, "table", f"\n\n{kept}\n" if kept else "\n\n")
        self.lost["table"] -= len(kept)
        return end

    def _row_end(self, start: int) -> int:
        """Behind the ``||`` that ends the row at ``start``, or -1; groups are jumped over, a blank line or heading ends it."""
        if start < self._rowless_until:
            return -1
        position = start + 2
        if not self.source.startswith("||", start):
            caption = _CAPTION.match(self.source, start)
            if not caption or "||" not in self.source[caption.end() : self._end_of_line(caption.end())]:
                return -1
            position = caption.end() + (2 if self.source.startswith("||", caption.end()) else 1)
        while mark := _ROW_MARK.search(self.source, position):
            if mark[0].startswith("{"):
                position = self._group_ends.get(mark.start(), mark.start()) + 3
            elif mark[0] == "\n":
                break
            else:
                return mark.end()
        self._rowless_until = mark.start() if mark else len(self.source)
        return -1

    def _row(self, start: int, end: int) -> str:
        cells: list[str] = []
        position = cell_start = start
        source = self.source
        caption = not source.startswith("||", start)
        while found := _CELL_MARK.search(source, position, end):
            position = found.end()
            if found[0] == "{{{":
                position = self._group_ends.get(found.start(), found.start()) + 3
            elif found[0] == "||" or not cells or (caption and len(cells) == 1):
                cells.append(source[cell_start : found.start()])
                cell_start = position
        texts = []
        for cell in cells:
            options = _CELL_OPTION.match(cell.lstrip())
            body = cell.lstrip()[options.end() if options else 0 :]
            texts.append(_Parser(body, self.options, Counter(), self.depth + 1).run().strip().replace("\n", " "))
        return " ".join(filter(None, texts))

    def abandon(self, frame: Frame) -> int:
        """A footnote goes up to the line's end; groups and brackets only lose their mark."""
        if frame.kind == _FOOTNOTE:
            return blank_until(self.out, frame.start, "\n")
        return self.abandon_link(frame) if frame.kind == LINK and frame.pipes else 0


def _group_ends(source: str) -> dict[int, int]:
    """Position of every ``{{{`` that is closed → position of its ``}}}``."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for mark in _GROUP_MARK.finditer(source):
        if mark[0] == "{{{":
            opened.append(mark.start())
        elif opened:
            ends[opened.pop()] = mark.start()
    return ends


def _inline(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Marks that do not nest and do not leave their line."""
    text = decode_entities(text)
    before = len(text)
    if "://" in text:
        text = URL.sub(GONE, text)
    lost["url"] += before - len(text)
    before = len(text)
    if "$" in text:
        text = _DOLLAR_MATH.sub(options.math_placeholder or GONE, text)
    lost["math"] += max(0, before - len(text))
    for mark in ("~~", "--"):
        if mark in text:
            before = len(text)
            text = _pairs(text, mark, keep=options.keep_strikethrough)
            lost["strikethrough"] += before - len(text)
    if "''" in text:
        text = text.replace("'''", "").replace("''", "")
    for mark in ("__", "^^", ",,"):
        if mark in text:
            text = _pairs(text, mark, keep=True)
    return text


def _pairs(text: str, mark: str, *, keep: bool) -> str:
    """Resolve marks that come in pairs on a line: drop the marks, and what is between them unless ``keep``."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        parts = line.split(mark)
        if len(parts) < 3 or not line.strip(f"{mark} \t>"):
            continue
        tail = f"{mark}{parts.pop()}" if len(parts) % 2 == 0 else ""
        lines[index] = "".join(parts if keep else (GONE.join(parts[::2]),)) + tail
    return "\n".join(lines)
