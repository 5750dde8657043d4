"""`bench.equal_time` at the scale of a test: one encoder of ours and four of transformers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from transformers import AutoModelForMaskedLM

from bench.equal_time import PEERS, Encoders, here
from bench.trainer_peers import Rows
from korealbert.artifact import Built
from korealbert.artifact.subprocess_build import Job
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.vocab.tokenizer import SPECIAL
from tests.conftest import ROOT

TINY, SAMPLE = ROOT / "tests" / "recipes" / "tiny.toml", ROOT / "data_specs" / "sample"
RECIPE = f"""
[encoder.ours]
recipe = "{TINY}"
set.pretrain.steps = 100_000
set.pretrain.heldout_every = 100_000
set.pretrain.checkpoint_every = 100_000

[finetune.nsmc]
train = "{SAMPLE}/nsmc_train.txt"
test = "{SAMPLE}/nsmc_test.txt"
seeds = [1]
inits = ["pretrained", "random"]
head = "mean"
epochs = 1
max_train_examples = 16
max_test_examples = 16
"""


@pytest.fixture
def encoders(tmp_path: Path) -> Encoders:
    recipe = tmp_path / "encoders.toml"
    recipe.write_text(RECIPE, "utf-8")
    runtime = TrainingRuntime(store=tmp_path / "store", threads=1, workers=1)
    return Encoders(recipe, None, 0.5, runtime, "fp32", {}, build_peer=here)


def test_all_encoders_train_on_the_same_rows_for_the_same_time(encoders: Encoders) -> None:
    encoders.train_ours()
    encoders.train_peers(PEERS)
    for name, (training,) in encoders.trainings.items():
        assert training.stats["seconds"] >= 0.5 and training.stats["steps"] > 0 and training.stats["tokens"] > 0, name
        assert training.inputs()["examples"].name == encoders.built["encoder/ours/examples"].name
    again = Encoders(encoders.recipe, None, 0.5, encoders.runtime, "fp32", {}, build_peer=cached)
    again.train_ours()
    again.train_peers(PEERS)
    assert again.trainings.items() <= encoders.trainings.items(), "finished stages are taken from the store"
    lines = encoders.table().splitlines()
    assert lines[0] == "| encoder | parameters | steps | tokens, M | s | NSMC, mean pooling, accuracy |"
    scored = {cells[1]: cells[-2] for line in lines[2:] if (cells := [cell.strip() for cell in line.split("|")])}
    assert list(scored) == ["ours", *PEERS]
    assert all(re.fullmatch(r"\d+\.\d\d \(\d+\.\d\d\)", cell) for cell in scored.values()), scored
    rows = Rows(encoders.built["encoder/ours/examples"].path)
    first, second = rows.__getitems__([0, 1])
    assert (rows[0], rows[1]) == (first, second) != (second, first)
    assert (first["input_ids"][0], first["input_ids"][-1]) == (SPECIAL.cls, SPECIAL.sep)
    assert SPECIAL.pad not in first["input_ids"] and sum(first["special_tokens_mask"]) == 2
    bert = AutoModelForMaskedLM.from_pretrained(encoders.trainings["transformers-bert"][0].path)
    assert type(bert).__name__ == "BertForMaskedLM" and bert.config.hidden_size == 32


def cached(job: Job, runtime: TrainingRuntime) -> Built:
    built = here(job, runtime)
    assert built.cached
    return built
