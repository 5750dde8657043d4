"""A run that is stopped, killed or damaged ends in the bytes of an uninterrupted one."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.trainer import Stopped
from tests.pretrain.runs import lines, same_bytes, spec, trainer

CHECKPOINT = Path(".checkpoints") / "step-00000006"


@pytest.fixture(scope="module")
def straight(alone: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    out_dir = tmp_path_factory.mktemp("straight")
    trainer(spec(log_every=2), out_dir, alone).run()
    return out_dir


@pytest.mark.parametrize("stop_after", [0, 3, 5])
def test_a_stopped_run_resumes_to_the_same_bytes(straight: Path, alone: Ranks, tmp_path: Path, stop_after: int) -> None:
    with pytest.raises(Stopped, match=f"after step {stop_after}"):
        trainer(spec(log_every=2), tmp_path, alone, stop_after=stop_after).run()
    stats = trainer(spec(log_every=2), tmp_path, alone).run()
    assert same_bytes(straight, tmp_path)
    assert stats["resumed_from_step"] == stop_after


def test_a_stop_does_not_wait_for_the_end_of_a_long_step(alone: Ranks, tmp_path: Path) -> None:
    run_spec = spec(global_batch_size=16, micro_batch_size=2)
    trainer(run_spec, tmp_path / "straight", alone).run()
    stopped = trainer(run_spec, tmp_path / "stopped", alone)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(stopped.state.step)
        return asked.count(3) == 4

    stopped.stop_requested = stop
    with pytest.raises(Stopped, match="after step 3"):
        stopped.run()
    assert asked == [0] * 8 + [1] * 8 + [2] * 8 + [3] * 4
    assert trainer(run_spec, tmp_path / "stopped", alone).run()["resumed_from_step"] == 3
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


MODERN = {"architecture": "modern", "hidden_size": 16, "num_layers": 3, "num_heads": 2, "local_attention": 4}


@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": {"name": "adamw", "lr": 2e-3}},
        {"optimizer": {"name": "muon", "lr": 2e-3}, "schedule": {"warmup_steps": 1, "decay": "stable_linear"}},
        {"model": {**MODERN, "mlp_dropout": 0.1}, "optimizer": {"name": "muon", "lr": 2e-3, "adamw_lr_factor": 0.5}},
    ],
)
def test_other_optimisers_and_shapes_resume_to_the_same_bytes(alone: Ranks, tmp_path: Path, fields: dict) -> None:
    run_spec = spec(**fields)
    trainer(run_spec, tmp_path / "straight", alone).run()
    with pytest.raises(Stopped):
        trainer(run_spec, tmp_path / "stopped", alone, stop_after=3).run()
    trainer(run_spec, tmp_path / "stopped", alone).run()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # DeepSpeed's own use of it
@pytest.mark.parametrize("zero_stage", [1, 2])
def test_divided_moments_are_checkpointed_whole(alone: Ranks, tmp_path: Path, zero_stage: int) -> None:
    """A run under ZeRO resumes to the same bytes, and its checkpoints are those of a run without."""
    adamw = {"optimizer": {"name": "adamw", "lr": 2e-3}}
    trainer(spec(**adamw), tmp_path / "whole", alone).run()
    run_spec = spec(**adamw, zero_stage=zero_stage)
    with pytest.raises(Stopped):
        trainer(run_spec, tmp_path / "stopped", alone, stop_after=3).run()
    trainer(run_spec, tmp_path / "stopped", alone).run()
    whole, divided = (load_file(tmp_path / name / CHECKPOINT / "optimizer.safetensors") for name in ("whole", "stopped"))
    assert whole.keys() == divided.keys()
    for name, tensor in whole.items():
        torch.testing.assert_close(
            divided[name], tensor, rtol=1e-3, atol=1e-6, msg=lambda message, name=name: f"{name}: {message}"
        )
    for one, two in zip(lines(tmp_path / "whole"), lines(tmp_path / "stopped"), strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert two["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_resumes_with_its_loss_scale(alone: Ranks, tmp_path: Path, precision: str) -> None:
    for name, stops in (("straight", ()), ("stopped", (3,))):
        for stop_after in stops:
            with pytest.raises(Stopped):
                trainer(spec(precision=precision), tmp_path / name, alone, stop_after=stop_after).run()
        trainer(spec(precision=precision), tmp_path / name, alone).run()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")
    newest = tmp_path / "stopped" / ".checkpoints" / "step-00000006" / "state.json"
    assert (json.loads(newest.read_text())["scaler"] is not None) == (precision == "fp16")


def test_steps_after_the_last_checkpoint_are_redone_without_a_trace(straight: Path, alone: Ranks, tmp_path: Path) -> None:
    dying = trainer(spec(log_every=2), tmp_path, alone)
    original = dying._log

    def die() -> None:
        original()
        if dying.state.step == 6:
            raise KeyboardInterrupt

    dying._log = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        dying.run()
    assert lines(tmp_path)[-1]["step"] == 6
    resumed = trainer(spec(log_every=2), tmp_path, alone)
    assert resumed.resumed_from == 4
    assert lines(tmp_path)[-1]["step"] == 4
    resumed.run()
    assert same_bytes(straight, tmp_path)


def test_a_finished_run_that_is_repeated_trains_no_step(straight: Path, alone: Ranks, tmp_path: Path) -> None:
    first = trainer(spec(log_every=2), tmp_path, alone).run()
    again = trainer(spec(log_every=2), tmp_path, alone).run()
    assert again["resumed_from_step"] == 6
    assert same_bytes(straight, tmp_path)
    assert again["heldout"] == first["heldout"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "metrics.jsonl", "sha256.json"])
def test_a_flipped_byte_sends_the_run_back_one_checkpoint(
    straight: Path, alone: Ranks, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Stopped):
        trainer(spec(log_every=2), tmp_path, alone, stop_after=5).run()
    kept = sorted(path.name for path in (tmp_path / ".checkpoints").iterdir())
    assert kept == ["step-00000002", "step-00000004", "step-00000005"], "the first for a collapse that scores show"
    path = tmp_path / ".checkpoints" / "step-00000005" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        resumed = trainer(spec(log_every=2), tmp_path, alone)
    assert resumed.resumed_from == 4
    assert "step-00000005 is damaged" in caplog.text
    resumed.run()
    assert same_bytes(straight, tmp_path)


def test_an_unreadable_checkpoint_is_damaged_too(
    straight: Path, alone: Ranks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Stopped):
        trainer(spec(log_every=2), tmp_path, alone, stop_after=5).run()
    weights = tmp_path / ".checkpoints" / "step-00000005" / "model.safetensors"
    weights.unlink()
    weights.mkdir()  # It exists but cannot be read.
    resumed = trainer(spec(log_every=2), tmp_path, alone)
    assert resumed.resumed_from == 4
    assert "model.safetensors cannot be read: Is a directory" in caplog.text
    resumed.run()
    assert same_bytes(straight, tmp_path)


def test_a_checkpoint_holds_no_pickle(alone: Ranks, tmp_path: Path) -> None:
    trainer(spec(), tmp_path, alone).run()
    newest = tmp_path / ".checkpoints" / "step-00000006"
    assert {p.suffix for p in newest.iterdir()} == {".safetensors", ".json", ".jsonl"}
    state = json.loads((newest / "state.json").read_text())
    assert state["training"]["step"] == 6


def test_a_checkpoint_of_another_spec_is_refused(alone: Ranks, tmp_path: Path) -> None:
    trainer(spec(), tmp_path, alone).run()
    with pytest.raises(ValueError, match="belongs to another spec"):
        trainer(spec(steps=12), tmp_path, alone)
