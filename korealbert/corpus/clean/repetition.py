"""How much of a text is n-grams of words that come again: the measures of Gopher's repetition filters.

Rae et al. 2021, "Scaling Language Models" (arXiv 2112.11446), table A1. Words are numbers, n-grams 64-bit hashes, so
that a text costs a few sorts of an array.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MOST_FREQUENT_LOOKED_AT = 20
"""Of equally frequent n-grams, how many are measured for the longest."""


def ngram_hashes(word_ids: npt.NDArray[np.uint64], n: int) -> npt.NDArray[np.uint64]:
    """uint64 [words - n + 1]: equal n-grams have equal values; different ones collide with a chance of about 2^-64."""
    count = len(word_ids) - n + 1
    mixed = (word_ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(n):
        hashes = (hashes ^ mixed[offset : offset + count]) * np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(32)
    return hashes


def top_ngram_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Characters in all occurrences of the n-gram that occurs most often (at least twice; of several, the longest)."""
    hashes = ngram_hashes(word_ids, n)
    ordered = np.sort(hashes)
    edges = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True])))
    counts = np.diff(edges)
    top = int(counts.max())
    if top < 2:
        return 0
    ends = np.cumsum(lengths)
    widths = ends[n - 1 :] - ends[: len(hashes)] + lengths[: len(hashes)]
    most_frequent = ordered[edges[:-1][counts == top]]
    return top * max(int(widths[np.argmax(hashes == one)]) for one in most_frequent[:MOST_FREQUENT_LOOKED_AT])


def duplicate_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Characters of the words covered by n-grams that occurred before."""
    hashes = ngram_hashes(word_ids, n)
    order = np.argsort(hashes, kind="stable")
    again = hashes[order[1:]] == hashes[order[:-1]]
    if not again.any():
        return 0
    repeated = np.zeros(len(hashes), dtype=bool)
    repeated[order[1:][again]] = True
    edges = np.zeros(len(word_ids) + 1, dtype=np.int64)
    edges[: len(hashes)] += repeated
    edges[n : n + len(hashes)] -= repeated
    return int(lengths[np.cumsum(edges[:-1]) > 0].sum())
