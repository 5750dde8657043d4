"""Renderings as one HTML file that needs nothing else; all text is escaped, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rich.text import Text

from korealbert.inspection.looks import CSS, STYLES
from korealbert.report.render.markup import Markup, escape, join, tag
from korealbert.report.render.page import document
from korealbert.report.render.style import PAGE, PALETTE


def page(title: str, items: Iterable[Text]) -> str:
    """The complete document."""
    main = tag("main", *(tag("p", markup(item), class_="item", lang="ko") for item in items))
    return document(title, PALETTE + PAGE + CSS, tag("header", tag("h1", title)), main)


def markup(text: Text) -> Markup:
    """A text with a class for each of its styles."""
    borders = sorted({0, len(text), *(edge for span in text.spans for edge in (span.start, span.end))})
    parts = []
    for start, end in pairwise(borders):
        names = [str(span.style) for span in text.spans if span.start <= start and end <= span.end]
        piece, classes = text.plain[start:end], " ".join(name for name in names if name in STYLES)
        parts.append(tag("span", piece, class_=classes) if classes else escape(piece))
    return join(*parts)
