"""Attention of queries, keys and values: by torch's kernel or matrix products, or of sequences one behind the other by torch's
variable-length flash kernel, which needs no mask.

The letters of shapes are explained in ``korealbert.model``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Attend = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""Queries, keys and values [B, N, L, D] and a rate of dropout to what each token takes up, [B, N, L, D]."""


def attend(query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, visible: Tensor | None, dropout: float) -> Tensor:
    """softmax(q kᵀ / √D) v over the visible keys (bool, broadcast to [B, N, L, L]; None means all), [B, N, L, D].

    By matrix products where these are faster than torch's kernel (``bench/attention.py``); the two differ by rounding.
    """
    if not _by_products(query_BNLD):
        return F.scaled_dot_product_attention(query_BNLD, key_BNLD, value_BNLD, attn_mask=visible, dropout_p=dropout)
    scores = query_BNLD * query_BNLD.shape[-1] ** -0.5 @ key_BNLD.transpose(-1, -2)
    if visible is not None:  # By addition: a fill takes five times as long, with its gradient.
        scores += torch.zeros_like(visible, dtype=scores.dtype).masked_fill_(~visible, -torch.inf)
    with torch.autocast(query_BNLD.device.type, enabled=False):
        weights = F.dropout(scores.softmax(-1), dropout)
    return weights @ value_BNLD


def under(visible: Tensor | None) -> Attend:
    """Attention to the visible keys, as ``attend`` takes them."""
    return lambda query, key, value, dropout: attend(query, key, value, visible, dropout)


def _by_products(query_BNLD: Tensor) -> bool:
    """On processors in bf16, up to 1,024 positions."""
    return query_BNLD.device.type == "cpu" and query_BNLD.dtype == torch.bfloat16 and query_BNLD.shape[2] <= 1024


def by_lengths(weight: Tensor, head_width: int, dropout: float) -> bool:
    """Whether ``Flattened`` can attend with queries that this weight makes: in 16 bits, on GPUs since Ampere (2020).

    The kernel drops no attention weights, and trains heads of at most 192 on all of these, in steps of 8.
    """
    if weight.device.type != "cuda" or dropout or head_width % 8 or head_width > 192:
        return False
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else weight.dtype
    return dtype in (torch.bfloat16, torch.float16) and torch.cuda.get_device_properties(weight.device).major >= 8


def residual(normed: Tensor) -> Tensor:
    """A normed tensor as the residual stream goes on with it: under bf16 on GPUs in bf16.

    Autocast leaves it in fp32 there, which every addition and LayerNorm behind it would read and write; on processors it leaves
    LayerNorm in the type of what it reads.
    """
    if normed.device.type == "cuda" and torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        return normed.to(dtype) if dtype == torch.bfloat16 else normed
    return normed


class Flattened:
    """The sequences of a batch one behind the other. What is behind the last of a row counts as one more.

    Nothing here waits for the device: how many tokens are real is known there alone, and the others stay in.
    """

    def __init__(self, lengths: Tensor, length: int) -> None:
        """``lengths`` of the sequences of each row of ``length`` tokens, [B] or [B, S] (0 in unused slots)."""
        lengths_BS = lengths if lengths.ndim == 2 else lengths[:, None]
        rests_B1 = length - lengths_BS.sum(1, keepdim=True)
        self._starts = F.pad(torch.cat((lengths_BS, rests_B1), 1).flatten().cumsum(0), (1, 0)).int()
        self._length = length

    def attend(
        self, query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, dropout: float, *, half: int | None = None
    ) -> Tensor:
        """Every token sees its own sequence, or those tokens of it that are up to ``half`` places away."""
        from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 - loads torch's compiler, which takes seconds

        assert not dropout
        rows, _, length, _ = query_BNLD.shape
        query, key, value = (x_BNLD.transpose(1, 2).flatten(0, 1) for x_BNLD in (query_BNLD, key_BNLD, value_BNLD))
        window = (-1, -1) if half is None else (half, half)
        # No sequence is longer than its row; the longest one's length would have to be waited for.
        mixed = varlen_attn(query, key, value, self._starts, self._starts, self._length, self._length, window_size=window)
        assert isinstance(mixed, Tensor)
        return mixed.view(rows, length, *mixed.shape[1:]).transpose(1, 2)
