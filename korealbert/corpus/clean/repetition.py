"""How much of a text is repeated: n-grams of its words, and units that stand several times in a row.

The n-gram functions take arrays over the words of a text: numbers or hashes of them, and their lengths in characters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MAX_TIED_NGRAMS = 20
"""The longest of the most frequent n-grams is looked for among this many equally frequent ones."""

_TIMES_IN_A_ROW, MIN_IN_A_ROW, _MAX_UNIT = 3, 30, 300
"""Words are spam that stand so often in a row and have so many letters together; longer units are not looked for."""


def ngram_bounds(word_hashes: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return upper bounds for the characters that n-grams cover.

    The first is the greatest sum of characters of all occurrences of one word: those of an n-gram have at most n times as many.
    The second counts the characters of words in runs of five and more that all occurred before: every word of a repeated
    n-gram is in one. Equal hashes of different words only make the bounds greater.
    """
    order = np.argsort(word_hashes)
    ordered = word_hashes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    most = int(np.add.reduceat(lengths[order], starts).max())
    new = np.append(np.sort(np.minimum.reduceat(order, starts)), len(lengths))  # first occurrences, and the end
    runs = np.flatnonzero(np.diff(new) > 5)
    ends = np.cumsum(lengths)
    return most, int((ends[new[runs + 1] - 1] - ends[new[runs]]).sum())


def top_ngram_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Count the characters of all occurrences of the most frequent n-gram (of several, the longest); 0 if none repeats."""
    hashes = _ngram_hashes(word_ids, n)
    ordered = np.sort(hashes)
    edges = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True])))
    counts = np.diff(edges)
    top = int(counts.max())
    if top < 2:
        return 0
    ends = np.cumsum(lengths)
    widths = ends[n - 1 :] - ends[: len(hashes)] + lengths[: len(hashes)]
    most_frequent = ordered[edges[:-1][counts == top]]
    return top * max(int(widths[np.argmax(hashes == one)]) for one in most_frequent[:_MAX_TIED_NGRAMS])


def duplicate_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Count the characters of the words that are covered by repetitions of earlier n-grams."""
    hashes = _ngram_hashes(word_ids, n)
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


def characters_in_a_row(codes: npt.NDArray[np.uint16]) -> int:
    """Return how many characters the longest part has that is one unit again and again."""
    hashes = _ngram_hashes(codes.astype(np.uint64), 4) if len(codes) >= MIN_IN_A_ROW else codes[:0]
    if len(hashes) - len(np.unique(hashes)) < MIN_IN_A_ROW // 2:  # Little is repeated, as in most texts.
        return 0
    longest = 0
    for unit in range(1, min(len(codes) // _TIMES_IN_A_ROW, _MAX_UNIT) + 1):
        different = np.flatnonzero(codes[unit:] != codes[:-unit])
        same = int(np.diff(different, prepend=-1, append=len(codes) - unit).max()) - 1
        if same >= (_TIMES_IN_A_ROW - 1) * unit:
            longest = max(longest, same + unit)
    return longest if longest >= MIN_IN_A_ROW else 0


def _ngram_hashes(word_ids: npt.NDArray[np.uint64], n: int) -> npt.NDArray[np.uint64]:
    """uint64 [words - n + 1]: a hash of each n-gram; two different ones are equal with a chance of about 2^-64."""
    count = len(word_ids) - n + 1
    mixed = (word_ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(n):
        hashes = (hashes ^ mixed[offset : offset + count]) * np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(32)
    return hashes
