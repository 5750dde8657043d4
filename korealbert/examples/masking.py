"""Masked-word prediction: which pieces are to be predicted, and what replaces them.

Words (or n-grams of words, or single pieces) are visited in random order and taken while they fit the budget of
round(rate · n) pieces; what does not fit or overlaps is skipped. All rows of a batch take their t-th visit together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from korealbert.artifact import Spec
from korealbert.examples.schema import pieces_per_row
from korealbert.examples.segments import Bools, Ints, Layout, flatten
from korealbert.philox import RowDraws, Stream, below, happens
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, SPECIAL, WordTable


class MaskingSpec(Spec):
    """How many pieces are predicted, and in which units they are chosen."""

    unit: Literal["whole_word", "token"] = "whole_word"
    """Choose whole words (KoreALBERT) or single pieces."""
    ngram_max: int = Field(default=1, ge=1, le=5)
    """Units chosen together at most; n of them with probability ∝ 1/n (ALBERT: 3)."""
    rate: float = Field(default=0.15, gt=0.0, le=0.5)
    """Share of the ordinary pieces that is predicted."""
    max_predictions: int | None = Field(default=None, ge=1)
    """Prediction slots per row; by default what the rate asks for in a full row (19 at L = 128, 76 at L = 512)."""
    mask_portion: float = Field(default=0.8, ge=0.0, le=1.0)
    """Share of the predicted pieces that is replaced by ``[MASK]``."""
    random_portion: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share that is replaced by a random ordinary piece; what is left stays as it is."""

    @model_validator(mode="after")
    def _portions_fit(self) -> MaskingSpec:
        if self.mask_portion + self.random_portion > 1.0:
            raise ValueError(f"mask_portion + random_portion = {self.mask_portion + self.random_portion} is more than 1")
        return self

    def slots(self, sequence_length: int) -> int:
        """P, prediction slots per row."""
        return self.max_predictions or int(self.budget(np.array([pieces_per_row(sequence_length)]))[0])

    def budget(self, length: Ints) -> Ints:
        """Pieces to predict in rows of this many ordinary pieces, before the limit of slots; at least one."""
        budget: Ints = np.maximum(np.rint(self.rate * length).astype(np.int64), 1)
        return budget


@dataclass(frozen=True)
class Masked:
    """The pieces to predict, flat and in order of row and place."""

    rows: Ints
    places: Ints
    replacement: Ints
    """What the input holds there."""

    def visible_mask(self, shape: tuple[int, ...]) -> Bools:
        """bool [R, N]: it is ``[MASK]`` here."""
        marks = np.zeros(shape, dtype=np.bool_)
        marks[self.rows, self.places] = self.replacement == SPECIAL.mask
        return marks

    def selected(self, shape: tuple[int, ...]) -> Bools:
        """bool [R, N]: the piece is predicted, masked or not."""
        marks = np.zeros(shape, dtype=np.bool_)
        marks[self.rows, self.places] = True
        return marks


@dataclass(frozen=True)
class Units:
    """What is chosen as a whole: words, or single pieces."""

    begins: Ints
    """[R, U + 1]: first place of each unit; the row's length from the last one's end on."""
    count: Ints
    """[R]: units in the row."""
    first_segment: Ints
    """[R]: units in the first segment."""

    def pieces(self, rows: Ints, unit: Ints, end: Ints) -> Ints:
        """Pieces of the units ``unit`` to ``end`` (exclusive) of some rows."""
        return self.begins[rows, end] - self.begins[rows, unit]


def mask(layout: Layout, words: WordTable, spec: MaskingSpec, draws: RowDraws, *, vocab_size: int, slots: int) -> Masked:
    """Choose the pieces to predict and what replaces them, for R rows."""
    units = find_units(layout, words, spec)
    budget = np.minimum(spec.budget(layout.length), slots)
    rows, places = flatten(_choose(units, budget, spec, draws, layout.ids.shape[1]))
    # One block of four words per place: what replaces a piece does not depend on which others were chosen.
    kind, piece, *_ = draws.block(Stream.MASK_REPLACEMENT, rows, block=places)
    random = FIRST_ORDINARY_ID + below(piece, vocab_size - FIRST_ORDINARY_ID)
    kept = np.where(happens(kind, spec.mask_portion + spec.random_portion), random, layout.ids[rows, places])
    return Masked(rows, places, np.where(happens(kind, spec.mask_portion), SPECIAL.mask, kept))


def word_starts(layout: Layout, words: WordTable) -> Bools:
    """bool [R, N]: the piece begins a word. The first of a segment or sentence always does: a chunk may begin inside a word."""
    return words.mark(layout.ids, layout.sentence_first) & layout.inside


def find_units(layout: Layout, words: WordTable, spec: MaskingSpec) -> Units:
    """The units of every row."""
    starts = layout.inside if spec.unit == "token" else word_starts(layout, words)
    rows, places = flatten(starts)
    count = starts.sum(axis=1)
    begins = np.repeat(layout.length[:, None], int(count.max(initial=0)) + 1, axis=1)
    begins[rows, np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)] = places
    in_first = starts & (np.arange(starts.shape[1]) < layout.first[:, None])
    return Units(begins, count, in_first.sum(axis=1))


def _choose(units: Units, budget: Ints, spec: MaskingSpec, draws: RowDraws, width: int) -> Bools:
    """bool [R, N]: the pieces of the chosen units."""
    most = units.begins.shape[1] - 1
    order, sizes = _visiting_order(units, draws), _ngram_sizes(spec.ngram_max, most, draws)
    # Differences: +1 where a chosen stretch begins and -1 where it ends; the running sum marks its pieces.
    edges = np.zeros((len(budget), width + 1), dtype=np.int8)
    taken = np.zeros((len(budget), most + spec.ngram_max), dtype=np.bool_)
    left = budget.copy()
    active = np.flatnonzero(units.count > 0)
    for visit in range(most):
        unit = order[active, visit]
        end = _ngram_ends(units, active, unit, unit + sizes[active, visit], left[active], spec.ngram_max)
        fits = units.pieces(active, unit, end) <= left[active]
        for ahead in range(spec.ngram_max):
            fits &= ~(taken[active, unit + ahead] & (unit + ahead < end))
        rows, unit, end = active[fits], unit[fits], end[fits]
        for ahead in range(spec.ngram_max):
            inside = unit + ahead < end
            taken[rows[inside], unit[inside] + ahead] = True
        edges[rows, units.begins[rows, unit]] += 1
        edges[rows, units.begins[rows, end]] -= 1
        left[rows] -= units.pieces(rows, unit, end)
        active = active[(left[active] > 0) & (units.count[active] > visit + 1)]
        if not active.size:
            break
    # A row in which no word fits the budget (a few pieces of one long word) predicts the beginning of the first one visited.
    none = np.flatnonzero((left == budget) & (units.count > 0))
    begin_place = units.begins[none, order[none, 0]]
    edges[none, begin_place] += 1
    edges[none, begin_place + budget[none]] -= 1
    chosen: Bools = np.cumsum(edges[:, :width], axis=1, dtype=np.int8) > 0
    return chosen


def _visiting_order(units: Units, draws: RowDraws) -> Ints:
    """[R, U]: the units of each row in random order, then what is none."""
    most = units.begins.shape[1] - 1
    keys = draws.matrix(Stream.MASK_ORDER, most)
    keys[np.arange(most) >= units.count[:, None]] = np.uint64(1 << 32)
    return np.argsort(keys, axis=1, kind="stable")


def _ngram_ends(units: Units, rows: Ints, unit: Ints, wanted: Ints, left: Ints, ngram_max: int) -> Ints:
    """Where n-grams end: within the segment of their first unit, and earlier if they exceed the budget that is left."""
    end = np.minimum(wanted, np.where(unit < units.first_segment[rows], units.first_segment[rows], units.count[rows]))
    for _ in range(ngram_max - 1):
        too_long = units.pieces(rows, unit, end) > left
        end = np.where(too_long & (end > unit + 1), end - 1, end)
    return end


def _ngram_sizes(ngram_max: int, columns: int, draws: RowDraws) -> npt.NDArray[np.int64]:
    """[R, columns] n-gram sizes with p(n) = (1/n) / Σ 1/k; ones where n-grams are off, which draws nothing."""
    if ngram_max == 1:
        return np.broadcast_to(np.int64(1), (len(draws.ids), columns))
    weights = 1.0 / np.arange(1, ngram_max + 1)
    limits = (np.cumsum(weights) / weights.sum() * 2.0**32).astype(np.uint64)
    words = draws.matrix(Stream.MASK_NGRAM, columns)
    return 1 + np.searchsorted(limits[:-1], words, side="right").astype(np.int64)
