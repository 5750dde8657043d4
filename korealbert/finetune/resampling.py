"""Scores over samples of a benchmark's examples, and with answers exchanged between two systems, many draws at a time.

Shapes: N examples, K additive quantities of each, B draws: last, for what happens to an example in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.float64]
"""[N, B]: how often each example stands in each sample."""

Masks = npt.NDArray[np.bool_]
"""[N, B]: the examples to which another system answers."""

Values = npt.NDArray[np.float64]

BLOCK_ENTRIES = 1 << 18
"""Draws times examples at a time: arrays of so many stay in a processor's cache."""


def exact_sums(counts_NB: Counts, quantities_NK: Values) -> Values:
    """Sums [B, K] of quantities that stand there as often as counted, the same whatever the order of summation.

    Each quantity is cut into two integers of so few bits that every partial sum of a product is one too. Together they keep it
    to at least 2^-52 of the largest of its kind.
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


class Half(Protocol):
    """A system's answers as exchanges part them."""

    def completed(self, other: Self) -> Values:
        """Scores [B] with another system's answers to the examples marked True."""
        ...


class Answered(Protocol):
    """A system's answers to all examples, as far as its score depends on them."""

    def over(self, counts_NB: Counts) -> Values:
        """Scores [B] over samples of the examples."""
        ...

    def parted(self, masks_NB: Masks) -> Any:
        """The answers as a ``Half``, to be completed by that of a system of the same kind."""
        ...


@dataclass(frozen=True)
class Additive:
    """A score that is a function of sums over examples: accuracy of right answers, F1 of counts."""

    quantities_NK: Values
    score: Callable[[Values], Values]
    """Scores [B] from sums [B, K] over N examples."""

    def over(self, counts_NB: Counts) -> Values:
        """See ``Answered``."""
        return self.score(exact_sums(counts_NB, self.quantities_NK))

    def parted(self, masks_NB: Masks) -> PartedSums:
        """See ``Answered``."""
        marked_BK = exact_sums(masks_NB.astype(np.float64), self.quantities_NK)
        return PartedSums(exact_sums(np.ones((len(masks_NB), 1)), self.quantities_NK) - marked_BK, marked_BK, self.score)


@dataclass(frozen=True)
class PartedSums:
    """Sums over the examples that keep their answers, and over those that do not."""

    kept_BK: Values
    marked_BK: Values
    score: Callable[[Values], Values]

    def completed(self, other: PartedSums) -> Values:
        """See ``Half``."""
        return self.score(self.kept_BK + other.marked_BK)


@dataclass(frozen=True)
class Draws:
    """What chance gives: the same samples and exchanges for all systems, from a generator that a seed makes."""

    examples: int
    resamples: int
    seed: int

    def counts(self) -> Iterator[Counts]:
        """Samples with replacement of as many examples as there are, block by block."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, 0]))
        for size in self._blocks():
            rows = (generator.integers(self.examples, size=self.examples) for _ in range(size))
            yield np.stack([np.bincount(row, minlength=self.examples) for row in rows], axis=1).astype(np.float64)

    def masks(self) -> Iterator[Masks]:
        """Examples to exchange, each with a chance of one half, block by block."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, 1]))
        for size in self._blocks():
            yield np.ascontiguousarray((generator.random((size, self.examples)) < 0.5).T)

    def _blocks(self) -> Iterator[int]:
        size = max(1, BLOCK_ENTRIES // self.examples)
        for done in range(0, self.resamples, size):
            yield min(size, self.resamples - done)
