"""Cut a document's sentences into chunks of at most n_max pieces: the text of one example each.

Sentences are added until the target is reached and there are two of them (two segments need two sentences). The last
sentence rarely ends where the chunk is full; the official ALBERT code throws the overhang away, about half a sentence per
example. Here it is cut before a space and opens the next chunk ("carry"), or is dropped and counted ("truncate").
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from korealbert.philox import Stream, below, draw_block, happens


class Chunk(NamedTuple):
    """A stretch of one document's pieces."""

    begin: int
    """First piece, counted within the document."""
    length: int
    """Pieces."""
    sentence_lengths: tuple[int, ...]
    """Pieces of each sentence (or part of one), summing to ``length``."""


@dataclass
class Chunks:
    """The chunks of one document, and the pieces that are in none."""

    chunks: list[Chunk] = field(default_factory=list)
    too_short: int = 0
    """Pieces of chunks below the minimum."""
    truncated: int = 0
    """Pieces beyond the end of a full chunk, when they are not carried over."""


def cut_document(
    sentence_lengths: Sequence[int],
    spaced: bytes,
    target_of: Callable[[int], int],
    *,
    max_pieces: int,
    min_pieces: int,
    carry: bool,
) -> Chunks:
    """Chunks of a document in order.

    ``spaced`` [Σ sentence_lengths] is 1 for pieces that follow a space, where a sentence may be cut, else 0;
    ``target_of(i)`` gives the length at which chunk i may end. What has no space for ``max_pieces`` pieces is cut where the
    chunk is full.
    """
    result = Chunks()
    ends = list(accumulate(sentence_lengths))
    position = sentence = emitted = 0
    while sentence < len(ends):
        limit, target = position + max_pieces, position + target_of(emitted)
        after = bisect_right(ends, limit, sentence)  # The first sentence that does not fit whole.
        # The sentence with which the target is reached; two segments need two.
        last = max(bisect_left(ends, target, sentence), sentence + 1)
        emitted += 1
        cut = 0
        if last < after:
            after = last + 1
        elif after < len(ends):
            begin = ends[after - 1] if after > sentence else position
            cut = _cut_at_a_space(spaced, begin, limit - begin, forced=after == sentence)
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


def _cut_at_a_space(spaced: bytes, position: int, room: int, *, forced: bool) -> int:
    """The most pieces that fit into ``room`` and end at a space. Without such a place: all of it if ``forced``, else 0."""
    cut = spaced.rfind(1, position + 1, position + room + 1)
    if cut < 0:
        return room if forced else 0
    return cut - position


class ChunkTargets:
    """Target lengths of chunks: ``max_pieces``, or with ``short_probability`` uniform in ``min_pieces``..``max_pieces``.

    The paper draws for every input sequence; the official code once per document, so that all chunks are short ("document").
    """

    MORE = 64
    """Chunks drawn in one go for a document with more of them than expected."""

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
        """``expected`` [D], at least 1: about how many chunks each document will have."""
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
        """``target_of`` for ``cut_document``: the target of each chunk of the document at this place of the batch."""
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
