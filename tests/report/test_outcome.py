"""Titles of the tables in a report's outcome."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from korealbert.formatting import MISSING
from korealbert.report.sections.outcome import _scores_table


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        ({}, "official ones"),
        ({"test_corrected": [0.7]}, "official ones and corrected ones"),
        ({"test_corrected": [0.7], "test_oracle": [0.9]}, "official ones, corrected ones, and the best reachable"),
    ],
)
def test_the_title_of_the_scores_names_the_columns_that_are_shown(further: Mapping[str, list[float]], expected: str) -> None:
    benchmark: Any = SimpleNamespace(
        title="NSMC",
        metrics=["accuracy"],
        metric="accuracy",
        systems=["pretrained"],
        lead="pretrained",
        values=lambda *_, kind="test": further.get(kind, [0.8] if kind == "test" else []),
        undefined=lambda *_: {},
        shown=lambda *_, kind="test": "80.00" if kind == "test" or kind in further else MISSING,
    )
    assert _scores_table([benchmark]).title == f"Test scores over seeds, times 100: {expected}"
