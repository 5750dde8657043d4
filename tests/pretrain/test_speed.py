"""What is reported of speed while training runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.metrics import Speed, matrix_rate
from tests.pretrain.runs import lines, spec, trainer


def test_rates_follow_from_counts_and_seconds() -> None:
    speed = Speed(peak=1_000.0, steps=4, seconds=8.0, loading=2.0, tokens=160, operations=1_600)
    assert speed.metrics(steps_left=30) == {
        "tokens_per_second": 20.0,
        "loading_share": 0.25,
        "model_flops_utilization": 0.2,
        "minutes_left": 1.0,
    }
    assert speed.metrics(steps_left=30, seconds_left=15.0)["minutes_left"] == 0.25, "the time budget ends the run before"
    assert Speed(1_000.0).metrics(3) == {}


def test_a_matrix_product_takes_time() -> None:
    assert 1e6 < matrix_rate(torch.device("cpu"), torch.float32) < 1e14


def test_a_run_tells_its_speed_and_keeps_it_out_of_the_curve(alone: Ranks, tmp_path: Path) -> None:
    reported: list[dict] = []
    run = trainer(spec(), tmp_path, alone)
    run.report = lambda step, metrics: reported.append({"step": step, **metrics})
    stats = run.run()
    last = [entry for entry in reported if "minutes_left" in entry][-1]
    assert (last["step"], last["minutes_left"]) == (6, 0.0)
    assert 0 < last["loading_share"] < 1
    assert 0 < stats["model_flops_utilization"] < 1
    assert stats["padding_share"] == pytest.approx(1 - stats["tokens"] / (6 * 8 * 16), abs=1e-4)
    ratios = [lines(tmp_path)[-1][f"trust_ratio_{name}"] for name in ("min", "median", "max")]
    assert ratios == sorted(ratios)
    assert "tokens_per_second" not in lines(tmp_path)[-1]
