"""The modern encoder: pre-norm layers, rotary positions, gated feed-forward, local attention between global layers
(ModernBERT).

A row is one sequence, or packs several, which do not attend to each other and each start at position 0. No matrix and no
LayerNorm has a bias.

Shapes: see ``korealbert.model``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.model import elementwise
from korealbert.model.attention import Attend, VarlenAttention, attend, by_products, masked, residual, use_varlen
from korealbert.model.config import ModernConfig
from korealbert.model.elementwise import Dropout


class _Rotation(NamedTuple):
    """Cosines and sines of the angles by which queries and keys are rotated at each position, fp32 [L, D]."""

    cos_LD: Tensor
    sin_LD: Tensor

    @classmethod
    def of(cls, length: int, width: int, theta: float, device: torch.device) -> _Rotation:
        """Return the angles position · θ^(−2i / D); dimension i is rotated together with i + D / 2."""
        frequency = 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
        angle = torch.outer(torch.arange(length, dtype=torch.float32, device=device), frequency)
        angle_LD = torch.cat((angle, angle), dim=-1)
        return cls(angle_LD.cos(), angle_LD.sin())

    def at(self, positions_BL: Tensor) -> _Rotation:
        """Return the angles at these positions, [B, 1, L, D]."""
        return _Rotation(self.cos_LD[positions_BL].unsqueeze(1), self.sin_LD[positions_BL].unsqueeze(1))

    def rotate(self, x_2BNLD: Tensor) -> tuple[Tensor, ...]:
        """Rotate queries and keys; computed in fp32, returned in their own type.

        Compiled for GPUs, each has a kernel of its own: in one tensor they would be copied before attention.
        """
        parts = x_2BNLD.unbind() if elementwise.compiled_for_gpu(x_2BNLD) else (x_2BNLD,)
        turned = [_Rotate.apply(part, self.cos_LD, self.sin_LD) for part in parts]  # type: ignore[no-untyped-call]
        return tuple(turned) if len(turned) > 1 else turned[0].unbind()


class _Rotate(torch.autograd.Function):
    """``(a cos − b sin, b cos + a sin)`` of the halves a and b of the last dimension; the gradient is rotated back."""

    @staticmethod
    def forward(ctx: Any, x_BNLD: Tensor, cos_LD: Tensor, sin_LD: Tensor) -> Tensor:
        ctx.save_for_backward(cos_LD, sin_LD)
        return _rotate(x_BNLD, cos_LD, sin_LD)

    @staticmethod
    def backward(ctx: Any, gradient_BNLD: Tensor) -> tuple[Tensor, None, None]:
        cos_LD, sin_LD = ctx.saved_tensors
        return _rotate(gradient_BNLD, cos_LD, -sin_LD), None, None


_ROTATED_AT_ONCE = 1 << 18
"""Elements that are rotated at once on a CPU: 1 MB in fp32."""


def _rotate(x_2BNLD: Tensor, cos_LD: Tensor, sin_LD: Tensor) -> Tensor:
    """Rotate; on a CPU few rows at once, so that intermediate results stay in its cache."""
    if elementwise.compiled_for_gpu(x_2BNLD):
        return _rotate_in_one_kernel(x_2BNLD, cos_LD, sin_LD)
    if x_2BNLD.device.type != "cpu" or torch.compiler.is_compiling():
        return _rotate_at_once(x_2BNLD, cos_LD, sin_LD)
    turned_2BNLD = torch.empty(x_2BNLD.shape, dtype=x_2BNLD.dtype)
    rows = max(1, _ROTATED_AT_ONCE // max(1, x_2BNLD[:, :1].numel()))
    for first in range(0, x_2BNLD.shape[1], rows):
        part = slice(first, first + rows)
        angles = (angle if angle.ndim == 2 else angle[part] for angle in (cos_LD, sin_LD))
        turned_2BNLD[:, part] = _rotate_at_once(x_2BNLD[:, part], *angles)
    return turned_2BNLD


def _rotate_at_once(x_BNLD: Tensor, cos_LD: Tensor, sin_LD: Tensor) -> Tensor:
    whole_BNLD, half = x_BNLD.float(), x_BNLD.shape[-1] // 2
    first, second = whole_BNLD.chunk(2, dim=-1)
    turned_BNLD = whole_BNLD * cos_LD
    turned_BNLD[..., :half] -= second * sin_LD[..., :half]
    turned_BNLD[..., half:] += first * sin_LD[..., half:]
    return turned_BNLD.to(x_BNLD.dtype)


def _rotate_in_one_kernel(x_BNLD: Tensor, cos_LD: Tensor, sin_LD: Tensor) -> Tensor:
    """Rotate without changing parts in place, which torch's compiler makes many passes over memory of. The result has its
    tokens one after another in memory, as variable-length attention wants them."""
    cos, sin = (x.unsqueeze(1) if x.ndim == 2 else x.transpose(1, 2) for x in (cos_LD, sin_LD))
    first, second = x_BNLD.transpose(1, 2).float().chunk(2, dim=-1)
    (cos, _), (sin, _) = cos.chunk(2, dim=-1), sin.chunk(2, dim=-1)
    halves = first * cos - second * sin, second * cos + first * sin
    return torch.cat([half.to(x_BNLD.dtype) for half in halves], dim=-1).transpose(1, 2)


def sequence_numbers(lengths_BS: Tensor, length: int) -> Tensor:
    """Return the number (0..S-1) of each token's sequence in its row, int64 [B, L]; S after the last sequence."""
    places_BL = torch.arange(length, device=lengths_BS.device).expand(len(lengths_BS), -1).contiguous()
    return torch.searchsorted(lengths_BS.cumsum(1), places_BL, right=True)


_MASKED_LENGTH = 256
"""Rows up to this length use a mask on CPUs too, because calls for short sequences cost more than their products (64 rows of
four sequences in 64 tokens, forward and backward: 10 ms instead of 106)."""


def _distances(length: int, device: torch.device) -> Tensor:
    """Return how far apart two positions are, [L, L]."""
    positions_L = torch.arange(length, device=device)
    return (positions_L[:, None] - positions_L).abs()


class _Sequences:
    """The sequences of packed rows. The rest of a row, after its last sequence, counts as one more sequence."""

    def __init__(self, lengths_BS: Tensor, length: int) -> None:
        ends_BS = lengths_BS.cumsum(1)
        self.number_BL = sequence_numbers(lengths_BS, length)
        """Number of each token's sequence in its row, [B, L]."""
        starts_BS = F.pad(ends_BS, (1, 0))
        self.positions_BL = torch.arange(length, device=lengths_BS.device) - starts_BS.gather(1, self.number_BL)
        """Position of each token in its sequence, [B, L]."""
        self.first_BS = starts_BS[:, :-1].clamp(max=length - 1)
        """Index of each sequence's first token in its row, [B, S]; any in unused slots."""
        self._sizes: list[list[int]] | None = None
        """Lengths of each row's sequences, with the rest of the row; None for short rows, and on GPUs, where we would have to
        wait."""
        if lengths_BS.device.type == "cpu" and length > _MASKED_LENGTH:
            rests_B1 = length - ends_BS[:, -1:]
            self._sizes = [[size for size in sizes if size] for sizes in torch.cat((lengths_BS, rests_B1), 1).tolist()]

    @property
    def longest(self) -> int:
        """Length of the longest sequence, or an upper bound."""
        return self.number_BL.shape[1] if self._sizes is None else max(map(max, self._sizes))

    def attend(self, query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, dropout: float) -> Tensor:
        """Let every token attend to its own sequence. In long rows on a CPU, one sequence after the other is 2 to 8 times as
        fast as a mask of 1,024 by 1,024 (``bench/kernels.py``)."""
        if self._sizes is None:
            return attend(query_BNLD, key_BNLD, value_BNLD, self._same(), dropout)
        rows = []
        for row, sizes in enumerate(self._sizes):
            parts = (torch.split(x[row : row + 1], sizes, dim=2) for x in (query_BNLD, key_BNLD, value_BNLD))
            mixed = [attend(query, key, value, None, dropout) for query, key, value in zip(*parts, strict=True)]
            rows.append(torch.cat(mixed, dim=2))
        return torch.cat(rows)

    def _same(self) -> Tensor:
        """Return which tokens of a row are in one sequence, [B, 1, L, L]."""
        return self.number_BL[:, None, :, None] == self.number_BL[:, None, None, :]

    def attend_nearby(self, query_BNLD: Tensor, key_BNLD: Tensor, value_BNLD: Tensor, dropout: float, *, half: int) -> Tensor:
        """Let every token attend to those of its own sequence up to ``half`` positions away. Rows are cut into blocks of
        ``half`` tokens, each of which attends to itself, the block before and the block after. On a CPU in bf16 a mask over the
        row replaces up to four blocks, in 0.4 to 0.9 of the time; in fp32 it would, too, but change the last bits."""
        rows, heads, length, width = query_BNLD.shape
        if self._sizes is None and length <= 4 * half and by_products(query_BNLD):
            visible_B1LL = self._same() & (_distances(length, query_BNLD.device) <= half)
            return attend(query_BNLD, key_BNLD, value_BNLD, visible_B1LL, dropout)
        blocks = -(-length // half)
        short = blocks * half - length
        keys = F.pad(self.number_BL, (half, half + short), value=-1).unfold(1, 3 * half, half)
        queries = F.pad(self.number_BL, (0, short), value=-1).view(rows, blocks, half)
        index = torch.arange(3 * half, device=query_BNLD.device)
        near = (index - half - index[:half, None]).abs() <= half
        visible = (near & (queries[..., None] == keys[:, :, None])).view(rows * blocks, 1, half, 3 * half)

        def cut(x_BNLD: Tensor, before: int, after: int) -> Tensor:
            padded = F.pad(x_BNLD, (0, 0, before, after))
            return padded.reshape(rows, heads, -1, half, width).transpose(1, 2)

        def around(x_BNLD: Tensor) -> Tensor:
            windows = cut(x_BNLD, half, half + short)
            return torch.cat([windows[:, shift : shift + blocks] for shift in range(3)], dim=3).flatten(0, 1)

        own = cut(query_BNLD, 0, short).flatten(0, 1)
        mixed = attend(own, around(key_BNLD), around(value_BNLD), visible, dropout)
        mixed_BNLD = mixed.view(rows, blocks, heads, half, width).transpose(1, 2).reshape(rows, heads, -1, width)
        return mixed_BNLD[:, :, :length]


class ScaledLinear(nn.Linear):
    """A matrix without bias that writes into the residual stream, with smaller initial values (``initial_scale``)."""

    def __init__(self, inputs: int, outputs: int, config: ModernConfig) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.initial_scale = (2 * config.num_layers) ** -0.5


class _Attention(nn.Module):
    """Multi-head self-attention, with one matrix for query, key and value."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.output = ScaledLinear(config.hidden_size, config.hidden_size, config)
        self.dropout = Dropout(config.attention_dropout)

    @property
    def dropped_weights(self) -> float:
        """Current dropout rate of attention weights."""
        return self.dropout.p if self.training else 0.0

    def forward(self, hidden_BLH: Tensor, rotation: _Rotation, attending: Attend) -> Tensor:
        """Map [B, L, H] to [B, L, H]."""
        query_key_BL2ND, value_BL1ND = self.qkv(hidden_BLH).unflatten(-1, (3, self.num_heads, -1)).split((2, 1), dim=2)
        query_BNLD, key_BNLD = rotation.rotate(query_key_BL2ND.permute(2, 0, 3, 1, 4))
        value_BNLD = value_BL1ND.squeeze(2).transpose(1, 2)
        mixed_BNLD = attending(query_BNLD, key_BNLD, value_BNLD, self.dropped_weights)
        mixed_BLH: Tensor = self.dropout(self.output(mixed_BNLD.transpose(1, 2).flatten(2)))
        return mixed_BLH


class _GatedFeedForward(nn.Module):
    """GeGLU: ``output(gelu(a) ∘ b)``, where ``inner`` computes a and b."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.output = ScaledLinear(config.intermediate_size, config.hidden_size, config)
        self.dropout = Dropout(config.mlp_dropout)

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Map [B, L, H] to [B, L, H], each position by itself."""
        activated, gate = self.inner(hidden_BLH).chunk(2, dim=-1)
        transformed_BLH: Tensor = self.output(self.dropout(F.gelu(activated) * gate))
        return transformed_BLH


class _Layer(nn.Module):
    """Attention and feed-forward, each pre-normed and added to its input. The first layer's input is normed already."""

    def __init__(self, config: ModernConfig, index: int) -> None:
        super().__init__()
        self.attention_norm = _layer_norm(config) if index else nn.Identity()
        self.attention = _Attention(config)
        self.ffn_norm = _layer_norm(config)
        self.ffn = _GatedFeedForward(config)

    def forward(self, hidden_BLH: Tensor, rotation: _Rotation, attending: Attend) -> Tensor:
        """Map [B, L, H] to [B, L, H]."""
        hidden_BLH = hidden_BLH + self.attention(self.attention_norm(hidden_BLH), rotation, attending)
        added_BLH: Tensor = hidden_BLH + self.ffn(self.ffn_norm(hidden_BLH))
        return added_BLH


class _ModernEmbeddings(nn.Module):
    """The word table, LayerNorm and dropout; positions are encoded by rotation."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.table_rows, config.hidden_size)
        self.norm = _layer_norm(config)
        self.dropout = Dropout(config.embedding_dropout)

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
        self.norm = _layer_norm(config)
        self.global_theta = config.global_theta
        """Rotary base of global layers, which training may raise for longer sequences."""

    def forward(self, ids_BL: Tensor, token_types_BL: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encode as ``TransformerEncoder.forward``, but without segment types and pooling.

        With ``lengths_B`` [B, S], each row packs up to S sequences (0 in unused slots), and the first tokens are [B, S, H].
        """
        config, length, device = self.config, ids_BL.shape[1], ids_BL.device
        thetas = {self.global_theta, config.local_theta}
        rotations = {theta: _Rotation.of(length, config.head_width, theta, device) for theta in thetas}
        sequences = None if lengths_B is None or lengths_B.ndim == 1 else _Sequences(lengths_B, length)
        if sequences is not None:
            rotations = {theta: rotation.at(sequences.positions_BL) for theta, rotation in rotations.items()}
        everywhere, nearby = self._attending(ids_BL, lengths_B, sequences)
        hidden_BLH = self.embeddings(ids_BL)
        for index, layer in enumerate(self.layers):
            is_global = config.is_global(index)
            theta = self.global_theta if is_global else config.local_theta
            hidden_BLH = layer(hidden_BLH, rotations[theta], everywhere if is_global else nearby)
        hidden_BLH = self.norm(hidden_BLH)
        if sequences is None:
            return hidden_BLH, hidden_BLH[:, 0]
        return hidden_BLH, hidden_BLH.gather(1, sequences.first_BS[:, :, None].expand(-1, -1, hidden_BLH.shape[-1]))

    def _attending(self, ids_BL: Tensor, lengths_B: Tensor | None, sequences: _Sequences | None) -> tuple[Attend, Attend]:
        """Return the attention of global and of local layers."""
        first, half = cast(_Layer, self.layers[0]).attention, self.config.local_attention // 2
        if use_varlen(first.qkv.weight, self.config.head_width, first.dropped_weights):
            rows, length = ids_BL.shape
            flattened = VarlenAttention(ids_BL.new_full((rows,), length) if lengths_B is None else lengths_B, length)
            return flattened.attend, partial(flattened.attend, half=half)
        if sequences is None:
            everywhere, nearby = self._visible(ids_BL.shape[1], lengths_B, ids_BL.device)
            return masked(everywhere), masked(nearby)
        if sequences.longest <= half + 1:
            return sequences.attend, sequences.attend
        return sequences.attend, partial(sequences.attend_nearby, half=half)

    def _visible(self, length: int, lengths_B: Tensor | None, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Return the masks of global layers [B, 1, 1, L] and of local layers [B or 1, 1, L, L]; None: all keys are visible."""
        positions_L = torch.arange(length, device=device)
        real_B11L = None if lengths_B is None else (positions_L < lengths_B[:, None])[:, None, None, :]
        half = self.config.local_attention // 2
        if not torch.compiler.is_exporting() and length <= half + 1:
            return real_B11L, real_B11L
        distance_LL = _distances(length, device)
        near = (distance_LL <= half)[None, None]
        # A query in the padding may have no real key nearby. It attends to itself, since a softmax over nothing is NaN.
        return real_B11L, near if real_B11L is None else near & real_B11L | (distance_LL == 0)


def _layer_norm(config: ModernConfig) -> nn.LayerNorm:
    """Return a LayerNorm over H without bias."""
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)
