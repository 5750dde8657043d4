"""The nominal peak of a GPU, by which MFU is divided, and the tokens of both sides."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.pretrain import nominal_peak
from bench.pretrain_sides import ours, spec_of, theirs
from tests.pretrain.shards import build_ancestry


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA A10", None),
    ],
)
def test_the_nominal_peak_equals_the_data_sheet(name: str, peak: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nominal_peak() is None or torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    assert nominal_peak() == peak


@pytest.mark.usefixtures("one_precision")
def test_modern_rows_are_packed_and_each_side_counts_its_own_tokens(tmp_path: Path) -> None:
    paths = {role: str(artifact.path) for role, artifact in build_ancestry(tmp_path).items()}
    model = {"architecture": "modern", "hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_positions": 32}
    size = {"batch": 8, "accumulation": 2, "warm_up": 1, "steps": 4, "length": 32}
    job = {**paths, "model": model, **size, "precision": "fp32", "pieces": 80}
    config = spec_of(job).config_for(vocab_size=80, sequence_length=32)
    positions = 4 * 8 * 2 * 32
    packed, padded = (side(job, config)["tokens"] / positions for side in (ours, theirs))
    assert packed > 0.9
    assert 0.5 < padded < packed - 0.05
