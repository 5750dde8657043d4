"""Fine-tuned models as ONNX have torch's logits, and scores under separate names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from korealbert.artifact import build
from korealbert.finetune import tasks
from korealbert.finetune.encoders import stage as encoder_stage
from korealbert.finetune.encoders.encoder import Encoder, load_encoder, load_input
from korealbert.finetune.model import FinetunedModel, OnnxModel, write_model
from korealbert.finetune.search import trial_cell
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.stage import STAGE
from korealbert.finetune.task import Feature
from korealbert.huggingface.directory import ModelPlace
from korealbert.huggingface.onnx import FILES
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.report import scores
from korealbert.report.sections.outcome import _onnx_table
from tests.finetune.encoders.test_as_trained import MODES, made

CPU = torch.device("cpu")
LENGTHS = (23, 9, 3)


def features(target: Any) -> list[Feature]:
    random = np.random.default_rng(1)
    return [Feature([2, *random.integers(5, 25, n - 2), 3], [0] * (n // 2) + [1] * (n - n // 2), target) for n in LENGTHS]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("mode", "name", "head"),
    [
        (None, "nsmc", "own"),
        ("BERT", "klue_ner", "own"),
        ("modern", "nsmc", "mean"),
        ("feed-forward", "squad2", "answerability"),
    ],
)
def test_logits_are_torchs_with_padding(mode: str | None, name: str, head: Any, model_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    torch.manual_seed(3)
    encoder: Encoder = load_encoder(model_dir, init="pretrained")
    if mode is not None:
        encoder = load_input(made(MODES[mode], tmp_path).inputs, init="pretrained")
    task = tasks.load(name).headed(head)
    batch = features(0)
    model = FinetunedModel(task, encoder, task.head(hidden_size=32, dropout=0.1, train=batch), 0, CPU)
    model.modules.eval()
    with torch.inference_mode():
        expected, _ = model.logits(batch)
    write_model(model, tmp_path, ("fp32", "int8"))
    exact, rounded = (OnnxModel.within(tmp_path, form, model, threads=1).logits(batch)[0] for form in ("fp32", "int8"))
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    parts = [[one] if isinstance(one, torch.Tensor) else list(one) for one in (expected, exact, rounded)]
    for torchs, fp32, int8 in zip(*parts, strict=True):
        shown = real if torchs.shape[:2] == real.shape else ...
        torch.testing.assert_close(fp32[shown], torchs[shown], atol=1e-4, rtol=0)
        # Logits of a fresh head have a standard deviation of some 0.1.
        assert 0 < (int8[shown] - torchs[shown]).abs().mean() < 0.012


def test_a_cell_keeps_the_model_and_scores_it_under_other_names(model_dir: Path, nsmc: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    settings = {**nsmc, "epochs": 3, "batch_size": 32, "learning_rate": 5e-3}
    runtime = TrainingRuntime(store=tmp_path, threads=1, device="cpu")
    model = build(encoder_stage.STAGE, ModelPlace(path=model_dir), {}, runtime).artifact
    plain = build(STAGE, FinetuneSpec(**settings), {"model": model}, runtime).artifact
    label = "finetune/nsmc/pretrained/1"
    kept = build(STAGE, FinetuneSpec(**settings, onnx=("fp32", "int8")), {"model": model}, runtime, label=label).artifact
    metrics = json.loads((kept.path / "metrics.json").read_text())
    assert metrics["test_onnx_fp32"] == metrics["test"] and metrics["test"]["accuracy"] > 90
    assert abs(metrics["test_onnx_int8"]["accuracy"] - metrics["test"]["accuracy"]) < 5
    others = {name: value for name, value in metrics.items() if "onnx" not in name}
    assert others == json.loads((plain.path / "metrics.json").read_text()) and kept.stats == plain.stats
    assert sorted(str(path.relative_to(kept.path)) for path in kept.path.glob("onnx/*")) == sorted(FILES.values())
    benchmarks = scores.read({label: kept}, {})
    assert {"test", *scores.ONNX_SPLITS} <= set(scores.table(benchmarks, "ours", [])["split"])
    (table,) = _onnx_table(benchmarks)
    assert table.header[2:] == ["torch", "ONNX fp32", "Change", "ONNX int8", "Change"] and table.rows[0][4] == "+0.00"
    assert _onnx_table(scores.read({label: plain}, {})) == []


@pytest.mark.soak
def test_a_model_without_a_test_set_is_kept_too(model_dir: Path, nsmc: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    runtime = TrainingRuntime(store=tmp_path, threads=1, device="cpu")
    model = build(encoder_stage.STAGE, ModelPlace(path=model_dir), {}, runtime).artifact
    spec = trial_cell(FinetuneSpec(**{**nsmc, "epochs": 1}), 1).with_settings({"onnx": ("fp32",)})
    assert spec.test is None
    kept = build(STAGE, spec, {"model": model}, runtime).artifact
    assert (kept.path / FILES["fp32"]).is_file()
    assert not any("onnx" in name for name in json.loads((kept.path / "metrics.json").read_text()))


def test_heads_that_read_more_than_pieces_are_refused_and_searches_write_none(
    nsmc: dict[str, Any], korsts: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError, match=r"korsts: its head \(bi-encoder\) reads more than one sequence of pieces; leave"):
        FinetuneSpec(**korsts, head="bi-encoder", onnx=("fp32",))
    with pytest.raises(ValidationError, match="twice"):
        FinetuneSpec(**nsmc, onnx=("fp32", "fp32"))
    assert trial_cell(FinetuneSpec(**nsmc, onnx=("int8",)), 7).onnx == ()
