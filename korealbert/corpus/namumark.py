"""NamuWiki markup (namumark) → text, by one tokenising pass over nested constructs.

Links, footnotes and ``{{{`` groups are frames on a stack whose content is text already when they close; what is removed whole
(tables, macros, code) is skipped by matched ends that are found once. Linear on unbalanced input; nothing raises.
"""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.layout import FOOTNOTE_END, FOOTNOTE_START, GONE, URL, WikiText, prepare
from korealbert.corpus.namumark_lines import LINE_BREAK, LINK_END, LINK_START, lay_out
from korealbert.corpus.sources import WikiOptions
from korealbert.corpus.wiki_literals import decode_entities, literal
from korealbert.corpus.wiki_names import CATEGORY_NAMESPACES, FILE_NAMESPACES

MAX_DEPTH = 64
"""Nesting beyond which links and footnotes only lose their marks, so that unbalanced input stays linear."""

_MAX_TABLE_DEPTH = 4
"""Tables within cells within tables that ``keep_tables`` follows."""

_LINK, _GROUP, _FOOTNOTE, _BRACKET = "[[", "{{{", "[*", "["

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


class _Frame:
    """An open construct; its content is ``out[start:]``. ``pipe`` is where a link's label starts, or -1."""

    __slots__ = ("kind", "lost_before", "pipe", "source", "start")

    def __init__(self, kind: str, start: int, source: int, lost_before: int) -> None:
        self.kind, self.start, self.source, self.lost_before = kind, start, source, lost_before
        self.pipe = -1


def extract_namumark(source: str, options: WikiOptions) -> WikiText:
    """The text of one document's source; empty for a redirect."""
    lost: Counter[str] = Counter()
    if _REDIRECT.match(source):
        return WikiText("", lost, redirect=True)
    text = _Parser(prepare(source), options, lost).run()
    return WikiText(lay_out(_inline(text, options, lost), options, lost), lost)


class _Parser:
    """Nested constructs of one document, or of one table cell."""

    def __init__(self, source: str, options: WikiOptions, lost: Counter[str], depth: int = 0) -> None:
        self.source, self.options, self.lost, self.depth = "\n" + source, options, lost, depth
        self.out: list[str] = []
        self.stack: list[_Frame] = []
        self._footnotes = 0
        self._lost_total = 0
        self._groups = 0
        self._macro_end = -1
        self._rowless_until = self._line_end = -1
        self._never_closed: set[str] = set()
        self._group_ends = _group_ends(self.source) if "{{{" in source else {}

    def run(self) -> str:
        """Text with lines as in the source, inline marks and list marks still in it."""
        source, out, search = self.source, self.out, _TOKEN.search
        position = 0
        while found := search(source, position):
            start, end = found.span()
            if start > position:
                out.append(source[position:start])
            mark = source[start]
            if found.lastindex:
                position = self._plain(found)
            elif mark == "[":
                position = self._open_bracket(start, end)
            elif mark == "]":
                position = self._close_bracket(start, end)
            elif mark == "\n":
                position = self._line_start(found[0], start, end)
            elif mark == "|":
                self._pipe()
                position = end
            elif mark == "{":
                position = self._open_group(start, end)
            elif mark == "}":
                self._close_group()
                position = end
            elif mark == "\\":
                out.append(literal(source[end : end + 1]) if source[end : end + 1] != "\n" else "\\\n")
                position = end + 1
            else:
                position = self._skip_to("</math>", start, end, "math")
        out.append(source[position:])
        self._flush(0)
        return "".join(out)

    def _plain(self, found: re.Match[str]) -> int:
        """A link or footnote without anything nested in it; where to read on."""
        start, end = found.span()
        if found[3] is not None:
            if not self.options.keep_footnotes or self._footnotes:
                return self._skip(start, end, "footnote")
            self.out.append(f"{FOOTNOTE_START}{found[3].partition(' ')[2]}{FOOTNOTE_END}")
            return end
        text, construct = _link_text(found[1].replace(GONE, "").strip(), found[2])
        if construct:
            return self._skip(start, end, construct)
        self.out.append(text)
        return end

    def _skip(self, start: int, end: int, construct: str, instead: str = GONE) -> int:
        """Leave ``source[start:end]`` out; where to read on."""
        self.lost[construct] += end - start
        self._lost_total += end - start
        self.out.append(instead)
        return end

    def _skip_to(self, closer: str, start: int, end: int, construct: str) -> int:
        at = -1 if closer in self._never_closed else self.source.find(closer, end)
        if at < 0:
            self._never_closed.add(closer)
            return self._skip(start, end, construct)
        return self._skip(start, at + len(closer), construct, self.options.math_placeholder or GONE)

    def _push(self, kind: str, start: int) -> None:
        self.stack.append(_Frame(kind, len(self.out), start, self._lost_total))

    def _remove(self, frame: _Frame, end: int, construct: str) -> None:
        del self.out[frame.start :]
        self.out.append(GONE)
        count = max(0, end - frame.source - (self._lost_total - frame.lost_before))
        self.lost[construct] += count
        self._lost_total += count

    # brackets

    def _open_bracket(self, start: int, end: int) -> int:
        if end - start == 2:
            self._push(_LINK, start)
            return end
        if self.source.startswith("*", end):
            self._push(_FOOTNOTE, start)
            self._footnotes += 1
            return end + 1
        macro = _MACRO.match(self.source, start)
        if macro:
            return self._macro(macro)
        if self._footnotes:
            self._push(_BRACKET, start)
        self.out.append("[")
        return end

    def _macro(self, macro: re.Match[str]) -> int:
        name, start, end = macro[1].lower(), macro.start(), macro.end()
        if macro[0].endswith("("):
            if self._macro_end < end:
                at = self.source.find(")]", end)
                self._macro_end = at if at >= 0 else len(self.source)
            if self._macro_end == len(self.source):
                return self._skip(start, end, "macro")
            end = self._macro_end + 2
        if name == "br":
            return self._skip(start, end, "macro", LINE_BREAK)
        if name == "math":
            return self._skip(start, end, "math", self.options.math_placeholder or GONE)
        if name == "ruby" and (base := _RUBY.match(self.source, start)):
            return self._skip(start, end, "macro", base[1])
        return self._skip(start, end, "macro")

    def _close_bracket(self, start: int, end: int) -> int:
        top = self.stack[-1].kind if self.stack else ""
        if end - start == 2:
            if top is _LINK:
                self._close_link(end)
                return end
            if top is not _FOOTNOTE and top is not _BRACKET:
                return end
            end = start + 1
        if top is _FOOTNOTE:
            self._close_footnote(end)
            return end
        if top is _BRACKET:
            self.stack.pop()
        self.out.append("]")
        return end

    def _close_footnote(self, end: int) -> None:
        frame = self.stack.pop()
        self._footnotes -= 1
        if len(self.stack) >= MAX_DEPTH:
            return
        if self.options.keep_footnotes and not self._footnotes:
            note = "".join(self.out[frame.start :]).partition(" ")[2].replace("\n", " ")
            del self.out[frame.start :]
            self.out.append(f"{FOOTNOTE_START}{note}{FOOTNOTE_END}")
        else:
            self._remove(frame, end, "footnote")

    def _pipe(self) -> None:
        if self.stack and self.stack[-1].kind is _LINK and self.stack[-1].pipe < 0:
            self.stack[-1].pipe = len(self.out)
        else:
            self.out.append("|")

    def _close_link(self, end: int) -> None:
        frame = self.stack.pop()
        if len(self.stack) >= MAX_DEPTH:
            return
        out, labelled = self.out, frame.pipe >= 0
        target = "".join(out[frame.start : frame.pipe if labelled else None]).replace(GONE, "").strip()
        text, construct = _link_text(target, "".join(out[frame.pipe :]) if labelled else None)
        if construct:
            self._remove(frame, end, construct)
            return
        del out[frame.start :]
        out.append(text)

    # {{{ groups }}}

    def _open_group(self, start: int, end: int) -> int:
        head = _GROUP_HEAD.match(self.source, start)
        close = self._group_ends.get(start, -1)
        kind = (head[1] or "").lower() if head else ""
        if head and not kind:
            self._groups += 1
            self._push(_GROUP, start)
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
            return self._skip(start, close + 3, "code")
        self.out.append(literal(content))
        return close + 3

    def _open_block(self, head: re.Match[str], close: int, kind: str) -> int:
        """A block whose first line holds a style or a title, which go; its body is markup like any other."""
        self._groups += 1
        self._push(_GROUP, head.start())
        line_end = self._end_of_line(head.end())
        if kind == "wiki" and not self.source[max(head.end(1), line_end - 80) : line_end].rstrip().endswith('"'):
            style = _STYLE.match(self.source, head.end(1))  # the body begins on the same line
            return style.end() if style else head.end(1)
        body = head.end() if 0 <= close < line_end else line_end
        self.lost["folding_title"] += body - head.end(1)
        if self.source.startswith("\n", body):
            self.out.append(GONE)
        return body

    def _close_group(self) -> None:
        """Close the innermost group; links and footnotes opened within it and not closed are given up."""
        if not self._groups:
            return
        index = len(self.stack) - 1
        while self.stack[index].kind is not _GROUP:
            index -= 1
        self._flush(index + 1)
        self.stack.pop()
        self._groups -= 1

    # lines

    def _line_start(self, token: str, start: int, end: int) -> int:
        if token.startswith("\n##"):
            self.lost["comment"] += end - start
            return end
        if self.source.startswith("|", end):
            return self._table(start, end)
        if self.source.startswith("=", end):
            self._give_up(footnotes=True)
        else:
            self._give_up(footnotes=False)
        self.out.append("\n")
        return end

    def _end_of_line(self, position: int) -> int:
        if position > self._line_end:
            at = self.source.find("\n", position)
            self._line_end = at if at >= 0 else len(self.source)
        return self._line_end

    def _table(self, line_start: int, start: int) -> int:
        """Rows from ``start`` on, where a pipe stands; where to read on."""
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
            return self._skip(line_start, self._end_of_line(start), "table", "\n")
        kept = ""
        if self.options.keep_tables and self.depth < _MAX_TABLE_DEPTH:
            kept = "\n".join(filter(None, (self._row(*row) for row in rows)))
        end = rows[-1][1]
        self._skip(line_start, end, "table", f"\n\n{kept}\n" if kept else "\n\n")
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

    # what never closes

    def _give_up(self, *, footnotes: bool) -> None:
        """At a blank line give up open links, at a heading footnotes too, down to the innermost group."""
        keep = len(self.stack)
        while keep and self.stack[keep - 1].kind is not _GROUP and (footnotes or self.stack[keep - 1].kind is _LINK):
            keep -= 1
        self._flush(keep)

    def _flush(self, keep: int) -> None:
        """Give up the frames above ``keep``: a footnote or file loses its line, a link its target, all others their mark."""
        out = self.out
        done = 0
        for depth, frame in enumerate(self.stack[keep:], keep):
            self._footnotes -= frame.kind is _FOOTNOTE
            self._groups -= frame.kind is _GROUP
            if frame.start < done or depth >= MAX_DEPTH:
                continue
            if frame.kind is _FOOTNOTE:
                done = _blank_line(out, frame.start)
            elif frame.kind is _LINK and frame.pipe >= 0:
                target = "".join(out[frame.start : frame.pipe])
                if _unseen_link(target.strip()):
                    done = _blank_line(out, frame.start)
                elif "\n" not in target:
                    done = frame.pipe
                    out[frame.start : done] = [""] * (done - frame.start)
        del self.stack[keep:]


def _blank_line(out: list[str], start: int) -> int:
    """Blank ``out[start:]`` up to the end of its line; the index where text goes on."""
    for index in range(start, len(out)):
        at = out[index].find("\n")
        if at >= 0:
            out[index] = GONE + out[index][at:]
            return index
        out[index] = ""
    out.append(GONE)
    return len(out)


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


def _unseen_link(target: str) -> str:
    """The construct that a link is if it shows nothing in the text, else an empty string."""
    prefix, colon, _ = target.partition(":")
    name = prefix.strip().lower() if colon else ""
    return "file" if name in FILE_NAMESPACES else "category" if name in CATEGORY_NAMESPACES else ""


def _link_text(target: str, label: str | None) -> tuple[str, str]:
    """What a link shows and an empty string, or an empty string and the construct that it is because it shows nothing."""
    construct = _unseen_link(target)
    if construct:
        return "", construct
    if label is None:
        if "://" in target:
            label = target.partition(" ")[2]
        else:
            label = target.removeprefix(":").partition("#")[0].removeprefix("../").lstrip("/")
    return (f"{LINK_START}{label}{LINK_END}", "") if label.replace(GONE, "").strip() else ("", "link")


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
    """Resolve marks that come in pairs on a line: drop the marks, and what stands between them unless ``keep``."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        parts = line.split(mark)
        if len(parts) < 3 or not line.strip(f"{mark} \t>"):
            continue
        tail = f"{mark}{parts.pop()}" if len(parts) % 2 == 0 else ""
        lines[index] = "".join(parts if keep else (GONE.join(parts[::2]),)) + tail
    return "\n".join(lines)
