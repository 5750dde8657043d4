"""The phase of long sequences: what it trains, and that it changes nothing else of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from korealbert.model.config import read_config
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.rows import Rows, check_rows
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.trainer import Stopped
from tests.pretrain.runs import TINY_MODEL, lines, no_dropout, same_bytes, spec, trainer, weights
from tests.pretrain.synthetic import SyntheticBatches

LONG = {"from_step": 4, "global_batch_size": 4, "micro_batch_size": 2}


def long_spec(**fields: Any) -> PretrainSpec:
    """Four steps on 16 tokens, four on 32."""
    return spec(**{"steps": 8, "long": LONG, "model": {**TINY_MODEL, "max_positions": 32}, **fields})


def test_positions_beyond_the_short_sequences_are_trained_by_the_long_ones_alone(alone: Ranks, tmp_path: Path) -> None:
    undecayed = long_spec(optimizer={"name": "adamw", "lr": 1e-2, "weight_decay": 0.0})
    run = trainer(undecayed, tmp_path, alone, stop_after=4)
    position = run.model.encoder.embeddings.position.weight
    initial = position.detach().clone()
    with pytest.raises(Stopped):
        run.run()
    assert torch.equal(position[16:], initial[16:])
    assert not torch.equal(position[:16], initial[:16])
    stats = trainer(undecayed, tmp_path, alone).run()
    trained = weights(tmp_path)["encoder.embeddings.position.weight"]
    assert (trained[16:] != initial[16:]).any(dim=1).sum() >= 15  # A row may end before the last position.
    assert (stats["sequences"], stats["epochs"], stats["long_epochs"]) == (4 * 8 + 4 * 4, 1.333, 0.8)
    assert stats["sequence_length"] == 32
    assert stats["padding_share"] == pytest.approx(1 - stats["tokens"] / (32 * 16 + 16 * 32), abs=1e-4)


def test_the_word_order_head_has_a_class_per_long_position(alone: Ranks, tmp_path: Path) -> None:
    run = trainer(long_spec(), tmp_path, alone)
    run.run()
    assert weights(tmp_path)["wop.weight"].shape == (32, 16)
    assert lines(tmp_path)[0]["wop_loss"] == pytest.approx(math.log(32), rel=0.1)


def test_long_rows_are_scored_from_where_they_begin_and_short_ones_throughout(alone: Ranks, tmp_path: Path) -> None:
    stats = trainer(long_spec(heldout_every=3), tmp_path, alone).run()
    assert [line["step"] for line in lines(tmp_path, "heldout")] == [0, 3, 4, 6, 8]
    assert [line["step"] for line in lines(tmp_path, "heldout_long")] == [4, 6, 8]
    assert stats["heldout_long"]["mlm_perplexity"] == pytest.approx(math.exp(stats["heldout_long"]["mlm_loss"]))
    assert stats["heldout_long"] != stats["heldout"]


def test_a_run_that_stops_in_either_phase_ends_in_the_same_bytes(alone: Ranks, tmp_path: Path) -> None:
    trainer(long_spec(), tmp_path / "straight", alone).run()
    for stop_after in (3, 4, 5):
        with pytest.raises(Stopped):
            trainer(long_spec(), tmp_path / "stopped", alone, stop_after=stop_after).run()
    trainer(long_spec(), tmp_path / "stopped", alone).run()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


def test_accumulation_changes_no_loss_of_either_phase(alone: Ranks, tmp_path: Path) -> None:
    model = no_dropout(max_positions=32)
    for micro in (4, 1):
        run = long_spec(model=model, micro_batch_size=micro, long={**LONG, "micro_batch_size": micro})
        trainer(run, tmp_path / str(micro), alone).run()
    for whole, parts in zip(lines(tmp_path / "4"), lines(tmp_path / "1"), strict=True):
        for name in ("loss", "mlm_loss", "sop_loss", "wop_loss", "gradient_norm"):
            assert whole[name] == (None if parts[name] is None else pytest.approx(parts[name], rel=1e-4)), name


def test_a_collapse_at_the_change_returns_to_short_sequences_and_leaves_the_long_ones_out(alone: Ranks, tmp_path: Path) -> None:
    run = trainer(long_spec(checkpoint_every=3, model=no_dropout(max_positions=32)), tmp_path, alone)

    def spoil(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], logits: torch.Tensor) -> torch.Tensor:
        first = run.state.step == 4 and run.state.long_position == 0
        return logits * math.nan if module.training and first else logits

    run.model.mlm.register_forward_hook(spoil)
    stats = run.run()
    (event,) = lines(tmp_path, "guard")
    assert (event["step"], event["at_step"], event["skipped_sequences"]) == (3, 5, 8 + 4)
    assert (run.state.position, run.state.long_position, stats["rollbacks"]) == (5 * 8, 5 * 4, 1)
    assert stats["sequences"] == 4 * 8 + 4 * 4


def rows(length: int = 16, vocab_size: int = 40) -> Rows:
    return Rows(*(SyntheticBatches(4, length=length, vocab_size=vocab_size) for _ in range(2)))


@pytest.mark.parametrize(
    ("fields", "config", "short", "long", "message"),
    [
        ({"long": LONG}, {}, rows(), None, "but there are no long examples"),
        ({}, {}, rows(), rows(32), "long = None, but there are long examples"),
        ({"long": LONG}, {}, rows(), rows(16), "the long examples are 16 tokens long, the short ones 16"),
        ({"long": LONG}, {}, rows(), rows(32, vocab_size=50), "packed with 50 pieces, but the model has 40"),
        ({"long": LONG}, {"word_order_classes": 16}, rows(), rows(32), "word_order_classes = 16, .* 32 tokens long"),
        ({}, {"max_positions": 8, "word_order_classes": 8}, rows(), None, "16 tokens long, but max_positions = 8"),
        ({}, {"max_positions": 16, "word_order_classes": 33}, rows(), None, "word_order_classes = 33, .* a class per position"),
        ({"wop_target": "offset", "wop_reach": 4}, {"word_order_classes": 16}, rows(), None, "16, .* a class per offset"),
    ],
)
def test_rows_that_do_not_fit_are_refused_naming_both_sides(
    fields: dict, config: dict, short: Rows, long: Rows | None, message: str
) -> None:
    run = long_spec(**{"long": None, **fields})
    made = run.config_for(vocab_size=40, sequence_length=16)
    with pytest.raises(ValueError, match=message):
        check_rows(run, made.model_copy(update=config), short, long)


def test_events_of_a_guard_are_lines_like_others(alone: Ranks, tmp_path: Path) -> None:
    trainer(long_spec(), tmp_path, alone).run()
    assert {json.loads(line)["split"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()} == {
        "train",
        "heldout",
        "heldout_long",
    }


MODERN = {
    "architecture": "modern",
    "hidden_size": 16,
    "num_layers": 2,
    "num_heads": 2,
    "global_theta": 100.0,
    "mlp_dropout": 0.1,
    "initializer_range": 0.5,  # Attention must be sharp for a turn to show in six digits.
}


def test_the_rotary_base_changes_with_the_long_sequences(alone: Ranks, tmp_path: Path) -> None:
    """Until then the run is the same as without the change; the trained model has the new base; resuming gives the same
    bytes."""
    changed, plain = (
        long_spec(model=MODERN, optimizer={"name": "muon", "lr": 2e-3}, long={**LONG, "global_theta": theta})
        for theta in (9_000.0, None)
    )
    for name, run in (("changed", changed), ("plain", plain)):
        trainer(run, tmp_path / name, alone).run()
    one, other = (lines(tmp_path / name) for name in ("changed", "plain"))
    assert one[:4] == other[:4]
    assert all(a["mlm_loss"] != b["mlm_loss"] for a, b in zip(one[4:], other[4:], strict=True))
    first, second = (lines(tmp_path / name, "heldout_long")[0] for name in ("changed", "plain"))
    assert first["step"] == 4
    first_short, second_short = (lines(tmp_path / name, "heldout")[2] for name in ("changed", "plain"))
    assert first_short["step"] == 4
    assert first_short == second_short, "scored as the short sequences were trained"
    assert first["mlm_loss"] != second["mlm_loss"], "scored as the long sequences will be trained"
    assert json.loads((tmp_path / "changed" / "config.json").read_bytes())["global_theta"] == 9_000.0
    assert json.loads((tmp_path / "plain" / "config.json").read_bytes())["global_theta"] == 100.0
    for stop_after in (3, 4, 6):
        with pytest.raises(Stopped):
            trainer(changed, tmp_path / "stopped", alone, stop_after=stop_after).run()
    trainer(changed, tmp_path / "stopped", alone).run()
    assert same_bytes(tmp_path / "changed", tmp_path / "stopped")


def test_a_snapshot_has_the_base_that_it_was_trained_with(alone: Ranks, tmp_path: Path) -> None:
    """Also at the step after which the base changes, where held-out rows are scored with both."""
    changed = long_spec(model=MODERN, snapshots=[3, 4, 5, 8], long={**LONG, "global_theta": 9_000.0})
    trainer(changed, tmp_path, alone).run()
    bases = [read_config(tmp_path, step).model_dump()["global_theta"] for step in changed.snapshots]
    assert bases == [100.0, 100.0, 9_000.0, 9_000.0]
    for step in changed.snapshots:
        with safe_open(tmp_path / "snapshots" / f"step-{step:08d}.safetensors", "pt") as file:
            assert len(file.metadata()) == 1, "several would come in an order of chance, and the file would have other bytes"


def test_learnt_positions_have_no_base(alone: Ranks, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="global_theta has no meaning in a model of learnt positions"):
        trainer(long_spec(long={**LONG, "global_theta": 9_000.0}), tmp_path, alone)
