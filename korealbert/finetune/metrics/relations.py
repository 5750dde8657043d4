"""KLUE-RE: micro F1 without ``no_relation``, and the area under precision-recall curves, each times 100.

Shapes: N examples, C classes, T distinct thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.classification import class_counts

Scores = npt.NDArray[np.float64]


def micro_f1(gold: Sequence[int], predicted: Sequence[int], *, classes: int, without: int) -> float:
    """F1 pooled over all classes but ``without``: a relation predicted where gold has none still counts as false."""
    counted = [number for number in range(classes) if number != without]
    return float(class_counts(gold, predicted, counted).micro_f1() * 100)


def auprc(gold: Sequence[int], probabilities_NC: npt.ArrayLike, mode: Mode) -> float:
    """Mean over classes, one against the rest, of the area under the curve that joins its points by straight lines.

    Official: over all classes, where one that never occurs in gold counts 50, for its recall is 1 throughout. Corrected: over
    the classes that occur. Either way exactly tied scores give about 51.7 over 30 classes, not the mean share of a class,
    because the line from (0, 1) to the only point is straight; ``average_precision`` has no such line.
    """
    curves = _curves(gold, probabilities_NC, mode)
    areas = [float(-np.sum(np.diff(recall_T) * (precision_T[1:] + precision_T[:-1]) / 2.0)) for recall_T, precision_T in curves]
    return float(np.average(areas) * 100)


def average_precision(gold: Sequence[int], probabilities_NC: npt.ArrayLike) -> float:
    """Mean over the classes that occur in gold of the area under the curve as a step function."""
    curves = _curves(gold, probabilities_NC, "corrected")
    areas = [float(-np.sum(np.diff(recall_T) * precision_T[:-1])) for recall_T, precision_T in curves]
    return float(np.average(areas) * 100)


def absent_classes(gold: Sequence[int], classes: int) -> list[int]:
    """The classes that never occur in gold, ascending."""
    return sorted(set(range(classes)) - set(gold))


def _curves(gold: Sequence[int], probabilities_NC: npt.ArrayLike, mode: Mode) -> list[tuple[Scores, Scores]]:
    scores_NC = np.asarray(probabilities_NC, dtype=np.float64)
    gold_N = np.asarray(gold)
    if scores_NC.ndim != 2 or len(scores_NC) != len(gold_N) or not len(gold_N):
        raise ValueError(f"precision and recall of scores {scores_NC.shape} for {len(gold_N):,} gold labels are undefined")
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
