"""A time budget ends a run; dropout ends at a step; snapshots are found by their step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from korealbert.model.config import weights_file
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.trainer import Stopped, Trainer
from tests.pretrain.runs import lines, same_bytes, spec, trainer, weights


class Clock:
    """Shows ten seconds more each time it is read, so that a step takes ten seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 10.0
        return self.seconds


def timed(out_dir: Path, alone: Ranks, **fields: object) -> Trainer:
    made = trainer(spec(steps=100, schedule={"warmup_steps": 10}, heldout_every=50, **fields), out_dir, alone)
    made.clock = Clock()
    return made


def test_a_run_ends_with_its_budget_and_so_does_its_schedule(alone: Ranks, tmp_path: Path) -> None:
    stats = timed(tmp_path, alone, stop_after_seconds=80.0, log_every=5).run()
    assert (stats["steps"], stats["seconds"]) == (9, 80.0), (
        "the budget is checked before a step, and knows the time of the steps before the last"
    )
    rates = [line["learning_rate"] for line in lines(tmp_path)]
    assert [line["step"] for line in lines(tmp_path)] == [5, 9]
    # After 40 of 80 seconds the schedule is at step 50 of 100, after 80 at its end.
    assert rates == pytest.approx([0.02 * 50 / 90, 0.0])
    assert [line["step"] for line in lines(tmp_path, "heldout")] == [0, 9]
    assert weights(tmp_path)


def test_the_minutes_that_are_left_are_those_of_the_budget(alone: Ranks, tmp_path: Path) -> None:
    reported: dict[int, float] = {}
    run = timed(tmp_path, alone, stop_after_seconds=80.0, log_every=4)
    run.spec = run.spec.model_copy(update={"steps": 10**9})  # They would take weeks.
    run.report = lambda step, metrics: reported.update({step: metrics["minutes_left"]} if "minutes_left" in metrics else {})
    run.run()
    assert reported == {4: pytest.approx(50 / 60), 8: pytest.approx(10 / 60), 9: 0.0}


def test_steps_that_end_before_the_budget_end_the_run(alone: Ranks, tmp_path: Path) -> None:
    plain, timed_ = tmp_path / "plain", tmp_path / "timed"
    trainer(spec(), plain, alone).run()
    stats = trainer(spec(stop_after_seconds=1e9), timed_, alone).run()
    assert stats["steps"] == 6 and same_bytes(plain, timed_)


def test_a_resumed_run_goes_on_with_the_time_that_is_left(alone: Ranks, tmp_path: Path) -> None:
    fields = {"stop_after_seconds": 80.0, "checkpoint_every": 1}
    run_spec = spec(steps=100, schedule={"warmup_steps": 10}, heldout_every=50, **fields)
    first = trainer(run_spec, tmp_path, alone, stop_after=4)
    first.clock = Clock()
    with pytest.raises(Stopped):
        first.run()
    second = trainer(run_spec, tmp_path, alone)
    second.clock = Clock()
    assert second.state.seconds > 0
    assert second.run()["steps"] in (9, 10), "the time of one step may be lost with the process"


def test_dropout_ends_at_its_step_and_in_the_trained_model(alone: Ranks, tmp_path: Path) -> None:
    whole, half = tmp_path / "whole", tmp_path / "half"
    trainer(spec(checkpoint_every=6), whole, alone).run()
    made = trainer(spec(dropout_until_step=3), half, alone)
    made.run()
    first, second = lines(whole), lines(half)
    assert [a["loss"] == b["loss"] for a, b in zip(first, second, strict=True)] == [True] * 3 + [False] * 3
    assert {module.p for module in made.model.modules() if isinstance(module, torch.nn.Dropout)} == {0.0}
    config = json.loads((half / "config.json").read_text())
    assert (config["hidden_dropout"], config["attention_dropout"]) == (0.0, 0.0)
    assert json.loads((whole / "config.json").read_text())["hidden_dropout"] == 0.1


def test_a_run_that_is_resumed_around_that_step_ends_in_the_same_bytes(alone: Ranks, tmp_path: Path) -> None:
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    run_spec = spec(dropout_until_step=3)
    trainer(run_spec, straight, alone).run()
    with pytest.raises(Stopped):
        trainer(run_spec, resumed, alone, stop_after=4).run()
    trainer(run_spec, resumed, alone).run()
    assert same_bytes(straight, resumed)


def test_contradictions_are_refused_and_identities_stay() -> None:
    with pytest.raises(ValidationError, match="dropout_until_step = 6 is not below steps = 6"):
        spec(dropout_until_step=6)
    with pytest.raises(ValidationError, match="stop_after_seconds may end training before"):
        spec(stop_after_seconds=1.0, snapshots=(2,))
    with pytest.raises(ValidationError, match="stop_after_seconds may end training before"):
        spec(stop_after_seconds=1.0, order_from_step=2)
    assert not {"dropout_until_step", "stop_after_seconds"} & spec().as_before().keys()


def test_a_missing_snapshot_is_refused(alone: Ranks, tmp_path: Path) -> None:
    trainer(spec(snapshots=(2,)), tmp_path, alone).run()
    assert weights_file(tmp_path, 2).is_file() and weights_file(tmp_path) == tmp_path / "model.safetensors"
    with pytest.raises(ValueError, match="has no snapshot of step 3; name the step in snapshots of its training"):
        weights_file(tmp_path, 3)
