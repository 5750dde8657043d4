"""Shingles of candidate documents on disk, a file per shard, read one document at a time.

Not by memory map: its pages would count as this process's own until something else needed them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from korealbert.artifact.files import atomic_path
from korealbert.corpus.dedup.shingles import Hashes


def write_shingles(directory: Path, index: int, items: Iterable[tuple[int, Hashes]]) -> None:
    """Write the shingles of a shard's documents, given by ordinal in order."""
    ordinals, ends, end = [], [], 0
    data, spans = _paths(directory, index)
    with atomic_path(data) as temporary, temporary.open("wb") as sink:
        for ordinal, hashes in items:
            sink.write(hashes.tobytes())
            end += len(hashes)
            ordinals.append(ordinal)
            ends.append(end)
    with atomic_path(spans) as temporary, temporary.open("wb") as sink:
        np.save(sink, np.array([ordinals, ends], dtype=np.int64))


class ShingleStore:
    """What ``write_shingles`` wrote for all shards, by rank. 16 bytes per candidate document are in memory."""

    def __init__(self, directory: Path, offsets: npt.NDArray[np.int64]) -> None:
        self._directory, self._offsets = directory, offsets
        self._spans = cache(self._read_spans)

    def _read_spans(self, shard: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        ordinals, ends = np.load(_paths(self._directory, shard)[1])
        return ordinals, np.concatenate(([0], ends))

    def _span(self, number: int) -> tuple[int, int, int]:
        shard = int(np.searchsorted(self._offsets, number, side="right")) - 1
        ordinals, bounds = self._spans(shard)
        index = int(np.searchsorted(ordinals, number - self._offsets[shard]))
        return shard, int(bounds[index]), int(bounds[index + 1])

    def length(self, number: int) -> int:
        """How many shingles the document of a number has."""
        _, start, end = self._span(number)
        return end - start

    def shingles(self, number: int) -> Hashes:
        """Sorted distinct shingles of the document of a number."""
        shard, start, end = self._span(number)
        return np.fromfile(_paths(self._directory, shard)[0], dtype="<u8", count=end - start, offset=8 * start)


def _paths(directory: Path, index: int) -> tuple[Path, Path]:
    return directory / f"shingles-{index:05d}.bin", directory / f"shingles-{index:05d}.npy"
