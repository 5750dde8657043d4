"""The pretraining models: an encoder with heads for masked tokens, sentence order and word order; or, for replaced-token
detection (ELECTRA), with a generator that fills in masked pieces and a head that finds those which are not the original.

The letters of shapes are explained in ``korealbert.model``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model.config import AnyConfig, ModelConfig
from korealbert.model.encoder import Layers, TransformerEncoder, gelu_approximation
from korealbert.model.modern import ModernEncoder, ScaledLinear


class _Logits(NamedTuple):
    """What the heads predict."""

    mlm_BPV: Tensor
    """Pieces at the masked slots."""
    sop_B2: Tensor | None
    """Sentence order: class 1 means swapped; None without such a head. Of packed rows [B, S, 2]."""
    wop_BWC: Tensor | None
    """Original positions of the moved pieces; None without a word-order head."""


class _Read(NamedTuple):
    """What the heads read."""

    hidden_BLH: Tensor
    """The encoder's output, of which the others are parts, and the bag of words is made."""
    mlm_BPH: Tensor
    wop_BWH: Tensor
    first_BH: Tensor
    """The first token, pooled where there is a pooler. Of packed rows [B, S, H]."""


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
        self.bias = nn.Parameter(torch.zeros(config.table_rows))
        self.pieces = config.vocab_size
        self.approximate = gelu_approximation(config)

    def transform(self, hidden_BPH: Tensor) -> Tensor:
        """What is compared with the rows of the word table, [B, P, E]."""
        transformed_BPE: Tensor = self.norm(F.gelu(self.dense(hidden_BPH), approximate=self.approximate))
        return transformed_BPE

    def forward(self, hidden_BPH: Tensor, word_table_VE: Tensor) -> Tensor:
        """Logits [B, P, V]; rows of the table behind the pieces have none."""
        return F.linear(self.transform(hidden_BPH), word_table_VE, self.bias)[..., : self.pieces]


class PretrainingModel(nn.Module):
    """An encoder with its pretraining heads."""

    def __init__(self, config: AnyConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TransformerEncoder(config) if isinstance(config, ModelConfig) else ModernEncoder(config)
        self.mlm = MaskedTokenHead(config)
        self.sop = nn.Linear(config.hidden_size, 2) if config.orders_sentences else None
        self.wop = nn.Linear(config.hidden_size, config.word_order_classes) if config.word_order_classes else None
        self.bow = MaskedTokenHead(config) if config.bag_of_words else None

    @property
    def heads(self) -> tuple[str, ...]:
        """The tasks that the model has a head for, of ``mlm``, ``sop``, ``wop`` and ``bow``."""
        return "mlm", *(name for name in ("sop", "wop", "bow") if getattr(self, name) is not None)

    def read(
        self,
        ids_BL: Tensor,
        token_types_BL: Tensor,
        lengths_B: Tensor | None,
        mlm_positions_BP: Tensor,
        wop_positions_BW: Tensor,
    ) -> _Read:
        """Encode; all inputs int64. The token heads see the listed positions only; an unused slot may name any position.

        ``lengths_B`` as in ``TransformerEncoder.forward``; of packed rows [B, S], as in ``ModernEncoder.forward``.
        """
        hidden_BLH, first_BH = self.encoder(ids_BL, token_types_BL, lengths_B)
        mlm_BPH, wop_BWH = (_gather_positions(hidden_BLH, places) for places in (mlm_positions_BP, wop_positions_BW))
        return _Read(hidden_BLH, mlm_BPH, wop_BWH, first_BH)

    def forward(
        self,
        ids_BL: Tensor,
        token_types_BL: Tensor,
        lengths_B: Tensor | None,
        mlm_positions_BP: Tensor,
        wop_positions_BW: Tensor,
    ) -> _Logits:
        """The logits of all heads but that of the bag of words; inputs as of ``read``."""
        read = self.read(ids_BL, token_types_BL, lengths_B, mlm_positions_BP, wop_positions_BW)
        mlm_BPV = self.mlm(read.mlm_BPH, self.encoder.embeddings.word.weight)
        wop_BWC = None if self.wop is None else self.wop(read.wop_BWH)
        sop_B2 = None if self.sop is None else self.sop(read.first_BH)
        return _Logits(mlm_BPV, sop_B2, wop_BWC)


def _gather_positions(hidden_BLH: Tensor, positions_BK: Tensor) -> Tensor:
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


class Generator(Layers):
    """The layers of a narrow masked language model, and its head; the embeddings are those of the discriminator."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.add_layers(config)
        self.mlm = MaskedTokenHead(config)

    def forward(self, embedded_BLE: Tensor, lengths_B: Tensor | None, positions_BP: Tensor, word_table_VE: Tensor) -> Tensor:
        """Logits [B, P, V] at the masked slots."""
        logits_BPV: Tensor = self.mlm(
            _gather_positions(self.contextualise(embedded_BLE, lengths_B), positions_BP), word_table_VE
        )
        return logits_BPV


class _ReplacedTokenHead(nn.Module):
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
        self.rtd = _ReplacedTokenHead(config)
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
