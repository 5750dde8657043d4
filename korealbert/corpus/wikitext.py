"""MediaWiki wikitext → text, by one tokenising pass over nested constructs.

Links, templates and tables are frames on a stack; their content is already text when they close, and a frame that never closes
costs its opening mark and at most its line. Work is linear in the length of the source whatever is unbalanced in it: a frame's
content is joined only in the outer ``MAX_DEPTH`` levels. Nothing raises.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from korealbert.corpus.layout import GONE, LETTER, URL, Prose, WikiText, collapse_blanks, finish, prepare
from korealbert.corpus.sources import WikiOptions
from korealbert.corpus.wiki_elements import remove_elements, strip_tags
from korealbert.corpus.wiki_literals import decode_entities
from korealbert.corpus.wiki_names import CATEGORY_NAMESPACES, FILE_NAMESPACES, LANGUAGES, SISTER_PROJECTS
from korealbert.corpus.wiki_templates import DISAMBIGUATION, inline_text, is_inline, template_key

MAX_DEPTH = 64
"""Nesting beyond which constructs only lose their marks; MediaWiki itself expands templates 100 deep (40 until 2022)."""

_LINK, _BRACES, _TABLE = "[[", "{{", "{|"

_TOKEN = re.compile(
    r"\[\[([^\[\]{}|\n]*+)(?:\|([^\[\]{}|\n]*+))?+\]\]"  # most links and templates hold nothing nested: one token each
    r"|\{\{([^{}\[\]|]*+)((?:\|[^{}\[\]]*+)?+)\}\}(?!\})"
    r"|\[\[|\]\]|\{\{+|\}\}+|\|"
    r"|\n(?:[ \t:*#;\0]*\{\||[ \t\0]*\|\}?|(?==++[^\n]*=[ \t\0]*$)|[ \t]*(?=\n))",
    re.MULTILINE,
)
_NESTED = re.compile(
    r"\{\{+|\}\}+|\n(?:[ \t:*#;\0]*\{\||[ \t\0]*\|\}|(?==++[^\n]*=[ \t\0]*$))",
    re.MULTILINE,
)
_HEADING = re.compile(r"\n=++[^\n]*=[ \t\0]*$", re.MULTILINE)
_NAME = re.compile(r"[^|{}\[\]<\0]*+(?=[|{}])")
_REDIRECT = re.compile(r"\s*#(?:redirect|넘겨주기)\s*:?\s*\[\[", re.IGNORECASE)
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:|irc:|//)[^\s\[\]]*+([^\[\]\n]*+)\]", re.IGNORECASE)
_MAGIC_WORD = re.compile(r"__[A-Z가-힣]{2,24}__")
_VARIANT = re.compile(r"-\{([^{}]*)\}-")
_QUOTES = re.compile(r"'{2,}")


class _Frame:
    """An open construct. Its content is ``out[start:]``; each pipe is an index of ``out``."""

    __slots__ = ("braces", "kind", "lost_before", "pipes", "source", "start")

    def __init__(self, kind: str, start: int, source: int, lost_before: int, braces: int = 0) -> None:
        self.kind, self.start, self.source, self.lost_before, self.braces = kind, start, source, lost_before, braces
        self.pipes: list[int] = []


def extract_wikitext(source: str, options: WikiOptions) -> WikiText:
    """The text of one page's source; empty for a redirect."""
    lost: Counter[str] = Counter()
    if _REDIRECT.match(source):
        return WikiText("", lost, redirect=True)
    parser = _Parser(remove_elements(prepare(source), options, lost), options, lost)
    text = _inline(parser.run(), lost)
    return WikiText(_lines(text, options, lost), lost, disambiguation=parser.disambiguation)


def read_leftover_marks(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Read the links, templates and tags that another extractor left in a text; its lines stay as they are."""
    parser = _Parser(remove_elements(prepare(text), options, lost), options, lost)
    return finish(_inline(parser.run(), lost).replace(GONE, "").strip("\n"))


class _Parser:
    """Links, templates and tables of one page."""

    def __init__(self, source: str, options: WikiOptions, lost: Counter[str]) -> None:
        self.source, self.options, self.lost = "\n" + source, options, lost
        self.out: list[str] = []
        self.stack: list[_Frame] = []
        self.disambiguation = False
        self._endless_until = -1
        self._lost_total = 0
        self._tables = 0

    def run(self) -> str:
        """Text with lines as in the source, inline marks and list marks still in it."""
        source, out, search = self.source, self.out, _TOKEN.search
        position = 0
        while found := search(source, position):
            start, end = found.span()
            if start > position:
                out.append(source[position:start])
            position = end
            mark = source[start]
            if found.lastindex:
                if mark == "[":
                    self._link(found[1], found[2], end - start)
                else:
                    position = self._template(found)
            elif mark == "[":
                self._open(_LINK, start)
            elif mark == "]":
                self._close_link(end)
            elif mark == "{":
                position = self._open_braces(start, end)
            elif mark == "}":
                self._close_braces(end - start, end)
            elif mark == "|":
                self._pipe()
            else:
                position = self._line_start(found[0], start, end)
        out.append(source[position:])
        self._flush(0)
        return "".join(out)

    def _open(self, kind: str, start: int, braces: int = 0) -> None:
        self.stack.append(_Frame(kind, len(self.out), start, self._lost_total, braces))

    def _link(self, target: str, label: str | None, length: int) -> None:
        """A link without anything nested in it."""
        target = target.replace(GONE, "").strip()
        construct = _unseen_link(target, labelled=label is not None) if ":" in target else ""
        if construct:
            self.lost[construct] += length
            self._lost_total += length
            self.out.append(GONE)
        elif label is None:
            self.out.append(target.lstrip(":#"))
        else:
            self.out.append(label if label.strip() else _unqualified(target))

    def _template(self, found: re.Match[str]) -> int:
        """A template without anything nested in it; where to read on."""
        start, end = found.span()
        if "\n=" in found[0] and _HEADING.search(found[0]):
            self._open(_BRACES, start, 2)  # a heading between the braces: they are no pair
            return start + 2
        key = template_key(found[3].replace(GONE, ""))
        text = ""
        if is_inline(key, self.options.inline_templates):
            text = inline_text(key, found[4].split("|")[1:], self.options.inline_templates)
        elif key in DISAMBIGUATION:
            self.disambiguation = True
        self._leave_out(start, end, "template", text or GONE)
        return end

    def _leave_out(self, start: int, end: int, construct: str, instead: str) -> None:
        count = end - start - (0 if instead == GONE else len(instead))
        self.lost[construct] += count
        self._lost_total += count
        self.out.append(instead)

    def _open_braces(self, start: int, end: int) -> int:
        """Skip a template that shows nothing, or open a frame for one that may; where to read on."""
        if end - start == 2 and (name := _NAME.match(self.source, end)):
            key = template_key(name[0])
            if not is_inline(key, self.options.inline_templates) and (close := self._end_of(end, table=False)) > 0:
                self.disambiguation |= key in DISAMBIGUATION
                self._leave_out(start, close, "template", GONE)
                return close
        self._open(_BRACES, start, end - start)
        return end

    def _end_of(self, position: int, *, table: bool) -> int:
        """Where the table or template ends whose content begins at ``position``, or -1 if it does not before the next heading.

        Failed searches do not overlap: frames take care of everything up to where the last one gave up.
        """
        if position < self._endless_until:
            return -1
        source, opened = self.source, [0 if table else 2]  # 0 stands for a table, else braces not yet closed
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

    def _pipe(self) -> None:
        if self.stack and self.stack[-1].kind is not _TABLE:
            self.stack[-1].pipes.append(len(self.out))
        else:
            self.out.append("|")

    def _line_start(self, token: str, start: int, end: int) -> int:
        """A line that begins or ends a table, is a heading or a blank line, or starts with a pipe. Where to read on."""
        if token.endswith("{|"):
            self.out.append("\n")
            if not self.options.keep_tables and (close := self._end_of(end, table=True)) > 0:
                self._leave_out(start, close, "table", "\n")
                return close
            self._open(_TABLE, start)
            self._tables += 1
        elif token.endswith("|}"):
            return self._table_end(end)
        elif token.endswith("|"):
            if self.stack and self.stack[-1].kind is not _TABLE:
                self.out.append("\n")
                self._pipe()
            else:
                self.out.append(token)
        else:
            if self.source.startswith("=", end):
                self._flush_inline(heading=True)
            else:
                self._flush_inline(heading=False)
            self.out.append("\n")
        return end

    def _table_end(self, end: int) -> int:
        stack = self.stack
        if stack and stack[-1].kind is _BRACES and self.source.startswith("}", end):
            self.out.append("\n")
            self._pipe()
            return end - 1  # ``|}}`` ends a template with an empty last argument
        if not self._tables:
            self.out.append("\n")
            return end
        while stack[-1].kind is not _TABLE:
            stack.pop()
        frame = stack.pop()
        self._tables -= 1
        if len(stack) >= MAX_DEPTH:
            return end
        if self.options.keep_tables:
            text = linear_table("".join(self.out[frame.start :]))
            del self.out[frame.start :]
            self.out.append(f"{text}\n")
        else:
            self._remove(frame, end, "table", "\n")
        return end

    def _remove(self, frame: _Frame, end: int, construct: str, instead: str = GONE) -> None:
        del self.out[frame.start :]
        self.out.append(instead)
        self._count_lost(frame, end, construct, 0)

    def _count_lost(self, frame: _Frame, end: int, construct: str, kept: int) -> None:
        """Count a construct's characters but for those kept and those that constructs within it have counted."""
        count = max(0, end - frame.source - kept - (self._lost_total - frame.lost_before))
        self.lost[construct] += count
        self._lost_total += count

    def _close_link(self, end: int) -> None:
        if not self.stack or self.stack[-1].kind is not _LINK:
            return
        frame = self.stack.pop()
        if len(self.stack) >= MAX_DEPTH:
            return
        out, pipes = self.out, frame.pipes
        target = "".join(out[frame.start : pipes[0] if pipes else None]).replace(GONE, "").strip()
        construct = _unseen_link(target, labelled=bool(pipes))
        if construct:
            self._remove(frame, end, construct)
            return
        if pipes:
            label = "".join(out[pipes[0] :])
            if not label.strip():
                label = _unqualified(target)
        else:
            label = target.lstrip(":#")
        del out[frame.start :]
        out.append(label)

    def _close_braces(self, closing: int, end: int) -> None:
        while closing >= 2 and self.stack and self.stack[-1].kind is _BRACES:
            frame = self.stack[-1]
            used = 3 if closing >= 3 and frame.braces >= 3 else 2
            closing -= used
            if len(self.stack) <= MAX_DEPTH:
                self._evaluate(frame, end - closing, parameter=used == 3)
            frame.braces -= used
            frame.pipes.clear()
            if frame.braces < 2:
                self.stack.pop()

    def _evaluate(self, frame: _Frame, end: int, *, parameter: bool) -> None:
        out, pipes = self.out, frame.pipes
        key = template_key("".join(out[frame.start : pipes[0] if pipes else None]).replace(GONE, ""))
        if key in DISAMBIGUATION:
            self.disambiguation = True
        if parameter or not is_inline(key, self.options.inline_templates):
            self._remove(frame, end, "template")
            return
        bounds = [*pipes, len(out)]
        arguments = ["".join(out[a:b]) for a, b in pairwise(bounds)]
        text = inline_text(key, arguments, self.options.inline_templates)
        del out[frame.start :]
        out.append(text or GONE)
        self._count_lost(frame, end, "template", len(text))

    def _flush_inline(self, *, heading: bool) -> None:
        """Give up links at a paragraph's end, and templates too at a heading, down to the innermost table."""
        keep = len(self.stack)
        while keep and (self.stack[keep - 1].kind is _LINK or (heading and self.stack[keep - 1].kind is _BRACES)):
            keep -= 1
        self._flush(keep)

    def _flush(self, keep: int) -> None:
        """Give up the frames above ``keep``, outermost first: a table to the next blank line, others to the line's end."""
        out = self.out
        done = 0
        for depth, frame in enumerate(self.stack[keep:], keep):
            if frame.start < done or depth >= MAX_DEPTH:
                continue
            if frame.kind is _TABLE:
                done = _blank_until(out, frame.start, blank_line=True)
                self.lost["table"] += 1
            elif frame.kind is _BRACES:
                done = _blank_until(out, frame.start, blank_line=False)
            elif frame.pipes:
                target = "".join(out[frame.start : frame.pipes[0]]).strip()
                if _unseen_link(target, labelled=True):
                    done = _blank_until(out, frame.start, blank_line=False)
                elif "\n" not in target:
                    done = frame.pipes[0]
                    out[frame.start : done] = [""] * (done - frame.start)
        del self.stack[keep:]


def _blank_until(out: list[str], start: int, *, blank_line: bool) -> int:
    """Blank ``out[start:]`` up to the end of the line, or to the next blank line; the index where text goes on."""
    for index in range(start, len(out)):
        part = out[index]
        at = part.find("\n\n" if blank_line else "\n")
        if at < 0 and blank_line and part.endswith("\n") and index + 1 < len(out) and out[index + 1].startswith("\n"):
            at = len(part) - 1
        if at >= 0:
            out[index] = GONE + part[at:]
            return index
        out[index] = ""
    out.append(GONE)
    return len(out)


def _unseen_link(target: str, *, labelled: bool) -> str:
    """The construct that a link is if it shows nothing in the text, else an empty string."""
    prefix, colon, _ = target.partition(":")
    if not colon or not prefix:
        return ""
    name = prefix.strip().lower().replace("_", " ")
    if name in FILE_NAMESPACES:
        return "file"
    if name in CATEGORY_NAMESPACES:
        return "category"
    if name in LANGUAGES or (name in SISTER_PROJECTS and not labelled):
        return "interwiki"
    return ""


def _unqualified(target: str) -> str:
    """What the pipe trick shows: ``[[서울 (동음이의)|]]`` is 서울, ``[[분류:서울|]]`` too."""
    name = target.removeprefix(":")
    name = name.partition(":")[2].lstrip() or name
    for opening, closing in ("()", "（）"):
        if name.endswith(closing):
            name = name.rpartition(opening)[0].rstrip() or name
    return name


def linear_table(content: str) -> str:
    """A table's rows as lines, cells joined by a space; ``content`` is what stands between ``{|`` and ``|}``."""
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
            rows[-1][-1] += f" {row}"
    return "\n".join(" ".join(filter(None, row)) for row in rows if row)


def _cell(cell: str) -> str:
    attributes, pipe, text = cell.partition("|")
    return (text if pipe and "=" in attributes else cell).strip()


def _inline(text: str, lost: Counter[str]) -> str:
    """Tags, addresses, quotes and entities: marks that do not nest."""
    before = len(text)
    text = strip_tags(text)
    if "[" in text:
        text = _EXTERNAL.sub(lambda link: link[1].strip() or GONE, text)
    if "://" in text:
        text = URL.sub(GONE, text)
    if "__" in text:
        text = _MAGIC_WORD.sub(GONE, text)
    if "-{" in text:
        text = _VARIANT.sub(lambda variant: variant[1] or GONE, text)
    if "''" in text:
        if "''''" in text:
            text = _QUOTES.sub(lambda quotes: "'" if len(quotes[0]) == 4 else "", text)
        text = text.replace("'''", "").replace("''", "")
    text = text.replace("{|", GONE).replace("|}", GONE)
    lost["inline"] += before - len(text)
    return decode_entities(text)


def _lines(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Headings, lists and paragraphs."""
    prose = Prose(headings=options.headings, dropped_sections=options.dropped_sections, lost=lost)
    for source_line in text.split("\n"):
        line = source_line.strip()
        if not line:
            prose.paragraph_break()
            continue
        if GONE in line:
            line = line.replace(GONE, "").strip()
        line = prose.hold_footnotes(line)
        if not line:
            continue
        mark = line[0]
        if mark == "=" and line[-1] == "=":
            title = line.strip("=")
            if title:
                level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")))
                prose.heading(level, collapse_blanks(title).strip())
            continue
        if mark in "*#:;":
            line = line.lstrip("*#:; ")
        elif mark == "-" and line.startswith("----"):
            line = line.lstrip("-").lstrip()
        elif mark == "|":
            lost["table"] += len(line)
            continue
        if line and LETTER.search(line):
            prose.line(line)
        else:
            lost["line"] += len(line)
    return finish(prose.text())
