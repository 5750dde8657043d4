"""Scores of predictions with one label or number per example, times 100: classes, KLUE-RE's relations, correlations.

Classes are numbers or names. Correlations use exact sums, so that the last digit does not depend on the order of summation,
which BLAS chooses by processor.

Shapes: N examples, C classes, T distinct thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from korealbert.finetune.metrics import Mode

Counts = npt.NDArray[np.float64]


class ClassCounts(NamedTuple):
    """How often each class [C] is right, is gold, and is predicted; or [B, C] for B samples."""

    right_C: Counts
    gold_C: Counts
    predicted_C: Counts

    @classmethod
    def joined(cls, sums_BK: Counts) -> ClassCounts:
        """Split the concatenated counts [B, 3 * C]."""
        return cls(*np.split(sums_BK, 3, axis=-1))

    def f1(self, *, zero_division: float = 0.0) -> Counts:
        """Return the F1 of each class, from 0 to 1; ``zero_division`` for a class that is neither gold nor predicted."""
        occurrences_C = self.gold_C + self.predicted_C
        safe_C = np.where(occurrences_C == 0, 1.0, occurrences_C)
        return np.where(occurrences_C == 0, zero_division, 2 * self.right_C / safe_C)

    def macro_f1(self) -> Counts:
        """Return the mean F1 over the classes that are gold or predicted, from 0 to 1; 0 if there are none."""
        occur = np.count_nonzero(self.gold_C + self.predicted_C, axis=-1)
        mean: Counts = self.f1().sum(axis=-1) / np.maximum(occur, 1)
        return mean

    def micro_f1(self) -> Counts:
        """Return the F1 of the pooled counts, from 0 to 1; 0 if nothing is gold or predicted."""
        occurrences = self.gold_C.sum(axis=-1) + self.predicted_C.sum(axis=-1)
        pooled: Counts = 2 * self.right_C.sum(axis=-1) / np.maximum(occurrences, 1)
        return pooled

    def mcc(self) -> Counts:
        """Return Matthews' correlation of the counts of all classes, from -1 to 1; 0 if either side is constant."""
        total = self.gold_C.sum(axis=-1)
        covariance = self.right_C.sum(axis=-1) * total - (self.gold_C * self.predicted_C).sum(axis=-1)
        sides = (total**2 - (side_C**2).sum(axis=-1) for side_C in (self.predicted_C, self.gold_C))
        spread = np.prod(list(sides), axis=0)
        return np.where(spread == 0, 0.0, covariance / np.sqrt(np.where(spread == 0, 1.0, spread)))


def class_counts(gold: Sequence[Any], predicted: Sequence[Any], classes: Sequence[Any]) -> ClassCounts:
    """Count ``classes``; other values are ignored and never right.

    Raises ValueError if gold and predicted differ in length or are empty.
    """
    check_lengths(gold, predicted, "F1")
    number: dict[Hashable, int] = {name: index for index, name in enumerate(classes)}
    gold_N = np.array([number.get(value, -1) for value in gold])
    predicted_N = np.array([number.get(value, -1) for value in predicted])

    def count(values_N: npt.NDArray[Any]) -> Counts:
        return np.bincount(values_N[values_N >= 0], minlength=len(classes)).astype(np.float64)

    return ClassCounts(count(gold_N[gold_N == predicted_N]), count(gold_N), count(predicted_N))


def check_lengths(gold: Sized, predicted: Sized, metric: str) -> None:
    """Raise ValueError if the two differ in length or are empty."""
    if len(gold) != len(predicted) or not len(gold):
        problem = f"{metric} of {len(predicted):,} predictions for {len(gold):,} gold labels is undefined"
        raise ValueError(f"{problem}; give one prediction for each")


def accuracy(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of equal labels, times 100. Raises ValueError if the two differ in length or are empty."""
    check_lengths(gold, predicted, "accuracy")
    return float(100 * np.mean([left == right for left, right in zip(gold, predicted, strict=True)]))


def macro_f1(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the mean F1 of the classes that are gold or predicted, times 100: scikit-learn's default, and YNAT's metric."""
    classes = sorted({*gold, *predicted})
    return float(np.mean(class_counts(gold, predicted, classes).f1()) * 100)


def binary_f1(gold: Sequence[int], predicted: Sequence[int]) -> float:
    """Return the F1 of class 1, times 100; 0 if it is neither gold nor predicted."""
    return float(class_counts(gold, predicted, [1]).f1()[0] * 100)


def mcc(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return Matthews' correlation of any number of classes, times 100; 0 if either side is constant."""
    classes = sorted({*gold, *predicted})
    # Multiply last, as a user of scikit-learn would: the order of operations decides the last digit.
    return float(100 * class_counts(gold, predicted, classes).mcc())


Scores = npt.NDArray[np.float64]


def micro_f1(gold: Sequence[int], predicted: Sequence[int], *, classes: int, without: int) -> float:
    """Return the F1 pooled over all classes but ``without``; predicting a relation where gold has none is a false positive."""
    counted = [number for number in range(classes) if number != without]
    return float(class_counts(gold, predicted, counted).micro_f1() * 100)


def auprc(gold: Sequence[int], probabilities_NC: npt.ArrayLike, mode: Mode) -> float:
    """Return the mean over classes (one against the rest) of the area under the linearly interpolated precision-recall curve.

    Official: over all classes; one that never occurs in gold counts 50, because its recall is always 1. Corrected: over the
    classes that occur. In both modes, equal scores for all examples give about 51.7 over 30 classes instead of a class's mean
    share, because of the straight line from (0, 1) to the only point; ``average_precision`` has no such line.
    """
    curves = _curves(gold, probabilities_NC, mode)
    areas = [float(-np.sum(np.diff(recall_T) * (precision_T[1:] + precision_T[:-1]) / 2.0)) for recall_T, precision_T in curves]
    return float(np.average(areas) * 100)


def average_precision(gold: Sequence[int], probabilities_NC: npt.ArrayLike) -> float:
    """Return the mean over the classes in gold of the area under the precision-recall curve as a step function."""
    curves = _curves(gold, probabilities_NC, "corrected")
    areas = [float(-np.sum(np.diff(recall_T) * precision_T[:-1])) for recall_T, precision_T in curves]
    return float(np.average(areas) * 100)


def absent_classes(gold: Sequence[int], classes: int) -> list[int]:
    """Return the classes that never occur in gold, ascending."""
    return sorted(set(range(classes)) - set(gold))


def _curves(gold: Sequence[int], probabilities_NC: npt.ArrayLike, mode: Mode) -> list[tuple[Scores, Scores]]:
    scores_NC = np.asarray(probabilities_NC, dtype=np.float64)
    gold_N = np.asarray(gold)
    check_lengths(gold_N, scores_NC, "AUPRC")
    present = set(gold)
    classes = [c for c in range(scores_NC.shape[1]) if mode == "official" or c in present]
    return [_curve(gold_N == c, scores_NC[:, c]) for c in classes]


def _curve(is_gold_N: npt.NDArray[np.bool_], scores_N: Scores) -> tuple[Scores, Scores]:
    """Recall (falling) and precision at each distinct score, from the lowest up, and the point (0, 1) at the end."""
    order_N = np.argsort(-scores_N, kind="stable")
    falling_N = scores_N[order_N]
    last_T = np.r_[np.nonzero(np.diff(falling_N))[0], len(falling_N) - 1]
    found_T = np.cumsum(is_gold_N[order_N])[last_T].astype(np.float64)
    precision_T = found_T / (1 + last_T)
    recall_T = found_T / found_T[-1] if found_T[-1] else np.ones_like(found_T)
    return np.r_[recall_T[::-1], 0.0], np.r_[precision_T[::-1], 1.0]


_Vector = npt.NDArray[np.float64]


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Linear correlation times 100, in [-100, 100].

    0 where either side is constant, as a single value is. Raises ValueError when the two differ in length, are empty, or hold a
    value that is not finite.
    """
    return 100 * _correlation(*_vectors(gold, predicted))


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Rank correlation times 100, in [-100, 100]: Pearson's of the ranks, equal values sharing their mean rank."""
    gold_N, predicted_N = _vectors(gold, predicted)
    # Twice a mean rank is an integer, and so is twice its distance from the mean of all ranks, (N + 1) / 2.
    left_N, right_N = ((2 * mean_ranks(x) - (len(x) + 1)).astype(np.int64).astype(object) for x in (gold_N, predicted_N))
    return 100 * _cosine(*(int((a * b).sum()) for a, b in ((left_N, right_N), (left_N, left_N), (right_N, right_N))))


def mean_ranks(values_N: _Vector) -> _Vector:
    """Return ranks from 1; equal values share their mean rank."""
    _, group_N, count_G = np.unique(values_N, return_inverse=True, return_counts=True)
    last_rank_G = np.cumsum(count_G)
    ranks: _Vector = (last_rank_G - (count_G - 1) / 2)[group_N]
    return ranks


def _vectors(gold: Sequence[float], predicted: Sequence[float]) -> tuple[_Vector, _Vector]:
    check_lengths(gold, predicted, "correlation")
    vectors = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    for name, values_N in zip(("gold score", "prediction"), vectors, strict=True):
        if wrong := np.flatnonzero(~np.isfinite(values_N)).tolist():
            raise ValueError(
                f"correlation with a {name} of {values_N[wrong[0]]} (number {wrong[0] + 1}) is undefined; give a finite number"
            )
    return vectors


def _correlation(left_N: _Vector, right_N: _Vector) -> float:
    # Compare the values: after subtracting a rounded mean, constant values may have a variance of 1e-33.
    if left_N.min() == left_N.max() or right_N.min() == right_N.max():
        return 0.0
    # Scale by a power of two, which is exact, so that the mean does not overflow. Then scale by the largest deviation, so that
    # squares neither overflow nor vanish.
    left_N, right_N = (np.ldexp(x, -np.frexp(np.abs(x).max())[1]) for x in (left_N, right_N))
    left_N, right_N = (x - math.fsum(x) / len(x) for x in (left_N, right_N))
    left_N, right_N = (x / np.abs(x).max() for x in (left_N, right_N))
    return _cosine(*(math.fsum(a * b) for a, b in ((left_N, right_N), (left_N, left_N), (right_N, right_N))))


def _cosine(product: float, left: float, right: float) -> float:
    """Return the cosine of two vectors from the sums of their products and squares; 0 if one vector is zero."""
    # With this order of arguments nan stays nan.
    return min(max(product / math.sqrt(left * right), -1.0), 1.0) if left and right else 0.0
