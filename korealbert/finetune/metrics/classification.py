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
    """How often each class [C] is right, is gold, and is predicted; or [B, C] for B times as many examples."""

    right_C: Counts
    gold_C: Counts
    predicted_C: Counts

    @classmethod
    def joined(cls, sums_BK: Counts) -> ClassCounts:
        """From the three side by side, [B, 3 * C]."""
        return cls(*np.split(sums_BK, 3, axis=-1))

    def f1(self, *, zero_division: float = 0.0) -> Counts:
        """F1 of each class, from 0 to 1; ``zero_division`` where a class is neither gold nor predicted."""
        occurrences_C = self.gold_C + self.predicted_C
        safe_C = np.where(occurrences_C == 0, 1.0, occurrences_C)
        return np.where(occurrences_C == 0, zero_division, 2 * self.right_C / safe_C)

    def macro_f1(self) -> Counts:
        """Mean F1 over the classes that are gold or predicted, from 0 to 1; 0 where there are none."""
        occur = np.count_nonzero(self.gold_C + self.predicted_C, axis=-1)
        mean: Counts = self.f1().sum(axis=-1) / np.maximum(occur, 1)
        return mean

    def micro_f1(self) -> Counts:
        """F1 over the pooled counts, from 0 to 1; 0 where there is nothing to find and nothing was found."""
        occurrences = self.gold_C.sum(axis=-1) + self.predicted_C.sum(axis=-1)
        pooled: Counts = 2 * self.right_C.sum(axis=-1) / np.maximum(occurrences, 1)
        return pooled

    def mcc(self) -> Counts:
        """Matthews' correlation, from -1 to 1, of counts of all classes; 0 where either side is constant."""
        total = self.gold_C.sum(axis=-1)
        covariance = self.right_C.sum(axis=-1) * total - (self.gold_C * self.predicted_C).sum(axis=-1)
        sides = (total**2 - (side_C**2).sum(axis=-1) for side_C in (self.predicted_C, self.gold_C))
        spread = np.prod(list(sides), axis=0)
        return np.where(spread == 0, 0.0, covariance / np.sqrt(np.where(spread == 0, 1.0, spread)))


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
    # Times 100 last, as a user of scikit-learn would: the order of operations decides the last digit.
    return float(100 * class_counts(gold, predicted, classes).mcc())
