"""Linear maps with a backward pass that moves fewer bytes, where torch compiles it for a GPU; elsewhere they are torch's own.

Shapes: see ``korealbert.model``; K inputs and M outputs of a map, T tokens of a batch.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model import elementwise


def linear(linear_map: nn.Linear, x_BLK: Tensor) -> Tensor:
    """Return the map of [B, L, K], [B, L, M].

    Compiled for GPUs, the gradient of its bias is summed over the tokens of each row, then over rows. The first sum joins the
    kernel that computes what it sums; a sum over all tokens would read that from memory again.
    """
    if not elementwise.compiled_for_gpu(x_BLK):
        return cast(Tensor, linear_map(x_BLK))
    return cast(Tensor, _Linear.apply(*_cast(x_BLK, linear_map.weight, linear_map.bias)))  # type: ignore[no-untyped-call]


def thirds(x_BLK: Tensor, weight_MK: Tensor, bias_M: Tensor) -> tuple[Tensor, ...]:
    """Return the three equal parts of a linear map of [B, L, K], each [B, L, M / 3].

    Compiled for GPUs, the gradient of each part is multiplied by its part of the weight; torch would first join the gradients,
    that is, read and write all of them.
    """
    if not elementwise.compiled_for_gpu(x_BLK):
        return F.linear(x_BLK, weight_MK, bias_M).chunk(3, dim=-1)
    return cast(tuple[Tensor, ...], _Thirds.apply(*_cast(x_BLK, weight_MK, bias_M)))  # type: ignore[no-untyped-call]


def _cast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors in the type of products under autocast, which does not reach custom functions."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors)


class _Linear(torch.autograd.Function):
    """See ``linear``."""

    @staticmethod
    def forward(ctx: Any, x_BLK: Tensor, weight_MK: Tensor, bias_M: Tensor) -> Tensor:
        ctx.save_for_backward(x_BLK, weight_MK)
        return F.linear(x_BLK, weight_MK, bias_M)

    @staticmethod
    def backward(ctx: Any, gradient_BLM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_BLK, weight_MK = ctx.saved_tensors
        gradient_TM = gradient_BLM.flatten(0, 1)
        of_x_TK, of_weight_MK = gradient_TM @ weight_MK, gradient_TM.T @ x_BLK.flatten(0, 1)
        of_bias_M = gradient_BLM.sum(1, dtype=torch.float32).sum(0)
        return of_x_TK.view_as(x_BLK), of_weight_MK, of_bias_M.to(gradient_BLM.dtype)


class _Thirds(torch.autograd.Function):
    """See ``thirds``."""

    @staticmethod
    def forward(ctx: Any, x_BLK: Tensor, weight_MK: Tensor, bias_M: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(x_BLK, weight_MK)
        return F.linear(x_BLK, weight_MK, bias_M).chunk(3, dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_BLK, weight_MK = ctx.saved_tensors
        x_TK = x_BLK.flatten(0, 1)
        first, second, third = (gradient.flatten(0, 1) for gradient in gradients)
        of_first, of_second, of_third = weight_MK.chunk(3)
        of_x_TK = torch.addmm(torch.addmm(first @ of_first, second, of_second), third, of_third)
        of_weight_MK = torch.cat([part.T @ x_TK for part in (first, second, third)])
        return of_x_TK.view_as(x_BLK), of_weight_MK, torch.cat([part.sum(0) for part in (first, second, third)])
