"""Scores of predictions, each times 100 as papers print them: functions of gold and predicted values alone.

Where an official script and the text that defines its metric disagree, a function takes a ``Mode``.
"""

from __future__ import annotations

from typing import Literal

Mode = Literal["official", "corrected"]
"""``official``: what the benchmark's own script prints, quirks included. ``corrected``: what its text defines."""
