"""Cross-entropy over the pieces of a vocabulary, of all logits at once or chunk by chunk.

Letters of shapes: K groups of R rows of logits and T targets, each of one row of its group; V pieces, E width of the table.
Masked tokens are groups of one row and one target, bags of words the sequences and targets of a row of the batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from korealbert.examples.batches import IGNORED
from korealbert.model.heads import MaskedTokenHead

_CHUNK_BYTES = 1 << 30
"""Of fp32 logits. A chunk of 50,000 pieces is then 5,400 rows, whose products at a width of 768 take an H100 about 2 ms, and
adding to the gradient of the table 0.14 ms (0.5 GB at 3.35 TB/s); all logits of 96 rows of 1,024 tokens would be 18 GB."""


class PieceTargets(NamedTuple):
    """What is to be predicted."""

    rows_KT: Tensor
    """Row of its group whose logits each target is predicted by; any of an unused one."""
    labels_KT: Tensor
    """Pieces, -100 in unused ones."""


def chunks(groups: int, rows: int, pieces: int, device: torch.device) -> int:
    """Into how many chunks the logits of so many groups are cut: on GPUs a power of two such that none is above 1 GiB,
    elsewhere one. Each number is compiled for itself, and torch gives up compiling after eight."""
    needed = 1 if device.type != "cuda" else max(1, -(-groups * rows * pieces * 4 // _CHUNK_BYTES))
    return 1 << (needed - 1).bit_length()


def chunked(
    head: MaskedTokenHead, hidden_KRH: Tensor, table_VE: Tensor, targets: PieceTargets, number: int
) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy in nats (fp32) and hits (int64), with logits and their gradients in ``number`` chunks of groups.

    Gradients of the loss are computed with it, so that no logits are kept for the backward pass or computed again there.
    """
    transformed_KRE = head.transform(hidden_KRH)
    device = transformed_KRE.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else transformed_KRE.dtype
    with torch.autocast(device, enabled=False):
        found: tuple[Tensor, Tensor] = _Chunked.apply(  # type: ignore[no-untyped-call]
            transformed_KRE.to(dtype), table_VE, head.bias, *targets, head.pieces, number, dtype, torch.is_grad_enabled()
        )
    return found


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        transformed_KRE: Tensor,
        table_VE: Tensor,
        bias_V: Tensor,
        rows_KT: Tensor,
        labels_KT: Tensor,
        pieces: int,
        number: int,
        dtype: torch.dtype,
        differentiated: bool,
    ) -> tuple[Tensor, Tensor]:
        table, bias = table_VE[:pieces].to(dtype), bias_V[:pieces].to(dtype)
        loss, hits = torch.zeros((), device=table.device), torch.zeros((), dtype=torch.int64, device=table.device)
        table_gradient, bias_gradient = (torch.zeros_like(parameter, dtype=torch.float32) for parameter in (table_VE, bias_V))
        gradients = []
        size = -(-len(labels_KT) // number)
        for index in range(number):
            part = slice(index * size, (index + 1) * size if index + 1 < number else None)
            rows, labels, own = rows_KT[part], labels_KT[part], transformed_KRE[part]
            logits = F.linear(own, table, bias).float()
            total = logits.logsumexp(-1)
            real, place = labels != IGNORED, rows * pieces + labels.clamp(min=0)
            loss += (total.gather(1, rows) - logits.flatten(1).gather(1, place)).where(real, 0.0).sum()
            hits += (logits.argmax(-1).gather(1, rows) == labels).sum()
            if not differentiated:
                continue
            counts = torch.zeros_like(total).scatter_add(1, rows, real.float())
            gradient = (logits - total[..., None]).exp() * counts[..., None]
            gradient = gradient.flatten(1).scatter_add(1, place, -real.float()).view_as(logits)
            bias_gradient[:pieces] += gradient.sum((0, 1))
            flat = gradient.to(dtype).flatten(0, 1)
            gradients.append((flat @ table).view_as(own))
            table_gradient[:pieces] += flat.T @ own.flatten(0, 1)
        if gradients:
            ctx.save_for_backward(torch.cat(gradients), table_gradient, bias_gradient)
        ctx.mark_non_differentiable(hits)
        return loss, hits

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        of_hidden, of_table, of_bias = ctx.saved_tensors
        return of_hidden * loss_gradient, of_table * loss_gradient, of_bias * loss_gradient, *(None,) * 6
