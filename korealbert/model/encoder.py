"""The post-LayerNorm encoder: embeddings, factorised or not, layers that may share parameters, and a pooler.

Shared parameters exist once: counts, checkpoints and optimisers see them once, and their gradient is the sum over all uses.

Shapes: see ``korealbert.model``.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from korealbert.model.attention import Attend, VarlenAttention, masked, residual, use_varlen
from korealbert.model.config import AnyConfig, ModelConfig
from korealbert.model.elementwise import Dropout, gelu
from korealbert.model.linear import linear, thirds


class _Embeddings(nn.Module):
    """Word + segment type + learnt position, all of width E, then LayerNorm and dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.embedding_size)
        self.token_type = nn.Embedding(config.type_vocab_size, config.embedding_size)
        self.position = nn.Embedding(config.max_positions, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)
        self.position_offset = config.position_offset

    def forward(self, ids_BL: Tensor, token_types_BL: Tensor) -> Tensor:
        """Embed int64 ids [B, L] into [B, L, E]. If there is only one segment type, ``token_types_BL`` is ignored."""
        position_LE = self.position.weight[self.position_offset : self.position_offset + ids_BL.shape[1]]
        if self.token_type.num_embeddings == 1:
            token_types_BL = torch.zeros_like(token_types_BL)
        embedded_BLE = residual(self.norm(self.word(ids_BL) + self.token_type(token_types_BL) + position_LE))
        dropped_BLE: Tensor = self.dropout(embedded_BLE)
        return dropped_BLE


class _SelfAttention(nn.Module):
    """Multi-head self-attention with output projection, residual and LayerNorm.

    Query, key and value are three parameters, because LAMB has one trust ratio per tensor; they are multiplied as one matrix.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.num_heads = config.num_heads
        self.attention_dropout = config.attention_dropout
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)

    @property
    def dropped_weights(self) -> float:
        """Current dropout rate of attention weights."""
        return self.attention_dropout if self.training else 0.0

    def joined(self) -> tuple[Tensor, Tensor]:
        """Return weight [3H, H] and bias [3H] of query, key and value together, once for all layers that share them.

        Under autocast they are cast here, since autocast caches casts only of parameters, and each layer would cast again.
        """
        maps = (self.query, self.key, self.value)
        weight, bias = torch.cat([linear.weight for linear in maps]), torch.cat([linear.bias for linear in maps])
        device = weight.device.type
        if torch.is_autocast_enabled(device):
            weight, bias = (tensor.to(torch.get_autocast_dtype(device)) for tensor in (weight, bias))
        return weight, bias

    def forward(self, hidden_BLH: Tensor, attending: Attend, joined: tuple[Tensor, Tensor]) -> Tensor:
        """Map [B, L, H] to [B, L, H]; ``joined`` is the result of that method."""
        query_BNLD, key_BNLD, value_BNLD = (
            x_BLH.view(*x_BLH.shape[:2], self.num_heads, -1).transpose(1, 2) for x_BLH in thirds(hidden_BLH, *joined)
        )
        mixed_BNLD = attending(query_BNLD, key_BNLD, value_BNLD, self.dropped_weights)
        mixed_BLH = self.output(mixed_BNLD.transpose(1, 2).flatten(2))
        normed_BLH = residual(self.norm(hidden_BLH + self.dropout(mixed_BLH)))
        return normed_BLH


class _FeedForward(nn.Module):
    """Two linear maps with GELU between them, residual and LayerNorm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.hidden_size, config.intermediate_size)
        self.outer = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout if config.ffn_dropout else 0.0)
        self.approximate = gelu_approximation(config)

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Map [B, L, H] to [B, L, H], each position by itself."""
        transformed_BLH = self.outer(gelu(linear(self.inner, hidden_BLH), approximate=self.approximate))
        normed_BLH = residual(self.norm(hidden_BLH + self.dropout(transformed_BLH)))
        return normed_BLH


def gelu_approximation(config: AnyConfig) -> str:
    """Return the model's variant of GELU as torch names it."""
    return "tanh" if config.activation == "gelu_tanh" else "none"


class Layers(nn.Module):
    """The projection E → H, if they differ, and the layers."""

    config: ModelConfig
    projection: nn.Module
    attention: nn.ModuleList
    ffn: nn.ModuleList

    def add_layers(self, config: ModelConfig) -> None:
        """Construct the layers. Subclasses call this in between, since initial weights are drawn in the order of
        registration."""
        self.config = config
        self.projection = (
            nn.Identity()
            if config.embedding_size == config.hidden_size
            else nn.Linear(config.embedding_size, config.hidden_size)
        )
        self.attention = nn.ModuleList(_SelfAttention(config) for _ in range(config.attention_blocks))
        self.ffn = nn.ModuleList(_FeedForward(config) for _ in range(config.ffn_blocks))

    def layer(self, index: int) -> tuple[nn.Module, nn.Module]:
        """Return the attention block and the feed-forward block of layer ``index``."""
        attention, ffn = self.config.blocks_of(index)
        return self.attention[attention], self.ffn[ffn]

    def contextualise(self, embedded_BLE: Tensor, lengths_B: Tensor | None) -> Tensor:
        """Return hidden states [B, L, H] of embedded tokens; ``lengths_B`` as in ``TransformerEncoder.forward``."""
        attending = self._attending(embedded_BLE, lengths_B)
        hidden_BLH: Tensor = self.projection(embedded_BLE)
        joined = [cast(_SelfAttention, attention).joined() for attention in self.attention]
        for index in range(self.config.num_layers):
            attention, ffn = self.layer(index)
            hidden_BLH = ffn(attention(hidden_BLH, attending, joined[self.config.blocks_of(index)[0]]))
        return hidden_BLH

    def _attending(self, embedded_BLE: Tensor, lengths_B: Tensor | None) -> Attend:
        """Return attention to the real tokens of each row."""
        if lengths_B is None:
            return masked(None)
        first = cast(_SelfAttention, self.attention[0])
        if use_varlen(first.query.weight, self.config.head_width, first.dropped_weights):
            return VarlenAttention(lengths_B, embedded_BLE.shape[1]).attend
        positions_L = torch.arange(embedded_BLE.shape[1], device=embedded_BLE.device)
        return masked((positions_L < lengths_B[:, None])[:, None, None, :])


class TransformerEncoder(Layers):
    """Embeddings, layers and pooler, without any head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.add_layers(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if config.pooler else None

    def forward(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encode int64 ids [B, L]; return hidden states [B, L, H] and the first token [B, H], pooled if there is a pooler.

        ``lengths_B`` counts the real tokens of each row, special ones included (≥ 1); padding after them is never attended to.
        None means that no row has padding.
        """
        hidden_BLH = self.contextualise(self.embeddings(ids_BL, token_types_BL), lengths_B)
        first_BH = hidden_BLH[:, 0]
        return hidden_BLH, first_BH if self.pooler is None else torch.tanh(self.pooler(first_BH))
