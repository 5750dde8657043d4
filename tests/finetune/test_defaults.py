"""Default settings of tasks equal the papers' tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from korealbert.finetune import tasks
from korealbert.finetune.spec import FinetuneSpec

KLUE = {
    # epochs, batch, rate, warm-up, length: Language Chameleon, table 6; lengths of KLUE-baseline's run_all.sh
    "ynat": (4, 32, 5e-5, 0.1, 128),
    "klue_sts": (4, 32, 5e-5, 0.1, 128),
    "klue_nli": (5, 32, 5e-5, 0.1, 128),
    "klue_ner": (3, 32, 5e-5, 0.0, 510),
    "klue_re": (3, 32, 5e-5, 0.1, 256),
    "klue_dp": (10, 32, 5e-5, 0.1, 256),
    "klue_dp_no_pos": (10, 32, 5e-5, 0.1, 256),
    "klue_mrc": (5, 16, 3e-5, 0.0, 510),
}
SELECTED_BY = {
    "ynat": "macro_f1",
    "klue_sts": "pearson",
    "klue_nli": "accuracy",
    "klue_ner": "char_f1_all13",
    "klue_re": "micro_f1",
    "klue_dp": "las_macro",
    "klue_mrc": "rouge_w",
    "klue_dst": "slot_micro_f1",
}
KOREALBERT = ("kornli", "korsts", "nsmc", "pd", "naver_ner", "korquad")


def spec(name: str, tmp_path: Path, **more: Any) -> FinetuneSpec:
    return FinetuneSpec(task=name, **dict.fromkeys(("train", "dev", "test"), tmp_path / "file"), **more)


@pytest.mark.parametrize("name", KLUE)
def test_klue_takes_the_settings_of_its_baselines(name: str, tmp_path: Path) -> None:
    found = spec(name, tmp_path)
    given = (found.epochs, found.batch_size, found.learning_rate, found.warmup_ratio, found.max_length)
    assert given == KLUE[name]
    assert (found.weight_decay, found.max_grad_norm) == (0.0, 1.0)


def test_dialogues_take_the_settings_of_run_all(tmp_path: Path) -> None:
    found = spec("klue_dst", tmp_path)
    given = (found.epochs, found.batch_size, found.learning_rate, found.warmup_ratio, found.max_length, found.weight_decay)
    assert given == (5, 16, 3e-5, 0.1, 510, 0.01)


@pytest.mark.parametrize("name", SELECTED_BY)
def test_klue_selects_epochs_as_its_baselines_do(name: str) -> None:
    assert tasks.load(name).selects_by == SELECTED_BY[name]


@pytest.mark.parametrize("name", KOREALBERT)
def test_koreal_bert_s_tasks_stay_within_its_grid(name: str, tmp_path: Path) -> None:
    """Section IV: batch 64 or 128, 3 to 5 epochs, NER up to 7, rates from 2e-5 to 5e-5, lengths from 128 to 512."""
    found = spec(name, tmp_path)
    assert found.batch_size in (64, 128)
    assert 3 <= found.epochs <= (7 if name == "naver_ner" else 5)
    assert 2e-5 <= found.learning_rate <= 5e-5
    assert found.max_length == (512 if name == "korquad" else 128)


@pytest.mark.parametrize("name", [name for name in tasks.names() if name.startswith("glue_")])
def test_glue_takes_the_settings_of_the_language_loss_matrix(name: str, tmp_path: Path) -> None:
    """Language Chameleon, section 4.2: 5 epochs, batch 64, 5e-5; dropout 0.3 for MNLI, 0.05 for CoLA, 0.1 for the others."""
    found = spec(name, tmp_path)
    assert (found.epochs, found.batch_size, found.learning_rate) == (5, 64, 5e-5)
    assert found.dropout == {"glue_mnli": 0.3, "glue_mnli_mm": 0.3, "glue_cola": 0.05}.get(name, 0.1)


def test_a_recipe_goes_before_a_task(tmp_path: Path) -> None:
    assert spec("klue_ner", tmp_path, warmup_ratio=0.2, max_length=64).warmup_ratio == 0.2
    assert spec("klue_ner", tmp_path, max_length=64).features().max_length == 64
    assert spec("klue_mrc", tmp_path).features().max_length == 510
