"""Batched scores over bootstrap samples of the examples, and with answers exchanged between two systems.

``Additive`` is for metrics that are functions of sums over examples, ``Correlated`` for Pearson's and Spearman's correlation.

Shapes: N examples, K additive quantities of each, M values to be ranked, G groups of equal values, B samples or exchanges
(always the last axis of arrays over examples).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from korealbert.finetune.metrics.labels import ClassCounts, mean_ranks

Counts = npt.NDArray[np.float64]
"""[N, B]: how often each example occurs in each sample."""

Masks = npt.NDArray[np.bool_]
"""[N, B]: whether the other system's answer to an example is used."""

Values = npt.NDArray[np.float64]

BLOCK_ENTRIES = 1 << 18
"""Resamples × examples per batch: arrays of this size stay in a processor's cache."""


def exact_sums(counts_NB: Counts, quantities_NK: Values) -> Values:
    """Return the sums [B, K] of quantities weighted by counts, independent of the order of summation.

    Each quantity is split into two integers with so few bits that all partial sums of products are exact. Together they keep
    at least 2^-52 of the largest quantity of its kind.
    """
    total = max(1.0, float(counts_NB.sum(axis=0).max(initial=0.0)))
    bits = 52 - int(np.frexp(total)[1])
    scale_K = bits - np.frexp(np.abs(quantities_NK).max(axis=0, initial=0.0))[1]
    scaled_NK = np.ldexp(quantities_NK, scale_K)
    high_NK = np.rint(scaled_NK)
    low_NK = np.rint(np.ldexp(scaled_NK - high_NK, bits))
    sums_BK = counts_NB.T @ high_NK
    if low_NK.any():
        sums_BK = sums_BK + np.ldexp(counts_NB.T @ low_NK, -bits)
    exact_BK: Values = np.ldexp(sums_BK, -scale_K)
    return exact_BK


class IncompleteAnswers(Protocol):
    """A system's answers, divided into kept and exchanged ones."""

    def completed(self, other: Self) -> Values:
        """Return scores [B] with another system's answers to the examples marked True."""
        ...


class Answered(Protocol):
    """A system's answers to all examples, reduced to what its score depends on."""

    def over(self, counts_NB: Counts) -> Values:
        """Return scores [B] over samples of the examples."""
        ...

    def parted(self, masks_NB: Masks) -> Any:
        """Return the answers as a ``IncompleteAnswers``, to be completed by one of the same kind."""
        ...


@dataclass(frozen=True)
class Additive:
    """A score that is a function of sums over examples, such as accuracy or F1."""

    quantities_NK: Values
    score: Callable[[Values], Values]
    """Computes scores [B] from sums [B, K] over N examples."""

    @classmethod
    def mean(cls, values: Sequence[float] | Values) -> Self:
        """Return a score that is the mean of one value per example, times 100."""
        values_N = np.asarray(values, dtype=np.float64)
        return cls(values_N[:, None], lambda sums_BK: 100 * sums_BK[:, 0] / len(values_N))

    @classmethod
    def of_counts(cls, counts: Sequence[Any] | Values, score: Callable[[ClassCounts], Values]) -> Self:
        """Return a function of class counts, times 100; each example has its right, gold and predicted counts [3 * C]."""
        counts_NK = np.asarray(counts, dtype=np.float64)
        return cls(counts_NK, lambda sums_BK: 100 * score(ClassCounts.joined(sums_BK)))

    def over(self, counts_NB: Counts) -> Values:
        """See ``Answered``."""
        return self.score(exact_sums(counts_NB, self.quantities_NK))

    def parted(self, masks_NB: Masks) -> _PartedSums:
        """See ``Answered``."""
        marked_BK = exact_sums(masks_NB.astype(np.float64), self.quantities_NK)
        return _PartedSums(exact_sums(np.ones((len(masks_NB), 1)), self.quantities_NK) - marked_BK, marked_BK, self.score)


@dataclass(frozen=True)
class _PartedSums:
    """Sums over the examples that keep their answers, and over those whose answers are exchanged."""

    kept_BK: Values
    marked_BK: Values
    score: Callable[[Values], Values]

    def completed(self, other: _PartedSums) -> Values:
        """See ``IncompleteAnswers``."""
        return self.score(self.kept_BK + other.marked_BK)


@dataclass(frozen=True)
class Draws:
    """Random samples and exchanges, the same for all systems, from a seeded generator."""

    examples: int
    resamples: int
    seed: int

    def counts(self) -> Iterator[Counts]:
        """Yield bootstrap samples (with replacement, of the examples' number), block by block."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, 0]))
        for size in self._blocks():
            rows = (generator.integers(self.examples, size=self.examples) for _ in range(size))
            yield np.stack([np.bincount(row, minlength=self.examples) for row in rows], axis=1).astype(np.float64)

    def masks(self) -> Iterator[Masks]:
        """Yield which examples to exchange, each with probability 1/2, block by block."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, 1]))
        for size in self._blocks():
            yield np.ascontiguousarray((generator.random((size, self.examples)) < 0.5).T)

    def _blocks(self) -> Iterator[int]:
        size = max(1, BLOCK_ENTRIES // self.examples)
        for done in range(0, self.resamples, size):
            yield min(size, self.resamples - done)


_CONSTANT_VARIANCE = 1e-30
"""Values up to 1 with at most this variance are constant: it is only rounding."""


@dataclass(frozen=True)
class Correlated:
    """Gold and predicted scores of examples, whose correlation is the score."""

    gold_N: Values
    predicted_N: Values
    by_rank: bool
    """True: Spearman's correlation. False: Pearson's."""

    def over(self, counts_NB: Counts) -> Values:
        """See ``Answered``."""
        if self.by_rank:
            return _correlations(ranks(self.gold_N, counts_NB), ranks(self.predicted_N, counts_NB), counts_NB)
        return _correlations(_scaled(self.gold_N)[:, None], _scaled(self.predicted_N)[:, None], counts_NB)

    def parted(self, masks_NB: Masks) -> _PartedScores:
        """See ``Answered``."""
        gold_N = mean_ranks(self.gold_N) if self.by_rank else _scaled(self.gold_N)
        return _PartedScores(self, gold_N[:, None], masks_NB)


@dataclass(frozen=True)
class _PartedScores:
    """A system's scores, of which those marked True are exchanged."""

    system: Correlated
    gold_N1: Values
    masks_NB: Masks

    def completed(self, other: _PartedScores) -> Values:
        """See ``IncompleteAnswers``."""
        both_M, count = np.concatenate([self.system.predicted_N, other.system.predicted_N]), len(self.gold_N1)
        if self.system.by_rank:
            both_MB = ranks(both_M, np.concatenate([~self.masks_NB, self.masks_NB]))
        else:
            both_MB = _scaled(both_M)[:, None]
        return _correlations(self.gold_N1, np.where(self.masks_NB, both_MB[count:], both_MB[:count]))


def ranks(values_M: Values, counts_MB: Counts | Masks) -> npt.NDArray[Any]:
    """Return the rank [M, B] of each value among all values, repeated by their counts; equal values share their mean rank.

    The rank of a value with count 0 is meaningless.
    """
    order_M = np.argsort(values_M, kind="stable")
    begins_M = np.diff(values_M[order_M], prepend=np.nan) != 0
    group_M = np.empty(len(values_M), dtype=np.int64)
    group_M[order_M] = np.cumsum(begins_M) - 1
    if counts_MB.dtype == np.bool_ and begins_M.all():
        return np.cumsum(counts_MB[order_M], axis=0, dtype=np.int32)[group_M]
    count_GB = np.add.reduceat(counts_MB[order_M].astype(np.float64), np.flatnonzero(begins_M), axis=0)
    rank_GB = np.cumsum(count_GB, axis=0)
    rank_GB -= (count_GB - 1) / 2
    ranked_MB: Values = rank_GB[group_M]
    return ranked_MB


def _scaled(values_N: Values) -> Values:
    """Scale values to [-1, 1] by a power of two, which is exact, so that their squares neither overflow nor vanish."""
    scaled_N: Values = np.ldexp(values_N, -np.frexp(np.abs(values_N).max())[1])
    return scaled_N


def _correlations(left_NB: Values, right_NB: Values, counts_NB: Counts | None = None) -> Values:
    """Return correlations [B] times 100 of examples repeated by their counts (default 1); 0 if a side is constant.

    A side whose columns are equal may be given as one column.
    """
    total: Any = len(left_NB) if counts_NB is None else counts_NB.sum(axis=0)
    left_NB, right_NB = (side - _weighed(side, counts_NB).sum(axis=0) / total for side in (left_NB, right_NB))
    pairs = ((left_NB, right_NB), (left_NB, left_NB), (right_NB, right_NB))
    # Sum row by row in the order of the examples: the order of BLAS and einsum differs between processors.
    covariance_B, left_B, right_B = ((one * _weighed(other, counts_NB)).sum(axis=0) for one, other in pairs)
    varies_B = np.minimum(left_B, right_B) > _CONSTANT_VARIANCE * total
    spread_B = np.sqrt(np.where(varies_B, left_B * right_B, 1.0))
    return np.clip(np.where(varies_B, 100 * covariance_B / spread_B, 0.0), -100.0, 100.0)


def _weighed(values_NB: Values, counts_NB: Counts | None) -> Values:
    return values_NB if counts_NB is None else values_NB * counts_NB
