"""JSON objects that give no name twice. JSON leaves open which of two values counts, and Python silently takes the last."""

from __future__ import annotations

from collections import Counter
from typing import Any


class RepeatedName(ValueError):
    """An object that gives one name twice."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the field {name!r} is given twice")
        self.name = name


def unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs: the ``object_pairs_hook`` of every decoder that reads records. Raises RepeatedName."""
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise RepeatedName(next(name for name, count in counts.items() if count > 1))
    return record
