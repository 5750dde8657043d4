"""Scores of predictions, each times 100 as papers print them: functions of gold and predicted values alone.

Where an official script and the text that defines its metric disagree, a function takes a ``Mode``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Mode = Literal["official", "corrected"]
"""``official``: what the benchmark's own script prints, quirks included. ``corrected``: what its text defines."""


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float

    def of_score(self, metric: str) -> Interval:
        """Cut to the values that a metric may have: Student's t knows no limits."""
        return self._cut(-100.0 if metric in _SIGNED else 0.0, 100.0)

    def of_difference(self, metric: str) -> Interval:
        """Cut to the values that the difference of two scores may have."""
        return self._cut(-200.0, 200.0) if metric in _SIGNED else self._cut(-100.0, 100.0)

    def _cut(self, low: float, high: float) -> Interval:
        return Interval(min(max(self.low, low), high), max(min(self.high, high), low))


_SIGNED = ("pearson", "spearman", "mcc")
"""Correlations, from -100 to 100; all other metrics have values from 0 to 100."""
