"""Scores of a trained model, or of a snapshot, are those of its training."""

from __future__ import annotations

import json
from typing import Any

import pytest

from korealbert.artifact import Artifact, build
from korealbert.huggingface.export import STAGE as EXPORT
from korealbert.huggingface.export import ExportSpec
from korealbert.pretrain import intrinsic
from korealbert.pretrain.intrinsic import IntrinsicSpec
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE
from tests.pretrain.runs import lines
from tests.pretrain.shards import build_long

pytestmark = pytest.mark.usefixtures("trains_here")

MODERN = {
    "architecture": "modern",
    "hidden_size": 16,
    "num_layers": 3,
    "num_heads": 2,
    "local_attention": 64,
    "max_positions": 64,
    "global_theta": 10.0,
    "initializer_range": 0.5,
}


def packed(**fields: Any) -> PretrainSpec:
    settings: dict[str, Any] = {"model": MODERN, "packing": "best_fit", "wop_weight": 0.0, "sop_weight": 0.0}
    settings |= {"steps": 8, "global_batch_size": 8, "micro_batch_size": 4, "log_every": 1, "heldout_every": 4}
    settings |= {"optimizer": {"name": "muon", "lr": 2e-2}, "schedule": {"warmup_steps": 1, "decay": "stable_sqrt"}}
    return PretrainSpec(**{**settings, **fields})


@pytest.fixture
def scored_roles(ancestry: dict[str, Artifact]) -> dict[str, Artifact]:
    return {role: ancestry[role] for role in ("examples", "views")}


def test_a_snapshot_from_before_the_long_phase_has_the_theta_of_before(
    ancestry: dict[str, Artifact], scored_roles: dict[str, Artifact]
) -> None:
    store = ancestry["examples"].path.parent
    runtime = TrainingRuntime(store=store, threads=1, device="cpu")
    long = {"from_step": 6, "global_batch_size": 4, "micro_batch_size": 4, "global_theta": 160_000.0}
    trained = build(STAGE, packed(snapshots=(4, 8), long=long), {**ancestry, **build_long(store, ancestry)}, runtime).artifact
    seen = {line["step"]: line["mlm_loss"] for line in lines(trained.path, "heldout")}
    for step, theta in ((4, 10.0), (8, 160_000.0)):
        inputs = {"pretrain": trained, **scored_roles}
        scores = build(intrinsic.STAGE, IntrinsicSpec(snapshot=step), inputs, runtime).artifact.stats["heldout"]
        assert scores["mlm_loss"] == pytest.approx(seen[step], abs=2e-5)
        exported = build(EXPORT, ExportSpec(snapshot=step), {"pretrain": trained, "vocab": ancestry["vocab"]}, runtime).artifact
        thetas = json.loads((exported.path / "config.json").read_text("utf-8"))["rope_parameters"]
        assert thetas["full_attention"]["rope_theta"] == theta


def test_a_model_with_a_bag_of_words_is_scored(ancestry: dict[str, Artifact], scored_roles: dict[str, Artifact]) -> None:
    runtime = TrainingRuntime(store=ancestry["examples"].path.parent, threads=1, device="cpu")
    trained = build(STAGE, packed(steps=2, bow_weight=0.5), ancestry, runtime).artifact
    scores = build(intrinsic.STAGE, IntrinsicSpec(), {"pretrain": trained, **scored_roles}, runtime).artifact.stats["heldout"]
    (last,) = (line for line in lines(trained.path, "heldout") if line["step"] == 2)
    for name in ("mlm_loss", "bow_loss"):
        assert scores[name] == pytest.approx(last[name], abs=2e-5)
