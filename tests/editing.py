"""Editing text files in tests."""

from __future__ import annotations

from pathlib import Path


def edit(path: Path, old: str, new: str) -> Path:
    """Replace the first ``old`` in a text file by ``new``; returns the path."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path
