"""Cuts a document's sentences into chunks, each chunk into two segments, and lays them out as ``[CLS] first [SEP] second
[SEP]``.

Sentences are added to a chunk until it has the target length and at least two sentences. The last one is usually too long. The
official ALBERT code drops its rest, about half a sentence per example. Here it is cut before a space, and the rest begins the
next chunk ("carry"), or is dropped and counted ("truncate").

A chunk is split between two of its sentences. If the second part comes first in the final order (swapped), that is a rotation
of the chunk's pieces, so one gather lays out a whole batch. Legend: R rows, N pieces a row, L sequence length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from korealbert.examples.schema import Array, Rows, SentenceTask
from korealbert.philox import RowDraws, Stream, below, draw_block, happens
from korealbert.vocab.tokenizer import SPECIAL

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Split:
    """Where R chunks are cut, and their labels in the sentence task."""

    first: Ints
    """[R]: pieces of the segment that comes first; the whole length in rows with one segment."""
    length: Ints
    """[R]: pieces of both segments."""
    rotation: Ints
    """[R]: index in the chunk of the piece that comes first."""
    label: Ints
    """[R]: 1 = swapped, 0 = in order, -1 = no label."""


@dataclass(frozen=True)
class Layout:
    """R pairs of segments in final order, without special pieces."""

    ids: Array
    """uint16 or uint32 [R, N], 0 after ``length``."""
    first: Ints
    """[R]: pieces of the first segment."""
    length: Ints
    """[R]: pieces of both."""
    sentence_first: Bools
    """[R, N]: whether the piece is the first of a sentence (or of the rest of one), or of a segment."""

    @property
    def inside(self) -> Bools:
        """Return which places hold a piece: [R, N]."""
        return before(self.length, self.ids.shape[1])

    def take(self, rows: Ints) -> Layout:
        """Return some of the rows."""
        return Layout(self.ids[rows], self.first[rows], self.length[rows], self.sentence_first[rows])

    def segment_first(self) -> Bools:
        """Return which pieces are the first of their segment: [R, N]."""
        marks = np.zeros(self.ids.shape, dtype=np.bool_)
        marks[:, 0] = True
        paired = np.flatnonzero(self.first < self.length)
        marks[paired, self.first[paired]] = True
        return marks

    def positions(self, rows: Ints, places: Ints) -> Ints:
        """Return the positions in the final layout, with special pieces, of the pieces at ``places`` of ``rows``."""
        return places + 1 + (places >= self.first[rows])


def before(ends: Ints, width: int) -> Bools:
    """Return which places come before the row's end: bool [R, width]."""
    places, limits = np.arange(width), ends[:, None]
    if width < 1 << 15:  # A quarter of the memory, which limits the speed here.
        places, limits = places.astype(np.int16), limits.astype(np.int16)
    marks: Bools = places < limits
    return marks


def split_rows(rows: Rows, draws: RowDraws, task: SentenceTask) -> Split:
    """Cut each chunk after U{1..m-1} of its m sentences; under SOP swap the parts with probability 0.5.

    A chunk of one sentence stays one segment without a label (the official code takes a second one from another document and
    labels it, google-research/albert#234). Under NSP every pair starts in order with label 0.
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
    """Return which pieces are the first of a sentence, if each chunk begins at its ``rotation`` and wraps: bool [R, N]."""
    marks = np.zeros((len(rows), width), dtype=np.bool_)
    counts = np.diff(rows.sentence_offsets)
    sums = np.concatenate([[0], np.cumsum(rows.sentence_lengths, dtype=np.int64)])
    begins = sums[rows.sentence_offsets[:-1]]
    place = sums[:-1] - np.repeat(begins + rotation, counts)
    place += np.where(place < 0, np.repeat(rows.length.astype(np.int64), counts), 0)
    marks[np.repeat(np.arange(len(rows)), counts), place] = True
    return marks


def rotate(values: Array, rotation: Ints, length: Ints) -> Array:
    """Rotate each row [R, N] to start at its own ``rotation``, wrapping at its ``length``; the rest stays."""
    rotated = np.flatnonzero(rotation)
    if not rotated.size:
        return values
    width = values.shape[1]
    # Both parts of a rotated row are contiguous in memory. Copying them as such is faster than N single elements.
    parts = windows(np.concatenate([values[:1], values[rotated], values[:1]]).reshape(-1), width)
    first, whole = (length - rotation)[rotated], length[rotated]
    begin = (1 + np.arange(len(rotated))) * width
    ahead, wrapped = parts[begin + rotation[rotated]], parts[begin - first]
    result = values.copy()
    result[rotated] = np.where(before(first, width), ahead, np.where(before(whole, width), wrapped, values[rotated]))
    return result


def windows(values: Array, width: int) -> Array:
    """Return every ``width`` consecutive values, without a copy: [len(values) - width + 1, width]."""
    return np.lib.stride_tricks.sliding_window_view(values, width)


def lay_out(rows: Rows, split: Split) -> Layout:
    """Return the pieces of each pair in final order."""
    ids = rotate(rows.ids, split.rotation, split.length)
    starts = sentence_starts(rows, ids.shape[1], split.rotation)
    paired = np.flatnonzero(split.first < split.length)
    starts[:, 0] = True
    starts[paired, split.first[paired]] = True
    return Layout(ids, split.first, split.length, starts)


def continue_with(ids: Array, first: Ints, foreign: Array, start: Array) -> Array:
    """Return each row's [R, N] ``first`` pieces, then those of the ``foreign`` row from ``start`` on, then garbage."""
    place = np.arange(ids.shape[1]) - first[:, None]
    source = np.clip(place + start.astype(np.int64)[:, None], 0, ids.shape[1] - 1)
    return np.where(place < 0, ids, np.take_along_axis(foreign, source, axis=1))


def with_specials(ids: Array, first: Ints, length: Ints, sequence_length: int) -> tuple[Ints, Ints, Ints]:
    """Insert the special pieces.

    Returns ``input_ids`` [R, L], ``token_type_ids`` [R, L] (0 up to the first ``[SEP]``, then 1, 0 on padding) and ``lengths``
    [R] (including special pieces).
    """
    first_end, lengths = first + 1, length + 2 + (first < length)
    # Pieces of the first segment move by one place, those of the second by two.
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
    """Return rows and places of the true cells, row by row."""
    cells = np.flatnonzero(mask)
    rows = cells // mask.shape[1]
    return rows, cells - rows * mask.shape[1]


def ranges(begins: Ints, sizes: Ints) -> Ints:
    """Return ``begins[0]``, ``begins[0] + 1``, … (``sizes[0]`` numbers), then the numbers of the next range."""
    numbers: Ints = np.arange(int(sizes.sum())) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
    return numbers


def ranks_in_row(rows: Ints, count: int) -> Ints:
    """Return each flat item's rank within its row, given ascending row numbers."""
    return ranges(np.zeros(count, dtype=np.int64), np.bincount(rows, minlength=count))


def slots(counts: Ints, values: Array, width: int, dtype: Any, unused: int = 0) -> Array:
    """Arrange flat values, ``counts`` per row, as fixed-width slots [R, width] with ``unused`` in the rest."""
    filled = np.full((len(counts), width), unused, dtype=dtype)
    filled[before(counts, width)] = values
    return filled


class Chunk(NamedTuple):
    """A range of one document's pieces."""

    begin: int
    """First piece, counted within the document."""
    length: int
    sentence_lengths: tuple[int, ...]
    """Pieces of each sentence (or part of one), summing to ``length``."""


@dataclass
class Chunks:
    """The chunks of one document, and the number of pieces that are in none."""

    chunks: list[Chunk] = field(default_factory=list)
    too_short: int = 0
    """Pieces of chunks below the minimum."""
    truncated: int = 0
    """Pieces beyond the end of a full chunk, if they are not carried over."""


def cut_document(
    sentence_lengths: Sequence[int],
    spaced: bytes,
    target_of: Callable[[int], int],
    *,
    max_pieces: int,
    min_pieces: int,
    carry: bool,
) -> Chunks:
    """Cut a document into chunks, in order.

    ``spaced`` [Σ sentence_lengths] is 1 for pieces that follow a space, where a sentence may be cut, else 0; ``target_of(i)``
    gives the length at which chunk i may end. A sentence without a space where a chunk has at least ``min_pieces`` is cut where
    the chunk is full, so only the end of a document can be too short.
    """
    result = Chunks()
    ends = list(accumulate(sentence_lengths))
    position = sentence = emitted = 0
    while sentence < len(ends):
        limit, target = position + max_pieces, position + target_of(emitted)
        after = bisect_right(ends, limit, sentence)  # The first sentence that does not fit completely.
        # The sentence that reaches the target; two segments need two sentences.
        last = max(bisect_left(ends, target, sentence), sentence + 1)
        emitted += 1
        cut = 0
        if last < after:
            after = last + 1
        elif after < len(ends):
            begin = ends[after - 1] if after > sentence else position
            cut = _cut_at_a_space(spaced, begin, limit - begin, needed=min_pieces - (begin - position))
        length = (ends[after - 1] if after > sentence else position) + cut - position
        if length >= min_pieces:
            parts = list(sentence_lengths[sentence:after])
            if parts:
                parts[0] = ends[sentence] - position
            if cut:
                parts.append(cut)
            result.chunks.append(Chunk(position, length, tuple(parts)))
        else:
            result.too_short += length
        position, sentence = position + length, after
        if cut and not carry:
            result.truncated += ends[after] - position
            position, sentence = ends[after], after + 1
    return result


def _cut_at_a_space(spaced: bytes, position: int, room: int, *, needed: int) -> int:
    """Return the most pieces that fit into ``room`` and end at a space, at least ``needed`` (which may be negative).

    If there are none, return ``room`` if pieces are needed, else 0.
    """
    cut = spaced.rfind(1, position + max(1, needed), position + room + 1)
    if cut < 0:
        return room if needed > 0 else 0
    return cut - position


class ChunkTargets:
    """Target lengths of chunks: ``max_pieces``, or with ``short_probability`` uniform in ``min_pieces``..``max_pieces``.

    The paper draws for every input sequence; the official code once per document, so that all its chunks are short
    ("document").
    """

    MORE = 64
    """Chunks drawn at once for a document with more of them than expected."""

    def __init__(
        self,
        doc_ids: npt.NDArray[np.uint64],
        expected: npt.NDArray[np.int64],
        *,
        seed: int,
        min_pieces: int,
        max_pieces: int,
        short_probability: float,
        scope: str,
    ) -> None:
        """``expected`` [D], at least 1, is about how many chunks each document will have."""
        self._seed, self._probability = seed, short_probability
        self._min, self._max, self._per_document = min_pieces, max_pieces, scope == "document"
        self._ids = doc_ids
        counts = np.ones_like(expected) if self._per_document else expected
        self._ends = np.cumsum(counts)
        chunks = np.arange(counts.sum()) - np.repeat(self._ends - counts, counts)
        self._drawn = self._draw(np.repeat(doc_ids, counts), chunks)

    def _draw(self, ids: Any, chunks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        short, length, *_ = draw_block(self._seed, Stream.CHUNK_TARGET, ids, minor=chunks)
        drawn = self._min + below(length, self._max - self._min + 1)
        return np.where(happens(short, self._probability), drawn, self._max)

    def of(self, document: int) -> Callable[[int], int]:
        """Return ``target_of`` for ``cut_document``: the target of each chunk of this document of the batch."""
        begin = self._ends[document - 1] if document else 0
        drawn: list[int] = self._drawn[begin : self._ends[document]].tolist()

        def target(chunk: int) -> int:
            if self._per_document:
                return drawn[0]
            while chunk >= len(drawn):
                more = np.arange(len(drawn), len(drawn) + self.MORE)
                drawn.extend(self._draw(self._ids[document], more).tolist())
            return drawn[chunk]

        return target
