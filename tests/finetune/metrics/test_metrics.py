"""Scores agree with scipy and scikit-learn, and have a documented value where those return nan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score

from korealbert.finetune import tasks
from korealbert.finetune.metrics.labels import accuracy, mean_ranks, pearson, spearman
from korealbert.finetune.task import Example

scores = st.integers(-100, 100).map(lambda n: n / 8)
pairs = st.lists(st.tuples(scores, scores), min_size=2, max_size=40).map(lambda rows: tuple(map(list, zip(*rows, strict=True))))
varied = pairs.filter(lambda columns: all(len(set(column)) > 1 for column in columns))


@settings(max_examples=30)
@given(varied)
def test_correlations_are_those_of_scipy(columns: tuple[list[float], list[float]]) -> None:
    gold, predicted = columns
    assert pearson(gold, predicted) == pytest.approx(100 * stats.pearsonr(gold, predicted).statistic, abs=1e-6)
    assert spearman(gold, predicted) == pytest.approx(100 * stats.spearmanr(gold, predicted).statistic, abs=1e-6)
    assert mean_ranks(np.array(gold)).tolist() == stats.rankdata(gold).tolist()


@settings(max_examples=30)
@given(varied, st.floats(0.1, 50), st.floats(-50, 50))
def test_correlations_do_not_see_scale_and_shift(columns: tuple[list[float], list[float]], scale: float, shift: float) -> None:
    gold, predicted = columns
    moved = [scale * value + shift for value in predicted]
    assert pearson(gold, moved) == pytest.approx(pearson(gold, predicted), abs=1e-5)
    assert spearman(gold, [8 * value + 3 for value in predicted]) == pytest.approx(spearman(gold, predicted), abs=1e-9)


def test_scores_of_any_size_correlate() -> None:
    for size in (1e308, 1e-300, 5e-324):
        assert pearson([1.0, 2.0, 3.0], [0.0, size, size]) == pytest.approx(pearson([1, 2, 3], [0, 1, 1]))
        assert pearson([1.0, 2.0, 3.0], [-size, 0.0, size]) == pytest.approx(100)
    assert spearman([1.0, 2.0, 3.0], [1e308, -1e308, 0.0]) == pytest.approx(-50)


@settings(max_examples=30)
@given(varied, st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_examples(columns: tuple[list[float], list[float]], random: object) -> None:
    order = list(range(len(columns[0])))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = [[column[i] for i in order] for column in columns]
    assert pearson(*shuffled) == pytest.approx(pearson(*columns), abs=1e-9)
    assert spearman(*shuffled) == pytest.approx(spearman(*columns), abs=1e-9)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_accuracy_is_that_of_scikit_learn(rows: list[tuple[int, int]]) -> None:
    gold, predicted = zip(*rows, strict=True)
    assert accuracy(gold, predicted) == pytest.approx(100 * accuracy_score(gold, predicted))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_have_no_correlation(wrong: float) -> None:
    for metric in (pearson, spearman):
        with pytest.raises(ValueError, match=rf"correlation with a prediction of {wrong} \(number 2\) is undefined; give"):
            metric([1.0, 2.0, 3.0], [1.0, wrong, 3.0])
        with pytest.raises(ValueError, match="correlation with a gold score of"):
            metric([wrong, 2.0, 3.0], [1.0, 2.0, 3.0])


def examples(*targets: float) -> list[Example]:
    return [Example(str(number), "", target, pair="") for number, target in enumerate(targets)]


def test_constant_predictions_score_zero_with_a_warning() -> None:
    task = tasks.load("korsts")
    result = task.score(examples(1.0, 2.0, 5.0), [0.1 + 0.2] * 3, "official")
    assert result.values == {"spearman": 0.0, "pearson": 0.0}
    assert result.warnings == ("every prediction is the same: correlations are set to 0",)
    assert task.score(examples(1.0, 2.0, 5.0), [0.0, 0.5, 0.6], "official").warnings == ()


def test_a_single_example_has_no_correlation() -> None:
    task = tasks.load("klue_sts")
    result = task.score(examples(4.0), [3.5], "official")
    assert result.undefined == dict.fromkeys(("pearson", "spearman"), "there is only one example")
    assert result.values == {"pearson": 0.0, "f1": 100.0, "spearman": 0.0}
    assert result.warnings == ("there is only one example: correlations are set to 0",)
    assert task.score(examples(4.0), [3.5], "corrected").undefined == {}
    answered = tasks.load("korsts").answered(examples(4.0), [3.5], "corrected")
    assert answered is not None and answered.over(np.ones((1, 1))).tolist() == [0.0]


def test_one_label_for_everything_is_worth_a_warning() -> None:
    task = tasks.load("nsmc")
    assert task.score(examples(0, 1, 1), [1, 1, 1], "official").warnings == ("every prediction is 'positive'",)
    assert task.score(examples(0, 1, 1), [1, 1, 0], "official").warnings == ()


def test_scores_of_nothing_or_of_unequal_lengths_are_errors() -> None:
    for metric in (accuracy, pearson, spearman):
        with pytest.raises(ValueError, match="undefined"):
            metric([], [])
        with pytest.raises(ValueError, match=r"2 predictions .* 3 gold"):
            metric([1, 2, 3], [1, 2])
