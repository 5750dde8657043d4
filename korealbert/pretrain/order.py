"""Training order: which row and view comes at which position, as a pure function of seed and position.

Nothing is shuffled in memory and nothing but an offset needs to be stored: a Feistel network enciphers the position within the
epoch, and walks on while the result lies beyond the last row. 66 million rows take no more memory than ten.
"""

from __future__ import annotations

from hashlib import blake2b
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from korealbert.hashing import mix64

ROUNDS = 6
"""Four rounds make a Feistel network of good round functions a pseudo-random permutation (Luby and Rackoff); two to spare."""

Int64s = NDArray[np.int64]


def permute(positions: Int64s, size: int, *, seed: int, epoch: int) -> Int64s:
    """Map distinct positions in [0, size) to distinct rows in [0, size), in another order for every seed and epoch."""
    if positions.size and (positions.min() < 0 or positions.max() >= size):
        raise ValueError(f"positions must lie in [0, {size})")
    # A position is a place in a table as nearly square as can be, at most a line larger than ``size``.
    lines = isqrt(max(0, size - 1)) + 1
    width = -(-size // lines)
    keys = np.frombuffer(blake2b(f"order/{seed}/{epoch}".encode(), digest_size=8 * ROUNDS).digest(), "<u8")
    rows = _encipher(positions.astype(np.uint64), np.uint64(lines), np.uint64(width), keys)
    # The cipher permutes the table: walking its cycle from a valid position ends in one, nearly always at once.
    while (outside := np.flatnonzero(rows >= size)).size:
        rows[outside] = _encipher(rows[outside], np.uint64(lines), np.uint64(width), keys)
    return rows.astype(np.int64)


def _encipher(values: NDArray[np.uint64], lines: np.uint64, width: np.uint64, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    line, place = values // width, values % width
    for for_line, for_place in keys.reshape(-1, 2):
        line = (line + mix64(place ^ for_line) % lines) % lines
        place = (place + mix64(line ^ for_place) % width) % width
    return line * width + place


def rows_at(start: int, count: int, *, num_rows: int, num_views: int, seed: int) -> tuple[Int64s, Int64s]:
    """Views and rows of ``count`` sequences from position ``start`` of the whole training order.

    Every epoch visits each row once; epoch e reads view e mod ``num_views``, so that noise repeats as late as possible.
    """
    positions = np.arange(start, start + count, dtype=np.int64)
    epochs, offsets = np.divmod(positions, num_rows)
    rows = np.empty_like(positions)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        rows[here] = permute(offsets[here], num_rows, seed=seed, epoch=int(epoch))
    return epochs % num_views, rows
