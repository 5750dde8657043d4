"""Metrics as functions of gold and predicted values, times 100 as papers print them.

A metric whose official script does not do what its paper says takes a ``Mode``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Mode = Literal["official", "corrected"]
"""``official``: what the benchmark's own script prints, with its quirks. ``corrected``: what its paper defines."""


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float

    def of_score(self, metric: str) -> Interval:
        """Return the interval cut to the range of a metric; Student's t has no limits."""
        return self._cut(-100.0 if metric in _SIGNED else 0.0, 100.0)

    def of_difference(self, metric: str) -> Interval:
        """Return the interval cut to the range of differences of a metric."""
        return self._cut(-200.0, 200.0) if metric in _SIGNED else self._cut(-100.0, 100.0)

    def _cut(self, low: float, high: float) -> Interval:
        return Interval(min(max(self.low, low), high), max(min(self.high, high), low))


_SIGNED = ("pearson", "spearman", "mcc")
"""Metrics from -100 to 100; all others are from 0 to 100."""
