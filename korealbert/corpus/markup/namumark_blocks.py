"""The blocks of a NamuWiki document: formulas, comments, tables, ``{{{`` groups, and escapes, which may be in any of them.

Groups nest. The ends of all groups are found first, so that removed content (tables, code) is skipped. Groups that only style
their content lose their marks.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property

from korealbert.corpus.markup.formulas import formula
from korealbert.corpus.markup.layout import REMOVED, protect
from korealbert.corpus.readers.spec import WikiOptions
from korealbert.corpus.superscripts import script_mark

_MAX_TABLE_DEPTH = 4
"""Levels of tables within cells that ``keep_tables`` keeps."""

_LINE_START = r"\n(?:##[^\n]*|[ \t>]*+(?=\|))"
_LINE = re.compile(_LINE_START)
_BLOCK = re.compile(rf"\{{\{{\{{|\}}\}}\}}|\\|{_LINE_START}")
_GROUP_MARK = re.compile(r"\{\{\{|\}\}\}")
_GROUP_HEAD = re.compile(
    r"\{\{\{(?:#!([a-z]+)([^\n{}]*+)|[+-][1-5](?:[ ]|(?=\n))|\#[0-9a-z]+(?:,\#?[0-9a-z]+)?(?:[ ]|(?=\n)))", re.IGNORECASE
)
_HEADS = {"wiki": "style", "folding": "folding_title", "if": "condition"}
"""Kinds of groups whose content is markup → what their first line is counted as."""
_VALUE = r"""(?:[^\W\d]\w*|\d+|"[^"]*"|'[^']*')"""
_COMPARISON = re.compile(rf"(?P<one>{_VALUE})\s*(?P<operator>[!=]=)=?\s*(?P<other>{_VALUE})")
_ARGUMENT = re.compile(r"(?P<negated>!?)\s*(?!(?:true|false|null)\b)[^\W\d]\w*")
_LITERAL = re.compile(r"""true$|false$|[\d"']""")
_STYLED = re.compile(r"\{\{\{(?:[+-][1-5]|\#[0-9A-Za-z]+(?:,\#?[0-9A-Za-z]+)?) ([^{}|]*+)\}\}\}")
_STYLE = re.compile(
    r"(?:\s*+(?:(?:dark-)?style|class|lang|align|width|bgcolor)="
    r"(?:\"[^\"\n]*+\"|'[^'\n]*+'|&quot;(?>(?:(?!&quot;)[^\n])*)&quot;|[^\s\"'&{}]++(?=\s)))+\s*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[가-힣](?:다|요|죠|까)[.?!][\"'”’)]*[ \t]*$", re.MULTILINE)
_HANGUL = re.compile("[가-힣]")
_ROW_MARK = re.compile(r"\{\{\{|\|\|[ \t]*(?=\n|\Z)|\n(?=[ \t]*\n|={1,6}\#? )")
_NEXT_ROW = re.compile(r"[ \t]*\n[ \t>]*(?=\|\|)")
_CELL_MARK = re.compile(r"\{\{\{|\|\|?")
_CELL_OPTION = re.compile(r"(?:<[^<>\n]*+>)+")
_CELL_BREAK = re.compile(r"\n|\[br\]", re.IGNORECASE)
_CAPTION = re.compile(r"\|[^|\n]++(?=\|)")
_HTML_TAG = re.compile(r"<(style|script)\b[^<>]*>[^<]*</\1\s*>|<[^<>]*>", re.IGNORECASE)
_MATH_MARK = re.compile(r"\[math\(|<math>|\)\](?:\)\])?|</math>|\n[ \t]*(?=\n)", re.IGNORECASE)
_MATH_ENDS = {"[": ")", "<": "<"}


def resolve_blocks(source: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Return the source without blocks; brackets, inline marks and list marks stay. ``source`` begins with a line feed."""
    if "ath(" in source or ("<" in source and "ath>" in source) or "ATH" in source:
        source = _without_math(source, options, lost)
    nested = "\\" in source
    if "{{{" in source and not nested:
        unstyled = "".join(_STYLED.split(source))
        nested = "{{{" in unstyled  # perhaps of a literal group, in which nothing is markup
        source = source if nested else unstyled
    if nested or ("}" in source and "}}}" in source):
        return _Blocks(source, options, lost).run(_BLOCK)
    return _Blocks(source, options, lost).run(_LINE) if _LINE.search(source) else source


def _without_math(source: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Replace formulas, before all other blocks, because braces and backslashes have another meaning in them."""
    out: list[str] = []
    position, opened = 0, None
    for mark in _MATH_MARK.finditer(source):
        token = mark[0]
        if token[0] == "\n":
            opened = None
        elif token.startswith(("[", "<m", "<M")):
            opened = opened or mark
        elif opened and token[0] == _MATH_ENDS[opened[0][0]]:
            end = mark.end() - len(")]") if token[0] == ")" else mark.start()
            shown = formula(source[opened.end() : end], options)
            out += (source[position : opened.start()], shown or REMOVED)
            lost["math"] += mark.end() - opened.start() - len(shown)
            position, opened = mark.end(), None
    return "".join((*out, source[position:])) if position else source


def _holds(condition: str) -> bool:
    """Return whether readers of the article see what ``#!if`` encloses: arguments, which templates get, have no value there.

    What is no comparison of an argument is taken for true, so that no content is lost.
    """
    return any(all(map(_term_holds, terms.split("&&"))) for terms in condition.split("||"))


def _term_holds(term: str) -> bool:
    term = term.strip(" \t()")
    if term in ("false", "null", "!true"):
        return False
    if found := _COMPARISON.fullmatch(term):
        literals = [_LITERAL.match(found[side]) is not None for side in ("one", "other")]
        return all(literals) or any(literals) == (found["operator"] == "!=")
    argument = _ARGUMENT.fullmatch(term)
    return argument is None or argument["negated"] == "!"


def _is_prose(content: str) -> bool:
    """Return whether lines without markup are text, which is shown as it is written, rather than code or a drawing."""
    return _SENTENCE.search(content) is not None and 2 * len(_HANGUL.findall(content)) >= len("".join(content.split()))


class _Blocks:
    """Reads one document, or one table cell."""

    def __init__(self, source: str, options: WikiOptions, lost: Counter[str], depth: int = 0) -> None:
        self.source, self.options, self.lost, self.depth = source, options, lost, depth
        self._out: list[str] = []
        self._rowless_until = self._line_end = self._next_group = -1

    @cached_property
    def _group_ends(self) -> dict[int, int]:
        """Position of each closed ``{{{`` → position of its ``}}}``."""
        ends: dict[int, int] = {}
        opened: list[int] = []
        for mark in _GROUP_MARK.finditer(self.source):
            if mark[0] == "{{{":
                opened.append(mark.start())
            elif opened:
                ends[opened.pop()] = mark.start()
        return ends

    def run(self, marks: re.Pattern[str]) -> str:
        """Return the source without the blocks that ``marks`` finds."""
        source, out, search = self.source, self._out, marks.search
        position = 0
        while found := search(source, position):
            start, end = found.span()
            if start > position:
                out.append(source[position:start])
            match source[start]:
                case "\n":
                    position = self._line_start(start, end)
                case "{":
                    position = self._group(start, end)
                case "}":
                    position = end
                case _:
                    escaped = source[end : end + 1]
                    out.append(protect(escaped) if escaped != "\n" else "\\\n")
                    position = end + 1
        out.append(source[position:])
        return "".join(out)

    def _remove(self, start: int, end: int, construct: str, replacement: str = REMOVED) -> int:
        self.lost[construct] += end - start
        self._out.append(replacement)
        return end

    def _end_of_line(self, position: int) -> int:
        if position > self._line_end:
            at = self.source.find("\n", position)
            self._line_end = at if at >= 0 else len(self.source)
        return self._line_end

    # {{{ groups }}}

    def _group(self, start: int, end: int) -> int:
        """Read a group, or its first line if its content is markup; return the position after it."""
        head = _GROUP_HEAD.match(self.source, start)
        kind = (head[1] or "").lower() if head else ""
        if head and not kind:
            return head.end()
        close = self._group_ends.get(start, -1)
        if head and (kind in ("wiki", "folding") or (kind == "if" and _holds(head[2]))):
            return self._block_head(head, close, kind)
        if close < 0:  # NamuWiki prints it as it is written; its head says nothing to readers, unless it is HTML
            body = end if head is None else head.end(1) if kind == "html" else head.end()
            self.lost["condition" if kind == "if" else "code"] += body - (head.end(1) if head else end)
            return body
        content = self.source[end:close]
        if kind == "html":
            content = content[len("#!html") :]
            text = _HTML_TAG.sub(lambda tag: script_mark(tag[0]), content)
            self.lost["html"] += len(content) - len(text)
            self._out.append(text.strip())
            return close + 3
        if kind or ("\n" in content and not _is_prose(content)):
            return self._remove(start, close + 3, "condition" if kind == "if" else "code")
        self._out.append(protect(content))
        return close + 3

    def _block_head(self, head: re.Match[str], close: int, kind: str) -> int:
        """Read the first line of a group with a style, a title or a condition; return the position after it."""
        line_end = self._end_of_line(head.end())
        if kind == "wiki" and not self.source[max(head.end(1), line_end - 80) : line_end].rstrip().endswith('"'):
            style = _STYLE.match(self.source, head.end(1))  # the body begins on the same line
            body = style.end() if style else head.end(1)
        else:
            body = head.end() if 0 <= close < line_end else line_end
        self.lost[_HEADS[kind]] += body - head.end(1)
        if self.source.startswith("\n", body):
            self._out.append(REMOVED)
        return body

    # lines

    def _line_start(self, start: int, end: int) -> int:
        """Read a comment, or a line that begins with a pipe; return the position after it."""
        if not self.source.startswith("|", end):
            self.lost["comment"] += end - start
            return end
        rows = self._rows(end)
        if rows:
            return self._table(start, rows)
        if self.source.startswith("||", end):  # an unclosed row
            return self._remove(start, self._end_of_line(end), "table", "\n")
        self._out.append(self.source[start : end + 1])
        return end + 1

    def _table(self, start: int, rows: list[tuple[int, int]]) -> int:
        end = rows[-1][1]
        kept = ""
        if self.options.keep_tables and self.depth < _MAX_TABLE_DEPTH:
            kept = "\n".join(filter(None, (self._row(*row) for row in rows)))
        self._remove(start, end, "table", f"\n\n{kept}\n" if kept else "\n\n")
        self.lost["table"] -= len(kept)
        return end

    def _rows(self, position: int) -> list[tuple[int, int]]:
        """Return the spans of the rows of a table whose first pipe is at ``position``."""
        rows: list[tuple[int, int]] = []
        while (row_end := self._row_end(position)) > 0:
            rows.append((position, row_end))
            following = _NEXT_ROW.match(self.source, row_end)
            if not following:
                break
            position = following.end()
        return rows

    def _row_end(self, start: int) -> int:
        """Return the position after the ``||`` that ends the row at ``start``, or -1 if a blank line or heading comes first."""
        if start < self._rowless_until:
            return -1
        line_end = self._end_of_line(start)
        if self._next_group < start:
            at = self.source.find("{{{", start)
            self._next_group = at if at >= 0 else len(self.source)
        one_line = self._next_group > line_end > start + 3 and self.source.endswith("||", start + 2, line_end)
        if one_line and self.source.startswith("||", start):
            return line_end
        position = start + 2
        if not self.source.startswith("||", start):
            caption = _CAPTION.match(self.source, start)
            if not caption or "||" not in self.source[caption.end() : self._end_of_line(caption.end())]:
                return -1
            position = caption.end() + (2 if self.source.startswith("||", caption.end()) else 1)
        while mark := _ROW_MARK.search(self.source, position):
            if mark[0] == "{{{":
                position = self._group_ends.get(mark.start(), mark.start()) + 3
            elif mark[0] == "\n":
                break
            else:
                return mark.end()
        self._rowless_until = mark.start() if mark else len(self.source)
        return -1

    def _row(self, start: int, end: int) -> str:
        """Return the cells of a row with a space between them."""
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
        for cell in map(str.lstrip, cells):
            options = _CELL_OPTION.match(cell)
            body = cell[options.end() if options else 0 :]
            text = _Blocks(f"\n{body}", self.options, Counter(), self.depth + 1).run(_BLOCK)
            texts.append(_CELL_BREAK.sub(" ", text.strip()))
        return " ".join(filter(None, texts))
