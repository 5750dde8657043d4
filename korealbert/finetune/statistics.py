"""What a score over a sample of examples and seeds can say: intervals by bootstrap, paired tests of two systems.

Draws come from a generator that a seed makes, so that the same arguments give the same figures.

Shapes: N examples, K additive quantities of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Answered(Protocol):
    """A system's answers to examples, as far as its score depends on them."""

    def over(self, rows: Rows) -> float:
        """The score over the examples of these numbers, some more than once."""

    def exchanged(self, other: Self, mask: Mask) -> float:
        """The score over all examples with another system's answers to those marked True."""


@dataclass(frozen=True)
class Additive:
    """A score that is a function of sums over examples: accuracy of right answers, F1 of counts."""

    quantities_NK: npt.NDArray[np.float64]
    score: Callable[[npt.NDArray[np.float64]], float]
    """The score from the sums [K] over N examples."""

    def over(self, rows: Rows) -> float:
        """See ``Answered``."""
        return self.score(self.quantities_NK[rows].sum(axis=0))

    def exchanged(self, other: Additive, mask: Mask) -> float:
        """See ``Answered``."""
        return self.score(np.where(mask[:, None], other.quantities_NK, self.quantities_NK).sum(axis=0))


class Spread(NamedTuple):
    """Scores over seeds: the best, mean and median, and the sample standard deviation (0 for one seed)."""

    best: float
    mean: float
    sd: float
    median: float


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float


class Comparison(NamedTuple):
    """Two systems on the same examples: the first one's score less the second one's, and how surely it differs from 0."""

    difference: float
    interval: Interval
    """Of the difference, by bootstrap of the examples."""
    p_value: float
    """Two-sided, by approximate randomisation: how often chance alone gives a difference as large."""


def spread(scores: Sequence[float]) -> Spread:
    """Raises ValueError when there are none."""
    if not scores:
        raise ValueError("scores of no seed have no mean")
    return Spread(max(scores), mean(scores), stdev(scores) if len(scores) > 1 else 0.0, median(scores))


def bootstrap(seeds: Sequence[Answered], examples: int, *, resamples: int, confidence: float, seed: int) -> Interval:
    """Percentile interval of the mean score of some seeds over samples of so many examples, drawn with replacement."""
    return _percentiles([mean_over(seeds, rows) for rows in _samples(examples, resamples, seed)], confidence)


def compare(
    first: Sequence[Answered],
    second: Sequence[Answered],
    examples: int,
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> Comparison:
    """Paired bootstrap and approximate randomisation (Noreen 1989) of two systems' mean scores on the same examples.

    Each draw of examples, and each exchange of answers, is the same for all seeds. Where one system has more seeds than the
    other, answers are exchanged with the other's seeds in turn.
    """
    everything = np.arange(examples)
    difference = mean_over(first, everything) - mean_over(second, everything)
    differences = [mean_over(first, rows) - mean_over(second, rows) for rows in _samples(examples, resamples, seed)]
    generator = np.random.Generator(np.random.Philox(key=[seed, 1]))
    extreme = 0
    for _ in range(resamples):
        mask = generator.random(examples) < 0.5
        swapped = _mean_exchanged(first, second, mask) - _mean_exchanged(second, first, mask)
        extreme += abs(swapped) >= abs(difference) - 1e-9
    return Comparison(difference, _percentiles(differences, confidence), (extreme + 1) / (resamples + 1))


def mean_over(seeds: Sequence[Answered], rows: Rows) -> float:
    """Mean score of some seeds over the examples of these numbers."""
    return mean(answered.over(rows) for answered in seeds)


def _mean_exchanged(seeds: Sequence[Answered], others: Sequence[Answered], mask: Mask) -> float:
    return mean(answered.exchanged(others[n % len(others)], mask) for n, answered in enumerate(seeds))


def mcnemar(first_right: Sequence[bool], second_right: Sequence[bool]) -> float:
    """Exact two-sided p-value of McNemar's test: are the examples that only one system gets right evenly shared?

    1 where the systems never differ. Raises ValueError when the lists differ in length.
    """
    if len(first_right) != len(second_right):
        raise ValueError(f"{len(first_right):,} and {len(second_right):,} answers cannot be paired; score the same examples")
    only_first = sum(a and not b for a, b in zip(first_right, second_right, strict=True))
    only_second = sum(b and not a for a, b in zip(first_right, second_right, strict=True))
    total = only_first + only_second
    if total == 0:
        return 1.0
    logs = [_log_binomial(total, k) - total * math.log(2) for k in range(min(only_first, only_second) + 1)]
    return min(1.0, 2 * math.fsum(map(math.exp, logs)))


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _samples(examples: int, resamples: int, seed: int) -> list[Rows]:
    generator = np.random.Generator(np.random.Philox(key=[seed, 0]))
    return [generator.integers(examples, size=examples) for _ in range(resamples)]


def _percentiles(values: Sequence[float], confidence: float) -> Interval:
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
