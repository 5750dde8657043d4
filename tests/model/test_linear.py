"""Linear maps as they are compiled for GPUs give what torch's own do, forward and backward, also under autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from korealbert.model import elementwise
from korealbert.model.linear import linear, thirds


def in_thirds(layer: nn.Linear, x: Tensor) -> Tensor:
    parts = thirds(x, layer.weight, layer.bias)
    assert [part.shape for part in parts] == [(3, 5, 2)] * 3
    return torch.cat(parts, dim=2)


@pytest.mark.parametrize("mapped", [linear, in_thirds])
@pytest.mark.parametrize("half", [False, True])
def test_a_map_and_its_gradients(
    mapped: Callable[[nn.Linear, Tensor], Tensor], half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(8, 6), torch.randn(3, 5, 8, requires_grad=True)

    def results() -> tuple[Tensor, ...]:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            result = mapped(layer, x)
        assert result.dtype == (torch.bfloat16 if half else torch.float32)
        weights = torch.linspace(-1, 1, result.numel()).view(result.shape)
        return result, *torch.autograd.grad((result * weights).sum(), [x, layer.weight, layer.bias])

    plain = results()
    monkeypatch.setattr(elementwise, "compiled_for_gpu", lambda _: True)
    tolerance: dict[str, Any] = {"rtol": 0.02, "atol": 0.02} if half else {}
    for ours, torchs in zip(results(), plain, strict=True):
        torch.testing.assert_close(ours, torchs, **tolerance)
