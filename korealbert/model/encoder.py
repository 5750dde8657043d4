"""The ALBERT encoder: factorised embeddings, layers that share parameters, a pooler.

Post-LayerNorm as in BERT; tanh-approximated GELU. Parameters that layers share exist once, so counts, checkpoints and
optimisers see them once, and their gradient is the sum over their uses.

Shapes: B batch, S sequence length, E embedding size, H hidden size, N heads, D = H / N.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model.config import AlbertConfig


class Embeddings(nn.Module):
    """Word + segment type + learned position, all of width E, then LayerNorm and dropout."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.embedding_size)
        self.token_type = nn.Embedding(config.type_vocab_size, config.embedding_size)
        self.position = nn.Embedding(config.max_positions, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, ids_BS: Tensor, token_types_BS: Tensor) -> Tensor:
        """Embed int64 ids [B, S] into [B, S, E]."""
        position_SE = self.position.weight[: ids_BS.shape[1]]
        embedded_BSE: Tensor = self.norm(self.word(ids_BS) + self.token_type(token_types_BS) + position_SE)
        dropped_BSE: Tensor = self.dropout(embedded_BSE)
        return dropped_BSE


class SelfAttention(nn.Module):
    """Multi-head self-attention with output projection, residual and LayerNorm.

    Query, key and value stay three parameters: LAMB's trust ratio is per tensor, and a fused one would change it.
    """

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.num_heads = config.num_heads
        self.attention_dropout = config.attention_dropout
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, hidden_BSH: Tensor, visible_B11S: Tensor | None) -> Tensor:
        """Attend to the visible keys (bool, None means all) and return [B, S, H]."""

        def split(x_BSH: Tensor) -> Tensor:
            return x_BSH.view(*x_BSH.shape[:2], self.num_heads, -1).transpose(1, 2)

        mixed_BNSD = F.scaled_dot_product_attention(
            split(self.query(hidden_BSH)),
            split(self.key(hidden_BSH)),
            split(self.value(hidden_BSH)),
            attn_mask=visible_B11S,
            dropout_p=self.attention_dropout if self.training else 0.0,
        )
        mixed_BSH = self.output(mixed_BNSD.transpose(1, 2).flatten(2))
        normed_BSH: Tensor = self.norm(hidden_BSH + self.dropout(mixed_BSH))
        return normed_BSH


class FeedForward(nn.Module):
    """Two linear maps with GELU between them, residual and LayerNorm."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.hidden_size, config.intermediate_size)
        self.outer = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout if config.ffn_dropout else 0.0)

    def forward(self, hidden_BSH: Tensor) -> Tensor:
        """Position-wise; [B, S, H] to [B, S, H]."""
        transformed_BSH = self.outer(F.gelu(self.inner(hidden_BSH), approximate="tanh"))
        normed_BSH: Tensor = self.norm(hidden_BSH + self.dropout(transformed_BSH))
        return normed_BSH


class AlbertEncoder(nn.Module):
    """Embeddings, the shared layers and the pooler, without any head."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.projection = (
            nn.Identity()
            if config.embedding_size == config.hidden_size
            else nn.Linear(config.embedding_size, config.hidden_size)
        )
        self.attention = nn.ModuleList(SelfAttention(config) for _ in range(config.attention_blocks))
        self.ffn = nn.ModuleList(FeedForward(config) for _ in range(config.ffn_blocks))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)

    def layer(self, index: int) -> tuple[nn.Module, nn.Module]:
        """The attention and feed-forward blocks that layer ``index`` uses."""
        group = self.config.group_of(index)
        return (
            self.attention[group if self.config.share in {"all", "attention"} else index],
            self.ffn[group if self.config.share in {"all", "ffn"} else index],
        )

    def forward(self, ids_BS: Tensor, token_types_BS: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encode int64 ids [B, S].

        ``lengths_B`` counts the real tokens of each row, specials included (≥ 1); what lies behind them is never attended to.
        None says that no row has padding. Returns the hidden states [B, S, H] and the pooled first token [B, H].
        """
        visible_B11S = None
        if lengths_B is not None:
            positions_S = torch.arange(ids_BS.shape[1], device=ids_BS.device)
            visible_B11S = (positions_S < lengths_B[:, None])[:, None, None, :]
        hidden_BSH = self.projection(self.embeddings(ids_BS, token_types_BS))
        for index in range(self.config.num_layers):
            attention, ffn = self.layer(index)
            hidden_BSH = ffn(attention(hidden_BSH, visible_B11S))
        pooled_BH = torch.tanh(self.pooler(hidden_BSH[:, 0]))
        return hidden_BSH, pooled_BH
