"""Nested facts as one level of dotted names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flat(nested: Any, *, exact: bool = False, prefix: str = "") -> dict[str, Any]:
    """``{"limits": {"min": 3}}`` as ``{"limits.min": 3}``.

    ``exact`` opens lists too (``paths.0``) and keeps empty mappings and lists as values: only equal values become equal.
    """
    opened: Mapping[Any, Any]
    if isinstance(nested, Mapping) and (nested or not exact):
        opened = nested
    elif exact and isinstance(nested, list) and nested:
        opened = dict(enumerate(nested))
    else:
        return {prefix: nested}
    parts = (flat(item, exact=exact, prefix=f"{prefix}.{key}".lstrip(".")) for key, item in opened.items())
    return {name: value for part in parts for name, value in part.items()}
