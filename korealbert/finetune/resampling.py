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
        return self.score(counts_NB.T @ self.quantities_NK)

    def parted(self, masks_NB: Masks) -> PartedSums:
        """See ``Answered``."""
        marked_BK = masks_NB.T.astype(np.float64) @ self.quantities_NK
        return PartedSums(self.quantities_NK.sum(axis=0) - marked_BK, marked_BK, self.score)


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
