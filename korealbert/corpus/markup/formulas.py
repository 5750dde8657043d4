r"""Formulas of TeX as plain text: ``\frac{a}{b}`` is a/b, ``\alpha`` is α."""

from __future__ import annotations

import re
from functools import lru_cache

from pylatexenc.latex2text import LatexNodes2Text

from korealbert.corpus.markup.layout import protect
from korealbert.corpus.readers.spec import WikiOptions

_LONGEST, _DEEPEST = 1_000, 20
"""Characters and nested braces above which a formula has no text."""

_PAIR = re.compile(r"([\[\]{}|'])(?=\1)")
"""Pairs of characters that would look like markup."""
_CONVERTER = LatexNodes2Text(math_mode="text", keep_comments=True, strict_latex_spaces=False)


def formula(source: str, options: WikiOptions) -> str:
    """Return the text of a formula as protected text on one line; may be empty."""
    placeholder = options.math_placeholder
    return protect(placeholder.replace("{formula}", _text(source)) if "{formula}" in placeholder else placeholder)


@lru_cache(maxsize=4096)
def _text(source: str) -> str:
    if len(source) > _LONGEST or _depth(source) > _DEEPEST:
        return ""
    text = " ".join(_CONVERTER.latex_to_text(source.replace("%", r"\%")).split())
    text = _PAIR.sub(r"\1 ", text)
    return text if len(text) <= len(source) else ""


def _depth(source: str) -> int:
    depth = deepest = 0
    for character in source:
        depth += (character in "{[(") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest
