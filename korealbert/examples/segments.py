"""Two segments from one chunk, and the final layout ``[CLS] first [SEP] second [SEP]``.

A chunk is split between two of its sentences. In the final order the second part may come first (swapped): that is a rotation
of the chunk's pieces, so a whole batch is laid out by one gather. Legend: R rows, N pieces a row, L sequence length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from korealbert.examples.schema import Array, Rows, SentenceTask
from korealbert.philox import RowDraws, Stream, below, happens
from korealbert.vocab.tokenizer import SPECIAL

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Split:
    """Where R chunks are cut, and their labels in the sentence task."""

    first: Ints
    """[R]: pieces of the segment that comes first; the whole length in rows without a second one."""
    length: Ints
    """[R]: pieces of both segments."""
    rotation: Ints
    """[R]: index in the chunk of the piece that comes first."""
    label: Ints
    """[R]: 1 = swapped, 0 = in order, -1 = no label."""


@dataclass(frozen=True)
class Layout:
    """R pairs of segments without special pieces, in final order."""

    ids: Array
    """uint16 or uint32 [R, N], 0 after ``length``."""
    first: Ints
    """[R]: pieces of the first segment."""
    length: Ints
    """[R]: pieces of both."""
    sentence_first: Bools
    """[R, N]: the piece is the first of a sentence (or of what is left of one), or of a segment."""

    @property
    def inside(self) -> Bools:
        """[R, N]: there is a piece."""
        return before(self.length, self.ids.shape[1])

    def take(self, rows: Ints) -> Layout:
        """Some of the rows."""
        return Layout(self.ids[rows], self.first[rows], self.length[rows], self.sentence_first[rows])

    def segment_first(self) -> Bools:
        """[R, N]: the piece is the first of its segment."""
        marks = np.zeros(self.ids.shape, dtype=np.bool_)
        marks[:, 0] = True
        paired = np.flatnonzero(self.first < self.length)
        marks[paired, self.first[paired]] = True
        return marks

    def positions(self, rows: Ints, places: Ints) -> Ints:
        """Positions in the final layout, with specials, of the pieces at ``places`` of ``rows``."""
        return places + 1 + (places >= self.first[rows])


def before(ends: Ints, width: int) -> Bools:
    """bool [R, width]: the place comes before the row's end."""
    places, limits = np.arange(width), ends[:, None]
    if width < 1 << 15:  # A quarter of the memory, which is what this waits for.
        places, limits = places.astype(np.int16), limits.astype(np.int16)
    marks: Bools = places < limits
    return marks


def split_rows(rows: Rows, draws: RowDraws, task: SentenceTask) -> Split:
    """Cut each chunk after U{1..m-1} of its m sentences; under SOP swap the parts with probability 0.5.

    A chunk of one sentence stays one segment without a label (the official code takes a second one from another document and
    labels it, google-research/albert#234). Under NSP every pair starts out in order with label 0.
    """
    counts = np.diff(rows.sentence_offsets)
    length = rows.length.astype(np.int64)
    cut, swap, *_ = draws.block(Stream.SEGMENT_SPLIT)
    sentences = 1 + below(cut, np.maximum(counts - 1, 1))
    sums = np.concatenate([[0], np.cumsum(rows.sentence_lengths, dtype=np.int64)])
    ends = sums[rows.sentence_offsets[:-1] + np.minimum(sentences, counts)] - sums[rows.sentence_offsets[:-1]]
    paired = counts > 1
    swapped = paired & happens(swap, 0.5) if task == "sop" else np.zeros_like(paired)
    rotation = np.where(swapped, ends, 0)
    label = np.where(paired, swapped, -1) if task != "none" else np.full(len(rows), -1)
    return Split(np.where(swapped, length - ends, ends), length, rotation, label.astype(np.int64))


def sentence_starts(rows: Rows, width: int, rotation: Ints) -> Bools:
    """bool [R, N]: the piece is the first of a sentence, when each chunk begins at its ``rotation`` and wraps at its end."""
    marks = np.zeros((len(rows), width), dtype=np.bool_)
    counts = np.diff(rows.sentence_offsets)
    sums = np.concatenate([[0], np.cumsum(rows.sentence_lengths, dtype=np.int64)])
    begins = sums[rows.sentence_offsets[:-1]]
    place = sums[:-1] - np.repeat(begins + rotation, counts)
    place += np.where(place < 0, np.repeat(rows.length.astype(np.int64), counts), 0)
    marks[np.repeat(np.arange(len(rows)), counts), place] = True
    return marks


def rotate(values: Array, rotation: Ints, length: Ints) -> Array:
    """Each row [R, N] from its own ``rotation`` on, wrapping at its ``length``; the rest stays."""
    turned = np.flatnonzero(rotation)
    if not turned.size:
        return values
    width = values.shape[1]
    # Both parts of a turned row are stretches of memory, N long: they are copied as such, which beats N single places.
    stretches = windows(np.concatenate([values[:1], values[turned], values[:1]]).reshape(-1), width)
    first, whole = (length - rotation)[turned], length[turned]
    begin = (1 + np.arange(len(turned))) * width
    ahead, wrapped = stretches[begin + rotation[turned]], stretches[begin - first]
    result = values.copy()
    result[turned] = np.where(before(first, width), ahead, np.where(before(whole, width), wrapped, values[turned]))
    return result


def windows(values: Array, width: int) -> Array:
    """Every ``width`` consecutive values, without a copy: [len(values) - width + 1, width]."""
    return np.lib.stride_tricks.sliding_window_view(values, width)


def lay_out(rows: Rows, split: Split) -> Layout:
    """The pieces of each pair in final order."""
    ids = rotate(rows.ids, split.rotation, split.length)
    starts = sentence_starts(rows, ids.shape[1], split.rotation)
    paired = np.flatnonzero(split.first < split.length)
    starts[:, 0] = True
    starts[paired, split.first[paired]] = True
    return Layout(ids, split.first, split.length, starts)


def continue_with(ids: Array, first: Ints, foreign: Array, start: Array) -> Array:
    """Of each row [R, N] the ``first`` pieces, then those of the ``foreign`` row from ``start`` on; garbage after their end."""
    place = np.arange(ids.shape[1]) - first[:, None]
    source = np.clip(place + start.astype(np.int64)[:, None], 0, ids.shape[1] - 1)
    return np.where(place < 0, ids, np.take_along_axis(foreign, source, axis=1))


def with_specials(ids: Array, first: Ints, length: Ints, sequence_length: int) -> tuple[Ints, Ints, Ints]:
    """Put the special pieces in.

    Returns ``input_ids`` [R, L], ``token_type_ids`` [R, L] (0 up to the first ``[SEP]``, then 1, 0 on padding) and ``lengths``
    [R] (specials included).
    """
    first_end, lengths = first + 1, length + 2 + (first < length)
    # Pieces of the first segment stand one place further than in ``ids``, those of the second one two.
    by_one, by_two = (np.zeros((len(ids), sequence_length), dtype=ids.dtype) for _ in range(2))
    by_one[:, 1:-2] = by_two[:, 2:-1] = ids
    input_ids = np.where(before(first_end, sequence_length), by_one, by_two)
    input_ids[:, 0] = SPECIAL.cls
    input_ids[np.arange(len(ids)), first_end] = SPECIAL.sep
    paired = np.flatnonzero(first < length)
    input_ids[paired, length[paired] + 2] = SPECIAL.sep
    real = before(lengths, sequence_length)
    input_ids *= real  # The padding has the id 0.
    token_types = real & ~before(first_end + 1, sequence_length)
    return input_ids.astype(np.int64), token_types.astype(np.int64), lengths


def flatten(mask: Bools) -> tuple[Ints, Ints]:
    """Rows and places of the true cells, row by row."""
    cells = np.flatnonzero(mask)
    rows = cells // mask.shape[1]
    return rows, cells - rows * mask.shape[1]


def ranges(begins: Ints, sizes: Ints) -> Ints:
    """``begins[0]``, ``begins[0] + 1``, … for ``sizes[0]`` numbers, then those of the next range."""
    numbers: Ints = np.arange(int(sizes.sum())) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
    return numbers


def ranks_in_row(rows: Ints, count: int) -> Ints:
    """For ascending row numbers of flat items: each item's rank within its row."""
    return ranges(np.zeros(count, dtype=np.int64), np.bincount(rows, minlength=count))


def slots(counts: Ints, values: Ints, width: int, dtype: Any) -> Array:
    """Flat values of ascending rows, so many in each, as fixed-width slots [R, width], 0 where unused."""
    filled = np.zeros((len(counts), width), dtype=dtype)
    filled[before(counts, width)] = values
    return filled
