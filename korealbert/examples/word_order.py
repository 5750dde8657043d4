"""Word order prediction (KoreALBERT): move tokens about, and ask each moved one where it stood.

Tokens move only within a run: a stretch of one sentence without a visible ``[MASK]``. Within a run the chosen tokens (or the words
of a window) are permuted so that none stays, uniformly among such permutations. Then the labels are made a function of the
input: where equal pieces changed places nothing moved, and equal pieces are numbered in the order of their origins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from korealbert.artifact import Spec
from korealbert.examples.masking import Masked, word_starts
from korealbert.examples.schema import pieces_per_row
from korealbert.examples.segments import Bools, Ints, Layout, flatten, ranks_in_row
from korealbert.philox import MAX_ATTEMPT, MAX_INDEX, Stream, Words, draw_block, draw_rows, happens
from korealbert.vocab.tokenizer import WordTable


class WordOrderSpec(Spec):
    """How many tokens move, where, and in what units."""

    portion: float = Field(default=0.3, ge=0.0, le=1.0)
    """Share of rows (or of batches) with moved tokens; KoreALBERT found 0.3 to 0.5 best. 0 turns word order noise off."""
    rate: float = Field(default=0.15, gt=0.0, le=0.5)
    """Share of the ordinary pieces of such a row that is chosen to move at most; KoreALBERT: up to 0.15."""
    scope: Literal["example", "batch"] = "example"
    """Draw per row, or once for each batch that training gathers (then all rows carry moves, and a batch uses them or not)."""
    amount: Literal["fixed", "dynamic"] = "fixed"
    """Always ``rate``, or for each row a rate uniform in 0..``rate``."""
    barrier: Literal["mask", "all_mlm"] = "mask"
    """No token moves across a visible ``[MASK]``, or across any predicted piece. Predicted pieces never move."""
    within: Literal["sentence", "segment"] = "sentence"
    """Tokens stay within their sentence, or only within their segment."""
    unit: Literal["token", "word"] = "token"
    """Move single tokens, or whole words within windows of consecutive words."""
    window_words: int = Field(default=4, ge=2, le=4)
    """Words of a window, with ``unit = "word"``."""
    top_up: bool = False
    """Give a chosen token that is alone in its run a partner there, instead of leaving it. At 0.15 about 14.5 % move instead of 11.7 %."""

    def slots(self, sequence_length: int) -> int:
        """W, word-order slots per row; one where word order noise is off, because a column needs a width."""
        return max(1, int(self.budget(np.array([pieces_per_row(sequence_length)]))[0])) if self.portion else 1

    def budget(self, length: Ints, rate: float | Ints | None = None) -> Ints:
        """Pieces that may move in rows of this many ordinary pieces: the floor of rate · n."""
        return np.floor((self.rate if rate is None else rate) * length + 1e-6).astype(np.int64)


@dataclass(frozen=True)
class Moved:
    """Moved tokens, flat and in order of row and place: what stands at ``places`` stood at ``origins``."""

    rows: Ints
    places: Ints
    origins: Ints
    with_noise: Bools
    """[R]: the row was drawn to carry word order noise, whether or not a token could move."""


@dataclass(frozen=True)
class Items:
    """Tokens or words that change places within their group, sorted by group, then place."""

    group: Ints
    rows: Ints
    begin: Ints
    """First place of the item."""
    size: Ints
    """Pieces of the item (1 for tokens)."""


def move(
    layout: Layout, masked: Masked, words: WordTable, spec: WordOrderSpec, example_ids: Words, *, seed: int, view: int
) -> Moved:
    """Draw the word order noise of R rows, given what is masked in them."""
    lot, rate, *_ = draw_block(seed, Stream.MOVE_ROW, example_ids, minor=view)
    with_noise = happens(lot, 1.0 if spec.scope == "batch" and spec.portion else spec.portion)
    rates = rate * 2.0**-32 * spec.rate if spec.amount == "dynamic" else np.full(len(rate), spec.rate)
    budget = np.where(with_noise, spec.budget(layout.length, rates), 0)
    selected = masked.selected(layout.ids.shape)
    runs = _runs(layout, masked, selected, words, spec)
    choose = _choose_tokens if spec.unit == "token" else _choose_windows
    items = choose(layout, runs, selected, words, budget, spec, example_ids, seed=seed, view=view)
    order = _derange(items, example_ids, seed=seed, view=view)
    rows, places, origins, group = _lay_again(items, order)
    return _canonical(layout.ids, rows, places, origins, group, with_noise)


def _runs(layout: Layout, masked: Masked, selected: Bools, words: WordTable, spec: WordOrderSpec) -> Ints:
    """[R, N]: number of the run that a piece is in, ascending along the row. A barrier shares the number of one neighbour only."""
    barrier = masked.visible_mask(layout.ids.shape) if spec.barrier == "mask" else selected
    if spec.unit == "word":
        barrier = barrier | _touched(selected, word_starts(layout, words))
    begins = layout.sentence_first if spec.within == "sentence" else layout.segment_first()
    after = np.zeros_like(barrier)
    after[:, 1:] = barrier[:, :-1]
    return np.cumsum(begins | barrier | after, axis=1)


def _touched(selected: Bools, starts: Bools) -> Bools:
    """[R, N]: the piece belongs to a word with a predicted piece."""
    word = np.cumsum(starts, axis=1) + np.arange(len(starts))[:, None] * (starts.shape[1] + 1)
    hit = np.zeros(len(starts) * (starts.shape[1] + 1) + 1, dtype=np.bool_)
    hit[word[selected]] = True
    return hit[word]


def _choose_tokens(
    layout: Layout,
    runs: Ints,
    selected: Bools,
    words: WordTable,
    budget: Ints,
    spec: WordOrderSpec,
    example_ids: Words,
    *,
    seed: int,
    view: int,
) -> Items:
    """A uniformly random set of ``budget`` movable tokens per row, less those that are alone in their run."""
    busy = np.flatnonzero(budget)
    movable = (layout.inside & ~selected)[busy]
    keys = draw_rows(seed, Stream.MOVE_CHOICE, example_ids[busy], movable.shape[1], minor=view)
    keys[~movable] = np.uint64(1 << 32)
    order = np.argsort(keys, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    rows, places = flatten(movable)
    rank = rank[rows, places]
    run = runs[busy][rows, places] + rows * (movable.shape[1] + 1)
    chosen = rank < budget[busy][rows]
    crowd = np.bincount(run[chosen], minlength=run.max(initial=0) + 1)
    keep = chosen & (crowd[run] > 1)
    if spec.top_up:
        keep |= _partners(rows, run, rank, chosen, crowd, budget[busy])
    return Items(run[keep], busy[rows[keep]], places[keep], np.ones(int(keep.sum()), dtype=np.int64))


def _partners(rows: Ints, run: Ints, rank: Ints, chosen: Bools, crowd: Ints, budget: Ints) -> Bools:
    """Lone chosen tokens with a partner each, as many as the budget of the row has room for, first drawn first."""
    kept = np.bincount(rows[chosen & (crowd[run] > 1)], minlength=len(budget))
    free = np.flatnonzero(~chosen)
    free = free[np.lexsort((rank[free], run[free]))]
    free = free[np.diff(run[free], prepend=-1) > 0]
    partner = np.full(len(crowd), -1)
    partner[run[free]] = free
    lone = np.flatnonzero(chosen & (crowd[run] == 1) & (partner[run] >= 0))
    lone = lone[np.lexsort((rank[lone], rows[lone]))]
    lone = lone[ranks_in_row(rows[lone], len(budget)) < ((budget - kept) // 2)[rows[lone]]]
    result = np.zeros(len(rows), dtype=np.bool_)
    result[lone] = True
    result[partner[run[lone]]] = True
    return result


def _choose_windows(
    layout: Layout,
    runs: Ints,
    selected: Bools,
    words: WordTable,
    budget: Ints,
    spec: WordOrderSpec,
    example_ids: Words,
    *,
    seed: int,
    view: int,
) -> Items:
    """Words of randomly chosen windows, as many windows as fit the budget of pieces; a window has two words at least."""
    width = layout.ids.shape[1]
    starts = word_starts(layout, words) & (budget > 0)[:, None]
    touched = _touched(selected, starts)
    rows, begin = flatten(starts)
    last = np.append(rows[1:] != rows[:-1], True) if len(rows) else np.zeros(0, dtype=np.bool_)
    end = np.where(last, layout.length[rows], np.append(begin[1:], 0)[: len(rows)])
    free = ~touched[rows, begin]
    rows, begin, size = rows[free], begin[free], (end - begin)[free]
    run = runs[rows, begin] + rows * (width + 1)
    first_of_run = np.diff(run, prepend=-1) > 0
    in_run = np.arange(len(run)) - np.flatnonzero(first_of_run)[np.cumsum(first_of_run) - 1] if len(run) else run
    window = np.cumsum(first_of_run | (in_run % spec.window_words == 0)) - 1
    windows = int(window[-1]) + 1 if len(window) else 0
    first_word = np.searchsorted(window, np.arange(windows))
    pieces = np.bincount(window, weights=size, minlength=windows).astype(np.int64)
    several = np.bincount(window, minlength=windows) > 1
    taken = _fill(rows[first_word], begin[first_word], pieces, several, budget, example_ids, seed=seed, view=view)
    keep = taken[window]
    return Items(window[keep], rows[keep], begin[keep], size[keep])


def _fill(
    rows: Ints, begin: Ints, pieces: Ints, allowed: Bools, budget: Ints, example_ids: Words, *, seed: int, view: int
) -> Bools:
    """Windows taken in random order while they fit the budget of their row; what does not fit is skipped."""
    key = draw_block(seed, Stream.MOVE_CHOICE, example_ids[rows], minor=view, block=begin)[0]
    order = np.lexsort((key, rows))
    order = order[allowed[order]]
    rank = ranks_in_row(rows[order], len(budget))
    taken = np.zeros(len(rows), dtype=np.bool_)
    left = budget.copy()
    for visit in range(int(rank.max(initial=-1)) + 1):
        window = order[rank == visit]
        window = window[pieces[window] <= left[rows[window]]]
        taken[window] = True
        left[rows[window]] -= pieces[window]
    return taken


def _derange(items: Items, example_ids: Words, *, seed: int, view: int) -> Ints:
    """For each item the one that takes its place: within groups, uniform among permutations without a fixed point (rejection)."""
    order = np.arange(len(items.group))
    pending = order
    for attempt in range(MAX_ATTEMPT):
        if not pending.size:
            return order
        assert int(items.begin[pending].max()) < MAX_INDEX // 4
        ids = example_ids[items.rows[pending]]
        key, tie, *_ = draw_block(seed, Stream.MOVE_ORDER, ids, minor=view, block=items.begin[pending], attempt=attempt)
        order[pending] = pending[np.lexsort((tie, key, items.group[pending]))]
        stays = items.group[pending[order[pending] == pending]]
        pending = pending[np.isin(items.group[pending], stays)]
    raise AssertionError("a group was never deranged: it has one item only")


def _lay_again(items: Items, order: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows, places, origins and groups of single pieces, after the items of each group have been laid out anew from its begin."""
    total = int(items.size.sum())
    new_size = items.size[order]
    offset = np.arange(total) - np.repeat(np.cumsum(new_size) - new_size, new_size)
    origins = np.repeat(items.begin[order], new_size) + offset
    old_offset = np.arange(total) - np.repeat(np.cumsum(items.size) - items.size, items.size)
    places = np.repeat(items.begin, items.size) + old_offset
    return np.repeat(items.rows, items.size), places, origins, np.repeat(items.group, items.size)


def _canonical(ids: Ints, rows: Ints, places: Ints, origins: Ints, group: Ints, with_noise: Bools) -> Moved:
    """Drop places whose piece is what it was; give equal pieces of a group the remaining origins in ascending order."""
    new = ids[rows, origins]
    moved = new != ids[rows, places]
    rows, places, new, group = rows[moved], places[moved], new[moved], group[moved]
    by_new = np.lexsort((places, new, group))
    by_old = np.lexsort((places, ids[rows, places], group))
    result = np.empty_like(places)
    result[by_new] = places[by_old]
    order = np.lexsort((places, rows))
    return Moved(rows[order], places[order], result[order], with_noise)
