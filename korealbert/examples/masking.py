"""Masked-word prediction: chooses the pieces to predict, and their replacements.

Words (or n-grams of words, or single pieces) are visited in random order and taken while they fit the budget of round(rate · n)
pieces; those that do not fit or overlap are skipped. All rows of a batch take their t-th visit together. Legend: R rows, N
pieces a row, U units of all rows, K pieces to predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from korealbert.artifact import Spec
from korealbert.examples.schema import pieces_per_row
from korealbert.examples.segments import Bools, Ints, Layout, before, flatten, ranges
from korealbert.philox import RowDraws, Stream, Words, below, happens
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, SPECIAL, WordTable


class MaskingSpec(Spec):
    """How many pieces are predicted, and in which units they are chosen."""

    later: ClassVar[frozenset[str]] = frozenset({"rate_from", "rate_views", "random_of"})

    unit: Literal["whole_word", "token"] = "whole_word"
    """Choose whole words (KoreALBERT) or single pieces."""
    ngram_max: int = Field(default=1, ge=1, le=5)
    """Largest number of units chosen together; n of them with probability ∝ 1/n (ALBERT: 3)."""
    rate: float = Field(default=0.15, gt=0.0, le=0.5)
    """Share of the ordinary pieces that is predicted. Held-out rows always use this one."""
    rate_from: float | None = Field(default=None, gt=0.0, le=0.5)
    """The share in the first view, from which it moves to ``rate`` view by view (mmBERT falls from 0.3 to 0.05)."""
    rate_views: int = Field(default=10, ge=2)
    """With ``rate_from``: number of the first view, counted from 1, that has ``rate``; all later ones have it too. It must be
    given if there are fewer views than 10."""
    max_predictions: int | None = Field(default=None, ge=1, le=2048)
    """Prediction slots per row; by default the highest rate times a full row (19 at L = 128, 76 at L = 512)."""
    mask_portion: float = Field(default=0.8, ge=0.0, le=1.0)
    """Share of the predicted pieces that is replaced by ``[MASK]``."""
    random_portion: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share that is replaced by a random ordinary piece; the rest stays unchanged."""
    random_of: Literal["rows", "pieces"] = "rows"
    """What such a piece is drawn from: all ``rows`` of the word table but the five special ones, or only the ``pieces`` that
    text can have. A source's tokenizer that is kept has further special pieces and rows without a piece; there the default
    is ``pieces``."""

    @model_validator(mode="after")
    def _portions_fit(self) -> MaskingSpec:
        if self.mask_portion + self.random_portion > 1.0:
            raise ValueError(
                f"mask_portion + random_portion = {self.mask_portion + self.random_portion} is more than 1; lower one of them"
            )
        if self.rate_from is None and self.rate_views != type(self).model_fields["rate_views"].default:
            raise ValueError(f"rate_views = {self.rate_views} has no meaning without rate_from; give that, or remove it")
        return self

    @property
    def highest_rate(self) -> float:
        """Return the highest share of any view."""
        return max(self.rate, self.rate_from or 0.0)

    def rate_in(self, view: int) -> float:
        """Return the share of pieces predicted in a view, counted from 0."""
        if self.rate_from is None or view >= self.rate_views - 1:
            return self.rate
        return self.rate_from + (self.rate - self.rate_from) * (view / (self.rate_views - 1))

    def slots(self, sequence_length: int) -> int:
        """Return P, the prediction slots per row."""
        return self.max_predictions or int(self.budget(np.array([pieces_per_row(sequence_length)]), self.highest_rate)[0])

    def budget(self, length: Ints, rate: float) -> Ints:
        """Return how many pieces to predict in rows of this length, at least one, before the limit of slots."""
        budget: Ints = np.maximum(np.rint(rate * length).astype(np.int64), 1)
        return budget


@dataclass(frozen=True)
class Masked:
    """The pieces to predict, flat and in order of row and place."""

    rows: Ints
    """[K]"""
    places: Ints
    """[K]"""
    replacement: Ints
    """[K]: the input ids there."""
    selected: Bools
    """[R, N]: whether the piece is predicted, masked or not."""
    ngrams: Ints
    """[ngram_max + 1]: number of chosen n-grams by n. Index 0 counts rows where no unit fits and part of one is predicted."""

    def visible_mask(self) -> Bools:
        """Return which input pieces are ``[MASK]``: bool [R, N]."""
        marks = np.zeros(self.selected.shape, dtype=np.bool_)
        masked = self.replacement == SPECIAL.mask
        marks[self.rows[masked], self.places[masked]] = True
        return marks


@dataclass(frozen=True)
class _Units:
    """The units of masking, words or single pieces, numbered over all rows. Places are flat: row · N + place."""

    begins: Ints
    """[U]: place of the first piece."""
    ends: Ints
    """[U]: place after the last piece."""
    first: Ints
    """[R]: number of the row's first unit."""
    count: Ints
    """[R]: units in the row."""
    middle: Ints
    """[R]: number of the second segment's first unit."""


@dataclass(frozen=True)
class _Ranges:
    """Disjoint ranges of flat places, in no order."""

    begins: Ints
    ends: Ints

    def mark(self, marks: Bools) -> None:
        """Mark all places in the ranges; ``marks`` [R, N]."""
        marks.reshape(-1)[ranges(self.begins, self.ends - self.begins)] = True


def mask(layout: Layout, words: WordTable, spec: MaskingSpec, draws: RowDraws, *, vocab_size: int, slots: int) -> Masked:
    """Choose the pieces to predict and their replacements, for R rows."""
    units = _find_units(layout, words, spec)
    budget = np.minimum(spec.budget(layout.length, spec.rate_in(draws.view)), slots)
    selected = np.zeros(layout.ids.shape, dtype=np.bool_)
    chosen, ngrams = _choose(units, budget, spec, draws)
    chosen.mark(selected)
    rows, places = flatten(selected)
    count = np.bincount(rows, minlength=len(budget))
    kind = draws.matrix(Stream.MASK_REPLACEMENT, slots)[before(count, slots)]
    masked = happens(kind, spec.mask_portion)
    replacement = np.where(masked, SPECIAL.mask, layout.ids[selected].astype(np.int64))
    random = np.flatnonzero(happens(kind, spec.mask_portion + spec.random_portion) & ~masked)
    piece = draws.block(Stream.MASK_PIECE, rows[random], block=places[random])[0]
    if spec.random_of == "pieces":
        assert words.ordinary is not None
        ordinary = np.flatnonzero(words.ordinary)
        replacement[random] = ordinary[below(piece, len(ordinary))]
    else:
        replacement[random] = FIRST_ORDINARY_ID + below(piece, vocab_size - FIRST_ORDINARY_ID)
    return Masked(rows, places, replacement, selected, ngrams)


def word_starts(layout: Layout, words: WordTable) -> Bools:
    """Return which pieces begin a word: bool [R, N]. The first of a segment or sentence always does: a chunk may begin
    inside a word."""
    return words.mark(layout.ids, layout.sentence_first) & layout.inside


def _find_units(layout: Layout, words: WordTable, spec: MaskingSpec) -> _Units:
    """Return the units of every row."""
    starts = layout.inside if spec.unit == "token" else word_starts(layout, words)
    begins = np.flatnonzero(starts)
    row_begins = np.arange(len(layout.length)) * layout.ids.shape[1]
    first = np.searchsorted(begins, row_begins)
    count = np.diff(first, append=len(begins))
    ends = np.append(begins[1:], 0)
    ends[(first + count - 1)[count > 0]] = (row_begins + layout.length)[count > 0]
    return _Units(begins, ends, first, count, np.searchsorted(begins, row_begins + layout.first))


def _choose(units: _Units, budget: Ints, spec: MaskingSpec, draws: RowDraws) -> tuple[_Ranges, Ints]:
    """Return the ranges of pieces to predict, and the number of n-grams by n."""
    shuffle = PartialShuffle(units.first, units.count, Turns(draws, Stream.MASK_ORDER))
    if spec.unit == "token" and spec.ngram_max == 1:
        # Every visited piece fits until the budget is spent.
        pieces = shuffle.draw_first(
            np.minimum(budget, units.count), draws.matrix(Stream.MASK_ORDER, int(budget.max(initial=0)))
        )
        return _Ranges(units.begins[pieces], units.ends[pieces]), np.array([0, pieces.size])
    sizes = Turns(draws, Stream.MASK_NGRAM)
    overlaps = range(spec.ngram_max if spec.ngram_max > 1 else 0)  # Single units are visited once and never overlap.
    taken = np.zeros(len(units.begins), dtype=np.bool_)
    left = budget.copy()
    active = np.flatnonzero(units.count)
    visited = [active[:0]], [active[:0]]  # First and last units of the chosen n-grams, visit by visit.
    for visit in range(int(units.count.max(initial=0))):
        unit, room = shuffle.draw(active, visit), left[active]
        last = unit
        if overlaps:
            wanted = unit + _ngram_sizes(spec.ngram_max, sizes.words(active, visit))
            last = _last_units(units, active, unit, wanted, room, spec.ngram_max)
        size = units.ends[last] - units.begins[unit]
        fits = size <= room
        for ahead in overlaps:
            fits &= ~(taken[np.minimum(unit + ahead, last)])
        room = room - size * fits
        left[active] = room
        unit, last = unit[fits], last[fits]
        for ahead in overlaps:
            taken[np.minimum(unit + ahead, last)] = True
        visited[0].append(unit)
        visited[1].append(last)
        active = active[(room > 0) & (units.count[active] > visit + 1)]
        if not active.size:
            break
    # If no word fits a row's budget (a few pieces of one long word), the beginning of the first visited word is predicted.
    none = np.flatnonzero((left == budget) & (units.count > 0))
    cut = units.begins[shuffle.numbers[units.first[none]]]
    firsts, lasts = (np.concatenate(side) for side in visited)
    ngrams = np.bincount(lasts - firsts + 1, minlength=spec.ngram_max + 1)
    ngrams[0] = len(none)
    begins, ends = np.append(units.begins[firsts], cut), np.append(units.ends[lasts], cut + budget[none])
    return _Ranges(begins, ends), ngrams


def _last_units(units: _Units, rows: Ints, unit: Ints, wanted: Ints, room: Ints, ngram_max: int) -> Ints:
    """Return the last units of n-grams that should end before ``wanted``.

    They stay within the segment of their first unit, and end earlier if they would exceed the remaining budget.
    """
    last = np.minimum(wanted, np.where(unit < units.middle[rows], units.middle[rows], (units.first + units.count)[rows])) - 1
    for _ in range(ngram_max - 1):
        too_long = units.ends[last] - units.begins[unit] > room
        last = np.where(too_long & (last > unit), last - 1, last)
    return last


def _ngram_sizes(ngram_max: int, words: Words) -> Ints:
    """Draw sizes of n-grams with p(n) = (1/n) / Σ 1/k."""
    weights = 1.0 / np.arange(1, ngram_max + 1)
    limits = (np.cumsum(weights) / weights.sum() * 2.0**32).astype(np.uint64)
    sizes: Ints = 1 + np.searchsorted(limits[:-1], words, side="right").astype(np.int64)
    return sizes


_LANES = 4
"""Words per counter: every computation of randomness serves at least this many turns."""
_COUNTERS_AHEAD = 2_048
"""Counters computed at once if rows are few: computing a few rows takes as long as hundreds."""


class Turns:
    """One random word for each row and turn, for loops in which all rows take their n-th turn together.

    Turns count from 0. A row may stop at any turn, but not come back.
    """

    def __init__(self, draws: RowDraws, stream: Stream) -> None:
        self._draws, self._stream = draws, stream
        self._first = 0
        self._words = np.empty((0, len(draws.ids)), dtype=np.uint64)

    def words(self, rows: Ints, turn: int) -> Words:
        """Return the words of some rows in this turn."""
        if turn - self._first == len(self._words):
            self._draw(rows, turn)
        words: Words = self._words[turn - self._first, rows]
        return words

    def _draw(self, rows: Ints, turn: int) -> None:
        """Compute the words of this turn and of some later ones."""
        blocks = turn // _LANES + np.arange(max(1, min(32, _COUNTERS_AHEAD // max(1, rows.size))), dtype=np.uint64)
        lanes = self._draws.block(self._stream, rows, block=blocks[:, None])
        self._first = turn
        self._words = np.empty((_LANES * len(blocks), len(self._draws.ids)), dtype=np.uint64)
        for lane, drawn in enumerate(lanes):
            self._words[lane::_LANES, rows] = drawn


class PartialShuffle:
    """A Fisher-Yates shuffle of each row's own range of numbers that stops when the row has enough."""

    def __init__(self, begins: Ints, counts: Ints, turns: Turns) -> None:
        """``begins`` and ``counts`` [R] are the first number and the size of each row's range."""
        self.numbers = np.arange(int(counts.sum()))
        """In each range the numbers drawn so far, in that order, then the rest."""
        self._begins, self._counts, self._turns = begins, counts, turns

    def draw(self, rows: Ints, turn: int) -> Ints:
        """Return the next number of some rows; ``turn`` is below their counts."""
        here = self._begins[rows] + turn
        return self._swap(here, here + below(self._turns.words(rows, turn), self._counts[rows] - turn))

    def draw_first(self, wanted: Ints, words: Words) -> Ints:
        """Return the first ``wanted`` [R] numbers of all rows, row by row; ``words`` [R, T] are those of each turn."""
        longest_first = np.argsort(-wanted, kind="stable")
        begins, words_TR = self._begins[longest_first], words[longest_first].T
        turns = np.arange(len(words_TR))
        ahead_TR = below(words_TR, np.maximum(self._counts[longest_first] - turns[:, None], 1))
        drawing = np.searchsorted(-wanted[longest_first], -turns)  # Rows that want a number in this turn.
        for turn, rows in enumerate(drawing):
            here = begins[:rows] + turn
            self._swap(here, here + ahead_TR[turn, :rows])
        return self.numbers[ranges(self._begins, wanted)]

    def _swap(self, here: Ints, there: Ints) -> Ints:
        drawn: Ints = self.numbers[there]
        self.numbers[there] = self.numbers[here]
        self.numbers[here] = drawn
        return drawn
