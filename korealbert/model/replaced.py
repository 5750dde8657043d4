"""Replaced-token detection (ELECTRA): a generator fills in masked pieces, and an encoder tells which are not the original.

The letters of shapes are explained in ``korealbert.model``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model.config import ModelConfig
from korealbert.model.encoder import Layers, TransformerEncoder, gelu_approximation
from korealbert.model.heads import MaskedTokenHead, gather_positions


class Generator(Layers):
    """The layers of a narrow masked language model, and its head; the embeddings are those of the discriminator."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.add_layers(config)
        self.mlm = MaskedTokenHead(config)

    def forward(self, embedded_BLE: Tensor, lengths_B: Tensor | None, positions_BP: Tensor, word_table_VE: Tensor) -> Tensor:
        """Logits [B, P, V] at the masked slots."""
        logits_BPV: Tensor = self.mlm(
            gather_positions(self.contextualise(embedded_BLE, lengths_B), positions_BP), word_table_VE
        )
        return logits_BPV


class ReplacedTokenHead(nn.Module):
    """H → H, GELU, then one logit per token: positive where it is not the original."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, 1)
        self.approximate = gelu_approximation(config)

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Logits [B, L]."""
        logits_BL1: Tensor = self.output(F.gelu(self.dense(hidden_BLH), approximate=self.approximate))
        return logits_BL1.squeeze(-1)


class ReplacedTokenModel(nn.Module):
    """Discriminator (``encoder``) with its head, and the generator; all embeddings are tied."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TransformerEncoder(config)
        self.rtd = ReplacedTokenHead(config)
        self.generator = Generator(config.generator())

    def guess(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None, positions_BP: Tensor) -> Tensor:
        """The generator's logits [B, P, V] for the slots of masked sequences."""
        embeddings = self.encoder.embeddings
        embedded_BLE = embeddings(ids_BL, token_types_BL)
        logits_BPV: Tensor = self.generator(embedded_BLE, lengths_B, positions_BP, embeddings.word.weight)
        return logits_BPV

    def judge(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None) -> Tensor:
        """The discriminator's logits [B, L]: positive where it takes a token for replaced."""
        hidden_BLH, _ = self.encoder(ids_BL, token_types_BL, lengths_B)
        logits_BL: Tensor = self.rtd(hidden_BLH)
        return logits_BL


def sample(logits_BPV: Tensor) -> Tensor:
    """Draw ids [B, P] from softmax(logits) with torch's random generator; no gradient flows.

    An exponential race: argmax(softmax / Exp(1)) is argmax(logits + Gumbel noise) without two logarithms.
    """
    with torch.no_grad():
        probabilities_BPV = logits_BPV.float().softmax(-1)
        return (probabilities_BPV / torch.empty_like(probabilities_BPV).exponential_()).argmax(-1)


def restore(ids_BL: Tensor, positions_BP: Tensor, labels_BP: Tensor) -> Tensor:
    """Sequences with ``labels_BP`` (or other ids) at the slots that have one (≥ 0); unused slots change nothing."""
    present_BP = ids_BL.gather(1, positions_BP)
    # Unused slots name position 0, where they write what is there: no two slots write different ids to one place.
    return ids_BL.scatter(1, positions_BP, torch.where(labels_BP >= 0, labels_BP, present_BP))
