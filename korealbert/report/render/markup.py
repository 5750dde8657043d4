"""Escaped text, elements and style sheets for pages and drawings.

Plain strings are escaped when they are put into an element or a template; ``Markup`` is not.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from markupsafe import Markup

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML does not allow, not even as entities. Crawled text contains them."""


def escape(text: object) -> Markup:
    """Escape plain text; characters that XML forbids become U+FFFD. Markup is returned unchanged."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_NOT_IN_XML.sub("\ufffd", str(text)), quote=True))  # noqa: S704 - escaped


@cache
def style_sheet(*names: str) -> Markup:
    """Return the named style sheets of ``templates/`` as one: ``palette``, ``chart``, ``page``, ``items``."""
    sheets = [(files(__package__) / f"templates/{name}.css").read_text("utf-8") for name in names]
    return Markup("".join(f"\n{sheet}" for sheet in sheets))  # noqa: S704 - our own files


def join(*children: str) -> Markup:
    """Escape and concatenate the children."""
    return Markup("").join(escape(child) for child in children)


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element. ``class_`` is written as class, ``stroke_width`` as stroke-width; attributes of None are left out."""
    values = {key: number(value) if isinstance(value, int | float) else value for key, value in attributes.items()}
    pairs = ((key.rstrip("_").replace("_", "-"), escape(value)) for key, value in values.items() if value is not None)
    opening = Markup("").join(Markup(' {}="{}"').format(*pair) for pair in pairs)
    if name in _EMPTY and not children:
        return Markup("<{}{}/>").format(name, opening)
    return Markup("<{0}{1}>{2}</{0}>").format(name, opening, join(*children))


_EMPTY = frozenset({"circle", "line", "path", "rect"})
"""SVG elements without content."""


def number(value: float) -> str:
    """Format a coordinate with at most two decimals and no trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


COLOUR_OF_INIT = {"pretrained": 1, "random": 2}
"""Colour number (1, 2 or 3) of initial weights, the same in every drawing."""

WIDTH = 360
"""Default width of a drawing, in units that a page scales to its column."""
_FONT_SIZE = 12


@dataclass(frozen=True)
class Svg:
    """A drawing; ``label`` describes it for screen readers."""

    height: float
    label: str
    body: Markup
    width: float = WIDTH

    def inline(self) -> Markup:
        """Return the drawing for a page that has the style sheet."""
        return self._element(self.body)

    def standalone(self, title: str = "") -> Markup:
        """Return a complete file with the title above the drawing, in the reader's light or dark colours.

        Links lead to the report in the parent directory.
        """
        style = tag("style", style_sheet("palette", "chart"))
        lines = wrapped([f"{word} " for word in title.split()], self.width * 0.9)
        above = len(lines) * 17 + 9 if lines else 0
        heading = [text(0, 17 * number - above + 6, line, kind="title") for number, line in enumerate(lines)]
        ground = tag("rect", class_="ground", width=self.width + 24, height=self.height + 24 + above, x=-12, y=-12 - above)
        body = Markup(str(self.body).replace(' href="#', ' href="../report.html#'))  # noqa: S704 - escaped already
        return self._element(join(style, ground, *heading, body), xmlns="http://www.w3.org/2000/svg", margin=12, above=above)

    def _element(self, body: Markup, *, xmlns: str | None = None, margin: int = 0, above: int = 0) -> Markup:
        view = f"{-margin} {-margin - above} {self.width + 2 * margin:g} {self.height + 2 * margin + above:g}"
        # Screen readers would not announce links inside of an image.
        role = "group" if "<a " in body else "img"
        return tag("svg", body, xmlns=xmlns, viewBox=view, class_="chart", role=role, aria_label=self.label)


def text(x: float, y: float, content: str, *, kind: str = "", anchor: str | None = None, width: float = WIDTH) -> Markup:
    """Return a line of text at its baseline; text wider than ``width`` is cut and gets a tooltip."""
    shown = fitted(content, width)
    tooltip = () if shown == content else (tag("title", content),)
    return tag("text", *tooltip, shown, x=x, y=y, class_=kind or None, text_anchor=anchor)


def wrapped(parts: Sequence[str], width: float) -> list[str]:
    """Fill lines with the parts of a text; each part includes its trailing space."""
    lines: list[str] = []
    for part in parts:
        if lines and text_width((lines[-1] + part).rstrip()) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return [line.rstrip() for line in lines]


def fitted(content: str, width: float) -> str:
    """Cut text to ``width`` units, with an ellipsis at the end."""
    if text_width(content) <= width:
        return content
    while content and text_width(content + "…") > width:
        content = content[:-1]
    return content.rstrip() + "…"


def text_width(content: str) -> float:
    """Estimate the width in units: Hangul and Han are as wide as the font size, other letters a little over half."""
    ems = sum(0.0 if unicodedata.combining(c) else 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.56 for c in content)
    return ems * _FONT_SIZE
