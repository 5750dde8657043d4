"""Counter-based random numbers (Philox4x32-10, vectorised), and 64-bit hashes.

A draw is a function of (seed, stream, id, minor, index): the seed of the spec, what the draw decides, its document or example,
its view or chunk, and a running index. No draw depends on workers, shard order or batch size, and disabling one kind of noise
changes no other draw. The hashes are the same on every machine and in every release.

Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), whose published answers the tests check.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b

import numpy as np
import numpy.typing as npt


def hash64(text: str) -> int:
    """Return the 64-bit BLAKE2b hash of a text, which may contain lone surrogates."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def mix64(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix 64-bit words bijectively, so that every input bit affects every output bit (the finaliser of splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = words >> np.uint64(shift)
        mixed ^= words
        mixed *= np.uint64(factor)
        words = mixed
    last = words >> np.uint64(31)
    last ^= words
    return last


Words = npt.NDArray[np.uint64]
"""Random 32-bit words, stored as uint64 so that ``below`` cannot overflow."""

_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_COUNTERS_AT_ONCE = 8_192
"""Counters computed together, few enough that their words stay in the CPU's cache over all rounds."""
_ATTEMPT_BIT, _STREAM_BIT = 12, 24
"""The first word of a counter holds the block from bit 0 on, the attempt and the stream from these bits on."""
_MAX_INDEX = 4 << _ATTEMPT_BIT
"""Indices of a draw are below this, so that their blocks of four words end below the attempt."""


class Stream(IntEnum):
    """What a draw decides. Numbers are never reused, so that streams stay independent."""

    VOCABULARY_SAMPLE = 1
    HELDOUT = 2
    CHUNK_TARGET = 3
    SEGMENT_SPLIT = 4
    NEXT_SENTENCE = 5
    MASK_ORDER = 6
    MASK_NGRAM = 7
    MASK_REPLACEMENT = 8
    MOVE_ROW = 9
    MOVE_CHOICE = 10
    MOVE_ORDER = 11
    MOVE_BATCH = 12
    MASK_PIECE = 13
    MOVE_PARTNER = 14


def philox4x32(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Return four random words for each counter of four words. The arrays broadcast; all values are below 2**32."""
    shape = np.broadcast_shapes(*(word.shape for word in counter))
    lanes = np.broadcast_arrays(*counter)
    rows = max(1, _COUNTERS_AT_ONCE // max(1, math.prod(shape[1:])))
    if not shape or shape[0] <= rows:
        return _rounds(lanes, key)
    words = np.empty((4, *shape), dtype=np.uint64)
    for start in range(0, shape[0], rows):
        part = slice(start, start + rows)
        for lane, drawn in enumerate(_rounds([word[part] for word in lanes], key)):
            words[lane, part] = drawn
    return words[0], words[1], words[2], words[3]


def _rounds(counter: Sequence[Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        h0, h1 = p0 >> _HALF, p1 >> _HALF
        h1 ^= c1
        h1 ^= np.uint64(k0)
        h0 ^= c3
        h0 ^= np.uint64(k1)
        p0 &= _MASK
        p1 &= _MASK
        c0, c1, c2, c3 = h1, p1, h0, p0
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def draw_block(
    seed: int, stream: Stream, ids: npt.ArrayLike, *, minor: npt.ArrayLike = 0, block: npt.ArrayLike = 0, attempt: int = 0
) -> tuple[Words, Words, Words, Words]:
    """Return four words for every id.

    ``ids`` (64 bits), ``minor`` (32 bits: view or chunk number) and ``block`` (24 bits) broadcast to the shape of the result.
    ``attempt`` (12 bits) counts the attempts of rejection sampling. It shares the upper 12 bits of ``block``: a stream with
    attempts has blocks below 2**12. Raises ValueError for a seed outside 0..2**64-1.
    """
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed lies in 0..2**64-1, not {seed}")
    assert 0 <= attempt < 1 << (_STREAM_BIT - _ATTEMPT_BIT)
    blocks, wide = np.asarray(block, dtype=np.uint64), np.asarray(ids, dtype=np.uint64)
    assert blocks.max(initial=0) < 1 << (_ATTEMPT_BIT if attempt else _STREAM_BIT)
    purpose = np.uint64((stream << _STREAM_BIT) | (attempt << _ATTEMPT_BIT))
    counter = (
        blocks | purpose,
        np.asarray(minor, dtype=np.uint64) & _MASK,
        wide & _MASK,
        wide >> _HALF,
    )
    return philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))


@dataclass(frozen=True)
class RowDraws:
    """The draws for R examples in one view."""

    seed: int
    view: int
    ids: Words
    """Example ids [R]."""

    def take(self, rows: npt.NDArray[np.int64]) -> RowDraws:
        """Return the draws for some of the examples."""
        return RowDraws(self.seed, self.view, self.ids[rows])

    def block(
        self, stream: Stream, rows: npt.NDArray[np.int64] | None = None, *, block: npt.ArrayLike = 0, attempt: int = 0
    ) -> tuple[Words, Words, Words, Words]:
        """Return ``draw_block`` for these rows (default: all); ``rows`` and ``block`` broadcast."""
        ids = self.ids if rows is None else self.ids[rows]
        return draw_block(self.seed, stream, ids, minor=self.view, block=block, attempt=attempt)

    def matrix(self, stream: Stream, columns: int) -> Words:
        """Return ``columns`` words for each row, uint64 [R, columns]. Column j does not depend on ``columns``."""
        assert columns <= _MAX_INDEX
        blocks = np.arange(-(-columns // 4), dtype=np.uint64)
        lanes = draw_block(self.seed, stream, self.ids[:, None], minor=self.view, block=blocks)
        return np.stack(lanes, axis=-1).reshape(len(self.ids), 4 * len(blocks))[:, :columns]


def below(words: Words, bound: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return uniform integers in 0..bound-1 (bound ≤ 2**32) by multiply and shift, with a bias of at most bound / 2**32."""
    return ((words * np.asarray(bound, dtype=np.uint64)) >> _HALF).astype(np.int64)


def happens(words: Words, probability: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return True with this probability, to a resolution of 2**-32."""
    return words < (np.asarray(probability, dtype=np.float64) * 2.0**32).astype(np.uint64)
