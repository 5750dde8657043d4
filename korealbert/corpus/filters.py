"""Quality filters: each is ``text -> None | Drop``, and the drop names its metric, the value and the limit.

They run on normalised text before sentence splitting. Short colloquial texts (reviews) want wider limits than newspapers.
Sources of the defaults:

- Gopher: Rae et al. 2021, "Scaling Language Models" (arXiv 2112.11446), table A1 and section A1.1.
- FineWeb: Penedo et al. 2024 (arXiv 2406.17557), section 3.6.
- 100 characters and a Hangul share of 0.3: this project's own choice, as are the news limits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import Field

from korealbert.artifact import Spec
from korealbert.documents import Drop

GOPHER_SYMBOL = re.compile(r"#|…|\.\.\.")
ENDS_IN_ELLIPSIS = re.compile(r"(?:…|\.\.\.)[\"'”’)\]]*$")
BULLETS = tuple("•●○■□◆◇▶▷▲△▪▫‣⁃-*·ㆍ※")

MOST_FREQUENT_LOOKED_AT = 20
"""Of equally frequent n-grams, how many are measured for the longest."""
WORDS_FOR_REPETITION = 50
"""Fewest words on which shares of repeated n-grams mean anything; Gopher keeps no shorter document at all."""


class Limits(Spec):
    """Limits of the filters. Shares are of the whole text, from 0 to 1: a least share of 0 or a greatest of 1 lets all pass."""

    min_characters: int = Field(default=100, ge=0)
    """Shorter texts are ``too_short``."""
    max_characters: int | None = Field(default=None, ge=1)
    """Longer texts are ``too_long``."""
    min_hangul_share: float = Field(default=0.3, ge=0, le=1)
    """Hangul among letters; less is ``not_korean``."""
    max_symbols_per_word: float = Field(default=0.1, ge=0)
    """``#`` and ellipses per word; more is ``symbols`` (Gopher). Chat and reviews have far more."""
    max_bullet_lines: float = Field(default=0.9, ge=0, le=1)
    """Share of lines that begin with a bullet; more is ``bullet_lines`` (Gopher)."""
    max_ellipsis_lines: float = Field(default=0.3, ge=0, le=1)
    """Share of lines that end in an ellipsis; more is ``ellipsis_lines`` (Gopher)."""
    max_short_lines: float = Field(default=1.0, ge=0, le=1)
    """Share of lines shorter than ``short_line_characters``; more is ``short_lines``. FineWeb: 0.67. Off: dialogue is
    language."""
    short_line_characters: int = Field(default=15, ge=1)
    """FineWeb takes 30 English characters, about 6 words; 6 Korean words without their spaces are about 15 to 20."""
    max_duplicate_lines: float = Field(default=0.3, ge=0, le=1)
    """Share of lines that repeat an earlier one; more is ``duplicate_lines`` (Gopher)."""
    max_duplicate_line_characters: float = Field(default=0.2, ge=0, le=1)
    """Share of characters in such lines; more is ``duplicate_lines`` (Gopher)."""
    max_top_ngrams: tuple[float, float, float] = (0.20, 0.18, 0.16)
    """Share of characters in the most frequent 2-, 3- and 4-gram of words; more is ``top_ngram`` (Gopher)."""
    max_duplicate_ngrams: tuple[float, float, float, float, float, float] = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)
    """Share of characters in 5- to 10-grams of words that occur before; more is ``duplicate_ngrams`` (Gopher)."""


def too_short(text: str, limits: Limits) -> Drop | None:
    """Fewer characters than the limit."""
    if len(text) < limits.min_characters:
        return Drop("too_short", f"{len(text)} characters < {limits.min_characters}")
    return None


def too_long(text: str, limits: Limits) -> Drop | None:
    """More characters than the limit."""
    if limits.max_characters is not None and len(text) > limits.max_characters:
        return Drop("too_long", f"{len(text)} characters > {limits.max_characters}")
    return None


def not_korean(text: str, limits: Limits) -> Drop | None:
    """Too little Hangul among the letters; a text without letters is not Korean either."""
    share = hangul_share(text)
    if share < limits.min_hangul_share:
        return Drop("not_korean", f"Hangul {share:.3f} of letters < {limits.min_hangul_share}")
    return None


def hangul_share(text: str) -> float:
    """Hangul syllables and letters among all letters of a text; 0 without letters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    letters = int(_letters()[np.minimum(codes, 0xFFFF)].sum())
    hangul = int(((codes >= 0xAC00) & (codes <= 0xD7A3)).sum() + ((codes >= 0x3131) & (codes <= 0x318E)).sum())
    return hangul / letters if letters else 0.0


@lru_cache(maxsize=1)
def _letters() -> npt.NDArray[np.bool_]:
    """bool [65536]: which characters of the basic plane are letters; the last one stands for all beyond it and is none."""
    return np.array([chr(code).isalpha() for code in range(0x10000)])


def symbols(text: str, limits: Limits) -> Drop | None:
    """Too many number signs and ellipses."""
    return _above("symbols", len(GOPHER_SYMBOL.findall(text)) / max(1, len(text.split())), limits.max_symbols_per_word)


def bullet_lines(text: str, limits: Limits) -> Drop | None:
    """Nothing but a list."""
    return _above("bullet_lines", _share_of_lines(text, lambda line: line.startswith(BULLETS)), limits.max_bullet_lines)


def ellipsis_lines(text: str, limits: Limits) -> Drop | None:
    """Teasers that break off."""
    share = _share_of_lines(text, lambda line: ENDS_IN_ELLIPSIS.search(line) is not None)
    return _above("ellipsis_lines", share, limits.max_ellipsis_lines)


def short_lines(text: str, limits: Limits) -> Drop | None:
    """Menus and tables that lost their cells."""
    share = _share_of_lines(text, lambda line: len(line) < limits.short_line_characters)
    return _above("short_lines", share, limits.max_short_lines)


def duplicate_lines(text: str, limits: Limits) -> Drop | None:
    """Lines that repeat earlier ones, by number and by characters."""
    lines = _lines(text)
    repeated = [line for line, count in Counter(lines).items() for _ in range(count - 1)]
    by_number = _above("duplicate_lines", len(repeated) / max(1, len(lines)), limits.max_duplicate_lines)
    share = sum(map(len, repeated)) / max(1, sum(map(len, lines)))
    return by_number or _above("duplicate_lines", share, limits.max_duplicate_line_characters, "characters ")


def repeated_ngrams(text: str, limits: Limits) -> Drop | None:
    """Runs of words that come again and again: the most frequent 2- to 4-grams, and all repeated 5- to 10-grams."""
    words = text.split()
    if len(words) < WORDS_FOR_REPETITION or min(*limits.max_top_ngrams, *limits.max_duplicate_ngrams) >= 1:
        return None
    numbers: dict[str, int] = {}
    word_ids = np.array([numbers.setdefault(word, len(numbers)) for word in words], dtype=np.uint64)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    total = int(lengths.sum())
    for n, limit in zip(range(2, 5), limits.max_top_ngrams):
        if found := _above("top_ngram", _top_ngram_characters(word_ids, lengths, n) / total, limit, f"{n}-gram "):
            return found
    for n, limit in zip(range(5, 11), limits.max_duplicate_ngrams):
        # The words that repeated n-grams cover shrink as n grows: most texts are done after one look.
        share = _duplicate_characters(word_ids, lengths, n) / total
        if found := _above("duplicate_ngrams", share, limit, f"{n}-grams "):
            return found
        if share <= min(limits.max_duplicate_ngrams):
            break
    return None


FILTERS: tuple[Callable[[str, Limits], Drop | None], ...] = (
    too_short,
    too_long,
    not_korean,
    symbols,
    bullet_lines,
    ellipsis_lines,
    short_lines,
    duplicate_lines,
    repeated_ngrams,
)
"""In the order in which they are asked: cheap ones first."""


def judge(text: str, limits: Limits) -> Drop | None:
    """The first filter's reason to drop a text, or None."""
    for one in FILTERS:
        if drop := one(text, limits):
            return drop
    return None


def _above(reason: str, value: float, limit: float, what: str = "") -> Drop | None:
    return Drop(reason, f"{what}{value:.3f} > {limit}") if value > limit else None


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _share_of_lines(text: str, holds: Callable[[str], bool]) -> float:
    lines = _lines(text)
    return sum(map(holds, lines)) / max(1, len(lines))


def _ngram_hashes(word_ids: npt.NDArray[np.uint64], n: int) -> npt.NDArray[np.uint64]:
    """uint64 [words - n + 1]: equal n-grams have equal values; different ones collide with a chance of about 2^-64."""
    count = len(word_ids) - n + 1
    mixed = (word_ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(n):
        hashes = (hashes ^ mixed[offset : offset + count]) * np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _top_ngram_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Characters in all occurrences of the n-gram that occurs most often (at least twice; of several, the longest)."""
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
    return top * max(int(widths[np.argmax(hashes == one)]) for one in most_frequent[:MOST_FREQUENT_LOOKED_AT])


def _duplicate_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Characters of the words covered by n-grams that occurred before."""
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
