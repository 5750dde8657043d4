"""Scores of predicted classes, times 100."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def accuracy(gold: Sequence[int], predicted: Sequence[int]) -> float:
    """Share of equal labels, times 100. Raises ValueError when the two differ in length or are empty."""
    if len(gold) != len(predicted) or not len(gold):
        raise ValueError(f"accuracy of {len(predicted):,} predictions for {len(gold):,} gold labels is undefined")
    return float(100 * np.mean(np.asarray(gold) == np.asarray(predicted)))
