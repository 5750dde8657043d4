"""Nested wiki markup: the text read so far, the constructs still open at its end, and which parts of the source are left out.

Both wiki parsers read by tokens. A construct that may hold others is a frame on a stack, whose content is text already when it
closes. Work is linear in the length of the source whatever is unbalanced in it: a frame's content is joined only in the outer
``MAX_DEPTH`` levels, and a frame that never closes loses its mark and at most its line.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from korealbert.corpus.markup.layout import GONE
from korealbert.corpus.readers.spec import WikiOptions

MAX_DEPTH = 64
"""Nesting beyond which constructs only lose their marks; MediaWiki itself expands templates 100 deep (40 until 2022)."""

LINK = "[["
"""The kind of frame that both markups have."""

Reader = Callable[[re.Match[str]], int]
"""Reads one token of the source; returns where to read on."""


@dataclass(slots=True)
class Frame:
    """An open construct."""

    kind: str
    start: int
    """Its content is ``out[start:]``."""
    source: int
    """Its beginning in the source."""
    lost_before: int
    """Characters left out before it."""
    braces: int
    """Those that opened it and are not closed yet; 0 where there are none to count."""
    pipes: list[int] = field(default_factory=list)
    """Beginnings of its arguments in ``out``, without the first."""


class NestedMarkup(ABC):
    """Reads the source of one page; the markup says what its tokens are and how each construct is read."""

    token: ClassVar[re.Pattern[str]]
    """Pattern of tokens that may begin, part or end a construct."""
    outermost: ClassVar[re.Pattern[str] | None] = None
    """The tokens that matter where no construct is open; None: all."""
    unseen_links: ClassVar[Mapping[str, str]]
    """Prefix of a labelled link that shows nothing in its place → the construct that it is."""

    def __init__(self, source: str, options: WikiOptions, lost: Counter[str]) -> None:
        self.source, self.options, self.lost = "\n" + source, options, lost
        self.out: list[str] = []
        self.stack: list[Frame] = []
        self.opened: Counter[str] = Counter()
        """Frames on the stack by kind."""
        self._lost_total = 0

    def run(self) -> str:
        """Text with lines as in the source, inline marks and list marks still in it."""
        source, out, stack, readers = self.source, self.out, self.stack, self.readers()
        inside, outside = self.token.search, (self.outermost or self.token).search
        position = 0
        while found := (inside if stack else outside)(source, position):
            start = found.start()
            if start > position:
                out.append(source[position:start])
            position = readers[source[start]](found)
        out.append(source[position:])
        self.flush(0)
        return "".join(out)

    @abstractmethod
    def readers(self) -> Mapping[str, Reader]:
        """The readers of tokens, by their first character."""

    @abstractmethod
    def link_text(self, target: str, label: str | None) -> tuple[str, str]:
        """Return the text of a link and an empty string, or an empty string and its construct if it shows nothing."""

    @abstractmethod
    def abandon(self, frame: Frame) -> int:
        """Give up a frame that was never closed; the index of ``out`` where untouched text continues."""

    def open(self, kind: str, start: int, braces: int = 0) -> None:
        """Open a frame for the construct that begins at ``start`` of the source."""
        self.opened[kind] += 1
        self.stack.append(Frame(kind, len(self.out), start, self._lost_total, braces))

    def close(self) -> Frame:
        """Take the innermost frame off the stack."""
        frame = self.stack.pop()
        self.opened[frame.kind] -= 1
        return frame

    def leave_out(self, start: int, end: int, construct: str, instead: str = GONE, *, kept: int = 0) -> int:
        """Put ``instead`` in the place of ``source[start:end]``, of which ``kept`` characters stay; where to read on."""
        characters = end - start - kept - self.source.count(GONE, start, end)
        self.lost[construct] += characters
        self._lost_total += characters
        self.out.append(instead)
        return end

    def replace(self, frame: Frame, end: int, construct: str, instead: str = GONE, *, kept: int = 0) -> None:
        """Put ``instead`` in the place of a frame that ends at ``end`` of the source; its content is counted already."""
        width = end - frame.source - self.source.count(GONE, frame.source, end)
        characters = max(0, width - kept - (self._lost_total - frame.lost_before))
        self.lost[construct] += characters
        self._lost_total += characters
        self.out[frame.start :] = [instead]

    def read_link(self, found: re.Match[str]) -> int:
        """A whole link without anything nested in it (target and label are the groups 1 and 2), or the mark that opens one."""
        start, end = found.span()
        if not found.lastindex:
            self.open(LINK, start)
            return end
        text, construct = self.link_text(found[1].replace(GONE, "").strip(), found[2])
        if construct:
            return self.leave_out(start, end, construct)
        self.out.append(text)
        return end

    def close_link(self, end: int) -> None:
        """Close the innermost frame, which is a link."""
        frame = self.close()
        if len(self.stack) >= MAX_DEPTH:
            return
        out, pipe = self.out, frame.pipes[0] if frame.pipes else None
        label = None if pipe is None else "".join(out[pipe:])
        text, construct = self.link_text("".join(out[frame.start : pipe]).replace(GONE, "").strip(), label)
        if construct:
            self.replace(frame, end, construct)
        else:
            out[frame.start :] = [text]

    def give_up(self, *kinds: str) -> None:
        """Give up the innermost frames, as far as they are of these kinds."""
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
        """Give up a link with a label: it loses its target, or its whole line if it would have shown nothing."""
        out, pipe = self.out, frame.pipes[0]
        target = "".join(out[frame.start : pipe])
        if unseen_link(target.strip(), self.unseen_links):
            return blank_until(out, frame.start, "\n")
        if "\n" in target.strip():
            return 0
        out[frame.start : pipe] = [""] * (pipe - frame.start)
        return pipe


def unseen_link(target: str, unseen_links: Mapping[str, str]) -> str:
    """The construct that a link is if it shows nothing in its place, else an empty string."""
    prefix, colon, _ = target.partition(":")
    return unseen_links.get(prefix.strip().lower().replace("_", " "), "") if colon else ""


def blank_until(out: list[str], start: int, mark: str) -> int:
    """Blank ``out[start:]`` up to ``mark``: a line feed, or two for the whole paragraph; the index where text continues."""
    for index in range(start, len(out)):
        part = out[index]
        at = part.find(mark)
        if at < 0 and len(mark) > 1 and part.endswith("\n") and index + 1 < len(out) and out[index + 1].startswith("\n"):
            at = len(part) - 1
        if at >= 0:
            out[index] = GONE + part[at:]
            return index
        out[index] = ""
    out.append(GONE)
    return len(out)
