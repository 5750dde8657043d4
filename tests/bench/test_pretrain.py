"""The nominal peak of a GPU, by which MFU is divided."""

from __future__ import annotations

import pytest
import torch

from bench.pretrain import nominal_peak


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
