"""Cross-entropy over the pieces of a vocabulary, with its gradients computed chunk by chunk in the forward pass.

Shapes: K groups, each with R rows of logits and T targets, each target predicted by one row of its group; V pieces, E width of
the table. A masked token is a group of one row and one target. A bag of words is a row of the batch: its R sequences and T
targets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from korealbert.examples.batches import IGNORED
from korealbert.model.heads import MaskedTokenHead

_CHUNK_BYTES = 1 << 30
"""Largest chunk of fp32 logits on a GPU. With 50,000 pieces it has 5,400 rows, whose products at width 768 take an H100 about 2
ms, and adding to the gradient of the table 0.14 ms (0.5 GB at 3.35 TB/s). All logits of 96 rows of 1,024 tokens would take 18
GB."""

_BLOCK_BYTES = 1 << 21
"""Largest block of fp32 logits on a CPU: with intermediate results it fits into a core's L2 cache."""


class PieceTargets(NamedTuple):
    """The pieces to predict."""

    rows_KT: Tensor
    """The row of its group that predicts each target; any row for an unused one."""
    labels_KT: Tensor
    """Piece ids, -100 for unused targets."""


def chunks(groups: int, rows: int, pieces: int, device: torch.device) -> int | None:
    """Return into how many chunks the logits are cut, or None to use torch's own cross-entropy on all of them.

    On GPUs a power of two, so that no chunk exceeds 1 GiB: torch compiles each number separately, and gives up after eight. On
    CPUs 1 in bf16, processed in blocks that fit into the cache, and None in fp32, whose last bits would change.
    """
    if device.type != "cuda":
        in_bf16 = torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type) == torch.bfloat16
        return 1 if in_bf16 else None
    needed = -(-groups * rows * pieces * 4 // _CHUNK_BYTES)
    return 1 << (needed - 1).bit_length() if needed > 1 else None


def _blocks(logits_KRV: Tensor) -> tuple[Tensor, ...]:
    """Split logits into the groups that are turned into gradients at once: on a CPU as many as fit into its cache in fp32.

    Compiled kernels make one pass over memory, so they take all groups.
    """
    if logits_KRV.device.type != "cpu" or torch.compiler.is_compiling():
        return (logits_KRV,)
    return torch.split(logits_KRV, max(1, _BLOCK_BYTES // (4 * logits_KRV.shape[1:].numel())))


def _hits(logits_KRV: Tensor, largest_KR: Tensor, rows_KT: Tensor, labels_KT: Tensor, place_KT: Tensor) -> Tensor:
    """Count the targets whose logit is the largest of its row, the first one of equals.

    On a CPU ``argmax`` takes ten times as long as ``amax``, so it is computed only for rows where the target's logit is
    largest.
    """
    if logits_KRV.device.type != "cpu" or torch.compiler.is_compiling():
        return (logits_KRV.argmax(-1).gather(1, rows_KT) == labels_KT).sum()
    found_KT = logits_KRV.flatten(1).gather(1, place_KT) == largest_KR.gather(1, rows_KT)
    group_N, target_N = found_KT.nonzero(as_tuple=True)
    first_N = logits_KRV[group_N, rows_KT[group_N, target_N]].argmax(-1)
    return (first_N == labels_KT[group_N, target_N]).sum()


def chunked(
    head: MaskedTokenHead, hidden_KRH: Tensor, table_VE: Tensor, targets: PieceTargets, number: int
) -> tuple[Tensor, Tensor]:
    """Return the summed cross-entropy in nats (fp32) and the hits (int64), computed in ``number`` chunks of groups.

    Gradients are computed together with the loss, so that logits are neither kept for the backward pass nor computed again.
    """
    transformed_KRE = head.transform(hidden_KRH)
    device = transformed_KRE.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else transformed_KRE.dtype
    with torch.autocast(device, enabled=False):
        loss_and_hits: tuple[Tensor, Tensor] = _Chunked.apply(  # type: ignore[no-untyped-call]
            transformed_KRE.to(dtype), table_VE, head.bias, *targets, head.pieces, number, dtype, torch.is_grad_enabled()
        )
    return loss_and_hits


class _Chunked(torch.autograd.Function):
    """See ``chunked``. ``differentiated`` says whether gradients will be needed."""

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
        table, bias = table_VE[:pieces].to(dtype), bias_V[:pieces].float()
        # Results are not added up in place: compiled by torch 2.11, they would then have gradients of zero.
        loss, hits = torch.zeros((), device=table.device), torch.zeros((), dtype=torch.int64, device=table.device)
        bias_gradient = torch.zeros_like(bias_V, dtype=torch.float32)
        table_gradient: Tensor | None = None
        gradients = []
        size = -(-len(labels_KT) // number)
        for index in range(number):
            part = slice(index * size, (index + 1) * size if index + 1 < number else None)
            own = transformed_KRE[part]
            logits = F.linear(own, table)
            first = index * size
            for block in _blocks(logits):
                of_block = slice(first, first + len(block))
                first += len(block)
                rows, labels = rows_KT[of_block], labels_KT[of_block]
                real, place = labels != IGNORED, rows * pieces + labels.clamp(min=0)
                whole = block.float().add_(bias)
                largest, aimed = whole.amax(-1), whole.flatten(1).gather(1, place)
                hits = hits + _hits(whole, largest, rows, labels, place)
                gradient = whole.softmax(-1)
                log_total = largest - gradient.amax(-1).log()  # The largest probability is exp(largest - log_total).
                loss = loss + (log_total.gather(1, rows) - aimed).where(real, 0.0).sum()
                if not differentiated:
                    continue
                counts = torch.zeros_like(largest).scatter_add(1, rows, real.float())
                gradient.mul_(counts[..., None])
                gradient.flatten(1).scatter_add_(1, place, -real.float())
                bias_gradient[:pieces] += gradient.sum((0, 1))
                block.copy_(gradient)
            if differentiated:
                flat = logits.flatten(0, 1)
                gradients.append((flat @ table).view_as(own))
                product = flat.T @ own.flatten(0, 1)
                table_gradient = product.float() if table_gradient is None else table_gradient.add_(product)
        if table_gradient is not None:
            of_table = F.pad(table_gradient, (0, 0, 0, len(table_VE) - pieces)) if len(table_VE) > pieces else table_gradient
            ctx.save_for_backward(torch.cat(gradients), of_table, bias_gradient)
        ctx.mark_non_differentiable(hits)
        return loss, hits

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        of_hidden, of_table, of_bias = ctx.saved_tensors  # The table's is scaled in place: only one backward pass is possible.
        return of_hidden * loss_gradient, of_table.mul_(loss_gradient), of_bias * loss_gradient, *(None,) * 6
