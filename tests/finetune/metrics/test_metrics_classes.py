"""Scores of classes and relations equal scikit-learn's to the last bit; collapsed models get the published constants."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from korealbert.finetune.metrics.labels import (
    absent_classes,
    accuracy,
    auprc,
    average_precision,
    binary_f1,
    macro_f1,
    mcc,
    micro_f1,
)

Rows = list[tuple[int, int]]
rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=60)
RELATIONS = 30


def columns(rows: Rows) -> tuple[list[int], list[int]]:
    gold, predicted = zip(*rows, strict=True)
    return list(gold), list(predicted)


@settings(max_examples=30)
@given(rows)
def test_f1_and_matthews_are_those_of_scikit_learn(rows: Rows) -> None:
    gold, predicted = columns(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert macro_f1(gold, predicted) == sklearn_metrics.f1_score(gold, predicted, average="macro") * 100.0
        expected = sklearn_metrics.f1_score(gold, predicted, labels=[1], average=None)[0] * 100.0
        assert binary_f1(gold, predicted) == expected
        assert mcc(gold, predicted) == pytest.approx(100 * sklearn_metrics.matthews_corrcoef(gold, predicted), abs=1e-9)


@settings(max_examples=30)
@given(rows, st.integers(0, 5))
def test_relation_f1_counts_false_relations_but_not_the_left_out_class(rows: Rows, without: int) -> None:
    gold, predicted = columns(rows)
    counted = [c for c in range(6) if c != without]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = sklearn_metrics.f1_score(gold, predicted, average="micro", labels=counted) * 100.0
    assert micro_f1(gold, predicted, classes=6, without=without) == expected


@given(rows, st.permutations([1, 2, 3, 4, 5]))
def test_relation_f1_does_not_know_the_relations_names(rows: Rows, order: list[int]) -> None:
    gold, predicted = columns(rows)
    renamed = [0, *order]
    assert micro_f1([renamed[g] for g in gold], [renamed[p] for p in predicted], classes=6, without=0) == micro_f1(
        gold, predicted, classes=6, without=0
    )


@st.composite
def scored(draw: st.DrawFn, classes: int = 5) -> tuple[list[int], np.ndarray[Any, Any]]:
    """Gold classes, and scores with many ties."""
    gold = draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=40))
    values = draw(st.lists(st.integers(0, 4), min_size=len(gold) * classes, max_size=len(gold) * classes))
    return gold, np.array(values).reshape(len(gold), classes) / 4


@settings(max_examples=30)
@given(scored())
def test_areas_under_curves_are_those_of_scikit_learn(case: tuple[list[int], np.ndarray[Any, Any]]) -> None:
    gold, scores_NC = case
    is_gold_NC = np.eye(scores_NC.shape[1])[gold]
    areas, steps = [], []
    for column in range(scores_NC.shape[1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            precision, recall, _ = sklearn_metrics.precision_recall_curve(is_gold_NC[:, column], scores_NC[:, column])
            areas.append(sklearn_metrics.auc(recall, precision))
            steps.append(sklearn_metrics.average_precision_score(is_gold_NC[:, column], scores_NC[:, column]))
    present = sorted(set(gold))
    assert auprc(gold, scores_NC, "official") == pytest.approx(np.average(areas) * 100, abs=1e-12)
    assert auprc(gold, scores_NC, "corrected") == pytest.approx(np.average([areas[c] for c in present]) * 100, abs=1e-12)
    assert average_precision(gold, scores_NC) == pytest.approx(np.average([steps[c] for c in present]) * 100, abs=1e-12)


def test_a_relation_that_gold_lacks_counts_half_in_the_official_area() -> None:
    gold, scores_NC = [0, 1, 0, 1], np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
    assert auprc(gold, scores_NC, "official") == pytest.approx((100 + 100 + 50) / 3)
    assert auprc(gold, scores_NC, "corrected") == 100
    assert absent_classes(gold, 3) == [2]


def test_a_model_that_always_says_no_relation_scores_as_published() -> None:
    random = np.random.default_rng(0)
    gold = random.integers(0, RELATIONS, 7_765).tolist()
    assert micro_f1(gold, [0] * len(gold), classes=RELATIONS, without=0) == 0
    assert micro_f1(gold, gold, classes=RELATIONS, without=0) == 100
    ranked_at_random = random.random((len(gold), RELATIONS))
    assert auprc(gold, ranked_at_random, "official") == pytest.approx(100 / RELATIONS, abs=0.3)
    tied = np.full((len(gold), RELATIONS), 1 / RELATIONS)
    assert auprc(gold, tied, "official") == pytest.approx(100 * (1 / RELATIONS + 1) / 2, abs=0.01)
    assert average_precision(gold, tied) == pytest.approx(100 / RELATIONS, abs=0.01)


def test_a_majority_class_has_its_share_as_accuracy_and_no_correlation() -> None:
    cola, wnli = [1] * 721 + [0] * 322, [0] * 40 + [1] * 31
    assert round(accuracy(cola, [1] * 1_043), 2) == 69.13
    assert round(accuracy(wnli, [0] * 71), 2) == 56.34
    assert mcc(cola, [1] * 1_043) == 0


@pytest.mark.parametrize("metric", [macro_f1, binary_f1, mcc, accuracy])
@given(rows=rows, random=st.randoms(use_true_random=False))
def test_the_order_of_examples_does_not_matter(metric: Callable[..., float], rows: Rows, random: Any) -> None:
    before = metric(*columns(rows))
    random.shuffle(rows)
    assert metric(*columns(rows)) == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize("metric", [macro_f1, binary_f1, mcc])
def test_scores_of_nothing_or_of_unequal_lengths_are_errors(metric: Callable[..., float]) -> None:
    with pytest.raises(ValueError, match="undefined"):
        metric([], [])
    with pytest.raises(ValueError, match=r"2 predictions .* 3 gold"):
        metric([1, 2, 3], [1, 2])
