"""Packed rows have the sequences and losses of single rows, and an interrupted run ends in the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from korealbert.artifact import Artifact
from korealbert.examples.batches import IGNORED
from korealbert.pretrain.data import micro_batches, on_host
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.objective import make_objective
from korealbert.pretrain.rows import open_batches
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import check
from korealbert.pretrain.trainer import Stopped
from tests.pretrain.runs import lines, same_bytes, train_here
from tests.pretrain.shards import build_long

MODERN = {
    "architecture": "modern",
    "hidden_size": 16,
    "num_layers": 3,
    "num_heads": 2,
    "local_attention": 8,
    "max_positions": 64,
    "mlp_dropout": 0.1,
}


def packed_spec(**fields: Any) -> PretrainSpec:
    settings: dict[str, Any] = {
        "model": MODERN,
        "packing": "best_fit",
        "wop_target": "offset",
        "wop_reach": 4,
        "steps": 8,
        "global_batch_size": 8,
        "micro_batch_size": 4,
        "optimizer": {"name": "muon", "lr": 2e-3},
        "schedule": {"warmup_steps": 1, "decay": "stable_sqrt"},
        "log_every": 1,
        "heldout_every": 3,
        "checkpoint_every": 2,
    }
    return PretrainSpec(**{**settings, **fields})


def test_a_run_learns_and_leaves_little_empty(ancestry: dict[str, Artifact], alone: Ranks, tmp_path: Path) -> None:
    stats = train_here(packed_spec(steps=30, heldout_every=30, checkpoint_every=30), ancestry, tmp_path, alone)
    first, last = lines(tmp_path, "heldout")
    assert last["mlm_loss"] < first["mlm_loss"] - 0.3
    assert all(last[f"{task}_loss"] is not None for task in ("sop", "wop"))
    assert stats["padding_share"] < 0.1
    single = open_batches(packed_spec(packing="none"), ancestry["examples"].path, ancestry["views"].path, "train")
    assert stats["epochs"] > 30 * 8 / single.num_rows


@pytest.mark.parametrize("stop_after", [3, pytest.param(5, marks=pytest.mark.soak)])
def test_a_stopped_run_resumes_to_the_same_bytes(
    ancestry: dict[str, Artifact], alone: Ranks, tmp_path: Path, stop_after: int
) -> None:
    """A batch spans two epochs, and thus two views; the run ends on long sequences."""
    roles = {**ancestry, **build_long(tmp_path / "rows", ancestry)}
    long = {"from_step": 4, "global_batch_size": 8, "micro_batch_size": 8, "global_theta": 40_000.0}
    spec = packed_spec(steps=6, global_batch_size=96, micro_batch_size=24, long=long)
    train_here(spec, roles, tmp_path / "straight", alone)
    with pytest.raises(Stopped):
        train_here(spec, roles, tmp_path / "stopped", alone, stop_after=stop_after)
    stats = train_here(spec, roles, tmp_path / "stopped", alone)
    assert stats["epochs"] > 1
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


def test_every_number_of_ranks_sees_the_same_batches(ancestry: dict[str, Artifact]) -> None:
    spec = packed_spec(micro_batch_size=2)
    source = open_batches(spec, ancestry["examples"].path, ancestry["views"].path, "train")
    one = micro_batches(source, spec, start=24, count=8, rank=0, world_size=1)
    two = [micro_batches(source, spec, start=24, count=8, rank=rank, world_size=2) for rank in (0, 1)]
    for number, batch in enumerate(one):
        assert np.array_equal(batch.input_ids, two[number % 2][number // 2].input_ids)
        assert np.array_equal(batch.wop_labels, two[number % 2][number // 2].wop_labels)


def test_losses_are_those_of_the_sequences_one_by_one(ancestry: dict[str, Artifact]) -> None:
    spec = packed_spec()
    config = check(spec, **{role: artifact.path for role, artifact in ancestry.items()})
    objective = make_objective(config, seed=3).eval()
    sums = []
    for packing in ("best_fit", "none"):
        one = packed_spec(packing=packing)
        source = open_batches(one, ancestry["examples"].path, ancestry["views"].path, "train")
        batch = source.gather(0, np.arange(source.num_rows))
        assert (batch.wop_labels != IGNORED).any()
        with torch.no_grad():
            sums.append(objective(*on_host(batch, pinned=False)))
    assert torch.equal(sums[0].targets, sums[1].targets)
    torch.testing.assert_close(sums[0].losses, sums[1].losses, rtol=1e-5, atol=1e-4)


def test_what_cannot_be_packed_is_refused(ancestry: dict[str, Artifact]) -> None:
    paths = {role: artifact.path for role, artifact in ancestry.items()}
    albert = {"hidden_size": 16, "embedding_size": 8, "num_heads": 2, "num_layers": 2, "max_positions": 32}
    with pytest.raises(ValueError, match="packing = 'best_fit' needs a model that keeps the sequences of a row apart"):
        check(packed_spec(model=albert), **paths)
    with pytest.raises(ValueError, match="compile = 'graphs' needs batches of one shape"):
        packed_spec(compile="graphs")
    with pytest.raises(ValueError, match="wop_target = 'offset', but objective = 'rtd'"):
        packed_spec(model={**albert, "pooler": False}, objective="rtd", packing="none")
