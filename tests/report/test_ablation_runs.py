"""Values of an ablation: intervals equal those of scipy, and each column has the runs of its own initial weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from korealbert.report.ablation.runs import Values, estimate
from korealbert.report.ablation.spec import Row
from korealbert.report.paper_columns import Column
from tests.report.conftest import content, made


@settings(max_examples=30)
@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_intervals_are_those_of_scipy(values: list[float]) -> None:
    found = estimate(values, 0.95)
    error = stats.sem(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, len(values) - 1) * error, rel=1e-6, abs=1e-9)


def test_one_value_has_no_interval_and_equal_values_prove_nothing() -> None:
    assert estimate([3.0], 0.95).text == "3.00"
    assert not estimate([3.0, 3.0], 0.95).excludes_zero


def test_a_column_has_the_runs_from_its_initial_weights(tmp_path: Path) -> None:
    scores = {
        "a/1/nsmc/pretrained/1": 84.0,
        "a/2/nsmc/pretrained/1": 85.0,
        "a/1/nsmc/random/1": 79.0,
        "a/1/nsmc/random/2": 80.0,
    }
    artifacts = {}
    for run, score in scores.items():
        metrics = content("metrics.json", {"metric": "accuracy", "test": {"accuracy": score}})
        artifacts[f"finetune/{run}"] = made(tmp_path, f"finetune/{run}", {}, write=metrics)
    columns = (Column(title="NSMC", benchmark="nsmc"), Column(title="without", benchmark="nsmc", init="random"))
    values = Values.read((Row(key="a", label="A"),), columns, artifacts, baseline="A")
    assert values.all("a", "NSMC") == [84.0, 85.0]
    assert values.counts("a", "without") == (1, 2)
    assert list(values.independent("a", "without").values()) == [79.0, 80.0]
