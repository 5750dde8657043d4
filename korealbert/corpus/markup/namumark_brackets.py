"""The brackets of a NamuWiki document: ``[[links]]``, ``[* footnotes]``, ``[macros]``, and ordinary brackets.

Brackets without others in them are resolved at once in the whole document, a few times, so that nested ones become plain. The
rest (unclosed brackets, or deeper nesting) is read by tokens with a stack.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from korealbert.corpus.markup.formulas import formula
from korealbert.corpus.markup.frames import LINK, MAX_DEPTH, Frame, NestedMarkup, Reader, blank_until, invisible_link
from korealbert.corpus.markup.layout import FOOTNOTE_END, FOOTNOTE_START, INVISIBLE_LINKS, LINE_BREAK, REMOVED, protect
from korealbert.corpus.markup.namumark_lines import LINK_END, LINK_START, LITERAL_CLOSE, LITERAL_OPEN, OUTSIDE, source_length
from korealbert.corpus.readers.spec import WikiOptions

_ROUNDS = 3
"""Levels of nesting that are resolved without a stack: a link in the label of a picture in a footnote."""

_FOOTNOTE, _BRACKET = "[*", "["
_SECOND = r"(?:(?<!\[\[{0})|(?<=\[\[\[{0})(?<!\[\[\[\[{0}))"
"""Looks behind an opening mark, which must have no bracket before it, or exactly two."""

_INNERMOST_LINK = re.compile(r"\[\[" + _SECOND.format(r"\[") + r"([^\[\]|\n]*+)(?:\|([^\[\]\n]*+))?\]\]")
_INNERMOST_FOOTNOTE = re.compile(r"\[\*" + _SECOND.format(r"\*") + r"([^\[\]\n]*+)\]")
_INNERMOST_BRACKET = re.compile(r"\[" + _SECOND.format("") + r"([^\[\]]*+)\]")
_HEADING = re.compile(r"\n={1,6}\#?[ ][^\n]*[ ]\#?=+[ \t]*(?=\n|\Z)")
_CITATION = re.compile(r"\s*#.*\Z|[\W_]*(?:\d{1,2}[\W_]*)?\Z")
"""The label of a link that cites a source: ``#``, ``#영상``, ``[1]``."""
_SOURCE = re.compile(r"[\[(]?(?:관련 ?)?(?:출처|기사|보도|원문|링크|영상|자료|아카이브)(?: ?\d{1,2})?[\])]?")
"""The label of a link that cites a source if it stands alone behind a sentence or in parentheses."""
_SOURCE_BEFORE = f'.?!()]"”’,:/·{REMOVED}'
_SOURCE_AFTER = re.compile(rf" *(?:[\n),/·\[{REMOVED}]|\Z)")
_MAX_SOURCES = 9
"""Links in a row that are read as sources."""
_SOURCE_LABEL_END = re.compile(rf":[ {REMOVED},;/·]*{REMOVED}[ ,;/·]*$", re.MULTILINE)
_SOURCE_LABEL = re.compile(
    rf"(?:^[ *>]*|(?<=[.?!] ))(?:관련 ?)?(?:출처|기사|원문|링크|영상|자료|참[고조])(?: ?(?:보기|링크|기사))?"
    rf" ?{_SOURCE_LABEL_END.pattern}",
    re.MULTILINE,
)
"""The label of sources that were removed, alone."""
_SOURCES = re.compile(rf"{REMOVED}(?:(?<=[.?!]{REMOVED})|(?<=[.?!] {REMOVED}))(?: *[,;/·] *{REMOVED})+")
"""Sources behind a sentence, and what separates them."""
_KEPT_NOTE = re.compile(f"{FOOTNOTE_START}[^{FOOTNOTE_START}{FOOTNOTE_END}]*{FOOTNOTE_END}")
_MACROS = frozenset(
    {
        *("include", "youtube", "kakaotv", "nicovideo", "navertv", "vimeo", "spotify", "jwplayer"),
        *("목차", "tableofcontents", "toc", "datetime", "date", "pagecount", "clearfix", "br"),
        *("age", "dday", "ruby", "anchor", "각주", "footnote", "math", "pagelist", "펼접", "html"),
        *("attachment", "wikicommons"),
    }
)
_TOKEN = re.compile(r"\[\[|\]\]|\[|\]|\||\n(?:(?=={1,6}\#?[ ][^\n]*[ ]\#?=+[ \t]*$)|[ \t]*(?=\n))", re.MULTILINE)


def resolve_brackets(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Resolve links, footnotes and macros; the text of links is between ``LINK_START`` and ``LINK_END``."""
    if "[" not in text and "]]" not in text:
        return text
    for _ in range(_ROUNDS):
        before = len(text)
        if "[[" in text:
            text = _links(text, lost)
        if "[" in text:
            text = _brackets(text, options, lost)
        if "[" not in text or len(text) == before:
            break
    if "[[" in text or "]]" in text or "[*" in text:
        text = _Unbalanced(text, options, lost).run()
    if _SOURCE_LABEL_END.search(text):
        text = _SOURCE_LABEL.sub(REMOVED, text)
    text = _SOURCES.sub(REMOVED, text)
    return text.replace(LITERAL_OPEN, "[").replace(LITERAL_CLOSE, "]")


def _links(text: str, lost: Counter[str]) -> str:
    parts = _INNERMOST_LINK.split(text)
    for index in range(1, len(parts), 3):
        target, label = parts[index], parts[index + 1]
        if ":" not in target and (label or (label is None and target and target[0] not in " /.#\0" and "#" not in target)):
            parts[index], parts[index + 1] = LINK_START, f"{label or target.rstrip()}{LINK_END}"
            continue
        cites = label and "://" in target and _cites(label, parts, index)
        parts[index], construct = ("", "link") if cites else _link_text(target, label)
        parts[index + 1] = ""
        if construct:
            parts[index] = REMOVED
            lost[construct] += source_length(target) + (0 if label is None else source_length(label) + 1) + 4
    return "".join(parts)


def _cites(label: str, parts: list[str], index: int) -> bool:
    """Return whether the link at ``index`` of the parts only says that its target is a source."""
    if not _SOURCE.fullmatch(label.strip()) or not _SOURCE_AFTER.match(_after_sources(parts, index)):
        return False
    before = parts[index - 1].rstrip(" ")
    if before or index == 1:
        return before[-1:] in tuple(_SOURCE_BEFORE)
    return parts[index - 3] == REMOVED  # another source


def _after_sources(parts: list[str], index: int) -> str:
    """Return the text after the link at ``index`` and the sources directly behind it."""
    for after in range(index + 2, min(index + 3 * _MAX_SOURCES, len(parts)), 3):
        following = parts[after + 2] if after + 2 < len(parts) else None
        if parts[after].strip(" ") or not following or not _SOURCE.fullmatch(following.strip()):
            break
    return parts[after]


def _link_text(target: str, label: str | None) -> tuple[str, str]:
    """Return the text of a link between its marks and "", or "" and its construct if it shows nothing."""
    leads_out = "://" in target
    if ":" in target:
        target = target.replace(REMOVED, "").strip()
        construct = invisible_link(target, INVISIBLE_LINKS)
        if construct:
            return "", construct
        if leads_out:
            label = target.partition(" ")[2] if label is None else label
            if _CITATION.match(label):
                return "", "link"
    if label is None:
        label = target.strip()
        if "#" in label:
            label = label.partition("#")[0]
        if label[:1] in (":", "/", "."):
            label = label.removeprefix(":").removeprefix("../").lstrip("/")
    return (f"{LINK_START}{OUTSIDE if leads_out else ''}{label}{LINK_END}", "") if label.strip("\0 \t\n") else ("", "link")


def _brackets(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    text = text.replace("[br]", LINE_BREAK)
    if not options.keep_footnotes and "[*" in text:
        parts = _INNERMOST_FOOTNOTE.split(text)
        if len(parts) > 1:
            lost["footnote"] += source_length("".join(parts[1::2])) + 3 * (len(parts) // 2)
            text = REMOVED.join(parts[::2])
            if "[" not in text:
                return text
    parts = _INNERMOST_BRACKET.split(text)
    for index in range(1, len(parts), 2):
        content = parts[index]
        if content.startswith("*"):
            parts[index] = _footnote(content, options, lost)
        elif (replacement := _macro(content, options, lost)) is not None:
            parts[index] = replacement
        else:
            parts[index] = f"{LITERAL_OPEN}{content}{LITERAL_CLOSE}"
    return "".join(parts)


def _footnote(content: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Return the replacement of a footnote ``[content]``; one with a heading in it is unclosed, and loses its line."""
    if "\n" in content and _HEADING.search(content):
        note, newline, rest = content.partition("\n")
        lost["footnote"] += source_length(note) + 1
        return f"{REMOVED}{newline}{rest}{LITERAL_CLOSE}"
    if not options.keep_footnotes:
        lost["footnote"] += source_length(content) + 2
        return REMOVED
    return _kept_note(content.partition(" ")[2])


def _kept_note(content: str) -> str:
    """Return the text of a footnote between its marks, on one line and without pipes of a link around it, followed by the
    footnotes that are in it."""
    own = _KEPT_NOTE.sub("", content).replace("\n", " ").replace(LINE_BREAK, " ").replace("|", protect("|"))
    return "".join([FOOTNOTE_START, own, FOOTNOTE_END, *_KEPT_NOTE.findall(content)])


def _macro(content: str, options: WikiOptions, lost: Counter[str]) -> str | None:
    """Return the replacement of ``[content]`` if it is a macro, or None."""
    name, _, arguments = content.partition("(")
    name = name.lower()
    if name not in _MACROS:
        return None
    if name == "br":
        return LINE_BREAK
    shown = arguments.removesuffix(")").partition(",")[0] if name == "ruby" else ""
    if name == "math":
        text = formula(arguments.removesuffix(")"), options)
        lost["math"] += source_length(content) + 2 - len(text)
        return text or REMOVED
    lost["macro"] += source_length(content) + 2 - len(shown)
    return shown or REMOVED


class _Unbalanced(NestedMarkup):
    """Reads unclosed and deeply nested brackets."""

    token = _TOKEN
    invisible_links = INVISIBLE_LINKS

    def readers(self) -> Mapping[str, Reader]:
        """Return the readers of tokens by their first character."""
        return {"[": self._open_bracket, "]": self._close_bracket, "\n": self._line_start, "|": self._pipe}

    def link_text(self, target: str, label: str | None) -> tuple[str, str]:
        """Return the same as for other links."""
        return _link_text(target, label)

    def _open_bracket(self, found: re.Match[str]) -> int:
        start, end = found.span()
        if end - start == 2:
            return self.open_link(found)
        if self.source.startswith("*", end):
            self.open(_FOOTNOTE, start)
            return end + 1
        if self.opened[_FOOTNOTE]:
            self.open(_BRACKET, start)
        self.out.append(LITERAL_OPEN)
        return end

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
        self.out.append(LITERAL_CLOSE)
        return end

    def _close_footnote(self, end: int) -> None:
        frame = self.close()
        if len(self.stack) >= MAX_DEPTH:
            return
        if self.options.keep_footnotes:
            self.out[frame.start :] = [_kept_note("".join(self.out[frame.start :]).partition(" ")[2])]
        else:
            self.replace_frame(frame, end, "footnote")

    def _pipe(self, found: re.Match[str]) -> int:
        if self.stack and self.stack[-1].kind == LINK and not self.stack[-1].pipes:
            self.stack[-1].pipes.append(len(self.out))
        else:
            self.out.append("|")
        return found.end()

    def _line_start(self, found: re.Match[str]) -> int:
        end = found.end()
        if self.source.startswith("=", end):
            self.give_up(LINK, _FOOTNOTE, _BRACKET)
        else:
            self.give_up(LINK)
        self.out.append("\n")
        return end

    def abandon(self, frame: Frame) -> int:
        """Remove an unclosed footnote up to the end of the line; keep brackets."""
        if frame.kind == _FOOTNOTE:
            return blank_until(self.out, frame.start, "\n")
        return self.abandon_link(frame) if frame.kind == LINK and frame.pipes else 0
