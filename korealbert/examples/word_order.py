"""Word order prediction (KoreALBERT): move tokens about, and ask each moved one where it was.

Tokens move only within a run: a stretch of one sentence without a visible ``[MASK]``. Within a run the chosen tokens (or the
words of a window) are permuted so that none stays, uniformly among such permutations. Then the labels are made a function of
the input: where equal pieces changed places nothing moved, and equal pieces are numbered in the order of their origins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from korealbert.artifact import Spec
from korealbert.examples.masking import Masked, word_starts
from korealbert.examples.schema import pieces_per_row
from korealbert.examples.segments import Bools, Ints, Layout, flatten, ranks_in_row
from korealbert.philox import MAX_ATTEMPT, RowDraws, Stream, happens
from korealbert.vocab.tokenizer import WordTable


class WordOrderSpec(Spec):
    """How many tokens move, where, and in what units."""

    portion: float = Field(default=0.3, ge=0.0, le=1.0)
    """Share of rows (or of batches) with moved tokens; KoreALBERT found 0.3 to 0.5 best. 0 turns word order noise off."""
    rate: float = Field(default=0.15, gt=0.0, le=0.5)
    """Share of the ordinary pieces of such a row that is chosen to move at most; KoreALBERT: up to 0.15."""
    scope: Literal["example", "batch"] = "example"
    """Draw per row, or once for each batch that training gathers (all rows then carry moves, and a batch uses them or not)."""
    portion_ramp_views: int = Field(default=1, ge=1)
    """Views over which the portion rises to ``portion``: view v (from 0) has (v + 1) / ``portion_ramp_views`` of it at most."""
    amount: Literal["fixed", "dynamic", "ramp"] = "fixed"
    """Always ``rate``, for each row a rate uniform in 0..``rate``, or one that rises over the views."""
    ramp_views: int = Field(default=10, ge=1)
    """With ``amount = "ramp"``: view v (from 0) has the rate ``rate`` · (v + 1) / ``ramp_views``, at most ``rate``."""
    barrier: Literal["mask", "all_mlm"] = "mask"
    """No token moves across a visible ``[MASK]``, or across any predicted piece. Predicted pieces never move."""
    within: Literal["sentence", "segment"] = "sentence"
    """Tokens stay within their sentence, or only within their segment."""
    unit: Literal["token", "word"] = "token"
    """Move single tokens, or whole words within windows of consecutive words."""
    window_words: int = Field(default=4, ge=2, le=4)
    """Words of a window, with ``unit = "word"``."""
    top_up: bool = False
    """Give a chosen token that is alone in its run a partner there, instead of leaving it: at 0.15 about 14.5 % of the pieces
    move instead of 11.7 %."""

    def slots(self, sequence_length: int) -> int:
        """W, word-order slots per row; one where word order noise is off, because a column needs a width."""
        full = np.array([pieces_per_row(sequence_length)])
        return max(1, int(self.budget(full, self.rate)[0])) if self.portion else 1

    def portion_in(self, view: int) -> float:
        """Share of rows (or batches) with moved tokens in a view."""
        return self.portion * min(1.0, (view + 1) / self.portion_ramp_views)

    def rate_in(self, view: int) -> float:
        """Share of pieces that may move in a view; with ``amount = "dynamic"`` the most."""
        return self.rate * min(1.0, (view + 1) / self.ramp_views) if self.amount == "ramp" else self.rate

    def budget(self, length: Ints, rate: float | npt.NDArray[Any]) -> Ints:
        """Pieces that may move in rows of this many ordinary pieces: the floor of rate · n."""
        # 0.29 · 100 is 28.999999999999996 in floats; the floor meant is 29.
        budget: Ints = np.floor(rate * length + 1e-6).astype(np.int64)
        return budget


@dataclass(frozen=True)
class Moved:
    """Moved tokens, flat and in order of row and place: what is at ``places`` was at ``origins``."""

    rows: Ints
    places: Ints
    origins: Ints
    with_noise: Bools
    """[R]: the row was drawn to carry word order noise, whether or not a token could move."""


@dataclass(frozen=True)
class MoveInputs:
    """R rows as word order noise sees them."""

    layout: Layout
    draws: RowDraws
    selected: Bools
    """[R, N]: the piece is predicted; it never moves."""
    starts: Bools
    """[R, N]: the piece begins a word; anything where tokens move."""
    runs: Ints
    """[R, N]: number of the run that a piece is in, ascending along the row."""
    budget: Ints
    """[R]: pieces that may move."""


@dataclass(frozen=True)
class Items:
    """Tokens or words that change places within their group, sorted by group, then place."""

    group: Ints
    rows: Ints
    begin: Ints
    """First place of the item."""
    size: Ints
    """Pieces of the item (1 for tokens)."""


@dataclass(frozen=True)
class Permuted:
    """Single pieces after a permutation, by group, then place: what is at ``places`` was at ``origins``."""

    group: Ints
    rows: Ints
    places: Ints
    origins: Ints


def move(layout: Layout, masked: Masked, words: WordTable, spec: WordOrderSpec, draws: RowDraws) -> Moved:
    """Draw the word order noise of R rows, given what is masked in them."""
    lot, rate, *_ = draws.block(Stream.MOVE_ROW)
    with_noise = happens(lot, 1.0 if spec.scope == "batch" and spec.portion else spec.portion_in(draws.view))
    most = spec.rate_in(draws.view)
    rates = rate * 2.0**-32 * most if spec.amount == "dynamic" else np.full(len(rate), most)
    # Only words need to know where words begin.
    starts = word_starts(layout, words) if spec.unit == "word" else layout.sentence_first
    selected = masked.selected(layout.ids.shape)
    barrier = masked.visible_mask(layout.ids.shape) if spec.barrier == "mask" else selected
    if spec.unit == "word":
        barrier = barrier | _touched(selected, starts)
    budget = np.where(with_noise, spec.budget(layout.length, rates), 0)
    busy = np.flatnonzero(budget)  # Three rows of ten, where the portion is 0.3.
    runs = np.zeros(layout.ids.shape, dtype=np.int64)
    begins = layout.sentence_first if spec.within == "sentence" else layout.segment_first()
    runs[busy] = _runs(barrier[busy], begins[busy])
    inputs = MoveInputs(layout, draws, selected, starts, runs, budget)
    items = _choose_tokens(inputs, top_up=spec.top_up) if spec.unit == "token" else _choose_windows(inputs, spec.window_words)
    return _canonical(layout.ids, _permute_pieces(items, _derange(items, draws)), with_noise)


def _runs(barrier: Bools, begins: Bools) -> Ints:
    """[R, N]: run numbers; a new run begins where ``begins`` says so, at a barrier, and after one."""
    after = np.zeros_like(barrier)
    after[:, 1:] = barrier[:, :-1]
    runs: Ints = np.cumsum(begins | barrier | after, axis=1)
    return runs


def _touched(selected: Bools, starts: Bools) -> Bools:
    """[R, N]: the piece belongs to a word with a predicted piece."""
    word = np.cumsum(starts, axis=1) + np.arange(len(starts))[:, None] * (starts.shape[1] + 1)
    hit = np.zeros(starts.size + len(starts) + 1, dtype=np.bool_)
    hit[word[selected]] = True
    touched: Bools = hit[word]
    return touched


def _choose_tokens(inputs: MoveInputs, *, top_up: bool) -> Items:
    """A uniformly random set of ``budget`` movable tokens per row, less those that are alone in their run."""
    busy = np.flatnonzero(inputs.budget)
    movable = (inputs.layout.inside & ~inputs.selected)[busy]
    keys = inputs.draws.matrix(Stream.MOVE_CHOICE, movable.shape[1], busy)
    keys[~movable] = np.uint64(1 << 32)
    order = np.argsort(keys, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    rows, places = flatten(movable)
    run = inputs.runs[busy][rows, places] + rows * (movable.shape[1] + 1)
    candidates = Candidates(rows, run, rank[rows, places], inputs.budget[busy])
    keep = candidates.chosen & (candidates.crowd[run] > 1)
    if top_up:
        keep |= _partners(candidates)
    return Items(run[keep], busy[rows[keep]], places[keep], np.ones(int(keep.sum()), dtype=np.int64))


class Candidates:
    """Movable tokens, flat and in order of row and place."""

    def __init__(self, rows: Ints, run: Ints, rank: Ints, budget: Ints) -> None:
        self.rows, self.run, self.rank, self.budget = rows, run, rank, budget
        self.chosen: Bools = rank < budget[rows]
        self.crowd: Ints = np.bincount(run[self.chosen], minlength=int(run.max(initial=0)) + 1)
        """Chosen tokens of each run."""


def _partners(candidates: Candidates) -> Bools:
    """Lone chosen tokens with a partner each, as many as the budget of the row has room for, first drawn first."""
    rows, run, rank, chosen, crowd = candidates.rows, candidates.run, candidates.rank, candidates.chosen, candidates.crowd
    room = candidates.budget - np.bincount(rows[chosen & (crowd[run] > 1)], minlength=len(candidates.budget))
    free = np.flatnonzero(~chosen)
    free = free[np.lexsort((rank[free], run[free]))]
    free = free[np.diff(run[free], prepend=-1) > 0]
    partner = np.full(len(crowd), -1)
    partner[run[free]] = free
    lone = np.flatnonzero(chosen & (crowd[run] == 1) & (partner[run] >= 0))
    lone = lone[np.lexsort((rank[lone], rows[lone]))]
    lone = lone[ranks_in_row(rows[lone], len(room)) < (room // 2)[rows[lone]]]
    result = np.zeros(len(rows), dtype=np.bool_)
    result[lone] = True
    result[partner[run[lone]]] = True
    return result


def _choose_windows(inputs: MoveInputs, window_words: int) -> Items:
    """Words of randomly chosen windows, as many windows as fit the budget of pieces; a window has two words at least."""
    starts = inputs.starts & (inputs.budget > 0)[:, None]
    rows, begin = flatten(starts)
    last = np.diff(rows, append=-1) != 0
    end = np.where(last, inputs.layout.length[rows], np.roll(begin, -1))
    free = ~_touched(inputs.selected, starts)[rows, begin]
    rows, begin, size = rows[free], begin[free], (end - begin)[free]
    run = inputs.runs[rows, begin] + rows * (starts.shape[1] + 1)
    in_run = np.arange(len(run)) - np.searchsorted(run, run)
    window = np.cumsum(in_run % window_words == 0) - 1
    count = int(window.max(initial=-1)) + 1
    first_word = np.searchsorted(window, np.arange(count))
    pieces = np.bincount(window, weights=size, minlength=count).astype(np.int64)
    several = np.flatnonzero(np.bincount(window, minlength=count) > 1)
    taken = np.zeros(count, dtype=np.bool_)
    taken[several] = _fill(inputs, rows[first_word[several]], begin[first_word[several]], pieces[several])
    keep = taken[window]
    return Items(window[keep], rows[keep], begin[keep], size[keep])


def _fill(inputs: MoveInputs, rows: Ints, begin: Ints, pieces: Ints) -> Bools:
    """Windows taken in random order while they fit the budget of their row; what does not fit is skipped."""
    key = inputs.draws.block(Stream.MOVE_CHOICE, rows, block=begin)[0]
    order = np.lexsort((key, rows))
    rank = ranks_in_row(rows[order], len(inputs.budget))
    taken = np.zeros(len(rows), dtype=np.bool_)
    left = inputs.budget.copy()
    for visit in range(int(rank.max(initial=-1)) + 1):
        window = order[rank == visit]
        window = window[pieces[window] <= left[rows[window]]]
        taken[window] = True
        left[rows[window]] -= pieces[window]
    return taken


def _derange(items: Items, draws: RowDraws) -> Ints:
    """For each item the one that takes its place: within groups, uniform among permutations without a fixed point.

    By rejection: groups with a fixed point are permuted anew, 2.7 times on average.
    """
    order = np.arange(len(items.group))
    groups = int(items.group.max(initial=-1)) + 1
    pending = order
    for attempt in range(MAX_ATTEMPT):
        if not pending.size:
            return order
        key, tie, *_ = draws.block(Stream.MOVE_ORDER, items.rows[pending], block=items.begin[pending], attempt=attempt)
        order[pending] = pending[np.lexsort((tie, key, items.group[pending]))]
        again = np.zeros(groups, dtype=np.bool_)
        again[items.group[pending[order[pending] == pending]]] = True
        pending = pending[again[items.group[pending]]]
    raise AssertionError("a group was never deranged: it has one item only")


def _permute_pieces(items: Items, order: Ints) -> Permuted:
    """The pieces of each group, after its items have been laid out in the new order from the group's begin on."""
    places = _ranges(items.begin, items.size)
    origins = _ranges(items.begin[order], items.size[order])
    return Permuted(np.repeat(items.group, items.size), np.repeat(items.rows, items.size), places, origins)


def _ranges(begin: Ints, size: Ints) -> Ints:
    """``begin[0]``, ``begin[0] + 1``, … for ``size[0]`` numbers, then those of the next range."""
    ranges: Ints = np.arange(int(size.sum())) + np.repeat(begin - np.cumsum(size) + size, size)
    return ranges


def _canonical(ids: Ints, permuted: Permuted, with_noise: Bools) -> Moved:
    """Drop places whose piece is what it was; give equal pieces of a group the remaining origins in ascending order."""
    moved = ids[permuted.rows, permuted.origins] != ids[permuted.rows, permuted.places]
    rows, places, group = permuted.rows[moved], permuted.places[moved], permuted.group[moved]
    by_new = np.lexsort((places, ids[rows, permuted.origins[moved]], group))
    by_old = np.lexsort((places, ids[rows, places], group))
    origins = np.empty_like(places)
    origins[by_new] = places[by_old]
    order = np.lexsort((places, rows))
    return Moved(rows[order], places[order], origins[order], with_noise)
