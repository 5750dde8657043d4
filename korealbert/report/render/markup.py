"""HTML and SVG elements as strings in which plain text is always escaped.

Text becomes ``Markup`` only here: plain strings are escaped when they enter an element, Markup is not.
"""

from __future__ import annotations

import html
import re

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML document may hold, however written; text from a crawl has them."""


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Plain text as markup; what XML forbids becomes U+FFFD. Markup stays as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_NOT_IN_XML.sub("\ufffd", text), quote=True))


def join(*children: str) -> Markup:
    """The children one after the other."""
    return Markup("".join(escape(child) for child in children))


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """An element. ``class_`` names the attribute class, ``stroke_width`` is stroke-width; attributes of None are left out."""
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    opening = "".join(f' {key}="{escape(number(value) if isinstance(value, int | float) else value)}"' for key, value in pairs)
    if not children:
        return Markup(f"<{name}{opening}/>" if name in _EMPTY else f"<{name}{opening}></{name}>")
    return Markup(f"<{name}{opening}>{join(*children)}</{name}>")


_EMPTY = frozenset({"br", "circle", "hr", "line", "meta", "path", "rect", "wbr"})
"""Elements that have no content, of HTML and of SVG."""


def number(value: float) -> str:
    """A coordinate with at most two decimals, and no more than it needs."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
