"""Exact numbers of parameters, and speeds relative to M-BERT."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModel

from korealbert.artifact import Artifact, build
from korealbert.finetune.encoders import inference
from korealbert.finetune.encoders.encoder import Encoder
from korealbert.finetune.encoders.inference import BACKENDS
from korealbert.finetune.encoders.speed import BASELINE, SHAPES, STAGE, SpeedSpec, config_of, parameters_of, run
from korealbert.model.parameters import count_parameters
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe.registry import REPORT
from korealbert.report.stage import ReportSpec

PUBLISHED = {
    "M-BERT": 177_853_440,
    "XLM-R base": 278_043_648,
    "KoBERT": 92_186_880,
    "KLUE-BERT base": 110_617_344,
    "ALBERT base v2": 11_683_584,
    "KoreALBERT base": 11_939_584,
    "KoreALBERT large": 17_939_968,
}
"""As the checkpoints of that shape have them."""


def test_parameters_are_those_of_the_checkpoints() -> None:
    assert {name: parameters_of(name) for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_runs_in_small_as_an_encoder(name: str) -> None:
    config = config_of(name, shrink=32)
    encoder = AutoModel.from_config(config)
    assert count_parameters(encoder) < parameters_of(name) / 32
    ids = torch.randint(5, config.vocab_size, (2, 16))
    hidden = encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert hidden.shape == (2, 16, config.hidden_size)
    assert Encoder(encoder).max_length >= 512


def measure(tmp_path: Path, *names: str, inference: bool = False) -> Artifact:
    spec = SpeedSpec(architectures=names, batch_size=4, sequence_length=32, steps=3, shrink=16, inference=inference)
    return build(STAGE, spec, {}, TrainingRuntime(store=tmp_path, threads=1, device="cpu"), label="speed").artifact


def test_shapes_are_measured_beside_m_bert_and_the_report_sets_them_beside_table_iii(tmp_path: Path) -> None:
    artifact = measure(tmp_path, "M-BERT", "DistilKoBERT", "KoreALBERT large")
    found = json.loads((artifact.path / "speed.json").read_text("utf-8"))
    rows = found["rows"]
    assert list(rows) == ["M-BERT", "DistilKoBERT", "KoreALBERT large"] and found["baseline"] == BASELINE
    assert rows["M-BERT"]["speedup"] == 1 and rows["M-BERT"]["parameters"] == PUBLISHED["M-BERT"]
    for row in rows.values():
        assert row["lowest"] <= row["speedup"] <= row["highest"] or row is rows["M-BERT"]
        assert row["pieces_per_second"] > 0
    text = report_of(artifact, tmp_path / "report")
    assert "| KoreALBERT large | 17,939,968 |" in text and "| 18M | 1.3x | Disagrees with the text" in text
    assert "reduced to 1/16; parameters are those of the full shapes" in text


def test_threads_are_as_before_and_nothing_to_measure_is_an_error(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="name some in architectures"):
        run(SpeedSpec(), {}, tmp_path, TrainingRuntime(threads=before + 1, device="cpu"))
    measure(tmp_path, "KoBERT")
    assert torch.get_num_threads() == before
    with pytest.raises(ValidationError, match="no shape 'GPT'; known are M-BERT"):
        SpeedSpec(architectures=("GPT",))


def report_of(artifact: Artifact, out: Path) -> str:
    out.mkdir()
    REPORT.run(ReportSpec(), {"speed": artifact}, out, TrainingRuntime())
    return (out / "report.md").read_text("utf-8")


def test_a_measured_process_prints_the_seconds_of_each_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of("DistilKoBERT", shrink=32)
    AutoModel.from_config(config).save_pretrained(tmp_path)
    monkeypatch.setattr(sys, "argv", ["inference", str(tmp_path), "torch", str(config.vocab_size), "2", "16", "1"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    inference.main()
    seconds = capsys.readouterr().out.splitlines()[-2:]  # Libraries may print before.
    assert all(float(each) > 0 for each in seconds)


def test_measured_inference_is_shown_in_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    figures = {name: {"examples_per_second": 8.0, "speedup": 2.0, "peak_mb": 90.0} for name in BACKENDS}
    monkeypatch.setattr(inference, "measure_inference", lambda *given, **settings: figures)
    text = report_of(measure(tmp_path, "DistilKoBERT", inference=True), tmp_path / "report")
    assert "| ONNX int8, examples/s | ONNX fp32 / torch fp32 |" in text and "| DistilKoBERT | " in text


@pytest.mark.soak
def test_inference_is_measured_in_torch_and_as_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    artifact = measure(tmp_path, "DistilKoBERT", inference=True)
    for row in json.loads((artifact.path / "speed.json").read_text("utf-8"))["rows"].values():
        found = row["inference"]
        assert list(found) == list(BACKENDS) and found["torch"]["speedup"] == 1
        assert all(backend["examples_per_second"] > 0 for backend in found.values())
        # The ONNX processes do not load torch, which takes more memory than such a model.
        assert 20 < found["int8"]["peak_mb"] < found["torch"]["peak_mb"] > found["fp32"]["peak_mb"] > 20


def test_the_message_of_a_measured_process_that_fails_is_shown(tmp_path: Path) -> None:
    code = "import sys; sys.stdin.readline(); sys.exit('no room for 7 GB')"
    with (tmp_path / "errors.txt").open("w+b") as errors:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        problem = "ONNX fp32: its process ended with exit code 1: no room for 7 GB"
        with (
            subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process,  # type: ignore[call-overload]
            pytest.raises(ChildProcessError, match=problem),
        ):
            inference._seconds_of_one_pass("fp32", process, errors)
