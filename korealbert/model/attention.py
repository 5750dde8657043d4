"""Attention under a mask, by torch's kernel or by matrix products; and by torch's variable-length flash kernel, without a mask.

Shapes: see ``korealbert.model``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from korealbert.model import elementwise

Attend = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""Maps queries, keys and values [B, N, L, D] and a dropout rate to the attention output [B, N, L, D]."""


def attend(query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, visible: Tensor | None, dropout: float) -> Tensor:
    """Return softmax(q kᵀ / √D) v over the visible keys (bool, broadcast to [B, N, L, L]; None: all), [B, N, L, D].

    Matrix products replace torch's kernel where they are faster (``bench/kernels.py``); the two differ by rounding.
    """
    if not by_products(query_BNLD):
        return F.scaled_dot_product_attention(query_BNLD, key_BNLD, value_BNLD, attn_mask=visible, dropout_p=dropout)
    scores = query_BNLD * query_BNLD.shape[-1] ** -0.5 @ key_BNLD.transpose(-1, -2)
    if visible is not None:  # Adding is five times as fast as filling, with its gradient. A row without keys is finite.
        lowest = torch.finfo(scores.dtype).min
        scores += torch.zeros_like(visible, dtype=scores.dtype).masked_fill_(~visible, lowest)
    with torch.autocast(query_BNLD.device.type, enabled=False):
        weights = elementwise.dropout(scores.softmax(-1), dropout)
    return weights @ value_BNLD


def masked(visible: Tensor | None) -> Attend:
    """Return ``attend`` with this mask."""
    return lambda query, key, value, dropout: attend(query, key, value, visible, dropout)


def by_products(query_BNLD: Tensor) -> bool:
    """Return whether matrix products are faster: on CPUs in bf16, up to 1,024 positions."""
    return query_BNLD.device.type == "cpu" and query_BNLD.dtype == torch.bfloat16 and query_BNLD.shape[2] <= 1024


def use_varlen(weight: Tensor, head_width: int, dropout: float) -> bool:
    """Return whether ``VarlenAttention`` works with the queries of this weight: in 16 bits, on GPUs since Ampere (2020).

    The kernel has no dropout. On all of these GPUs it trains head widths up to 192, in multiples of 8.
    """
    if weight.device.type != "cuda" or dropout or head_width % 8 or head_width > 192:
        return False
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else weight.dtype
    return dtype in (torch.bfloat16, torch.float16) and torch.cuda.get_device_properties(weight.device).major >= 8


def residual(normed: Tensor) -> Tensor:
    """Return the output of a LayerNorm in the type of the residual stream, which is bf16 under bf16 autocast on GPUs.

    Autocast computes LayerNorm in fp32 on GPUs, so that all later additions and LayerNorms would read and write fp32. On CPUs
    LayerNorm keeps the type of its input.
    """
    if normed.device.type == "cuda" and torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        return normed.to(dtype) if dtype == torch.bfloat16 else normed
    return normed


class VarlenAttention:
    """Attention within the sequences of a batch. The rest of a row, after its last sequence, counts as one more sequence.

    Padding is not removed: the number of real tokens is known on the device only, and nothing here waits for it.
    """

    def __init__(self, lengths: Tensor, length: int) -> None:
        """Take the lengths of the sequences in rows of ``length`` tokens, [B] or [B, S] (0 in unused slots)."""
        lengths_BS = lengths if lengths.ndim == 2 else lengths[:, None]
        rests_B1 = length - lengths_BS.sum(1, keepdim=True)
        self._starts = F.pad(torch.cat((lengths_BS, rests_B1), 1).flatten().cumsum(0), (1, 0)).int()
        self._length = length

    def attend(
        self, query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, dropout: float, *, half: int | None = None
    ) -> Tensor:
        """Let every token attend to its own sequence, or to the tokens of it that are up to ``half`` positions away."""
        from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 - loads torch's compiler, which takes seconds

        assert not dropout
        rows, _, length, _ = query_BNLD.shape
        query, key, value = (x_BNLD.transpose(1, 2).flatten(0, 1) for x_BNLD in (query_BNLD, key_BNLD, value_BNLD))
        window = (-1, -1) if half is None else (half, half)
        # The row length bounds that of the longest sequence, for which we would have to wait.
        mixed = varlen_attn(query, key, value, self._starts, self._starts, self._length, self._length, window_size=window)
        assert isinstance(mixed, Tensor)
        return mixed.view(rows, length, *mixed.shape[1:]).transpose(1, 2)
