"""Contradictory specs are refused with both sides named; schedules; models that data completes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from korealbert.artifact import Progress, Runtime
from korealbert.model.config import ModernConfig
from korealbert.pretrain.optimizer_spec import ScheduleSpec, StableSchedule
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import check_runtime


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"global_batch_size": 30, "micro_batch_size": 16}, "micro_batch_size = 16 does not divide global_batch_size = 30"),
        ({"model": {"hidden_size": 100, "num_heads": 3}}, "num_heads = 3 does not divide hidden_size = 100"),
        (
            {"model": {"hidden_size": 96, "num_heads": 0, "edge_layers": 6}},
            "edge_layers = 6 at either end leave none of num_layers",
        ),
        (
            {"model": {"architecture": "modern", "hidden_size": 96, "num_heads": 32}},
            "num_heads = 32 does not divide hidden_size = 96",
        ),
        ({"model": {"architecture": "modern", "global_theta": 1e-50}}, "global_theta\n.*greater than or equal to 1"),
        ({"model": {"architecture": "modern", "local_theta": 0.5}}, "local_theta\n.*greater than or equal to 1"),
        ({"long": {"from_step": 5, "global_theta": 0.0}}, "global_theta\n.*greater than or equal to 1"),
        ({"model": {"architecture": "modern"}, "objective": "rtd"}, "no generator of model.architecture = 'modern'"),
        ({"model": {"architecture": "modern", "share": "all"}}, "model.modern.share\n.*Extra inputs"),
        ({"optimizer": {"name": "muon"}}, "lr\n.*required"),
        (
            {"optimizer": {"name": "muon", "lr": 1e-3, "betas": [0.9, 1.0]}},
            r"betas = \[0.9, 1.0\]: each lies in \[0, 1\); change",
        ),
        ({"optimizer": {"name": "muon", "lr": 1e-3}, "zero_stage": 1}, "zero_stage = 1 with optimizer.name = 'muon'"),
        ({"schedule": {"decay": "stable_linear", "decay_ratio": 0}}, "decay_ratio\n.*greater than 0"),
        ({"steps": 0}, "greater than or equal to 1"),
        ({"global_batch_size": 0}, "greater than or equal to 1"),
        ({"micro_batch_size": 64, "global_batch_size": 32}, "micro_batch_size = 64 does not divide global_batch_size = 32"),
        ({"checkpoint_every": 0}, "checkpoint_every\n.*greater than or equal to 1"),
        ({"heldout_every": 0}, "heldout_every\n.*greater than or equal to 1"),
        ({"log_every": -1}, "log_every\n.*greater than or equal to 1"),
        ({"optimizer": {"lr": 0}}, r"optimizer\..*lr\n.*greater than 0"),
        ({"optimizer": {"lr": -1e-3}}, r"optimizer\..*lr\n.*greater than 0"),
        ({"optimizer": {"lr": float("inf")}}, r"optimizer\..*lr\n.*finite"),
        ({"optimizer": {"lr": float("nan")}}, r"optimizer\..*lr\n.*finite|greater"),
        ({"optimizer": {"weight_decay": -0.1}}, "weight_decay\n.*greater than or equal to 0"),
        ({"schedule": {"warmup_ratio": 1.0}}, "warmup_ratio\n.*less than 1"),
        ({"schedule": {"warmup_steps": 25}}, "warmup_steps = 25 leaves no step of steps = 10"),
        (
            {"batch_warmup": [{"until_step": 10, "global_batch_size": 32}]},
            r"batch_warmup ends at steps \[10\]: .* before steps = 10",
        ),
        ({"snapshots": [3, 11]}, r"snapshots = \[3, 11\]: they must grow, and lie in 1 to steps = 10"),
        ({"order_from_step": 10}, "order_from_step = 10 is not below steps = 10"),
        ({"model": {"pooler": False}}, "sop_weight = 1.0 needs a pooler, but model.pooler = false"),
        ({"seed": -1}, "seed\n.*greater than or equal to 0"),
        ({"schedule": {"warmup_steps": 10}}, "warmup_steps = 10 leaves no step of steps = 10"),
        ({"schedule": {"warmup_steps": 2, "warmup_ratio": 0.1}}, "warmup_steps = 2 and warmup_ratio = 0.1 exclude each other"),
        ({"optimizer": {"name": "adamw"}}, "name = 'adamw' needs an lr of its own"),
        ({"optimizer": {"name": "adamw", "lr": 1e-4, "max_trust_ratio": 10}}, "max_trust_ratio = 10.0 belongs to LAMB"),
        ({"optimizer": {"betas": [0.9, 1.0]}}, r"betas = \[0.9, 1.0\]: each lies in \[0, 1\); change"),
        ({"optimizer": {"name": "lion"}}, "lamb"),
        ({"precision": "fp8"}, "bf16"),
        ({"zero_stage": 1}, "zero_stage = 1 with optimizer.name = 'lamb'"),
        (
            {"zero_stage": 2, "optimizer": {"name": "adamw", "lr": 1e-4}, "precision": "fp16"},
            "zero_stage = 2 with precision = 'fp16'",
        ),
        ({"zero_stage": 3}, "zero_stage"),
        ({"long": {"from_step": 10}}, "long.from_step = 10 is not below steps = 10"),
        (
            {"long": {"from_step": 5}, "batch_warmup": [{"until_step": 6, "global_batch_size": 32}]},
            "batch_warmup ends at step 6, after long.from_step = 5",
        ),
        (
            {"long": {"from_step": 5, "global_batch_size": 48, "micro_batch_size": 32}},
            r"long\.micro_batch_size = 32 does not divide long\.global_batch_size = 48; change one of them",
        ),
        (
            {"long": {"from_step": 5, "micro_batch_size": 24}},
            r"long\.micro_batch_size = 24 does not divide global_batch_size = 2048",
        ),
        (
            {
                "batch_warmup": [{"until_step": 2, "global_batch_size": 64}, {"until_step": 4, "global_batch_size": 48}],
                "long": {"from_step": 5, "global_batch_size": 48, "micro_batch_size": 16},
            },
            r"\n  Value error, micro_batch_size = 32 does not divide batch_warmup\.1\.global_batch_size = 48",
        ),
        ({"rtd": {"weight": 20}}, r"\[rtd\] belongs to objective = 'rtd', but objective = 'mlm'"),
        ({"objective": "rtd"}, "model.pooler = true, but objective = 'rtd' trains none"),
        ({"objective": "rtd", "wop_weight": 1.0, "model": {"pooler": False}}, "wop_weight = 1.0, but objective = 'rtd'"),
        (
            {"objective": "rtd", "model": {"pooler": False}, "rtd": {"generator_hidden_size": 100}},
            "generator_hidden_size = 100 is not a multiple of hidden_size / num_heads = 64",
        ),
    ],
)
def test_contradictory_specs(fields: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PretrainSpec(**{"steps": 10, **fields})


def test_global_batch_must_fit_the_number_of_processes() -> None:
    spec = PretrainSpec(steps=10, global_batch_size=48, micro_batch_size=16)
    cut = {ranks: spec.micro_batches(ranks, 48) for ranks in (1, 2, 3, 4, 6, 8, 16, 48)}
    assert cut == {1: (16, 3), 2: (12, 2), 3: (16, 1), 4: (12, 1), 6: (8, 1), 8: (6, 1), 16: (3, 1), 48: (1, 1)}
    assert spec.micro_batches(2, 64, at_most=20) == (16, 2)
    with pytest.raises(ValueError, match=r"global_batch_size = 48 is not divisible by the number of ranks = 5 \(nodes × proc"):
        spec.micro_batches(5, 48)


def test_sequences_longer_than_the_position_table_are_refused() -> None:
    spec = PretrainSpec(steps=10, model={"max_positions": 64})
    with pytest.raises(ValueError, match=r"128 tokens long, but max_positions = 64"):
        spec.config_for(vocab_size=100, sequence_length=128)


def test_the_word_order_head_has_a_class_per_position_and_goes_with_its_loss() -> None:
    assert PretrainSpec(steps=10).config_for(vocab_size=100, sequence_length=128).word_order_classes == 128
    assert PretrainSpec(steps=10, wop_weight=0).config_for(vocab_size=100, sequence_length=128).word_order_classes == 0


def test_offsets_may_reach_further_than_a_model_has_positions() -> None:
    offsets = PretrainSpec(steps=10, wop_target="offset", wop_reach=16, model={"max_positions": 16})
    config = offsets.config_for(vocab_size=100, sequence_length=16)
    assert (config.word_order_classes, config.longest_sequence) == (33, 16)
    with pytest.raises(ValueError, match=r"17 tokens long, but max_positions = 16"):
        offsets.config_for(vocab_size=100, sequence_length=17)


@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": {"name": "adamw", "lr": 1e-4}, "schedule": {"warmup_steps": 3}},
        {"optimizer": {"name": "muon", "lr": 1e-4}, "schedule": {"decay": "stable_sqrt"}, "model": {"architecture": "modern"}},
    ],
)
def test_a_spec_survives_json(fields: dict) -> None:
    spec = PretrainSpec(steps=10, **fields)
    assert PretrainSpec.model_validate(json.loads(spec.model_dump_json())) == spec


def rate(update: int, decay: str) -> float:
    return ScheduleSpec(warmup_steps=100, decay=decay).learning_rate(update, peak=2.0, steps=1000)


@pytest.mark.parametrize("decay", ["linear", "linear_tf", "constant"])
def test_warm_up_rises_from_zero_to_the_peak(decay: str) -> None:
    assert [rate(t, decay) for t in (0, 50, 99)] == pytest.approx([0, 1.0, 1.98])


def test_the_three_decays() -> None:
    assert [rate(t, "linear") for t in (100, 550, 1000)] == pytest.approx([2.0, 1.0, 0])
    # TF multiplies the peak by 1 - t/T of the whole horizon: a jump down at the end of the warm-up.
    assert [rate(t, "linear_tf") for t in (100, 550, 1000)] == pytest.approx([1.8, 0.9, 0])
    assert [rate(t, "constant") for t in (100, 550, 1000)] == [2.0, 2.0, 2.0]


def test_a_rate_that_is_held_falls_at_the_end() -> None:
    def held(update: int, decay: str, ratio: float = 0.2) -> float:
        schedule = StableSchedule(warmup_steps=100, decay=decay, decay_ratio=ratio)
        return schedule.learning_rate(update, peak=2.0, steps=1000)

    for decay, halfway in (("stable_linear", 1.0), ("stable_sqrt", 2 * (1 - 0.5**0.5))):
        assert [held(t, decay) for t in (0, 50, 100, 800, 900, 1000)] == pytest.approx([0, 1.0, 2.0, 2.0, halfway, 0])
    assert [held(t, "stable_linear", 1.0) for t in (100, 550, 1000)] == pytest.approx(
        [rate(t, "linear") for t in (100, 550, 1000)]
    )


def test_a_modern_model_is_completed_by_data_and_objective() -> None:
    spec = PretrainSpec(steps=10, model={"architecture": "modern", "hidden_size": 128, "num_layers": 2})
    config = spec.config_for(vocab_size=100, sequence_length=128)
    assert isinstance(config, ModernConfig)
    assert (config.num_heads, config.intermediate_size, config.word_order_classes, config.orders_sentences) == (
        2,
        192,
        128,
        True,
    )
    again = PretrainSpec(steps=10, sop_weight=0).config_for(vocab_size=100, sequence_length=128, initial=config)
    assert again == config.model_copy(update={"orders_sentences": False})


def test_warm_up_ratio_of_korealbert_is_the_warm_up_of_albert() -> None:
    assert ScheduleSpec().warmup(250_000) == 3125


def test_a_plain_runtime_trains_by_the_defaults_and_still_reports() -> None:
    seen: list[Progress] = []
    plain = Runtime(store=Path("here"), workers=3).reporting_to(seen.append)
    assert not {"processes", "threads", "device", "hostfile", "cells"} & set(Runtime.model_fields)
    training = TrainingRuntime.of(plain)
    assert (training.store, training.workers, training.processes, training.device) == (Path("here"), 3, 1, "auto")
    training.report(Progress(1, 2, "steps"))
    assert [report.done for report in seen] == [1]
    chosen = TrainingRuntime(threads=3)
    assert TrainingRuntime.of(chosen) is chosen


def test_graphs_need_updates_of_one_micro_batch() -> None:
    """A captured graph would write the second gradient over the first."""
    spec = PretrainSpec(compile="graphs", steps=10, global_batch_size=32, micro_batch_size=16)
    check_runtime(spec, TrainingRuntime(processes=2, device="cpu"))
    with pytest.raises(ValueError, match=r"32 sequences on 1 ranks are 2: raise micro_batch_size or use 'kernels'"):
        check_runtime(spec, TrainingRuntime(device="cpu"))
