"""Ids of the examples of one official file. One that stands there twice tells that a part of the file does."""

from __future__ import annotations

from korealbert.documents.benchmark_files import Line


class Identifiers:
    """The ids seen so far, and where."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    def once(self, written: str, *, line: Line, field: str) -> str:
        """The id itself. Raises ValueError naming both lines when it was seen before."""
        if written in self._lines:
            before = self._lines[written]
            where = f"line {before.number}" if before.file == line.file else f"{before.file}, line {before.number}"
            remedy = "keep one of the two, or fetch the official file again"
            raise line.error(field, f"{written!r} stands in {where} too", remedy)
        self._lines[written] = line
        return written
