"""Scores of predicted classes, times 100. Classes are anything hashable that sorts: numbers, or names.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.float64]


class ClassCounts(NamedTuple):
    """How often each class [C] is right, is gold, and is predicted."""

    right_C: Counts
    gold_C: Counts
    predicted_C: Counts

    def f1(self, *, zero_division: float = 0.0) -> Counts:
        """F1 of each class, from 0 to 1; ``zero_division`` where a class is neither gold nor predicted."""
        occurrences_C = self.gold_C + self.predicted_C
        safe_C = np.where(occurrences_C == 0, 1.0, occurrences_C)
        return np.where(occurrences_C == 0, zero_division, 2 * self.right_C / safe_C)

    def macro_f1(self) -> float:
        """Mean F1 over the classes that are gold or predicted, from 0 to 1; 0 where there are none."""
        occurs_C = self.gold_C + self.predicted_C > 0
        return float(np.mean(self.f1()[occurs_C])) if occurs_C.any() else 0.0

    def micro_f1(self) -> float:
        """F1 over the pooled counts, from 0 to 1; 0 where there is nothing to find and nothing was found."""
        occurrences = float(self.gold_C.sum() + self.predicted_C.sum())
        return float(2 * self.right_C.sum() / occurrences) if occurrences else 0.0


def class_counts(gold: Sequence[Any], predicted: Sequence[Any], classes: Sequence[Any]) -> ClassCounts:
    """The counts of ``classes``, in their order; other values are nobody's right ones.

    Raises ValueError when gold and predicted differ in length or are empty.
    """
    check_lengths(gold, predicted, "F1")
    number: dict[Hashable, int] = {name: index for index, name in enumerate(classes)}
    gold_N = np.array([number.get(value, -1) for value in gold])
    predicted_N = np.array([number.get(value, -1) for value in predicted])

    def count(values_N: npt.NDArray[Any]) -> Counts:
        return np.bincount(values_N[values_N >= 0], minlength=len(classes)).astype(np.float64)

    return ClassCounts(count(gold_N[gold_N == predicted_N]), count(gold_N), count(predicted_N))


def check_lengths(gold: Sequence[Any], predicted: Sequence[Any], metric: str) -> None:
    """Raise ValueError when the two differ in length or are empty."""
    if len(gold) != len(predicted) or not len(gold):
        raise ValueError(f"{metric} of {len(predicted):,} predictions for {len(gold):,} gold labels is undefined")


def accuracy(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Share of equal labels, times 100. Raises ValueError when the two differ in length or are empty."""
    check_lengths(gold, predicted, "accuracy")
    return float(100 * np.mean([left == right for left, right in zip(gold, predicted, strict=True)]))


def macro_f1(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Mean F1 of the classes that are gold or predicted anywhere, times 100: scikit-learn's default, and YNAT's metric."""
    classes = sorted({*gold, *predicted})
    return float(np.mean(class_counts(gold, predicted, classes).f1()) * 100)


def binary_f1(gold: Sequence[int], predicted: Sequence[int]) -> float:
    """F1 of class 1, times 100; 0 where class 1 is neither gold nor predicted."""
    return float(class_counts(gold, predicted, [1]).f1()[0] * 100)


def mcc(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Matthews' correlation times 100, in [-100, 100], for any number of classes; 0 where either side is constant."""
    classes = sorted({*gold, *predicted})
    right_C, gold_C, predicted_C = class_counts(gold, predicted, classes)
    total = float(len(gold))
    covariance = right_C.sum() * total - gold_C @ predicted_C
    spread = (total**2 - predicted_C @ predicted_C) * (total**2 - gold_C @ gold_C)
    # In scikit-learn's order of operations, which decides the last digit.
    return float(100 * (covariance / np.sqrt(spread))) if spread else 0.0
