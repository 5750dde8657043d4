"""The parser of nested markup, by tokens, which both wikis use.

A construct that may contain others is a frame on a stack; its content is already text when it closes. A frame that never
closes loses its mark and at most its line. Work is linear in the length of any source, because the content of frames is joined
only in the outer ``MAX_DEPTH`` levels.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from korealbert.corpus.markup.layout import REMOVED
from korealbert.corpus.readers.spec import WikiOptions

MAX_DEPTH = 64
"""Constructs nested deeper only lose their marks. MediaWiki expands templates 100 deep (40 until 2022)."""

LINK = "[["
"""The kind of frame that both markups have."""

Reader = Callable[[re.Match[str]], int]
"""Reads one token of the source and returns the position after it."""


@dataclass(slots=True)
class Frame:
    """An open construct."""

    kind: str
    start: int
    """Its content is ``out[start:]``."""
    source: int
    """Its beginning in the source."""
    lost_before: int
    """Characters removed before it."""
    braces: int
    """Braces that opened it and are not closed yet; 0 for frames without braces."""
    pipes: list[int] = field(default_factory=list)
    """Beginnings of its arguments in ``out``, without the first."""


class NestedMarkup(ABC):
    """Reads the source of one page. Subclasses define the tokens and how constructs are read."""

    token: ClassVar[re.Pattern[str]]
    """Tokens that may begin, separate or end constructs."""
    invisible_links: ClassVar[Mapping[str, str]]
    """Prefix of a labelled link that shows nothing in its place → its construct."""

    def __init__(self, source: str, options: WikiOptions, lost: Counter[str]) -> None:
        self.source, self.options, self.lost = "\n" + source, options, lost
        self.out: list[str] = []
        self.stack: list[Frame] = []
        self.opened: Counter[str] = Counter()
        """Frames on the stack by kind."""
        self._lost_total = 0

    def run(self) -> str:
        """Return the text with the lines, inline marks and list marks of the source."""
        source, out, readers = self.source, self.out, self.readers()
        position = 0
        while found := self.token.search(source, position):
            start = found.start()
            if start > position:
                out.append(source[position:start])
            position = readers[source[start]](found)
        out.append(source[position:])
        self.flush(0)
        return "".join(out)

    @abstractmethod
    def readers(self) -> Mapping[str, Reader]:
        """Return the readers of tokens by their first character."""

    @abstractmethod
    def link_text(self, target: str, label: str | None) -> tuple[str, str]:
        """Return the text of a link and "", or "" and its construct if it shows nothing."""

    @abstractmethod
    def abandon(self, frame: Frame) -> int:
        """Remove the mark of a frame that never closes, or more; return the index of ``out`` after what was removed."""

    def open(self, kind: str, start: int, braces: int = 0) -> None:
        """Open a frame for the construct at ``start`` of the source."""
        self.opened[kind] += 1
        self.stack.append(Frame(kind, len(self.out), start, self._lost_total, braces))

    def close(self) -> Frame:
        """Take the innermost frame off the stack."""
        frame = self.stack.pop()
        self.opened[frame.kind] -= 1
        return frame

    def remove(self, start: int, end: int, construct: str, replacement: str = REMOVED, *, kept: int = 0) -> int:
        """Replace ``source[start:end]`` by ``replacement``, which has ``kept`` characters of it; return ``end``."""
        characters = end - start - kept - self.source.count(REMOVED, start, end)
        self.lost[construct] += characters
        self._lost_total += characters
        self.out.append(replacement)
        return end

    def replace_frame(self, frame: Frame, end: int, construct: str, replacement: str = REMOVED, *, kept: int = 0) -> None:
        """Replace a frame that ends at ``end`` of the source; removals within it are already counted."""
        width = end - frame.source - self.source.count(REMOVED, frame.source, end)
        characters = max(0, width - kept - (self._lost_total - frame.lost_before))
        self.lost[construct] += characters
        self._lost_total += characters
        self.out[frame.start :] = [replacement]

    def open_link(self, found: re.Match[str]) -> int:
        """Open a frame for a link."""
        self.open(LINK, found.start())
        return found.end()

    def close_link(self, end: int) -> None:
        """Close the innermost frame, which is a link."""
        frame = self.close()
        if len(self.stack) >= MAX_DEPTH:
            return
        out, pipe = self.out, frame.pipes[0] if frame.pipes else None
        label = None if pipe is None else "".join(out[pipe:])
        text, construct = self.link_text("".join(out[frame.start : pipe]).replace(REMOVED, "").strip(), label)
        if construct:
            self.replace_frame(frame, end, construct)
        else:
            out[frame.start :] = [text]

    def give_up(self, *kinds: str) -> None:
        """Give up the innermost frames of these kinds, up to the first of another kind."""
        keep = len(self.stack)
        while keep and self.stack[keep - 1].kind in kinds:
            keep -= 1
        self.flush(keep)

    def flush(self, keep: int) -> None:
        """Give up the frames above ``keep``, outermost first."""
        done = 0
        for depth, frame in enumerate(self.stack[keep:], keep):
            self.opened[frame.kind] -= 1
            if frame.start >= done and depth < MAX_DEPTH:
                done = max(done, self.abandon(frame))
        del self.stack[keep:]

    def abandon_link(self, frame: Frame) -> int:
        """Remove the target of a link with a label that never closes, or its line if the link would have shown nothing."""
        out, pipe = self.out, frame.pipes[0]
        target = "".join(out[frame.start : pipe])
        if invisible_link(target.strip(), self.invisible_links):
            return blank_until(out, frame.start, "\n")
        if "\n" in target.strip():
            return 0
        out[frame.start : pipe] = [""] * (pipe - frame.start)
        return pipe


def invisible_link(target: str, invisible_links: Mapping[str, str]) -> str:
    """Return the construct of a link that shows nothing in its place, or "" for other links."""
    prefix, colon, _ = target.partition(":")
    return invisible_links.get(prefix.strip().lower().replace("_", " "), "") if colon else ""


def blank_until(out: list[str], start: int, mark: str) -> int:
    """Blank ``out[start:]`` up to ``mark``, one line feed or two, and return the index after the blanked part."""
    for index in range(start, len(out)):
        part = out[index]
        at = part.find(mark)
        if at < 0 and len(mark) > 1 and part.endswith("\n") and index + 1 < len(out) and out[index + 1].startswith("\n"):
            at = len(part) - 1
        if at >= 0:
            out[index] = REMOVED + part[at:]
            return index
        out[index] = ""
    out.append(REMOVED)
    return len(out)
