"""Which tensors of a transferred model came from where, and which of them a phase trains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from korealbert.model.config import ModelConfig

Freeze = Literal["chameleon", "l21", "none"]
"""What a phase leaves as it is: the encoder (Chameleon), everything that was copied (Lee et al. 2021), nothing."""

WORD_TABLE = "encoder.embeddings.word.weight"
"""Tied to the decoder of the masked-token head: one tensor."""

DECODER_BIAS = "mlm.bias"

POSITIONS = "encoder.embeddings.position.weight"


def encoder_names(config: ModelConfig, names: Iterable[str]) -> list[str]:
    """The tensors of the source's layers, with the projection of factorised embeddings, which only they read."""
    return [name for name in names if name.startswith("encoder.projection.") or _is_inner(config, name)]


def translation_names(config: ModelConfig, names: Iterable[str]) -> list[str]:
    """The tensors of the implicit translation layers."""
    return [name for name in names if _block(name) is not None and not _is_inner(config, name)]


def unreached_names(names: Iterable[str]) -> list[str]:
    """What masked words give no gradient: pooler and sentence-order head. Trained, they would only decay."""
    return [name for name in names if name.startswith(("encoder.pooler.", "sop."))]


def block_after_transfer(config: ModelConfig, name: str) -> str:
    """A source tensor's name in the transferred model of this ``config``: its blocks follow the first edge layers."""
    block = _block(name)
    if block is None:
        return name
    kind, number, rest = block
    return f"encoder.{kind}.{number + config.edge_layers}.{rest}"


def _is_inner(config: ModelConfig, name: str) -> bool:
    block = _block(name)
    if block is None:
        return False
    blocks = config.attention_blocks if block[0] == "attention" else config.ffn_blocks
    return config.edge_layers <= block[1] < blocks - config.edge_layers


def _block(name: str) -> tuple[str, int, str] | None:
    """Kind, number and inner name of a tensor of a layer."""
    part, _, rest = name.removeprefix("encoder.").partition(".")
    number, _, inner = rest.partition(".")
    return (part, int(number), inner) if part in ("attention", "ffn") and number.isdigit() else None
