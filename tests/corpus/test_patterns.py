"""Patterns mean the same in every Python that the project supports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

POSSESSIVE_GROUP = re.compile(r"\(\?.*(?<!\\)\)([*+?]|\{[0-9,]+\})\+", re.DOTALL)
MAYBE_POSSESSIVE = re.compile(r"\)(?:[*+?]|\{[^\n]*\})\+")
"""Finds them in source code; most files have none, so that they need not be parsed."""


def test_no_group_is_repeated_possessively() -> None:
    """Before Python 3.11.5 such a group may match less than it should (python/cpython#106052); ``(?>(…)*)`` does not."""
    for path in Path(__file__).parents[2].joinpath("korealbert").rglob("*.py"):
        source = path.read_text("utf-8")
        if not MAYBE_POSSESSIVE.search(source):
            continue
        texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
        patterns = [str(text) for text in texts if isinstance(text, str | bytes)]
        assert not [pattern for pattern in patterns if POSSESSIVE_GROUP.search(pattern)], path
