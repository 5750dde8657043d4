"""A modern encoder: pre-norm layers, rotary positions, gated feed-forward, local attention between global layers (ModernBERT).

A row may be one sequence, or several one behind the other, none of which sees another; positions begin anew in each.

No matrix and no LayerNorm has a bias. The letters of shapes are explained in ``korealbert.model``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model.attention import Attend, Flattened, attend, by_lengths, residual, under
from korealbert.model.config import ModernConfig


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

    def at(self, positions_BL: Tensor) -> _Rotation:
        """The angles of each token's own position, [B, 1, L, D]."""
        return _Rotation(self.cos_LD[positions_BL].unsqueeze(1), self.sin_LD[positions_BL].unsqueeze(1))

    def turn(self, x_2BNLD: Tensor) -> Tensor:
        """Queries and keys, turned in fp32 and given back in their own type."""
        turned_2BNLD: Tensor = _Turn.apply(x_2BNLD, self.cos_LD, self.sin_LD)  # type: ignore[no-untyped-call]
        return turned_2BNLD


class _Turn(torch.autograd.Function):
    """``(a cos − b sin, b cos + a sin)`` of the halves a and b of the last dimension; its gradient is turned back."""

    @staticmethod
    def forward(ctx: Any, x_BNLD: Tensor, cos_LD: Tensor, sin_LD: Tensor) -> Tensor:
        ctx.save_for_backward(cos_LD, sin_LD)
        return _turned(x_BNLD, cos_LD, sin_LD)

    @staticmethod
    def backward(ctx: Any, gradient_BNLD: Tensor) -> tuple[Tensor, None, None]:
        cos_LD, sin_LD = ctx.saved_tensors
        return _turned(gradient_BNLD, cos_LD, -sin_LD), None, None


def _turned(x_2BNLD: Tensor, cos_LD: Tensor, sin_LD: Tensor) -> Tensor:
    """On a processor row by row, so that intermediate results stay in its cache."""
    if x_2BNLD.device.type != "cpu" or torch.compiler.is_compiling():
        return _turned_at_once(x_2BNLD, cos_LD, sin_LD)
    turned_2BNLD = torch.empty(x_2BNLD.shape, dtype=x_2BNLD.dtype)
    for row in range(x_2BNLD.shape[1]):
        angles = (angle if angle.ndim == 2 else angle[row] for angle in (cos_LD, sin_LD))
        turned_2BNLD[:, row] = _turned_at_once(x_2BNLD[:, row], *angles)
    return turned_2BNLD


def _turned_at_once(x_BNLD: Tensor, cos_LD: Tensor, sin_LD: Tensor) -> Tensor:
    whole_BNLD, half = x_BNLD.float(), x_BNLD.shape[-1] // 2
    first, second = whole_BNLD.chunk(2, dim=-1)
    turned_BNLD = whole_BNLD * cos_LD
    turned_BNLD[..., :half] -= second * sin_LD[..., :half]
    turned_BNLD[..., half:] += first * sin_LD[..., half:]
    return turned_BNLD.to(x_BNLD.dtype)


def sequence_numbers(lengths_BS: Tensor, length: int) -> Tensor:
    """Which sequence (0..S-1) of its row each place belongs to, int64 [B, L]; S behind the last one."""
    places_BL = torch.arange(length, device=lengths_BS.device).expand(len(lengths_BS), -1).contiguous()
    return torch.searchsorted(lengths_BS.cumsum(1), places_BL, right=True)


_SHORT = 256
"""Up to so many tokens a row is attended to under a mask on a processor too: its sequences are so short that calls cost more
than products (64 rows of 64 tokens, four sequences in each, forward and backward: 10 ms instead of 106)."""


class _Sequences:
    """Where the sequences of packed rows lie. What is behind the last of a row counts as one more."""

    def __init__(self, lengths_BS: Tensor, length: int) -> None:
        ends_BS = lengths_BS.cumsum(1)
        self.number_BL = sequence_numbers(lengths_BS, length)
        """Which sequence of its row each place belongs to."""
        starts_BS = F.pad(ends_BS, (1, 0))
        self.positions_BL = torch.arange(length, device=lengths_BS.device) - starts_BS.gather(1, self.number_BL)
        """Position of each token in its sequence."""
        self.first_BS = starts_BS[:, :-1].clamp(max=length - 1)
        """Place of each sequence's first token; any in unused slots."""
        self._sizes: list[list[int]] | None = None
        """Tokens of each sequence by row, the rest of the row last; None in short rows, and where that would wait for a GPU."""
        if lengths_BS.device.type == "cpu" and length > _SHORT:
            rests_B1 = length - ends_BS[:, -1:]
            self._sizes = [[size for size in sizes if size] for sizes in torch.cat((lengths_BS, rests_B1), 1).tolist()]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence, or an upper bound."""
        return self.number_BL.shape[1] if self._sizes is None else max(map(max, self._sizes))

    def attend(self, query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, dropout: float) -> Tensor:
        """Every token sees its own sequence: in long rows on a processor one after the other, 2 to 8 times as fast as under a
        mask of 1,024 by 1,024 (``bench/attention.py``); under a mask elsewhere."""
        if self._sizes is None:
            same_B1LL = self.number_BL[:, None, :, None] == self.number_BL[:, None, None, :]
            return attend(query_BNLD, key_BNLD, value_BNLD, same_B1LL, dropout)
        rows = []
        for row, sizes in enumerate(self._sizes):
            parts = (torch.split(x[row : row + 1], sizes, dim=2) for x in (query_BNLD, key_BNLD, value_BNLD))
            mixed = [attend(query, key, value, None, dropout) for query, key, value in zip(*parts, strict=True)]
            rows.append(torch.cat(mixed, dim=2))
        return torch.cat(rows)

    def attend_nearby(self, query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, dropout: float, *, half: int) -> Tensor:
        """Every token sees those of its own sequence up to ``half`` places away: blocks of ``half`` tokens, each with the one
        before and the one behind it."""
        rows, heads, length, width = query_BNLD.shape
        blocks = -(-length // half)
        short = blocks * half - length
        keys = F.pad(self.number_BL, (half, half + short), value=-1).unfold(1, 3 * half, half)
        queries = F.pad(self.number_BL, (0, short), value=-1).view(rows, blocks, half)
        place = torch.arange(3 * half, device=query_BNLD.device)
        near = (place - half - place[:half, None]).abs() <= half
        visible = (near & (queries[..., None] == keys[:, :, None])).view(rows * blocks, 1, half, 3 * half)

        def cut(x_BNLD: Tensor, before: int, behind: int) -> Tensor:
            padded = F.pad(x_BNLD, (0, 0, before, behind))
            return padded.reshape(rows, heads, -1, half, width).transpose(1, 2)

        def around(x_BNLD: Tensor) -> Tensor:
            windows = cut(x_BNLD, half, half + short)
            return torch.cat([windows[:, shift : shift + blocks] for shift in range(3)], dim=3).flatten(0, 1)

        own = cut(query_BNLD, 0, short).flatten(0, 1)
        mixed = attend(own, around(key_BNLD), around(value_BNLD), visible, dropout)
        mixed_BNLD = mixed.view(rows, blocks, heads, half, width).transpose(1, 2).reshape(rows, heads, -1, width)
        return mixed_BNLD[:, :, :length]


class ScaledLinear(nn.Linear):
    """A matrix without bias that writes into the residual stream; its initial values are narrower (``initial_scale``)."""

    def __init__(self, inputs: int, outputs: int, config: ModernConfig) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.initial_scale = (2 * config.num_layers) ** -0.5


class _Attention(nn.Module):
    """Multi-head self-attention; query, key and value are one matrix, in this order."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.output = ScaledLinear(config.hidden_size, config.hidden_size, config)
        self.dropout = nn.Dropout(config.attention_dropout)

    @property
    def dropped_weights(self) -> float:
        """Rate of dropout of attention weights."""
        return self.dropout.p if self.training else 0.0

    def forward(self, hidden_BLH: Tensor, rotation: _Rotation, attending: Attend) -> Tensor:
        """What each token takes up from those that it sees, [B, L, H]."""
        turning, staying = self.qkv(hidden_BLH).unflatten(-1, (3, self.num_heads, -1)).split((2, 1), dim=2)
        query_BNLD, key_BNLD = rotation.turn(turning.permute(2, 0, 3, 1, 4))
        mixed_BNLD = attending(query_BNLD, key_BNLD, staying.squeeze(2).transpose(1, 2), self.dropped_weights)
        mixed_BLH: Tensor = self.dropout(self.output(mixed_BNLD.transpose(1, 2).flatten(2)))
        return mixed_BLH


class _GatedFeedForward(nn.Module):
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


class _Layer(nn.Module):
    """Attention and feed-forward, each added to what it read; the first layer reads embeddings that are normed already."""

    def __init__(self, config: ModernConfig, index: int) -> None:
        super().__init__()
        self.attention_norm = layer_norm(config) if index else nn.Identity()
        self.attention = _Attention(config)
        self.ffn_norm = layer_norm(config)
        self.ffn = _GatedFeedForward(config)

    def forward(self, hidden_BLH: Tensor, rotation: _Rotation, attending: Attend) -> Tensor:
        """[B, L, H] to [B, L, H]; ``attending`` as in ``_Attention.forward``."""
        hidden_BLH = hidden_BLH + self.attention(self.attention_norm(hidden_BLH), rotation, attending)
        added_BLH: Tensor = hidden_BLH + self.ffn(self.ffn_norm(hidden_BLH))
        return added_BLH


class _ModernEmbeddings(nn.Module):
    """The word table, LayerNorm and dropout; positions come in by rotation."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.table_rows, config.hidden_size)
        self.norm = layer_norm(config)
        self.dropout = nn.Dropout(config.embedding_dropout)

    def forward(self, ids_BL: Tensor) -> Tensor:
        """Embed int64 ids [B, L] into [B, L, H]."""
        embedded_BLH: Tensor = self.dropout(residual(self.norm(self.word(ids_BL))))
        return embedded_BLH


class ModernEncoder(nn.Module):
    """Embeddings, layers and a final LayerNorm, without any head."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _ModernEmbeddings(config)
        self.layers = nn.ModuleList(_Layer(config, index) for index in range(config.num_layers))
        self.norm = layer_norm(config)
        self.global_theta = config.global_theta
        """Base of the rotary frequencies in global layers; training may raise it for longer sequences."""

    def forward(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor]:
        """As ``TransformerEncoder.forward``; there are no segment types, and the first token is not pooled.

        With ``lengths_B`` [B, S] each row holds up to S sequences one behind the other (0 in unused slots), and as many are the
        first tokens [B, S, H].
        """
        config, length, device = self.config, ids_BL.shape[1], ids_BL.device
        thetas = {
            theta: _Rotation.of(length, config.head_width, theta, device) for theta in {self.global_theta, config.local_theta}
        }
        sequences = None if lengths_B is None or lengths_B.ndim == 1 else _Sequences(lengths_B, length)
        if sequences is not None:
            thetas = {theta: rotation.at(sequences.positions_BL) for theta, rotation in thetas.items()}
        everywhere, nearby = self._attending(ids_BL, lengths_B, sequences)
        hidden_BLH = self.embeddings(ids_BL)
        for index, layer in enumerate(self.layers):
            is_global = config.is_global(index)
            theta = self.global_theta if is_global else config.local_theta
            hidden_BLH = layer(hidden_BLH, thetas[theta], everywhere if is_global else nearby)
        hidden_BLH = self.norm(hidden_BLH)
        if sequences is None:
            return hidden_BLH, hidden_BLH[:, 0]
        return hidden_BLH, hidden_BLH.gather(1, sequences.first_BS[:, :, None].expand(-1, -1, hidden_BLH.shape[-1]))

    def _attending(self, ids_BL: Tensor, lengths_B: Tensor | None, sequences: _Sequences | None) -> tuple[Attend, Attend]:
        """Attention of global and of local layers."""
        first, half = cast(_Layer, self.layers[0]).attention, self.config.local_attention // 2
        if by_lengths(first.qkv.weight, self.config.head_width, first.dropped_weights):
            rows, length = ids_BL.shape
            flattened = Flattened(ids_BL.new_full((rows,), length) if lengths_B is None else lengths_B, length)
            return flattened.attend, partial(flattened.attend, half=half)
        if sequences is None:
            everywhere, nearby = self._visible(ids_BL.shape[1], lengths_B, ids_BL.device)
            return under(everywhere), under(nearby)
        if sequences.longest <= half + 1:
            return sequences.attend, sequences.attend
        return sequences.attend, partial(sequences.attend_nearby, half=half)

    def _visible(self, length: int, lengths_B: Tensor | None, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Which keys the queries of global [B, 1, 1, L] and of local layers [B or 1, 1, L, L] see; None: all."""
        positions_L = torch.arange(length, device=device)
        real_B11L = None if lengths_B is None else (positions_L < lengths_B[:, None])[:, None, None, :]
        half = self.config.local_attention // 2
        if not torch.compiler.is_exporting() and length <= half + 1:
            return real_B11L, real_B11L
        distance_LL = (positions_L[:, None] - positions_L).abs()
        near = (distance_LL <= half)[None, None]
        # A query in the padding may have no real key within reach; it sees itself, since a softmax over nothing is no number.
        return real_B11L, near if real_B11L is None else near & real_B11L | (distance_LL == 0)


def layer_norm(config: ModernConfig) -> nn.LayerNorm:
    """LayerNorm over H, with a weight and no bias."""
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)
