"""Whether two near-copies are about different subjects: two space probes, the men's and the women's race.

Names and numbers decide. Of a text are kept the hashes of its words, each as often as it occurs: numbers whole, words of Hangul
by their first two syllables, because particles follow; and those of the words of its title.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from korealbert.corpus.dedup.signatures import Compared, Hashes, PrefixHashes, begins_run

_STEM_SYLLABLES = 2
_OTHER_NUMBERS, _COMMON_NUMBERS = 3, 0.5
"""With so many different numbers on either side, and fewer in common than this share of all, texts have different subjects."""
_OFTENER = 2
"""A word of a title is of that subject alone if its text has it so many times as often as the other text."""

_DIGIT, _HANGUL, _LETTER = 1, 2, 3


def different_subjects(one: Compared, other: Compared) -> bool:
    """Whether two texts, near-copies otherwise, differ in most of their numbers, or each is about a word of its own title."""
    numbers, others = (each.words[(each.words & np.uint64(1) == 1) & begins_run(each.words)] for each in (one, other))
    common = len(np.intersect1d(numbers, others, assume_unique=True))
    fewest = min(len(numbers), len(others)) - common
    if fewest >= _OTHER_NUMBERS and common < _COMMON_NUMBERS * (len(numbers) + len(others) - common):
        return True
    return _has_its_own(one, other) and _has_its_own(other, one)


def _has_its_own(one: Compared, other: Compared) -> bool:
    """Whether a word of the title is not in the other's, and in the text much oftener than in the other."""
    names = np.setdiff1d(one.title, other.title, assume_unique=True)
    here, there = _occurrences(names, one.words), _occurrences(names, other.words)
    return bool(np.any((here > 0) & (here >= _OFTENER * there)))


def _occurrences(wanted: Hashes, words: Hashes) -> npt.NDArray[np.int64]:
    return np.searchsorted(words, wanted, side="right") - np.searchsorted(words, wanted, side="left")


def words(text: str) -> Hashes:
    """Sorted hashes of the stems of all words and numbers, as often as they occur; those of numbers are odd."""
    lowered = text.lower()
    kinds = _kinds()[np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)]
    edges = np.flatnonzero(np.diff(kinds, prepend=0, append=0))
    starts, widths = edges[:-1], np.diff(edges)
    kind = kinds[starts]
    widths = np.where(kind == _HANGUL, np.minimum(widths, _STEM_SYLLABLES), widths)
    word = kind > 0
    hashes = PrefixHashes(lowered).runs(starts[word], widths[word])
    return np.sort((hashes & ~np.uint64(1)) | (kind[word] == _DIGIT))


@lru_cache(maxsize=1)
def _kinds() -> npt.NDArray[np.uint8]:
    """uint8 [1114112]: what kind of word a code point belongs to; 0: none."""
    table = np.zeros(0x110000, dtype=np.uint8)
    characters = [chr(code) for code in range(0x40000)]
    table[:0x40000] = [_LETTER if one.isalpha() else _DIGIT if one.isdecimal() else 0 for one in characters]
    table[0xAC00:0xD7A4] = _HANGUL
    return table
