"""The pretraining model: encoder plus the heads for masked tokens, sentence order and word order.

The letters of shapes are explained in ``korealbert.model``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model.config import AnyConfig, ModelConfig
from korealbert.model.encoder import TransformerEncoder, gelu_approximation
from korealbert.model.modern import ModernEncoder, ScaledLinear


class Logits(NamedTuple):
    """What the heads predict."""

    mlm_BPV: Tensor
    """Pieces at the masked slots."""
    sop_B2: Tensor | None
    """Sentence order: class 1 means swapped; None without such a head."""
    wop_BWC: Tensor | None
    """Original positions of the moved pieces; None without a word-order head."""


class MaskedTokenHead(nn.Module):
    """H → E, GELU, LayerNorm, then the transposed word table plus a bias per piece.

    The word table is passed in on every call: it belongs to the embeddings, and a tied tensor is one parameter.
    """

    def __init__(self, config: AnyConfig) -> None:
        super().__init__()
        biases = isinstance(config, ModelConfig)
        self.dense = (
            nn.Linear(config.hidden_size, config.embedding_size)
            if isinstance(config, ModelConfig)
            else ScaledLinear(config.hidden_size, config.hidden_size, config)
        )
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps, bias=biases)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.approximate = gelu_approximation(config)

    def forward(self, hidden_BPH: Tensor, word_table_VE: Tensor) -> Tensor:
        """Logits [B, P, V]."""
        return F.linear(self.norm(F.gelu(self.dense(hidden_BPH), approximate=self.approximate)), word_table_VE, self.bias)


class PretrainingModel(nn.Module):
    """An encoder with its pretraining heads."""

    def __init__(self, config: AnyConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TransformerEncoder(config) if isinstance(config, ModelConfig) else ModernEncoder(config)
        self.mlm = MaskedTokenHead(config)
        self.sop = nn.Linear(config.hidden_size, 2) if config.orders_sentences else None
        self.wop = nn.Linear(config.hidden_size, config.word_order_classes) if config.word_order_classes else None

    @property
    def heads(self) -> tuple[str, ...]:
        """The tasks that the model has a head for, of ``mlm``, ``sop`` and ``wop``."""
        return "mlm", *(name for name in ("sop", "wop") if getattr(self, name) is not None)

    def forward(
        self,
        ids_BL: Tensor,
        token_types_BL: Tensor,
        lengths_B: Tensor | None,
        mlm_positions_BP: Tensor,
        wop_positions_BW: Tensor,
    ) -> Logits:
        """All inputs int64. The token heads see the listed positions only; an unused slot may name any position."""
        hidden_BLH, pooled_BH = self.encoder(ids_BL, token_types_BL, lengths_B)
        mlm_BPV = self.mlm(gather_positions(hidden_BLH, mlm_positions_BP), self.encoder.embeddings.word.weight)
        wop_BWC = None if self.wop is None else self.wop(gather_positions(hidden_BLH, wop_positions_BW))
        sop_B2 = None if self.sop is None else self.sop(pooled_BH)
        return Logits(mlm_BPV, sop_B2, wop_BWC)


def gather_positions(hidden_BLH: Tensor, positions_BK: Tensor) -> Tensor:
    """The hidden states at K positions of each row, [B, K, H]."""
    return hidden_BLH.gather(1, positions_BK[:, :, None].expand(-1, -1, hidden_BLH.shape[-1]))


def initialise(model: nn.Module, initializer_range: float, seed: int) -> None:
    """Draw all matrices from N(0, σ²) cut at ± 2 σ, as ``seed`` decides; biases 0, LayerNorm weights 1.

    σ is ``initializer_range``, or 1 / √(inputs of the matrix) where that is 0, times the ``initial_scale`` of a module that has
    one.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                sigma = (initializer_range or module.weight.shape[1] ** -0.5) * getattr(module, "initial_scale", 1.0)
                nn.init.trunc_normal_(module.weight, std=sigma, a=-2 * sigma, b=2 * sigma, generator=generator)
            if isinstance(module, nn.Linear | nn.LayerNorm | MaskedTokenHead) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
