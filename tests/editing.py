"""Files that a test changes."""

from __future__ import annotations

from pathlib import Path


def edit(path: Path, old: str, new: str) -> Path:
    """Put ``new`` in place of the first ``old`` in a text file; returns its path."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path
