"""Uncertainty of scores over examples and seeds: intervals of a mean over seeds, and of the difference of two systems.

A score depends on the system, the seed, the examples (which systems share), and the interaction of seed and examples. The
variance of a mean over seeds is the sum of two parts: the variance of the seeds' scores, which includes the interaction, and
the examples' own effect, which is the variance over bootstrap samples minus the interaction that these show too. A variance of
few seeds is imprecise, so intervals use Student's t with the degrees of freedom of Welch (1947) and Satterthwaite (1946).
Single seeds say nothing about other seeds: percentiles of the bootstrap and approximate randomisation (Noreen 1989) then
generalise over examples only.

All randomness comes from a seeded generator, so that equal arguments give equal figures.

Shapes: N examples, B samples or exchanges, S seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median, stdev
from typing import Any, NamedTuple, Self

import numpy as np

from korealbert.finetune.metrics import Interval, Mode
from korealbert.finetune.scores.resampling import Answered, Counts, Draws, Masks, Values
from korealbert.finetune.task import Example, Task


class _Spread(NamedTuple):
    """Scores over seeds: the best, mean and median, and the sample standard deviation (0 for one seed)."""

    best: float
    mean: float
    sd: float
    median: float


class Comparison(NamedTuple):
    """The difference of two systems on the same examples: the first one's score minus the second one's."""

    difference: float
    interval: Interval
    """Confidence interval of the difference."""
    p_value: float
    """Two-sided: the probability of a difference at least as large by chance."""


def spread(scores: Sequence[float]) -> _Spread:
    """Summarise the scores of some seeds. Raises ValueError if there are none."""
    if not scores:
        raise ValueError("scores of no seed have no mean")
    return _Spread(max(scores), mean(scores), stdev(scores) if len(scores) > 1 else 0.0, median(scores))


def _resampled(systems: Sequence[Sequence[Answered]], draws: Draws) -> list[Values]:
    """Return for each system the scores of its seeds over each sample of the examples, [S, B]."""
    parts = [[np.stack([seed.over(counts_NB) for seed in seeds]) for seeds in systems] for counts_NB in draws.counts()]
    return [np.concatenate(blocks, axis=1) for blocks in zip(*parts, strict=True)]


@dataclass(frozen=True)
class _Mean:
    """A mean over seeds, and the variance of the seeds."""

    value: float
    count: int
    """Number of seeds."""
    variance: float
    """Variance of the seeds' scores on these examples; 0 for one seed."""
    joint: float
    """The part of the variance that is the interaction of seeds and examples."""

    @classmethod
    def of(cls, scores_S: Values, samples_SB: Values) -> Self:
        """Estimate from scores over all examples, and over samples of them."""
        count = len(scores_S)
        if count == 1:
            return cls(float(scores_S[0]), 1, 0.0, 0.0)
        deviations_SB = samples_SB - samples_SB.mean(axis=0)
        joint = float(deviations_SB.var(axis=1, ddof=1).sum() / (count - 1))
        # Seeds that answer differently may have equal scores by chance. Their variance is then at least the interaction.
        variance = float(scores_S.var(ddof=1)) if np.ptp(scores_S) else joint
        return cls(float(scores_S.mean()), count, variance, joint)


def _deviation(means: Sequence[_Mean], samples_B: Values) -> tuple[float, float]:
    """Return the standard deviation of a mean over seeds, or of the difference of two, and its degrees of freedom.

    ``samples_B`` are its values over samples of the examples. Of two systems, the one with fewer seeds gets the pooled
    variance if its own is the smaller one: a small variance of few seeds is mostly chance.
    """
    freedoms = [mean.count - 1 for mean in means]
    freedom: float = sum(freedoms)
    few, many = min(means, key=lambda mean: mean.count), max(means, key=lambda mean: mean.count)
    pooled = few.count < many.count and few.variance < many.variance
    if pooled:
        variance = sum(own * mean.variance for own, mean in zip(freedoms, means, strict=True)) / freedom
        joint = sum(own * mean.joint for own, mean in zip(freedoms, means, strict=True)) / freedom
        means = [replace(mean, variance=variance, joint=joint) for mean in means]
    examples = max(0.0, float(samples_B.var(ddof=1)) - sum(mean.joint / mean.count for mean in means))
    seeds = sum(mean.variance / mean.count for mean in means)
    if not seeds:
        return math.sqrt(examples), math.inf
    if not pooled:
        welch = seeds**2 / sum((mean.variance / mean.count) ** 2 / (mean.count + 1) for mean in means) - 2
        freedom = min(max(welch, min(freedoms)), freedom)
    # Satterthwaite's exponent is 2. With one degree of freedom, and examples that add a tenth to the variance, it gives 13 %
    # false alarms, and this exponent 7 % (`tests/finetune/scores/test_statistics.py`).
    exponent = 2 * freedom / (freedom + 2)
    return math.sqrt(examples + seeds), freedom * ((examples + seeds) / seeds) ** exponent


def intervals(systems: Sequence[Sequence[Answered]], draws: Draws, *, confidence: float) -> list[Interval]:
    """Return the interval of each system's mean over seeds. With a single seed it is for other examples, not other seeds."""
    return [
        _interval([_Mean.of(scores_S, samples_SB)], samples_SB.mean(axis=0), confidence)
        for scores_S, samples_SB in zip(_scores(systems, draws), _resampled(systems, draws), strict=True)
    ]


def _scores(systems: Sequence[Sequence[Answered]], draws: Draws) -> list[Values]:
    everything = np.ones((draws.examples, 1))
    return [np.array([float(seed.over(everything)[0]) for seed in seeds]) for seeds in systems]


def _interval(means: Sequence[_Mean], samples_B: Values, confidence: float) -> Interval:
    if all(mean.count == 1 for mean in means):
        low, high = np.quantile(samples_B, [(1 - confidence) / 2, (1 + confidence) / 2])
        return Interval(float(low), float(high))
    deviation, freedom = _deviation(means, samples_B)
    value = means[0].value - sum(mean.value for mean in means[1:])
    reach = t_quantile(confidence, freedom) * deviation
    return Interval(value - reach, value + reach)


def compare(systems: Sequence[Sequence[Answered]], draws: Draws, *, confidence: float) -> list[Comparison]:
    """Compare the mean scores over seeds of each pair of systems, in the order of ``itertools.combinations``."""
    pairs = list(itertools.combinations(range(len(systems)), 2))
    samples = _resampled(systems, draws)
    means = [_Mean.of(*each) for each in zip(_scores(systems, draws), samples, strict=True)]
    single = [pair for pair in pairs if all(means[n].count == 1 for n in pair)]
    chance = dict(zip(single, _randomised(systems, single, draws), strict=True))
    found = []
    for pair in pairs:
        both = [means[n] for n in pair]
        difference, samples_B = both[0].value - both[1].value, samples[pair[0]].mean(axis=0) - samples[pair[1]].mean(axis=0)
        if pair in chance:
            p_value = chance[pair]
        else:
            deviation, freedom = _deviation(both, samples_B)
            p_value = t_tails(abs(difference) / deviation, freedom) if deviation else float(difference == 0)
        found.append(Comparison(difference, _interval(both, samples_B, confidence), p_value))
    return found


def _randomised(systems: Sequence[Sequence[Answered]], pairs: Sequence[tuple[int, int]], draws: Draws) -> list[float]:
    """Return the p-values of approximate randomisation for pairs of systems with one seed each."""
    scores = [float(scores_S[0]) for scores_S in _scores(systems, draws)]
    extreme = np.zeros(len(pairs))
    for masks_NB in draws.masks() if pairs else ():
        halves = [seeds[0].parted(masks_NB) for seeds in systems]
        for number, (first, second) in enumerate(pairs):
            swapped_B = halves[first].completed(halves[second]) - halves[second].completed(halves[first])
            extreme[number] += np.count_nonzero(np.abs(swapped_B) >= abs(scores[first] - scores[second]) - 1e-9)
    return [float((count + 1) / (draws.resamples + 1)) for count in extreme]


def is_clear(interval: Sequence[float], p_value: float, confidence: float) -> bool:
    """Return whether chance hardly explains a difference: 0 is outside its interval and its p-value is at most 1 - confidence.

    Between single seeds, an interval of few examples is too narrow: if one system answers 4 of 10 examples better and none
    worse, it is 10 to 70, but the p-value is 0.12. Between means of several seeds, both say the same.
    """
    low, high = interval
    return not low <= 0 <= high and p_value <= 1 - confidence


def t_tails(t: float, freedom: float) -> float:
    """Return the two-sided tail probability of Student's t distribution."""
    if freedom > _NORMAL_FREEDOM:
        return math.erfc(t / math.sqrt(2))
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


_NORMAL_FREEDOM = 1e8
"""With more degrees of freedom the normal distribution (relative error 1e-7) is more exact than the rounded fraction."""


def t_quantile(share: float, freedom: float) -> float:
    """Return the distance from 0 within which Student's t lies with probability ``share``."""
    low, high = 0.0, 1.0
    while t_tails(high, freedom) > 1 - share:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_tails(middle, freedom) > 1 - share else (low, middle)
    return high


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Compute the regularised incomplete beta function by its continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    if x <= 0:
        return 0.0
    begin = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    fraction = 1.0
    for m in range(min(_MAX_TERMS, 30 + int(3 * max(a, b) ** 0.5)), 0, -1):  # More terms change no bit.
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        fraction = 1 + odd / (1 + even / fraction)
    return begin / fraction


_MAX_TERMS = 400
"""Limits the continued fraction's terms; enough for any number of seeds."""


def mcnemar(first_right: Sequence[bool], second_right: Sequence[bool]) -> float:
    """Return the exact two-sided p-value of McNemar's test on the examples that only one system gets right.

    It is 1 if the systems never differ. Raises ValueError if the lists differ in length.
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
class UnreducedAnswers:
    """Answers whose score cannot be reduced: it is computed anew for every resample."""

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
        """Compute the task's main metric."""
        return self.task.score(examples, predicted, self.mode).values[self.task.metric]


@dataclass(frozen=True)
class _PartedAnswers:
    """Answers of which those marked True are exchanged."""

    whole: UnreducedAnswers
    masks_NB: Masks

    def completed(self, other: _PartedAnswers) -> Values:
        """See ``IncompleteAnswers``."""
        pairs = list(zip(self.whole.predicted, other.whole.predicted, strict=True))
        mixed = (
            [theirs if swap else ours for swap, (ours, theirs) in zip(mask, pairs, strict=True)] for mask in self.masks_NB.T
        )
        return np.array([self.whole.score(self.whole.examples, predicted) for predicted in mixed])


def answered(task: Task, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered:
    """Return the answers in the cheapest form from which the task's main metric can be computed."""
    return task.answered(examples, predicted, mode) or UnreducedAnswers(task, examples, predicted, mode)


def mcnemar_of(examples: Sequence[Example], first: Sequence[Any], second: Sequence[Any]) -> float:
    """Return the p-value of McNemar's exact test between two lists of predicted classes."""
    return mcnemar(*([e.target == p for e, p in zip(examples, predicted, strict=True)] for predicted in (first, second)))
