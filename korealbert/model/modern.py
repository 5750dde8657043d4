"""A modern encoder: pre-norm layers, rotary positions, gated feed-forward, local attention between global layers (ModernBERT).

No matrix and no LayerNorm has a bias. The letters of shapes are explained in ``korealbert.model``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model.config import ModernConfig
from korealbert.model.encoder import attend


class _Rotation(NamedTuple):
    """Cosines and sines of the angles by which each position turns queries and keys, fp32 [L, D]."""

    cos_LD: Tensor
    sin_LD: Tensor

    @classmethod
    def of(cls, length: int, width: int, theta: float, device: torch.device) -> _Rotation:
        """Angles position · θ^(−2i / D); dimension i turns together with i + D / 2."""
        frequency = 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
        angle = torch.outer(torch.arange(length, dtype=torch.float32, device=device), frequency)
        angle_LD = torch.cat((angle, angle), dim=-1)
        return cls(angle_LD.cos(), angle_LD.sin())

    def turn(self, x_BNLD: Tensor) -> Tensor:
        """Queries or keys, turned in fp32 and given back in their own type."""
        first, second = x_BNLD.float().chunk(2, dim=-1)
        turned = x_BNLD.float() * self.cos_LD + torch.cat((-second, first), dim=-1) * self.sin_LD
        return turned.to(x_BNLD.dtype)


class ScaledLinear(nn.Linear):
    """A matrix without bias that writes into the residual stream; its initial values are narrower (``initial_scale``)."""

    def __init__(self, inputs: int, outputs: int, config: ModernConfig) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.initial_scale = (2 * config.num_layers) ** -0.5


class Attention(nn.Module):
    """Multi-head self-attention; query, key and value are one matrix, in this order."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.output = ScaledLinear(config.hidden_size, config.hidden_size, config)
        self.dropout = nn.Dropout(config.attention_dropout)

    def forward(self, hidden_BLH: Tensor, rotation: _Rotation, visible: Tensor | None) -> Tensor:
        """Attend to the visible keys (bool, broadcast to [B, 1, L, L]; None means all) and return [B, L, H]."""
        qkv = self.qkv(hidden_BLH).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        query_BNLD, key_BNLD = rotation.turn(qkv[:2])
        mixed_BNLD = attend(query_BNLD, key_BNLD, qkv[2], visible, self.dropout.p if self.training else 0.0)
        mixed_BLH: Tensor = self.dropout(self.output(mixed_BNLD.transpose(1, 2).flatten(2)))
        return mixed_BLH


class GatedFeedForward(nn.Module):
    """``output(gelu(a) ∘ b)`` where the first half of ``inner`` gives a, the second b (GeGLU)."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.output = ScaledLinear(config.intermediate_size, config.hidden_size, config)
        self.dropout = nn.Dropout(config.mlp_dropout)

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Position-wise; [B, L, H] to [B, L, H]."""
        activated, gate = self.inner(hidden_BLH).chunk(2, dim=-1)
        transformed_BLH: Tensor = self.output(self.dropout(F.gelu(activated) * gate))
        return transformed_BLH


class Layer(nn.Module):
    """Attention and feed-forward, each added to what it read; the first layer reads embeddings that are normed already."""

    def __init__(self, config: ModernConfig, index: int) -> None:
        super().__init__()
        self.attention_norm = layer_norm(config) if index else nn.Identity()
        self.attention = Attention(config)
        self.ffn_norm = layer_norm(config)
        self.ffn = GatedFeedForward(config)

    def forward(self, hidden_BLH: Tensor, rotation: _Rotation, visible: Tensor | None) -> Tensor:
        """[B, L, H] to [B, L, H]; ``visible`` as in ``Attention.forward``."""
        hidden_BLH = hidden_BLH + self.attention(self.attention_norm(hidden_BLH), rotation, visible)
        added_BLH: Tensor = hidden_BLH + self.ffn(self.ffn_norm(hidden_BLH))
        return added_BLH


class ModernEmbeddings(nn.Module):
    """The word table, LayerNorm and dropout; positions come in by rotation."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norm = layer_norm(config)
        self.dropout = nn.Dropout(config.embedding_dropout)

    def forward(self, ids_BL: Tensor) -> Tensor:
        """Embed int64 ids [B, L] into [B, L, H]."""
        embedded_BLH: Tensor = self.dropout(self.norm(self.word(ids_BL)))
        return embedded_BLH


class ModernEncoder(nn.Module):
    """Embeddings, layers and a final LayerNorm, without any head."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = ModernEmbeddings(config)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_layers))
        self.norm = layer_norm(config)

    def forward(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor]:
        """As ``TransformerEncoder.forward``; there are no segment types, and the first token is not pooled."""
        config, length, device = self.config, ids_BL.shape[1], ids_BL.device
        thetas = {theta: _Rotation.of(length, config.head_width, theta, device) for theta in config.thetas}
        everywhere, nearby = self._visible(length, lengths_B, device)
        hidden_BLH = self.embeddings(ids_BL)
        for index, layer in enumerate(self.layers):
            is_global = config.is_global(index)
            theta = config.global_theta if is_global else config.local_theta
            hidden_BLH = layer(hidden_BLH, thetas[theta], everywhere if is_global else nearby)
        hidden_BLH = self.norm(hidden_BLH)
        return hidden_BLH, hidden_BLH[:, 0]

    def _visible(self, length: int, lengths_B: Tensor | None, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Which keys the queries of global [B, 1, 1, L] and of local layers [B or 1, 1, L, L] see; None: all."""
        positions_L = torch.arange(length, device=device)
        real_B11L = None if lengths_B is None else (positions_L < lengths_B[:, None])[:, None, None, :]
        half = self.config.local_attention // 2
        if length <= half + 1:
            return real_B11L, real_B11L
        distance_LL = (positions_L[:, None] - positions_L).abs()
        near = (distance_LL <= half)[None, None]
        # A query in the padding may have no real key within reach; it sees itself, since a softmax over nothing is no number.
        return real_B11L, near if real_B11L is None else near & real_B11L | (distance_LL == 0)


def layer_norm(config: ModernConfig) -> nn.LayerNorm:
    """LayerNorm over H, with a weight and no bias."""
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)
