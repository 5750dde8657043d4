"""Dropout and GELU: torch's, except in bf16 on CPUs, where ours are faster (``python -m bench.kernels``)."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_BLOCK = 1 << 17
"""Elements whose intermediate results in fp32 fit into a core's cache."""


class Dropout(nn.Dropout):
    """torch's module with the ``dropout`` below."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, and while training ``dropout`` of it."""
        return dropout(input, self.p) if self.training else input


def dropout(x: Tensor, rate: float) -> Tensor:
    """Set each element to 0 with this probability and divide the others by 1 - rate; torch's global generator decides which.

    On CPUs in bf16 the rate is rounded to 1/65,536, each element takes 16 random bits (a quarter of the time), and quotients
    are computed in fp32. Torch divides 1 by 1 - rate in bf16 there: at a rate of 0.1 all elements are 0.16 % too small.
    """
    if not rate or not _ours(x):
        return F.dropout(x, rate)
    return cast(Tensor, _Dropout.apply(x, min(round(rate * (1 << 16)), (1 << 16) - 1)))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    """Dropout with a rate of ``threshold`` / 65,536."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        bits = words.view(torch.int16)[: x.numel()]
        one = torch.ones((), dtype=torch.bfloat16).view(torch.int16)
        kept = bits.ge_(threshold - (1 << 15)).mul_(one).view(torch.bfloat16).view(x.shape)
        ctx.scale = 1 / (1 - threshold / (1 << 16))
        ctx.save_for_backward(kept)
        return _kept(x, kept, ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _kept(gradient, kept, ctx.scale), None


def _kept(x: Tensor, kept: Tensor, scale: float) -> Tensor:
    """Return scale · x where ``kept`` is 1, else 0: one pass, which computes in fp32 and rounds once."""
    return torch.addcmul(x.new_zeros(()), x, kept, value=scale)


def gelu(x: Tensor, *, approximate: str) -> Tensor:
    """Return GELU, with ``approximate`` as for ``torch.nn.functional.gelu``.

    For tensors in bf16 on CPUs, the variant by tanh keeps its derivative for the backward pass, in the place of its input, and
    takes two thirds of the time.
    """
    if approximate == "tanh" and x.dtype == torch.bfloat16 and _ours(x):
        return cast(Tensor, _TanhGelu.apply(x))  # type: ignore[no-untyped-call]
    return F.gelu(x, approximate=approximate)


def _ours(x: Tensor) -> bool:
    """Return whether our functions are faster: in bf16, or under autocast to it, on CPUs, unless torch compiles its own."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return x.dtype == torch.bfloat16 or (torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16)


def compiled_for_gpu(x: Tensor) -> bool:
    """Return whether torch is compiling what is computed from this tensor for a GPU."""
    return x.device.type == "cuda" and torch.compiler.is_compiling()


class _TanhGelu(torch.autograd.Function):
    """x σ(u) with u = 2 √(2/π) (x + 0.044715 x³), which equals the variant by tanh. Computed in fp32, rounded once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        linear = 2 * math.sqrt(2 / math.pi)
        cubic = 0.044715 * linear
        result, derivative = torch.empty_like(x), torch.empty_like(x)
        parts = (torch.split(each.view(-1), _BLOCK) for each in (x, result, derivative))
        for block, of_result, of_derivative in zip(*parts, strict=True):
            values = block.float()
            squares = values.square()
            gate = (squares * cubic).add_(linear).mul_(values).sigmoid_()
            activated = values.mul_(gate)
            of_result.copy_(activated)
            slope = squares.mul_(3 * cubic).add_(linear)  # du/dx
            of_derivative.copy_(torch.addcmul(gate, activated.mul_(slope), 1 - gate))
        ctx.save_for_backward(derivative)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (derivative,) = ctx.saved_tensors
        return cast(Tensor, gradient * derivative)
