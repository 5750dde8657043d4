"""Correlations of predicted with gold scores, times 100. A constant side has no correlation and counts as 0.

Sums are exact, so that the last digit does not depend on the order of summation, which BLAS chooses by processor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Vector = npt.NDArray[np.float64]


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Linear correlation times 100, in [-100, 100]. Raises ValueError when the two differ in length or have under 2 values."""
    return 100 * _correlation(*_vectors(gold, predicted))


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Rank correlation times 100, in [-100, 100]: Pearson's of the ranks, equal values sharing their mean rank."""
    gold_N, predicted_N = _vectors(gold, predicted)
    # Twice a mean rank is an integer, and so is twice its distance from the mean of all ranks, (N + 1) / 2.
    left_N, right_N = ((2 * mean_ranks(x) - (len(x) + 1)).astype(np.int64).astype(object) for x in (gold_N, predicted_N))
    return 100 * _cosine(*(int((a * b).sum()) for a, b in ((left_N, right_N), (left_N, left_N), (right_N, right_N))))


def mean_ranks(values_N: _Vector) -> _Vector:
    """Ranks from 1; equal values share the mean of the ranks they take up."""
    _, group_N, count_G = np.unique(values_N, return_inverse=True, return_counts=True)
    last_rank_G = np.cumsum(count_G)
    ranks: _Vector = (last_rank_G - (count_G - 1) / 2)[group_N]
    return ranks


def _vectors(gold: Sequence[float], predicted: Sequence[float]) -> tuple[_Vector, _Vector]:
    if len(gold) != len(predicted) or len(gold) < 2:
        raise ValueError(f"correlation of {len(predicted):,} predictions with {len(gold):,} gold scores is undefined")
    return np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)


def _correlation(left_N: _Vector, right_N: _Vector) -> float:
    # Constancy is asked of the values: after subtracting a rounded mean, a constant may leave a variance of 1e-33.
    if left_N.min() == left_N.max() or right_N.min() == right_N.max():
        return 0.0
    # Scaled by a power of two, which is exact, values of any size have a mean; scaled by the largest deviation from it, they
    # neither overflow nor vanish when squared.
    left_N, right_N = (np.ldexp(x, -np.frexp(np.abs(x).max())[1]) for x in (left_N, right_N))
    left_N, right_N = (x - math.fsum(x) / len(x) for x in (left_N, right_N))
    left_N, right_N = (x / np.abs(x).max() for x in (left_N, right_N))
    return _cosine(*(math.fsum(a * b) for a, b in ((left_N, right_N), (left_N, left_N), (right_N, right_N))))


def _cosine(product: float, left: float, right: float) -> float:
    """Cosine of two vectors from the sums of their products and squares; 0 where one is all zeros."""
    return max(-1.0, min(1.0, product / math.sqrt(left * right))) if left and right else 0.0
