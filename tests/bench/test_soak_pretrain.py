"""When the soak of a pretraining kills: spread over all of its steps, and while a checkpoint of the run itself is written."""

from __future__ import annotations

import os
import random
from pathlib import Path

from bench.soak_pretrain import STEPS_PER_KILL, Record, files_of_half_written, moments, spec_for


def test_kills_are_spread_over_all_steps() -> None:
    drawn = moments(100, random.Random(1))  # noqa: S311
    steps = [moment.step for moment in drawn if moment.step is not None]
    assert len(steps) == 90  # The others come while the processes start.
    assert all(moment.step // STEPS_PER_KILL == n for n, moment in enumerate(drawn) if moment.step is not None)
    assert max(steps) < spec_for(100, packed=True).steps
    assert len({step % STEPS_PER_KILL for step in steps}) == STEPS_PER_KILL
    assert {moment.files for moment in drawn} == {None, *range(6)}
    assert {moment.process for moment in drawn} == {0, 1, 2}


def test_only_a_checkpoint_of_this_run_is_half_written(tmp_path: Path) -> None:
    checkpoints = tmp_path / "pretrain-1.partial" / ".checkpoints"
    left, own = checkpoints / "step-00000004.partial", checkpoints / "step-00000008.partial"
    left.mkdir(parents=True)
    os.utime(left, ns=(1_000, 1_000))
    assert files_of_half_written(tmp_path, 2_000) == -1
    own.mkdir()
    (own / "model.safetensors").touch()
    assert files_of_half_written(tmp_path, 2_000) == 1


def test_an_interrupted_soak_goes_on_unless_its_settings_differ(tmp_path: Path) -> None:
    path = tmp_path / "kills.jsonl"
    record = Record(path, {"seed": 1})
    assert not record.lines
    record.begin()
    record.add({"step": 3})
    assert Record(path, {"seed": 1}).kills == [{"step": 3}]
    assert not Record(path, {"seed": 2}).lines
