"""Intervals and tests against textbook values, scipy, and what they must do on made-up systems."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from korealbert.finetune.resampling import Additive, Draws
from korealbert.finetune.statistics import Comparison, Interval, compare, interval, mcnemar, resampled, spread


def bootstrap(system: Additive, *, resamples: int = 400, seed: int = 3) -> Interval:
    """The 95 % interval of a system's score."""
    (scores,) = resampled([[system]], Draws(len(system.quantities_NK), resamples, seed))
    assert len(scores) == resamples
    return interval(scores, 0.95)


def difference(first: Additive, second: Additive, *, resamples: int = 400, seed: int = 3) -> Comparison:
    """How two systems differ."""
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
