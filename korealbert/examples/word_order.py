"""Word order prediction (KoreALBERT): move tokens, and ask for the original position of each moved one.

Tokens move only within a run: part of one sentence without a visible ``[MASK]``. Within a run the chosen tokens (or the words
of a window) are permuted so that none stays, uniformly among such permutations. Then labels are made a function of the input:
equal pieces that changed places count as unmoved, and equal pieces are numbered in the order of their original positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from korealbert.artifact import Spec
from korealbert.examples.masking import Masked, PartialShuffle, Turns, word_starts
from korealbert.examples.schema import Array, pieces_per_row
from korealbert.examples.segments import Bools, Ints, Layout, flatten, ranges, ranks_in_row
from korealbert.philox import RowDraws, Stream, below, happens
from korealbert.vocab.tokenizer import WordTable


class WordOrderSpec(Spec):
    """How many tokens move, where, and in what units."""

    portion: float = Field(default=0.3, ge=0.0, le=1.0)
    """Share of rows (or of batches) with moved tokens; KoreALBERT found 0.3 to 0.5 best. 0 turns word-order noise off."""
    rate: float = Field(default=0.15, gt=0.0, le=0.5)
    """Largest share of such a row's ordinary pieces that is chosen to move; KoreALBERT: up to 0.15."""
    scope: Literal["example", "batch"] = "example"
    """Draw per row, or once for each batch that training gathers (all rows then carry moves, and a batch uses them or not)."""
    portion_ramp_views: int = Field(default=1, ge=1)
    """Number of views over which the share of rows rises to ``portion``: view v (from 0) has (v + 1) /
    ``portion_ramp_views`` of it."""
    amount: Literal["fixed", "dynamic", "ramp"] = "fixed"
    """Always ``rate``, a rate for each row uniform in 0..``rate``, or a rate that rises over the views."""
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
    """Give a chosen token that is alone in its run a partner there, instead of leaving it: at 0.15 about 14.5 % of the
    pieces move instead of 11.7 %."""

    def slots(self, sequence_length: int) -> int:
        """Return W, the word-order slots per row; one if word-order noise is off, because a column needs a width."""
        full = np.array([pieces_per_row(sequence_length)])
        return max(1, int(self.budget(full, self.rate)[0])) if self.portion else 1

    def portion_in(self, view: int) -> float:
        """Return the share of rows (or batches) with moved tokens in a view."""
        return self.portion * min(1.0, (view + 1) / self.portion_ramp_views)

    def rate_in(self, view: int) -> float:
        """Return the share of pieces that may move in a view; with ``amount = "dynamic"`` the largest."""
        return self.rate * min(1.0, (view + 1) / self.ramp_views) if self.amount == "ramp" else self.rate

    def budget(self, length: Ints, rate: float | npt.NDArray[Any]) -> Ints:
        """Return how many pieces may move in rows of this length: the floor of rate · n."""
        # 0.29 · 100 is 28.999999999999996 in floats; the intended floor is 29.
        budget: Ints = np.floor(rate * length + 1e-6).astype(np.int64)
        return budget


@dataclass(frozen=True)
class Moved:
    """Moved tokens, flat and in order of row and place: the token at ``places`` was at ``origins``."""

    rows: Ints
    places: Ints
    origins: Ints
    with_noise: Bools
    """[R]: whether the row was drawn to have word-order noise, even if no token could move."""


@dataclass(frozen=True)
class _MoveInputs:
    """B rows with word-order noise, and what their moves depend on."""

    layout: Layout
    draws: RowDraws
    selected: Bools
    """[B, N]: whether the piece is predicted, and so never moves."""
    starts: Bools
    """[B, N]: whether the piece begins a word; only used if words move."""
    runs: Ints
    """[B, N]: number of the piece's run, ascending over all rows."""
    budget: Ints
    """[B]: pieces that may move."""


@dataclass(frozen=True)
class Items:
    """Tokens or words that change places within their group, sorted by group, then place."""

    group: Ints
    """0, 0, …, 1, 1, …; at least two items each."""
    rows: Ints
    begin: Ints
    """First place of the item."""
    size: Ints
    """Pieces of the item (1 for tokens)."""


@dataclass(frozen=True)
class _Permuted:
    """Single pieces after a permutation, by group, then place: the piece at ``places`` was at ``origins``."""

    group: Ints
    rows: Ints
    places: Ints
    origins: Ints


def move(layout: Layout, masked: Masked, words: WordTable, spec: WordOrderSpec, draws: RowDraws) -> Moved:
    """Draw the word-order noise of R rows, given their masked pieces."""
    lot, rate, *_ = draws.block(Stream.MOVE_ROW)
    with_noise = happens(lot, 1.0 if spec.scope == "batch" and spec.portion else spec.portion_in(draws.view))
    most = spec.rate_in(draws.view)
    rates = rate * 2.0**-32 * most if spec.amount == "dynamic" else np.full(len(rate), most)
    budget = np.where(with_noise, spec.budget(layout.length, rates), 0)
    active = np.flatnonzero(budget)  # Only these rows are processed: 30 % if the portion is 0.3.
    some, selected = layout.take(active), masked.selected[active]
    # Only words need to know where words begin.
    starts = word_starts(some, words) if spec.unit == "word" else some.sentence_first
    barrier = masked.visible_mask()[active] if spec.barrier == "mask" else selected
    if spec.unit == "word":
        barrier = barrier | _touched(selected, starts)
    runs = _runs(barrier, some.sentence_first if spec.within == "sentence" else some.segment_first())
    inputs = _MoveInputs(some, draws.take(active), selected, starts, runs, budget[active])
    items = _choose_tokens(inputs, top_up=spec.top_up) if spec.unit == "token" else _choose_windows(inputs, spec.window_words)
    permuted = _canonical(some.ids, _permute_pieces(items, _derange(items, inputs.draws)))
    return Moved(active[permuted.rows], permuted.places, permuted.origins, with_noise)


def _runs(barrier: Bools, begins: Bools) -> Ints:
    """Return run numbers [B, N]; a run begins where ``begins`` is set (every row's first place), at a barrier, and after
    one."""
    borders = (begins | barrier).reshape(-1)
    borders[1:] |= barrier.reshape(-1)[:-1]
    runs: Ints = np.cumsum(borders, dtype=np.int64)
    return runs.reshape(barrier.shape)


def _touched(selected: Bools, starts: Bools) -> Bools:
    """Return which pieces belong to a word with a predicted piece: [B, N]."""
    word = np.cumsum(starts).reshape(starts.shape)
    hit = np.zeros(starts.size + 1, dtype=np.bool_)
    hit[word[selected]] = True
    touched: Bools = hit[word]
    return touched


def _choose_tokens(inputs: _MoveInputs, *, top_up: bool) -> Items:
    """Return a uniformly random set of ``budget`` movable tokens per row, without those that are alone in their run."""
    width = inputs.selected.shape[1]
    movable = np.flatnonzero(inputs.layout.inside & ~inputs.selected)
    begins = np.searchsorted(movable, np.arange(len(inputs.budget) + 1) * width)
    counts = np.diff(begins)
    shuffle = PartialShuffle(begins[:-1], counts, Turns(inputs.draws, Stream.MOVE_CHOICE))
    wanted = np.minimum(inputs.budget, counts)
    turn_drawn = np.full(len(movable), -1)
    for turn in range(int(wanted.max(initial=0))):
        turn_drawn[shuffle.draw(np.flatnonzero(wanted > turn), turn)] = turn
    chosen = np.flatnonzero(turn_drawn >= 0)
    run = inputs.runs.reshape(-1)[movable]
    follows = np.diff(run[chosen], prepend=-1) == 0
    lone = ~(follows | np.append(follows[1:], False)[: len(follows)])
    kept = chosen[~lone]
    if top_up:
        candidates = _Candidates(movable // width, movable % width, run, turn_drawn)
        room = inputs.budget - np.bincount(candidates.rows[kept], minlength=len(counts))
        kept = np.sort(np.concatenate([kept, *_pairs(candidates, chosen[lone], room, inputs.draws)]))
    rows = movable[kept] // width
    group = np.cumsum(np.diff(run[kept], prepend=-1) > 0) - 1
    return Items(group, rows, movable[kept] - rows * width, np.ones(len(kept), dtype=np.int64))


@dataclass(frozen=True)
class _Candidates:
    """Movable tokens, flat and in order of row and place."""

    rows: Ints
    places: Ints
    run: Ints
    turn: Ints
    """Turn in which it was chosen, -1 if it was not."""


def _pairs(candidates: _Candidates, lone: Ints, room: Ints, draws: RowDraws) -> tuple[Ints, Ints]:
    """Return lone chosen tokens and a partner of each, as many as the row's budget has room for, first drawn first."""
    begin, end = (np.searchsorted(candidates.run, candidates.run[lone], side=side) for side in ("left", "right"))
    company = end - begin > 1
    lone, begin, free = lone[company], begin[company], (end - begin - 1)[company]
    rows = candidates.rows[lone]
    partner = begin + below(draws.block(Stream.MOVE_PARTNER, rows, block=candidates.places[lone])[0], free)
    partner += partner >= lone  # Any token of the run except itself.
    order = np.lexsort((candidates.turn[lone], rows))
    order = order[ranks_in_row(rows[order], len(room)) < (room // 2)[rows[order]]]
    return lone[order], partner[order]


def _choose_windows(inputs: _MoveInputs, window_words: int) -> Items:
    """Return the words of random windows, as many windows as fit the budget of pieces; a window has at least two words."""
    rows, begin = flatten(inputs.starts)
    last = np.diff(rows, append=-1) != 0
    end = np.where(last, inputs.layout.length[rows], np.roll(begin, -1))
    free = ~_touched(inputs.selected, inputs.starts)[rows, begin]
    rows, begin, size = rows[free], begin[free], (end - begin)[free]
    run = inputs.runs[rows, begin]
    in_run = np.arange(len(run)) - np.searchsorted(run, run)
    window = np.cumsum(in_run % window_words == 0) - 1
    count = int(window.max(initial=-1)) + 1
    first_word = np.searchsorted(window, np.arange(count))
    pieces = np.bincount(window, weights=size, minlength=count).astype(np.int64)
    several = np.flatnonzero(np.bincount(window, minlength=count) > 1)
    taken = np.zeros(count, dtype=np.bool_)
    taken[several] = _fill(inputs, rows[first_word[several]], begin[first_word[several]], pieces[several])
    keep = taken[window]
    return Items((np.cumsum(taken) - 1)[window[keep]], rows[keep], begin[keep], size[keep])


def _fill(inputs: _MoveInputs, rows: Ints, begin: Ints, pieces: Ints) -> Bools:
    """Take windows in random order while they fit the budget of their row; others are skipped."""
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
    """Return for each item the one that takes its place: uniform among permutations of a group without a fixed point.

    Follows the recurrence D(u) = (u - 1) · (D(u - 1) + D(u - 2)): an item joins the cycle of one of the others, or makes a
    cycle of two with it. Martínez, Panholzer, Prodinger, "Generating random derangements" (ANALCO 2008).
    """
    order = np.arange(len(items.group))
    first = np.flatnonzero(np.diff(items.group, prepend=-1))
    left = np.diff(first, append=len(order))
    """[G]: items whose place is open; they come first in their group's part of ``unsettled``."""
    unsettled = order.copy()
    closing = _closing(int(left.max(initial=0)))
    with_whom, whether, *_ = draws.block(Stream.MOVE_ORDER, items.rows, block=items.begin)
    groups = np.arange(len(first))
    while groups.size:
        begin, open_items = first[groups], left[groups]
        end = begin + open_items - 1
        item = unsettled[end]
        there = begin + below(with_whom[item], open_items - 1)
        other = unsettled[there]
        order[item], order[other] = order[other], order[item]
        closes = happens(whether[item], closing[open_items])
        unsettled[there] = np.where(closes, unsettled[end - 1], other)
        left[groups] = open_items = open_items - 1 - closes
        groups = groups[open_items > 0]
    return order


def _closing(largest: int) -> npt.NDArray[np.float64]:
    """Return the share (u - 1) · D(u - 2) / D(u) of derangements of u items with a given one in a cycle of two: [largest + 1].

    It is 0 for fewer than two items.
    """
    derangements = [1, 0]
    for size in range(2, largest + 1):
        derangements.append((size - 1) * (derangements[-1] + derangements[-2]))
    shares = [(size - 1) * derangements[size - 2] / derangements[size] for size in range(2, largest + 1)]
    return np.array([0.0, 0.0, *shares])


def _permute_pieces(items: Items, order: Ints) -> _Permuted:
    """Return the pieces of each group after its items have been laid out in the new order from the group's start."""
    places = ranges(items.begin, items.size)
    origins = ranges(items.begin[order], items.size[order])
    return _Permuted(np.repeat(items.group, items.size), np.repeat(items.rows, items.size), places, origins)


def _canonical(ids: Array, permuted: _Permuted) -> _Permuted:
    """Drop places whose piece is unchanged; assign the remaining origins of equal pieces of a group in ascending order."""
    old, new = ids[permuted.rows, permuted.places], ids[permuted.rows, permuted.origins]
    # If all pieces of a group differ, each has only one possible origin.
    ambiguous = _of_groups_with_equal(permuted.group, old)
    moved = old != new
    group, rows, places, origins = (of[moved] for of in (permuted.group, permuted.rows, permuted.places, permuted.origins))
    again = np.flatnonzero(ambiguous[moved])
    by_new = again[np.lexsort((places[again], new[moved][again], group[again]))]
    by_old = again[np.lexsort((places[again], old[moved][again], group[again]))]
    origins[by_new] = places[by_old]
    return _Permuted(group, rows, places, origins)


def _of_groups_with_equal(group: Ints, ids: Array) -> Bools:
    """Return which items belong to groups with a repeated id."""
    keys = np.sort((group << 32) | ids)
    twice = np.zeros(int(group.max(initial=0)) + 1, dtype=np.bool_)
    twice[keys[1:][np.diff(keys) == 0] >> 32] = True
    flags: Bools = twice[group]
    return flags
