"""Renderings as one HTML file that needs nothing else; all text is escaped, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rich.text import Text

from korealbert.inspection.looks import CSS, STYLES
from korealbert.report.markup import Markup, escape, join, tag
from korealbert.report.style import PAGE, PALETTE


def page(title: str, items: Iterable[Text]) -> str:
    """The complete document."""
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        # Nothing in here may load or run anything, whatever a document holds.
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("title", title),
        tag("style", Markup(PALETTE + PAGE + CSS)),
    )
    body = tag("main", *(tag("p", markup(item), class_="item", lang="ko") for item in items))
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', tag('header', tag('h1', title)), body), lang='en')}\n"


def markup(text: Text) -> Markup:
    """A text with a class for each of its styles."""
    borders = sorted({0, len(text), *(edge for span in text.spans for edge in (span.start, span.end))})
    parts = []
    for start, end in pairwise(borders):
        names = [str(span.style) for span in text.spans if span.start <= start and end <= span.end]
        piece, classes = text.plain[start:end], " ".join(name for name in names if name in STYLES)
        parts.append(tag("span", piece, class_=classes) if classes else escape(piece))
    return join(*parts)
