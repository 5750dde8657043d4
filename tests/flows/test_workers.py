"""One worker and two workers give identical bytes, for every data stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact
from korealbert.pretrain.runtime import TrainingRuntime
from tests.building import build_all
from tests.flows.conftest import TINY

DATA_STAGES = ("extract", "clean", "dedup", "balance", "vocab", "examples", "views")


@pytest.mark.soak
def test_two_workers_give_the_bytes_of_one(straight: dict[str, Artifact], tmp_path: Path) -> None:
    runtime = TrainingRuntime(store=tmp_path / "store", workers=2, threads=2)
    built = build_all(recipes.until(recipes.graph(recipes.load(TINY)), "views"), runtime)
    assert {label.split("/")[0] for label in built} == set(DATA_STAGES)
    assert {label: a.output_digest for label, a in built.items()} == {label: straight[label].output_digest for label in built}


@pytest.mark.parametrize("stage", ["extract", "clean", "dedup", "balance"])
def test_documents_are_conserved_and_the_sample_exercises_every_data_stage(stage: str, straight: dict[str, Artifact]) -> None:
    stats = [a.stats for label, a in straight.items() if label.split("/")[0] == stage]
    for each in stats:
        assert each["documents_in"] == each["documents_out"] + sum(each["dropped"].values()) + each["quarantined"]
    assert sum(sum(each["dropped"].values()) for each in stats) > 0
