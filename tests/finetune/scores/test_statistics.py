"""Intervals and tests agree with textbook values and scipy, and keep their promises on simulated systems."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, t

from korealbert.finetune.metrics import Interval
from korealbert.finetune.scores.resampling import Additive, Draws
from korealbert.finetune.scores.statistics import (
    Comparison,
    _deviation,
    _Mean,
    compare,
    intervals,
    is_clear,
    mcnemar,
    spread,
    t_quantile,
    t_tails,
)


def bootstrap(system: Additive, *, resamples: int = 400, seed: int = 3) -> Interval:
    """The 95 % interval of a system's score."""
    (ends,) = intervals([[system]], Draws(len(system.quantities_NK), resamples, seed), confidence=0.95)
    return ends


def difference(first: Additive, second: Additive, *, resamples: int = 400, seed: int = 3) -> Comparison:
    """Compare two systems."""
    (found,) = compare([[first], [second]], Draws(len(first.quantities_NK), resamples, seed), confidence=0.95)
    return found


def accuracy(right: list[bool] | np.ndarray) -> Additive:
    values = np.asarray(right, dtype=np.float64)
    return Additive(values[:, None], lambda sums: 100 * sums[:, 0] / len(values))


def test_seeds_are_summed_up() -> None:
    assert spread([80.0, 82.0, 87.0]) == (87.0, 83.0, pytest.approx(13**0.5), 82.0)
    assert spread([5.0]) == (5.0, 5.0, 0.0, 5.0)
    with pytest.raises(ValueError, match="no seed"):
        spread([])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80))
def test_mcnemar_is_the_exact_binomial_test_of_the_disagreements(pairs: list[tuple[bool, bool]]) -> None:
    first, second = zip(*pairs, strict=True)
    only_first = sum(a and not b for a, b in pairs)
    total = sum(a != b for a, b in pairs)
    expected = binomtest(only_first, total).pvalue if total else 1.0
    assert mcnemar(first, second) == pytest.approx(expected)
    assert mcnemar(second, first) == pytest.approx(mcnemar(first, second))


def test_mcnemar_of_many_and_of_unequal_answers() -> None:
    assert mcnemar([True] * 3000 + [False] * 2500, [False] * 3000 + [True] * 2500) == pytest.approx(
        binomtest(3000, 5500).pvalue
    )
    with pytest.raises(ValueError, match="cannot be paired"):
        mcnemar([True], [])


def test_an_interval_has_the_width_that_the_binomial_gives_it() -> None:
    right = np.arange(1000) % 4 > 0
    low, high = bootstrap(accuracy(right), resamples=2000, seed=1)
    assert low < 75 < high
    assert high - low == pytest.approx(2 * 1.96 * 100 * (0.75 * 0.25 / 1000) ** 0.5, rel=0.1)
    assert bootstrap(accuracy(right)) == bootstrap(accuracy(right))
    assert bootstrap(accuracy(np.ones(9))) == (100, 100)


def test_equal_systems_do_not_differ_and_unlike_ones_do() -> None:
    random = np.random.default_rng(0)
    good, bad = accuracy(random.random(600) < 0.9), accuracy(random.random(600) < 0.7)
    found = difference(good, bad)
    assert found.p_value == pytest.approx(1 / 401)
    assert found.interval.low > 0 and found.interval.low < found.difference < found.interval.high
    same = difference(good, good)
    assert (same.difference, same.p_value, same.interval) == (0, 1, (0, 0))
    opposite = difference(bad, good)
    assert (opposite.difference, opposite.p_value) == (-found.difference, found.p_value)


def test_p_values_of_approximate_randomisation_are_those_of_all_exchanges() -> None:
    first, second = [True, True, True, True, False, True], [True, False, False, True, False, True]
    wanted = abs(sum(first) - sum(second))
    exchanges = list(itertools.product((False, True), repeat=6))
    exact = sum(
        abs(sum((b - a if swap else a - b) for a, b, swap in zip(first, second, mask, strict=True))) >= wanted
        for mask in exchanges
    ) / len(exchanges)
    found = difference(accuracy(first), accuracy(second), resamples=4000, seed=0)
    assert found.p_value == pytest.approx(exact, abs=0.03)


def test_false_alarms_are_as_rare_as_promised() -> None:
    random = np.random.default_rng(5)
    alarms = 0
    for seed in range(60):
        first, second = accuracy(random.random(100) < 0.8), accuracy(random.random(100) < 0.8)
        alarms += difference(first, second, resamples=99, seed=seed).p_value <= 0.05
    assert alarms <= 8


@settings(max_examples=30)
@given(st.floats(0, 60), st.floats(0.5, 1e5))
def test_tails_and_quantiles_of_students_t_are_scipys(value: float, freedom: float) -> None:
    assert t_tails(value, freedom) == pytest.approx(2 * t.sf(value, freedom), rel=1e-9, abs=1e-15)
    assert t_quantile(0.95, freedom) == pytest.approx(t.ppf(0.975, freedom), rel=1e-9)


def test_students_t_of_many_is_normal() -> None:
    assert t_tails(1.5, float("inf")) == pytest.approx(2 * norm.sf(1.5))
    assert t_quantile(0.9, float("inf")) == pytest.approx(norm.ppf(0.95))
    for freedom in (1e8, 1e9, 1e15, 1e30):
        assert t_tails(1.5, freedom) == pytest.approx(2 * norm.sf(1.5), rel=1e-6)


def seeds(random: np.random.Generator, *, examples: int, count: int, sd: float, difficulty: np.ndarray) -> list[Additive]:
    """Simulate runs of a system: seeds differ by ``sd`` points, the difficulty of examples is the same for all."""
    chances = [np.clip(difficulty + random.normal(0, sd / 100), 0, 1) for _ in range(count)]
    return [accuracy(random.random(examples) < chance) for chance in chances]


@pytest.mark.parametrize(
    ("examples", "count", "sd", "spread_of_difficulty"),
    [(1_000, 3, 0.5, 0.0), (1_000, 3, 1.0, 0.25), pytest.param(4_000, 5, 1.0, 0.25, marks=pytest.mark.soak)],
)
def test_systems_that_differ_only_by_seeds_are_told_apart_in_one_of_twenty_trials(
    examples: int, count: int, sd: float, spread_of_difficulty: float
) -> None:
    """Intervals over examples only would do so in 20 to 80 of 100 trials."""
    random, trials, alarms, outside = np.random.default_rng(1), 300, 0, 0
    draws = _Drawn(examples, 100, 0, np.hstack(list(Draws(examples, 100, seed=0).counts())))
    for _ in range(trials):
        difficulty = np.clip(0.8 + random.normal(0, spread_of_difficulty, examples), 0, 1)
        pair = [seeds(random, examples=examples, count=count, sd=sd, difficulty=difficulty) for _ in range(2)]
        (found,) = compare(pair, draws, confidence=0.95)
        alarms += found.p_value < 0.05
        outside += not found.interval.low <= 0 <= found.interval.high
    assert outside == alarms
    assert 0.03 * trials <= alarms <= 0.07 * trials


@dataclass(frozen=True)
class _Drawn(Draws):
    """The same samples for every trial."""

    counts_NB: np.ndarray

    def counts(self) -> Any:
        yield self.counts_NB


def false_alarms(random: np.random.Generator, counts: tuple[int, ...], of_examples: float, trials: int) -> float:
    """How often a mean over seeds, or the difference of two, differs significantly from its true value, 0.

    Seeds' effects have variance 1; other examples change the result with variance ``of_examples``, which is known.
    """
    systems = [random.normal(size=(trials, count)) for count in counts]
    values = [scores.mean(axis=1) for scores in systems]
    away = np.abs(values[0] - sum(values[1:]) + random.normal(0, of_examples**0.5, trials))
    variances = [scores.var(axis=1, ddof=1) if scores.shape[1] > 1 else np.zeros(trials) for scores in systems]
    samples_B = np.array([0, (2 * of_examples) ** 0.5])
    found = np.array(
        [
            _deviation([_Mean(0, count, one, 0) for count, one in zip(counts, each, strict=True)], samples_B)
            for each in zip(*variances, strict=True)
        ]
    )
    return float(np.mean(2 * t.sf(away / found[:, 0], found[:, 1]) < 0.05))


_COUNTS = [(1, 2), (1, 3), (1, 5), (2, 2), (2, 3), (2, 5), (3, 3), (3, 5), (3, 10), (5, 5), (10, 2), (5, 20)]


@pytest.mark.parametrize("counts", [*_COUNTS, (2,), (3,)])
def test_false_alarms_are_as_rare_as_promised_for_any_numbers_of_seeds(counts: tuple[int, ...]) -> None:
    """Two seeds are furthest from 5 % if the variance of examples is a tenth of a seed's."""
    random = np.random.default_rng(11)
    assert 0.03 <= false_alarms(random, counts, 0.0, 4_000) <= 0.07
    assert 0.025 <= false_alarms(random, counts, 0.1, 4_000) <= 0.08


@pytest.mark.soak
@pytest.mark.parametrize("counts", [*_COUNTS, (2,), (3,)])
@pytest.mark.parametrize("of_examples", [0.03, 0.3, 1.0, 4.0])
def test_false_alarms_are_rare_for_any_variance_of_examples(counts: tuple[int, ...], of_examples: float) -> None:
    assert 0.02 <= false_alarms(np.random.default_rng(12), counts, of_examples, 20_000) <= 0.08


def test_one_seed_against_three_is_a_false_alarm_in_one_of_twenty_trials() -> None:
    """Simulated from answers: seeds differ on examples that are equally hard for all."""
    random, trials, examples = np.random.default_rng(1), 300, 50
    draws = Draws(examples, 20, seed=0)
    difficulty = 0.8 + random.normal(0, 0.1, examples)

    def run() -> Additive:
        right = difficulty + random.normal(0, 0.01)
        return Additive(right[:, None], lambda sums: 100 * sums[:, 0] / examples)

    alarms = 0
    for _ in range(trials):
        (found,) = compare([[run()], [run() for _ in range(3)]], draws, confidence=0.95)
        alarms += found.p_value < 0.05
        assert (found.p_value < 0.05) == (not found.interval.low <= 0 <= found.interval.high)
    assert 0.03 * trials <= alarms <= 0.07 * trials


def test_seeds_that_score_alike_to_the_last_digit_have_a_p_value() -> None:
    """Seven times 85.1 has a variance of 2e-28 by rounding, from which t had 1e57 degrees of freedom."""
    right = np.arange(1000) < 851
    alike = [accuracy(np.roll(right, 50 * n)) for n in range(7)]
    (found,) = compare([alike, [accuracy(np.arange(1000) < 800)] * 7], Draws(1000, 200, seed=0), confidence=0.95)
    assert found.difference == pytest.approx(5.1) and 0 < found.p_value < 0.01 and found.interval.low > 0


def test_an_interval_of_several_seeds_is_wider_than_that_of_examples_alone() -> None:
    random = np.random.default_rng(1)
    difficulty = np.full(2_000, 0.8)
    runs = seeds(random, examples=2_000, count=5, sd=5.0, difficulty=difficulty)
    draws = Draws(2_000, 300, seed=0)
    together, *each = intervals([runs, *([run] for run in runs)], draws, confidence=0.95)
    assert together.high - together.low > 1.5 * max(one.high - one.low for one in each)


def test_seeds_that_score_alike_by_different_answers_have_an_interval() -> None:
    draws = Draws(8, 300, seed=0)
    one, other = accuracy([True] * 4 + [False] * 4), accuracy([False] * 4 + [True] * 4)
    (ends,) = intervals([[one, other]], draws, confidence=0.95)
    assert ends.low < 50 < ends.high
    (ends,) = intervals([[one, one]], draws, confidence=0.95)
    assert ends.low < 50 < ends.high, "other examples count even where seeds agree"


def test_a_single_seed_beside_several_is_taken_to_vary_as_they_do() -> None:
    random = np.random.default_rng(4)
    runs = seeds(random, examples=2_000, count=4, sd=2.0, difficulty=np.full(2_000, 0.8))
    draws = Draws(2_000, 300, seed=0)
    (beside,) = compare([runs[:1], runs[1:]], draws, confidence=0.95)
    (alone,) = compare([runs[:1], runs[1:2]], draws, confidence=0.95)
    assert beside.interval.high - beside.interval.low > 2 * (alone.interval.high - alone.interval.low)


def test_an_interval_has_no_values_that_the_metric_cannot_have() -> None:
    wide = Interval(-317.63, 284.3)
    assert wide.of_score("macro_f1") == (0, 100) and wide.of_score("pearson") == wide.of_score("mcc") == (-100, 100)
    assert wide.of_difference("accuracy") == (-100, 100) and wide.of_difference("spearman") == (-200, 200)
    assert Interval(-17.63, 84.3).of_score("macro_f1") == (0, 84.3)
    assert Interval(12.0, 34.0).of_score("accuracy") == Interval(12.0, 34.0).of_difference("accuracy") == (12, 34)


def test_a_difference_on_ten_examples_is_clear_only_if_the_p_value_says_so_too() -> None:
    one, draws = accuracy([True] * 10), Draws(10, 1000, seed=0)
    for wrong, clear in ((4, False), (9, True)):
        (found,) = compare([[one], [accuracy([False] * wrong + [True] * (10 - wrong))]], draws, confidence=0.95)
        assert found.interval.low > 0 and is_clear(found.interval, found.p_value, 0.95) == clear
    assert not is_clear((-1.0, 3.0), 0.001, 0.95)
