"""Student's t intervals of a mean, over as few runs as an ablation can pay for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from korealbert.formatting import fixed, mean_and_sd, signed


@dataclass(frozen=True)
class Estimate:
    """A mean, and half the width of the interval around it; None where one value says nothing of its spread."""

    mean: float
    half_width: float | None
    values: int
    """Independent values under the mean."""

    @property
    def text(self) -> str:
        """``mean ± half width``."""
        return fixed(self.mean) + self._plus_minus

    @property
    def signed_text(self) -> str:
        """The same for a difference, with its sign."""
        return signed(self.mean) + self._plus_minus

    @property
    def leaves_out_zero(self) -> bool:
        """Whether the interval lies on one side of 0; equal values show no spread, and so have no interval to judge by."""
        return bool(self.half_width) and abs(self.mean) > float(self.half_width or 0)

    @property
    def _plus_minus(self) -> str:
        return "" if self.half_width is None else f" ± {fixed(self.half_width)}"


def estimate(values: Sequence[float], confidence: float) -> Estimate:
    """The mean of independent values with its t interval: s · t / √n, t being the quantile at n − 1 degrees of freedom."""
    mean, deviation = mean_and_sd(values)
    if deviation is None:
        return Estimate(mean, None, 1)
    quantile = t_quantile(confidence, len(values) - 1)
    return Estimate(mean, quantile * deviation / math.sqrt(len(values)), len(values))


def t_quantile(confidence: float, degrees: int) -> float:
    """t such that P(|T| ≤ t) = ``confidence`` for Student's T with so many degrees of freedom, to ten digits."""
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        low, high = high, 2 * high
    while high - low > 1e-11 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """P(|T| ≤ t), by the finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
