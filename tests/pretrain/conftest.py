"""Shared by the tests of training: real rows, and a run on two ranks to compare others with."""

from __future__ import annotations

import pytest

from korealbert.artifact import Artifact, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE
from tests.once import shared_directory
from tests.pretrain.shards import build_ancestry

TWO_RANKS = PretrainSpec(
    model={"hidden_size": 32, "embedding_size": 16, "num_heads": 2, "num_layers": 2, "max_positions": 32},
    steps=30,
    global_batch_size=8,
    micro_batch_size=4,
    optimizer={"lr": 0.01},
    schedule={"warmup_steps": 3},
    log_every=1,
    heldout_every=15,
    checkpoint_every=10,
)
"""The spec of ``two_ranks``."""


@pytest.fixture(autouse=True)
def _one_precision(one_precision: None) -> None:
    """Trainings of either precision share the processes of a test run."""


@pytest.fixture(scope="session")
def ancestry(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Artifacts by the roles of the stage."""
    return build_ancestry(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def two_ranks(ancestry: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """``TWO_RANKS`` trained on two processes of this machine, without interruption. DeepSpeed has compiled nothing for it."""
    with shared_directory(tmp_path_factory, "two-ranks") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(directory / "compiled"))
        runtime = TrainingRuntime(store=directory / "store", processes=2, threads=2, device="cpu")
        artifact = build(STAGE, TWO_RANKS, ancestry, runtime).artifact
        assert not (directory / "compiled").exists()
    return artifact
