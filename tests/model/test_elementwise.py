"""Dropout and GELU on CPUs in bf16 beside torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from korealbert.model.elementwise import Dropout, dropout, gelu


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_dropped_elements_have_the_rate_and_their_gradients_are_zero(rate: float) -> None:
    torch.manual_seed(1)
    x = torch.ones(301, 1001, dtype=torch.bfloat16, requires_grad=True)
    dropped = dropout(x, rate)
    dropped.backward(torch.ones_like(x))
    assert x.grad is not None
    assert torch.equal(x.grad, dropped)
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / (1 - rate), dtype=torch.bfloat16).item()}
    share = (dropped == 0).float()
    assert share.mean().item() == pytest.approx(rate, abs=5 * (rate / x.numel()) ** 0.5)
    assert share.mean(0).std().item() == pytest.approx((rate * (1 - rate) / 301) ** 0.5, rel=0.2)


@pytest.mark.parametrize("rate", [0.1, 0.15, 0.3, 0.9])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_is_kept_has_the_values_of_torchs_dropout_in_fp32_rounded_once(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    x, gradient = (torch.randn(513, 1023).to(dtype).requires_grad_() for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        dropped = dropout(x, rate)
    dropped.backward(gradient)
    assert x.grad is not None
    assert torch.equal(x.grad == 0, dropped == 0)
    for given, ours in ((x, dropped), (gradient, x.grad)):
        torchs = F.dropout(given.float(), round(rate * 65_536) / 65_536)
        both = (ours != 0) & (torchs != 0)
        assert ours.dtype == dtype
        torch.testing.assert_close(ours[both], torchs[both].to(dtype), rtol=0 if dtype == torch.bfloat16 else 2**-22, atol=0)


@pytest.mark.parametrize("rate", [0.1, 0.15])
def test_the_mean_stays(rate: float) -> None:
    x = torch.rand(1 << 20, generator=torch.Generator().manual_seed(3)).bfloat16()
    torch.manual_seed(3)
    mean = sum(dropout(x, rate).double().mean().item() for _ in range(8)) / 8
    deviation = (rate / (1 - rate) * x.double().square().mean().item() / x.numel() / 8) ** 0.5
    assert mean == pytest.approx(x.double().mean().item(), abs=4 * deviation)  # A factor of 1.109375 would be 0.16 % off.


def test_torchs_generator_decides_what_is_dropped() -> None:
    x = torch.ones(4, 33, 7, dtype=torch.bfloat16)
    torch.manual_seed(5)
    first, second = dropout(x, 0.3), dropout(x, 0.3)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.3), first)
    assert not torch.equal(first, second)


def test_nothing_is_dropped_at_a_rate_of_zero_or_in_evaluation() -> None:
    x = torch.randn(5, 9, dtype=torch.bfloat16)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert not torch.equal(Dropout(0.5)(x), x)


def test_elements_in_fp32_are_dropped_by_torch() -> None:
    x = torch.randn(64, 64)
    torch.manual_seed(3)
    ours = dropout(x, 0.1)
    torch.manual_seed(3)
    assert torch.equal(ours, F.dropout(x, 0.1))


def test_gelu_in_bf16_is_rounded_from_fp32() -> None:
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    x = every[every.isfinite()].view(2, -1).t()  # all values of bf16, and not contiguous
    own, exact = x.clone().requires_grad_(), x.float().requires_grad_()
    activated, expected = gelu(own, approximate="tanh"), F.gelu(exact, approximate="tanh")
    activated.backward(torch.ones_like(activated))
    expected.backward(torch.ones_like(expected))
    assert own.grad is not None
    assert exact.grad is not None
    usual = x.abs().float() < 100  # torch's gradient is NaN from about 1e13 on
    torch.testing.assert_close(activated.float()[usual], expected[usual], rtol=2**-8, atol=1e-6)
    torch.testing.assert_close(own.grad.float()[usual], exact.grad[usual], rtol=2**-8, atol=2e-6)
    assert torch.equal(activated[~usual], x[~usual].clamp(min=0))


def test_gelu_elsewhere_is_torchs() -> None:
    x = torch.randn(100)
    assert torch.equal(gelu(x, approximate="tanh"), F.gelu(x, approximate="tanh"))
    assert torch.equal(gelu(x.bfloat16(), approximate="none"), F.gelu(x.bfloat16()))


def test_dropout_under_autocast_keeps_fp32() -> None:
    x = torch.randn(64, 64)
    with torch.autocast("cpu", torch.bfloat16):
        dropped = dropout(x, 0.5)
    assert dropped.dtype == torch.float32
    assert torch.equal(dropped[dropped != 0], 2 * x[dropped != 0])


def test_gelu_under_autocast_leaves_its_fp32_input_as_it_is() -> None:
    x = torch.randn(7, 33, requires_grad=True)
    given = x.detach().clone()
    with torch.autocast("cpu", torch.bfloat16):
        activated = gelu(x, approximate="tanh")
    assert torch.equal(x, given)
    assert torch.equal(activated, F.gelu(given, approximate="tanh"))
