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
    """Where R chunks are cut, and what the sentence task makes of it."""

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

    ids: Ints
    """[R, N], 0 after ``length``."""
    first: Ints
    """[R]: pieces of the first segment."""
    length: Ints
    """[R]: pieces of both."""
    sentence_first: Bools
    """[R, N]: the piece is the first of a sentence (or of what is left of one), or of a segment."""

    @property
    def inside(self) -> Bools:
        """[R, N]: there is a piece."""
        inside: Bools = np.arange(self.ids.shape[1]) < self.length[:, None]
        return inside

    def segment_first(self) -> Bools:
        """[R, N]: the piece is the first of its segment."""
        place = np.arange(self.ids.shape[1])
        marks: Bools = (place == 0) | (place == self.first[:, None])
        return marks

    def positions(self, rows: Ints, places: Ints) -> Ints:
        """Positions in the final layout, with specials, of the pieces at ``places`` of ``rows``."""
        return places + 1 + (places >= self.first[rows])


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


def sentence_starts(rows: Rows, width: int) -> Bools:
    """bool [R, N]: the piece is the first of a sentence, in the order of the chunk."""
    marks = np.zeros((len(rows), width), dtype=np.bool_)
    counts = np.diff(rows.sentence_offsets)
    row = np.repeat(np.arange(len(rows)), counts)
    sums = np.concatenate([[0], np.cumsum(rows.sentence_lengths, dtype=np.int64)])
    marks[row, sums[:-1] - np.repeat(sums[rows.sentence_offsets[:-1]], counts)] = True
    return marks


def rotate(values: Array, rotation: Ints, length: Ints) -> Array:
    """Each row [R, N] from its own ``rotation`` on, wrapping at its ``length``; what lies beyond stays."""
    turned = np.flatnonzero(rotation)
    if not turned.size:
        return values
    length = length[turned, None]
    places = np.arange(values.shape[1])
    source = places + rotation[turned, None]
    source -= np.where(source >= length, length, 0)
    result = values.copy()
    result[turned] = np.take_along_axis(values[turned], np.where(places < length, source, places), axis=1)
    return result


def lay_out(rows: Rows, split: Split) -> Layout:
    """The pieces of each pair in final order."""
    ids = rotate(rows.ids, split.rotation, split.length).astype(np.int64)
    starts = rotate(sentence_starts(rows, ids.shape[1]), split.rotation, split.length)
    layout = Layout(ids, split.first, split.length, starts)
    return Layout(ids, split.first, split.length, (starts | layout.segment_first()) & layout.inside)


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
    position = np.arange(sequence_length)
    first_end, end = first[:, None] + 1, length[:, None] + 2
    paired = (first < length)[:, None]
    lengths = length + 2 + paired[:, 0]
    place = np.minimum(np.maximum(position - 1 - (position > first_end), 0), ids.shape[1] - 1)
    input_ids = np.take_along_axis(ids, place, axis=1).astype(np.int64)
    input_ids[:, 0] = SPECIAL.cls
    input_ids[position == first_end] = SPECIAL.sep
    input_ids[paired & (position == end)] = SPECIAL.sep
    real = position < lengths[:, None]
    input_ids[~real] = SPECIAL.pad
    token_types = ((position > first_end) & real).astype(np.int64)
    return input_ids, token_types, lengths


def flatten(mask: Bools) -> tuple[Ints, Ints]:
    """Rows and places of the true cells, row by row."""
    rows, places = np.nonzero(mask)
    return rows, places


def ranks_in_row(rows: Ints, count: int) -> Ints:
    """For ascending row numbers of flat items: each item's rank within its row."""
    starts = np.searchsorted(rows, np.arange(count))
    ranks: Ints = np.arange(len(rows)) - starts[rows]
    return ranks


def slots(rows: Ints, values: Ints, count: int, width: int, dtype: Any) -> Array:
    """Flat values of ascending rows as fixed-width slots [count, width], 0 where unused."""
    filled = np.zeros((count, width), dtype=dtype)
    filled[rows, ranks_in_row(rows, count)] = values
    return filled
