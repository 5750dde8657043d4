"""Uncertainty of scores over examples and seeds: bootstrap intervals and paired tests of two systems.

All randomness comes from a seeded generator, so that the same arguments give the same figures.

Shapes: N examples, B samples or exchanges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Any, NamedTuple

import numpy as np

from korealbert.finetune.metrics import Mode
from korealbert.finetune.resampling import Answered, Counts, Draws, Half, Masks, Values
from korealbert.finetune.task import Example, Task


class _Spread(NamedTuple):
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


def spread(scores: Sequence[float]) -> _Spread:
    """Raises ValueError when there are none."""
    if not scores:
        raise ValueError("scores of no seed have no mean")
    return _Spread(max(scores), mean(scores), stdev(scores) if len(scores) > 1 else 0.0, median(scores))


def resampled(systems: Sequence[Sequence[Answered]], draws: Draws) -> list[Values]:
    """For each system the mean score of its seeds over each sample of the examples, [B] for all B draws."""
    parts = [[_mean([seed.over(counts_NB) for seed in seeds]) for seeds in systems] for counts_NB in draws.counts()]
    return [np.concatenate(blocks) for blocks in zip(*parts, strict=True)]


def interval(scores_B: Values, confidence: float) -> Interval:
    """Percentile interval of resampled scores."""
    low, high = np.quantile(scores_B, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def compare(systems: Sequence[Sequence[Answered]], draws: Draws, *, confidence: float) -> list[Comparison]:
    """Paired bootstrap and approximate randomisation (Noreen 1989) of the mean scores of any two systems, each with seeds.

    Each draw of examples, and each exchange of answers, is the same for all seeds. Where one system has more seeds than the
    other, answers are exchanged with the other's seeds in turn. Pairs are in the order of ``itertools.combinations``.
    """
    pairs = list(itertools.combinations(range(len(systems)), 2))
    everything = np.ones((draws.examples, 1))
    means = [float(_mean([seed.over(everything) for seed in seeds])[0]) for seeds in systems]
    samples = resampled(systems, draws)
    extreme = np.zeros(len(pairs))
    for masks_NB in draws.masks():
        halves = [[seed.parted(masks_NB) for seed in seeds] for seeds in systems]
        for number, (first, second) in enumerate(pairs):
            swapped_B = _completed(halves[first], halves[second]) - _completed(halves[second], halves[first])
            extreme[number] += np.count_nonzero(np.abs(swapped_B) >= abs(means[first] - means[second]) - 1e-9)
    return [
        Comparison(
            means[first] - means[second],
            interval(samples[first] - samples[second], confidence),
            float((count + 1) / (draws.resamples + 1)),
        )
        for (first, second), count in zip(pairs, extreme, strict=True)
    ]


def _completed(seeds: Sequence[Half], others: Sequence[Half]) -> Values:
    return _mean([half.completed(others[n % len(others)]) for n, half in enumerate(seeds)])


def _mean(scores: Sequence[Values]) -> Values:
    mean_B: Values = np.mean(np.stack(scores), axis=0)
    return mean_B


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


@dataclass(frozen=True)
class Whole:
    """Answers whose score has no cheaper form: it is computed anew for every draw."""

    task: Task
    examples: Sequence[Example]
    predicted: Sequence[Any]
    mode: Mode

    def over(self, counts_NB: Counts) -> Values:
        """See ``Answered``."""
        numbers = np.arange(len(self.examples))
        samples = (np.repeat(numbers, counts_N.astype(np.int64)).tolist() for counts_N in counts_NB.T)
        return np.array([self.score([self.examples[n] for n in rows], [self.predicted[n] for n in rows]) for rows in samples])

    def parted(self, masks_NB: Masks) -> _PartedAnswers:
        """See ``Answered``."""
        return _PartedAnswers(self, masks_NB)

    def score(self, examples: Sequence[Example], predicted: Sequence[Any]) -> float:
        """The task's own metric."""
        return self.task.score(examples, predicted, self.mode).values[self.task.metric]


@dataclass(frozen=True)
class _PartedAnswers:
    """Answers, of which those marked True are the other system's."""

    whole: Whole
    masks_NB: Masks

    def completed(self, other: _PartedAnswers) -> Values:
        """See ``Half``."""
        pairs = list(zip(self.whole.predicted, other.whole.predicted, strict=True))
        mixed = (
            [theirs if swap else ours for swap, (ours, theirs) in zip(mask, pairs, strict=True)] for mask in self.masks_NB.T
        )
        return np.array([self.whole.score(self.whole.examples, predicted) for predicted in mixed])


def answered(task: Task, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered:
    """The answers as far as the task's own metric depends on them."""
    return task.answered(examples, predicted, mode) or Whole(task, examples, predicted, mode)


def mcnemar_of(examples: Sequence[Example], first: Sequence[Any], second: Sequence[Any]) -> float:
    """The p-value of McNemar's exact test between two lists of predicted classes."""
    return mcnemar(*([e.target == p for e, p in zip(examples, predicted, strict=True)] for predicted in (first, second)))
