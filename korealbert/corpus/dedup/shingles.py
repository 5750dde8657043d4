"""Texts reduced to letters and digits, and hashes of all their character windows: how duplicates and contamination are found.

Spacing and punctuation differ between copies of one Korean text more than anything else, so neither counts. Shingles of
candidate documents are kept on disk, a file per shard, and read one document at a time; not by memory map, whose pages would
count as this process's own until something else needed them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from korealbert.artifact.files import atomic_path
from korealbert.philox import hash64, mix64

Hashes = npt.NDArray[np.uint64]

SHINGLE_LETTERS = 5
"""Letters per shingle."""

_BASE = np.uint64(0x5851F42D4C957F2D)


def squeeze(text: str) -> str:
    """Only the letters and digits of a text, in lower case."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return codes[_letters_and_digits()[codes]].tobytes().decode("utf-32-le", "surrogatepass").lower()


def fingerprint(squeezed: str, text: str) -> int:
    """64-bit hash of a squeezed text; of a text without letters and digits its other characters count.

    Among 40 million different texts the chance of any two alike is about 4e-5.
    """
    return hash64(squeezed or "".join(text.split()))


def window_hashes(squeezed: str, width: int) -> Hashes:
    """uint64 [len - width + 1]: a hash of each run of ``width`` characters, equal for equal runs; empty for shorter texts.

    A polynomial modulo 2^64 over mixed code points, by prefix sums: linear in the length, whatever the width.
    """
    count = len(squeezed) - width + 1
    if count <= 0:
        return np.empty(0, dtype=np.uint64)
    codes = np.frombuffer(squeezed.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    powers, inverses = _powers(1 << (len(squeezed) - 1).bit_length())
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(_mix(codes.astype(np.uint64)) * powers[: len(codes)], out=sums[1:])
    return _mix((sums[width:] - sums[:-width]) * inverses[:count])


def shingles(squeezed: str) -> Hashes:
    """Sorted distinct hashes of the 5-letter shingles; empty for texts of fewer letters."""
    hashes = np.sort(window_hashes(squeezed, SHINGLE_LETTERS))  # np.unique takes ten times as long
    distinct: Hashes = hashes[begins_run(hashes)]
    return distinct


def begins_run(ordered: Hashes) -> npt.NDArray[np.bool_]:
    """bool [values]: which ones differ from the one before."""
    begins = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def jaccard(left: Hashes, right: Hashes) -> float:
    """Common shingles over all shingles of two sorted sets without repetition; 0 for two empty ones."""
    common = len(np.intersect1d(left, right, assume_unique=True))
    union = len(left) + len(right) - common
    return common / union if union else 0.0


def _mix(values: Hashes) -> Hashes:
    """One output of splitmix64 for each state."""
    return mix64(values + np.uint64(0x9E3779B97F4A7C15))


@lru_cache(maxsize=1)
def _letters_and_digits() -> npt.NDArray[np.bool_]:
    """bool [1114112]: which code points are letters or digits; a look-up is five times as fast as a regular expression.

    Unicode has none beyond plane 3.
    """
    table = np.zeros(sys.maxunicode + 1, dtype=bool)
    table[:0x40000] = [chr(code).isalnum() for code in range(0x40000)]
    return table


@lru_cache(maxsize=32)
def _powers(count: int) -> tuple[Hashes, Hashes]:
    """The base to the powers 0 … count - 1, and their inverses, modulo 2^64 (an odd base has one)."""
    inverse = np.uint64(pow(int(_BASE), -1, 1 << 64))
    both = []
    for factor in (_BASE, inverse):
        powers = np.full(count, factor, dtype=np.uint64)
        powers[0] = 1
        both.append(np.cumprod(powers, dtype=np.uint64))
    return both[0], both[1]


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
