"""What learns a benchmark on top of an encoder: dense layers on its pooled vector, or on every piece.

Shapes: B inputs, L pieces, H hidden size.
"""

from __future__ import annotations

import torch
from torch import nn

from korealbert.finetune.task import EncoderOutput

INITIAL_STD = 0.02
"""Standard deviation of a fresh dense layer, as in BERT and ALBERT."""


class PooledHead(nn.Module):
    """Dropout and one dense layer on the pooled vector: [B, H] -> [B, outputs]."""

    def __init__(self, hidden_size: int, outputs: int, dropout: float, bias: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(hidden_size, outputs)
        nn.init.normal_(self.dense.weight, std=INITIAL_STD)
        nn.init.constant_(self.dense.bias, bias)

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Logits [B, outputs]."""
        logits: torch.Tensor = self.dense(self.dropout(encoded.pooled_BH))
        return logits


class ChoiceHead(PooledHead):
    """One logit per input, side by side for the choices of a question: [B * choices, H] -> [B, choices]."""

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Logits [B, choices]."""
        return super().forward(encoded).view(len(encoded.features), -1)


class PieceHead(nn.Module):
    """Dropout and one dense layer on every piece: [B, L, H] -> [B, L, outputs]."""

    def __init__(self, hidden_size: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(hidden_size, outputs)
        nn.init.normal_(self.dense.weight, std=INITIAL_STD)
        nn.init.zeros_(self.dense.bias)

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Logits [B, L, outputs]."""
        logits: torch.Tensor = self.dense(self.dropout(encoded.hidden_BLH))
        return logits
