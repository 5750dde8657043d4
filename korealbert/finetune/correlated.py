"""Pearson's and Spearman's correlation over many samples and exchanges at once, which are no functions of sums over examples.

Shapes: N examples, M values to be ranked, G groups of equal ones, B draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from korealbert.finetune.metrics.correlation import mean_ranks
from korealbert.finetune.resampling import Counts, Masks, Values

NO_SPREAD = 1e-30
"""Mean square deviation, of values up to 1, that rounding leaves to a constant."""


@dataclass(frozen=True)
class Correlated:
    """Scores that a system gives to examples, beside the gold ones."""

    gold_N: Values
    predicted_N: Values
    by_rank: bool
    """Spearman's correlation, that of the ranks."""

    def over(self, counts_NB: Counts) -> Values:
        """See ``Answered``."""
        if self.by_rank:
            return _correlations(ranks(self.gold_N, counts_NB), ranks(self.predicted_N, counts_NB), counts_NB)
        return _correlations(_scaled(self.gold_N)[:, None], _scaled(self.predicted_N)[:, None], counts_NB)

    def parted(self, masks_NB: Masks) -> PartedScores:
        """See ``Answered``."""
        gold_N = mean_ranks(self.gold_N) if self.by_rank else _scaled(self.gold_N)
        return PartedScores(self, gold_N[:, None], masks_NB)


@dataclass(frozen=True)
class PartedScores:
    """A system's scores, of which those marked True are another's."""

    system: Correlated
    gold_N1: Values
    masks_NB: Masks

    def completed(self, other: PartedScores) -> Values:
        """See ``Half``."""
        both_M, count = np.concatenate([self.system.predicted_N, other.system.predicted_N]), len(self.gold_N1)
        if self.system.by_rank:
            both_MB = ranks(both_M, np.concatenate([~self.masks_NB, self.masks_NB]))
        else:
            both_MB = _scaled(both_M)[:, None]
        return _correlations(self.gold_N1, np.where(self.masks_NB, both_MB[count:], both_MB[:count]))


def ranks(values_M: Values, counts_MB: Counts | Masks) -> npt.NDArray[Any]:
    """Rank [M, B] of each value among all, each standing there as often as counted; equal ones share the mean of theirs.

    The rank of a value that is not there means nothing.
    """
    order_M = np.argsort(values_M, kind="stable")
    begins_M = np.diff(values_M[order_M], prepend=np.nan) != 0
    group_M = np.empty(len(values_M), dtype=np.int64)
    group_M[order_M] = np.cumsum(begins_M) - 1
    if counts_MB.dtype == np.bool_ and begins_M.all():
        return np.cumsum(counts_MB[order_M], axis=0, dtype=np.int32)[group_M]
    count_GB = np.add.reduceat(counts_MB[order_M].astype(np.float64), np.flatnonzero(begins_M), axis=0)
    rank_GB = np.cumsum(count_GB, axis=0)
    rank_GB -= (count_GB - 1) / 2
    ranked_MB: Values = rank_GB[group_M]
    return ranked_MB


def _scaled(values_N: Values) -> Values:
    """The values by a power of two, which is exact, within [-1, 1]: squares of any values neither overflow nor vanish."""
    scaled_N: Values = np.ldexp(values_N, -np.frexp(np.abs(values_N).max())[1])
    return scaled_N


def _correlations(left_NB: Values, right_NB: Values, counts_NB: Counts | None = None) -> Values:
    """Correlations [B] times 100, of examples that stand there as often as counted, or once; 0 where a side is constant.

    Columns of a side that are all alike may be one.
    """
    total: Any = len(left_NB) if counts_NB is None else counts_NB.sum(axis=0)
    left_NB, right_NB = (side - _weighed(side, counts_NB).sum(axis=0) / total for side in (left_NB, right_NB))
    pairs = ((left_NB, right_NB), (left_NB, left_NB), (right_NB, right_NB))
    # Row upon row in the order of the examples: what BLAS or einsum would make of it differs between processors.
    covariance_B, left_B, right_B = ((one * _weighed(other, counts_NB)).sum(axis=0) for one, other in pairs)
    varies_B = np.minimum(left_B, right_B) > NO_SPREAD * total
    spread_B = np.sqrt(np.where(varies_B, left_B * right_B, 1.0))
    return np.clip(np.where(varies_B, 100 * covariance_B / spread_B, 0.0), -100.0, 100.0)


def _weighed(values_NB: Values, counts_NB: Counts | None) -> Values:
    return values_NB if counts_NB is None else values_NB * counts_NB
