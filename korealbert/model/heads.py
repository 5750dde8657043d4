"""The pretraining models: an encoder with heads for masked tokens, sentence order, word order and bags of words; or, for
replaced-token detection (ELECTRA), an encoder that finds the pieces that a generator has replaced.

Shapes: see ``korealbert.model``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model.config import AnyConfig, ModelConfig
from korealbert.model.elementwise import gelu
from korealbert.model.encoder import Layers, TransformerEncoder, gelu_approximation
from korealbert.model.modern import ModernEncoder, ScaledLinear


class _Logits(NamedTuple):
    """Outputs of the heads."""

    mlm_BPV: Tensor
    """Pieces at the masked slots."""
    sop_B2: Tensor | None
    """Sentence order, [B, S, 2] for packed rows; class 1 means swapped. None without such a head."""
    wop_BWC: Tensor | None
    """Original positions of the moved pieces; None without a word-order head."""


class _Read(NamedTuple):
    """Inputs of the heads."""

    hidden_BLH: Tensor
    """The encoder's output, from which the others are taken."""
    mlm_BPH: Tensor
    wop_BWH: Tensor
    first_BH: Tensor
    """The first token, pooled if there is a pooler; [B, S, H] for packed rows."""


class MaskedTokenHead(nn.Module):
    """H → E, GELU, LayerNorm, then the transposed word table plus a bias per piece.

    The word table is an argument, because it is a parameter of the embeddings.
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
        """Return the vectors that are multiplied by the word table, [B, P, E]."""
        transformed_BPE: Tensor = self.norm(gelu(self.dense(hidden_BPH), approximate=self.approximate))
        return transformed_BPE

    def forward(self, hidden_BPH: Tensor, word_table_VE: Tensor) -> Tensor:
        """Return logits [B, P, V]; table rows after the pieces have none."""
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
        """Those of the tasks ``mlm``, ``sop``, ``wop`` and ``bow`` for which the model has a head."""
        return "mlm", *(name for name in ("sop", "wop", "bow") if getattr(self, name) is not None)

    def read(
        self,
        ids_BL: Tensor,
        token_types_BL: Tensor,
        lengths_B: Tensor | None,
        mlm_positions_BP: Tensor,
        wop_positions_BW: Tensor,
    ) -> _Read:
        """Encode and gather the inputs of the heads. All inputs are int64; an unused slot may have any position.

        ``lengths_B`` as in ``TransformerEncoder.forward``, or [B, S] for packed rows as in ``ModernEncoder.forward``.
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
        """Return the logits of all heads except the bag of words; inputs as in ``read``."""
        read = self.read(ids_BL, token_types_BL, lengths_B, mlm_positions_BP, wop_positions_BW)
        mlm_BPV = self.mlm(read.mlm_BPH, self.encoder.embeddings.word.weight)
        wop_BWC = None if self.wop is None else self.wop(read.wop_BWH)
        sop_B2 = None if self.sop is None else self.sop(read.first_BH)
        return _Logits(mlm_BPV, sop_B2, wop_BWC)


def _gather_positions(hidden_BLH: Tensor, positions_BK: Tensor) -> Tensor:
    """Return the hidden states at K positions of each row, [B, K, H]."""
    return hidden_BLH.gather(1, positions_BK[:, :, None].expand(-1, -1, hidden_BLH.shape[-1]))


def initialise(model: nn.Module, initializer_range: float, seed: int) -> None:
    """Draw all matrices from N(0, σ²) cut at ± 2 σ, with this seed; set biases to 0 and LayerNorm weights to 1.

    σ is ``initializer_range``, or 1 / √(inputs of the matrix) if that is 0, times the module's ``initial_scale`` if it has one.
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
    """Layers and head of a narrow masked language model, which uses the embeddings of the discriminator."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.add_layers(config)
        self.mlm = MaskedTokenHead(config)

    def forward(self, embedded_BLE: Tensor, lengths_B: Tensor | None, positions_BP: Tensor, word_table_VE: Tensor) -> Tensor:
        """Return logits [B, P, V] at the masked slots."""
        logits_BPV: Tensor = self.mlm(
            _gather_positions(self.contextualise(embedded_BLE, lengths_B), positions_BP), word_table_VE
        )
        return logits_BPV


class _ReplacedTokenHead(nn.Module):
    """H → H, GELU, then one logit per token, which is positive for replaced ones."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, 1)
        self.approximate = gelu_approximation(config)

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Return logits [B, L]."""
        logits_BL1: Tensor = self.output(gelu(self.dense(hidden_BLH), approximate=self.approximate))
        return logits_BL1.squeeze(-1)


class ReplacedTokenModel(nn.Module):
    """Discriminator (``encoder``) with its head, and the generator, which share their embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TransformerEncoder(config)
        self.rtd = _ReplacedTokenHead(config)
        self.generator = Generator(config.generator())

    def guess(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None, positions_BP: Tensor) -> Tensor:
        """Return the generator's logits [B, P, V] for the masked slots."""
        embeddings = self.encoder.embeddings
        embedded_BLE = embeddings(ids_BL, token_types_BL)
        logits_BPV: Tensor = self.generator(embedded_BLE, lengths_B, positions_BP, embeddings.word.weight)
        return logits_BPV

    def judge(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None) -> Tensor:
        """Return the discriminator's logits [B, L], positive for tokens that it considers replaced."""
        hidden_BLH, _ = self.encoder(ids_BL, token_types_BL, lengths_B)
        logits_BL: Tensor = self.rtd(hidden_BLH)
        return logits_BL


def sample(logits_BPV: Tensor) -> Tensor:
    """Draw ids [B, P] from softmax(logits) with torch's global random generator, without gradients.

    argmax(softmax / Exp(1)) equals argmax(logits + Gumbel noise), without its two logarithms.
    """
    with torch.no_grad():
        probabilities_BPV = logits_BPV.float().softmax(-1)
        return (probabilities_BPV / torch.empty_like(probabilities_BPV).exponential_()).argmax(-1)


def restore(ids_BL: Tensor, positions_BP: Tensor, labels_BP: Tensor) -> Tensor:
    """Return the sequences with ids ``labels_BP`` written at the slots; unused slots (below 0) change nothing."""
    present_BP = ids_BL.gather(1, positions_BP)
    # Unused slots have position 0 and write the id that is there, so no two slots write different ids to one position.
    return ids_BL.scatter(1, positions_BP, torch.where(labels_BP >= 0, labels_BP, present_BP))
