"""The last layer of an encoder at the first position alone: all that a pooled vector depends on.

There keys and values are still those of every piece, but query, output and feed-forward are of one: ten twelfths of the layer's
matrix products fall away, and nothing of the result.

Shapes: B inputs, L pieces, H hidden size, N heads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

FAMILIES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Model types whose layers are BERT's, under the same names. ALBERT's last layer is also its first."""


class FirstPosition(nn.Module):
    """A layer of one of ``FAMILIES``: [B, L, H] -> [B, 1, H]."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.train(layer.training)

    def forward(self, hidden_BLH: torch.Tensor, attention_mask: torch.Tensor | None = None, *_: Any, **__: Any) -> torch.Tensor:
        """What the layer gives at the first position; the mask is [B, 1, L, L] or [B, 1, 1, L], from every position to all."""
        attention = self.layer.attention
        own = attention.self
        first_B1H = hidden_BLH[:, :1]

        def heads(values_BXH: torch.Tensor) -> torch.Tensor:
            inputs, positions, _ = values_BXH.shape
            return values_BXH.view(inputs, positions, own.num_attention_heads, own.attention_head_size).transpose(1, 2)

        context_BN1D = nn.functional.scaled_dot_product_attention(
            heads(own.query(first_B1H)),
            heads(own.key(hidden_BLH)),
            heads(own.value(hidden_BLH)),
            attn_mask=None if attention_mask is None else attention_mask[:, :, :1],
            dropout_p=own.dropout.p if self.training else 0.0,
            scale=own.scaling,
        )
        attended_B1H = attention.output(context_BN1D.transpose(1, 2).flatten(2), first_B1H)
        result: torch.Tensor = self.layer.feed_forward_chunk(attended_B1H)
        return result


def keep_first_position(transformer: Any) -> bool:
    """Let the last layer compute the first position alone, in place; whether this family's can."""
    config = transformer.config
    if config.model_type not in FAMILIES or config._attn_implementation != "sdpa" or config.is_decoder:
        return False
    layers = transformer.encoder.layer
    layers[-1] = FirstPosition(layers[-1])
    return True
