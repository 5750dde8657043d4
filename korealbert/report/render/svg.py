"""One drawing: 360 units wide, so that text keeps its size from a phone's column to half a desktop page.

Text stays text: whoever reads it has a Korean font, and where it is drawn none is needed.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from korealbert.report.render.markup import Markup, join, tag
from korealbert.report.render.style import CHART, PALETTE

WIDTH = 360
_FONT_SIZE = 12


@dataclass(frozen=True)
class Svg:
    """Elements on a canvas ``WIDTH`` wide; ``label`` says to those who cannot see it what it shows."""

    height: float
    label: str
    body: Markup

    def inline(self) -> Markup:
        """For a page that carries the style sheet."""
        return self._element(self.body)

    def standalone(self) -> Markup:
        """A file of its own, light or dark as its reader."""
        style = tag("style", Markup(PALETTE + CHART))
        ground = tag("rect", class_="ground", width=WIDTH + 24, height=self.height + 24, x=-12, y=-12)
        return self._element(join(style, ground, self.body), xmlns="http://www.w3.org/2000/svg", margin=12)

    def _element(self, body: Markup, *, xmlns: str | None = None, margin: int = 0) -> Markup:
        view = f"{-margin} {-margin} {WIDTH + 2 * margin} {self.height + 2 * margin:g}"
        return tag("svg", body, xmlns=xmlns, viewBox=view, class_="chart", role="img", aria_label=self.label)


def text(x: float, y: float, content: str, *, kind: str = "", anchor: str | None = None, width: float = WIDTH) -> Markup:
    """A line of text at its baseline; what does not fit into ``width`` is cut, and whole as a tooltip."""
    shown = fitted(content, width)
    tooltip = () if shown == content else (tag("title", content),)
    return tag("text", *tooltip, shown, x=x, y=y, class_=kind or None, text_anchor=anchor)


def fitted(content: str, width: float) -> str:
    """The text, or as much of it with an ellipsis as ``width`` units hold."""
    if text_width(content) <= width:
        return content
    while content and text_width(content + "…") > width:
        content = content[:-1]
    return content.rstrip() + "…"


def text_width(content: str) -> float:
    """Estimated width in units: Hangul and Han are as wide as high, other letters a little over half."""
    ems = sum(0.0 if unicodedata.combining(c) else 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.56 for c in content)
    return ems * _FONT_SIZE
