"""Where a seeded order of documents or sentences is cut, found without sorting it.

Every document (or sentence) has a 64-bit draw, and a part of the corpus is a range of draws. Draws are uniform, so a histogram
of their first bits tells in which of ``BINS`` intervals a border lies, and only that one is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BINS = 1 << 16
_SHIFT = np.uint64(48)

MEASURED = np.dtype([("draw", np.uint64), ("sentences", np.uint32)])
"""One document, or one sentence."""


class Border(NamedTuple):
    """The end of a part: all draws below ``draw`` are in it, and of the document at ``draw`` so many sentences."""

    draw: int
    sentences: int


WHOLE = 1 << 62
"""More sentences than a document has."""

START = Border(-1, 0)
"""The border before the first part."""


def sentences_behind(files: Sequence[Path], border: Border) -> int:
    """Sentences of all draws behind a border."""
    return sum(int(table["sentences"].sum(dtype=np.int64)) for table in _behind(files, border))


def find_border(files: Sequence[Path], *, after: Border, sentences: int, divisible: bool) -> Border:
    """The border of a part of so many ``sentences`` that begins behind ``after``.

    ``files`` hold arrays of ``MEASURED``. ``divisible``: the last document is cut, so that the part has exactly so many;
    otherwise, and where several documents have the id at which it would be cut, it has at most so many. There must be more
    than ``sentences`` behind ``after``.
    """
    histogram = np.zeros(BINS, dtype=np.int64)
    for table in _behind(files, after):
        np.add.at(histogram, (table["draw"] >> _SHIFT).astype(np.int64), table["sentences"].astype(np.int64))
    upto = np.cumsum(histogram)
    place = int(np.searchsorted(upto, sentences, side="right"))
    before = int(upto[place - 1]) if place else 0
    inside = [table[table["draw"] >> _SHIFT == np.uint64(place)] for table in _behind(files, after)]
    joined = np.concatenate(inside)
    draws, group = np.unique(joined["draw"], return_inverse=True)
    counts = np.bincount(group, joined["sentences"]).astype(np.int64)
    ends = before + np.cumsum(counts)
    last = int(np.searchsorted(ends, sentences, side="right"))
    rest = sentences - int(ends[last] - counts[last])
    alone = np.count_nonzero(joined["sentences"][group == last]) == 1
    return Border(int(draws[last]), rest) if divisible and alone and rest else Border(int(draws[last]) - 1, WHOLE)


def _behind(files: Sequence[Path], border: Border) -> Iterator[NDArray[np.void]]:
    for path in files:
        table = np.load(path, mmap_mode="r")
        yield table if border.draw < 0 else table[table["draw"] > np.uint64(border.draw)]
