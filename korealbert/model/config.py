"""The shape of an encoder: what a recipe says of it, and what a checkpoint stores of it.

The fields of ``ModelSpec`` span ALBERT, BERT (no sharing, E = H, exact GELU) and RoBERTa (besides: two rows before the first
position, one segment type, no pooler); those of ``ModernSpec`` the shape of ModernBERT.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, TypeAdapter, model_validator
from safetensors import safe_open

from korealbert.artifact import Spec

_EVEN_ROWS = 64
"""A modern model's word table has a multiple of so many rows: GPUs multiply by others at about half the speed."""

_HEAD_SIZE = 64
"""Width of one attention head where a spec names no number of heads (ALBERT, section 3: H/64 heads, feed-forward 4H)."""


class ModelSpec(Spec):
    """The architecture as far as a recipe chooses it; the defaults are ALBERT-base."""

    embedding_size: int = Field(default=128, ge=1)
    """E: width of the embeddings, factorised where it is below the hidden size."""
    hidden_size: int = Field(default=768, ge=1)
    """H: width of the encoder. Equal to E, the projection between them is left out."""
    num_layers: int = Field(default=12, ge=1)
    """How often a layer is applied."""
    num_heads: int = Field(default=0, ge=0)
    """Attention heads; 0 stands for hidden_size / 64."""
    intermediate_size: int = Field(default=0, ge=0)
    """Inner width of the feed-forward block; 0 stands for 4 × hidden_size."""
    share: Literal["all", "attention", "ffn", "none"] = "all"
    """Which parameters the layers share: whole layers, {Q, K, V, O and their LayerNorm}, {both feed-forward matrices and
    their LayerNorm}, or nothing (ALBERT, table 4)."""
    num_groups: int = Field(default=1, ge=1)
    """Sharing happens within groups of consecutive layers: layer l belongs to group ⌊l · groups / layers⌋."""
    edge_layers: int = Field(default=0, ge=0)
    """Layers at either end that share with no other: the implicit translation layers of cross-lingual post-training."""
    max_positions: int = Field(default=512, ge=4)
    """Rows of the position table. Pretraining at length n leaves the rows from n on untrained."""
    position_offset: int = Field(default=0, ge=0)
    """Row of the first token; RoBERTa begins at 2 and has 514 rows for 512 positions."""
    type_vocab_size: int = Field(default=2, ge=1)
    """Segment types; with one, sentences of a pair are told apart by their separator alone (RoBERTa)."""
    pooler: bool = True
    """Whether the first token goes through a dense layer with tanh, which the sentence-order head reads; RoBERTa has none."""
    activation: Literal["gelu_tanh", "gelu"] = "gelu_tanh"
    """GELU in its tanh approximation (ALBERT) or exact (BERT, RoBERTa)."""
    hidden_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout after the embeddings and after both blocks: 0.1 in KoreALBERT, 0 in ALBERT v2."""
    attention_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout on attention probabilities."""
    ffn_dropout: bool = True
    """Whether dropout follows the feed-forward block, as in the papers; Hugging Face's ALBERT declares it and never applies
    it."""
    layer_norm_eps: float = Field(default=1e-12, gt=0)
    """Added to the variance in every LayerNorm."""
    initializer_range: float = Field(default=0.02, gt=0)
    """Standard deviation of the initial matrices, drawn from a normal distribution cut at ± 2 σ."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_derived_sizes(cls, data: Any) -> Any:
        """Resolve 0 here, so that a spelled-out default and an omitted one have one identity."""
        if not isinstance(data, dict):
            return data
        hidden = data.get("hidden_size", cls.model_fields["hidden_size"].default)
        if not isinstance(hidden, int):
            return data
        filled = dict(data)
        filled["num_heads"] = data.get("num_heads") or max(1, hidden // _HEAD_SIZE)
        filled["intermediate_size"] = data.get("intermediate_size") or 4 * hidden
        return filled

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"num_heads = {self.num_heads} does not divide hidden_size = {self.hidden_size}; "
                "choose a number of heads that does"
            )
        if self.position_offset >= self.max_positions:
            raise ValueError(
                f"position_offset = {self.position_offset} leaves no row of max_positions = {self.max_positions}; "
                "raise max_positions"
            )
        if self.inner_layers < 1:
            raise ValueError(
                f"edge_layers = {self.edge_layers} at either end leave none of num_layers = {self.num_layers} between them; "
                "lower edge_layers"
            )
        if self.num_groups > self.inner_layers:
            raise ValueError(f"num_groups = {self.num_groups} exceeds num_layers = {self.inner_layers}; lower num_groups")
        if self.share == "none" and self.num_groups > 1:
            raise ValueError(
                f"num_groups = {self.num_groups} has no meaning where share = 'none'; set num_groups = 1 or share = 'all'"
            )
        return self

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def longest_sequence(self) -> int:
        """Positions that tokens can take."""
        return self.max_positions - self.position_offset

    @property
    def orders_sentences(self) -> bool:
        """Whether the pretraining model has a head for the order of sentences: it reads the pooled first token."""
        return self.pooler

    @property
    def inner_layers(self) -> int:
        """Layers that are no edge layers."""
        return self.num_layers - 2 * self.edge_layers

    def group_of(self, layer: int) -> int:
        """Which group a layer belongs to; each edge layer is one of its own, numbered in the order of the layers."""
        edge, inner = self.edge_layers, self.inner_layers
        if layer < edge:
            return layer
        if layer >= edge + inner:
            return layer - inner + self.num_groups
        return edge + (layer - edge) * self.num_groups // inner

    def blocks_of(self, layer: int) -> tuple[int, int]:
        """Numbers of the attention block and the feed-forward block that a layer uses."""
        group = self.group_of(layer)
        return group if self.share in {"all", "attention"} else layer, group if self.share in {"all", "ffn"} else layer

    @property
    def attention_blocks(self) -> int:
        """Distinct attention blocks."""
        return 2 * self.edge_layers + (self.num_groups if self.share in {"all", "attention"} else self.inner_layers)

    @property
    def ffn_blocks(self) -> int:
        """Distinct feed-forward blocks."""
        return 2 * self.edge_layers + (self.num_groups if self.share in {"all", "ffn"} else self.inner_layers)


class ModelConfig(ModelSpec):
    """A complete model: the architecture and what data and objective decide. Stored as ``config.json``."""

    later: ClassVar[frozenset[str]] = ModelSpec.later | {"bag_of_words"}

    vocab_size: int = Field(ge=5)
    """V: rows of the word table, special pieces included."""
    word_order_classes: int = Field(default=0, ge=0)
    """C: classes of the word-order head, one per position of a training sequence or per offset; 0 leaves the head out."""
    bag_of_words: bool = False
    """Whether a head on mean vectors predicts masked pieces."""
    generator_hidden_size: int = Field(default=0, ge=0)
    """Width of the generator that this model, as a discriminator, was trained beside (ELECTRA); 0 means none."""

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        if self.word_order_classes > self.longest_sequence:
            raise ValueError(
                f"word_order_classes = {self.word_order_classes} exceeds the {self.longest_sequence} positions that "
                f"max_positions = {self.max_positions} gives; train on shorter sequences or raise max_positions"
            )
        return self

    @model_validator(mode="after")
    def _check_generator(self) -> Self:
        if self.generator_hidden_size % self.head_width:
            raise ValueError(
                f"generator_hidden_size = {self.generator_hidden_size} is not a multiple of the {self.head_width} that "
                f"hidden_size = {self.hidden_size} gives each of num_heads = {self.num_heads}; choose one that is"
            )
        return self

    @property
    def table_rows(self) -> int:
        """Rows of the word table."""
        return self.vocab_size

    def shape(self) -> ModelSpec:
        """The architecture alone."""
        return ModelSpec(**self.model_dump(include=set(ModelSpec.model_fields)))

    def generator(self) -> ModelConfig:
        """The generator: narrower, with heads of the same width, and the embeddings of the discriminator."""
        size = self.generator_hidden_size
        narrower = {
            "hidden_size": size,
            "num_heads": size // self.head_width,
            "intermediate_size": 4 * size,
            "generator_hidden_size": 0,
        }
        return ModelConfig(**{**self.model_dump(), **narrower})


class ModernSpec(Spec):
    """The architecture as far as a recipe chooses it; the defaults are ModernBERT-base (Warner et al. 2024)."""

    architecture: Literal["modern"]
    """``modern``: pre-norm, rotary positions, gated feed-forward, local attention between global layers."""
    hidden_size: int = Field(default=768, ge=1)
    """H: width of the encoder and of the word table."""
    num_layers: int = Field(default=22, ge=1)
    """Layers; none shares parameters with another."""
    num_heads: int = Field(default=0, ge=0)
    """Attention heads; 0 stands for hidden_size / 64."""
    intermediate_size: int = Field(default=0, ge=0)
    """Inner width of the gated feed-forward block (half the rows of its first matrix); 0 stands for 3/2 × hidden_size."""
    global_every: int = Field(default=3, ge=1)
    """Layers 0, n, 2n, … attend to the whole sequence, the others to their neighbourhood (``local_attention``)."""
    local_attention: int = Field(default=128, ge=2, multiple_of=2)
    """Tokens that a local layer looks at, half of them to each side."""
    global_theta: float = Field(default=160_000.0, gt=0)
    """Base of the rotary frequencies in global layers; 10,000 suits sequences up to 1,024."""
    local_theta: float = Field(default=10_000.0, gt=0)
    """The same in local layers."""
    max_positions: int = Field(default=8192, ge=4)
    """Longest sequence that the exported model announces; no table depends on it."""
    embedding_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout after the embeddings."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on attention probabilities and after the attention block."""
    mlp_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout within the feed-forward block."""
    layer_norm_eps: float = Field(default=1e-5, gt=0)
    """Added to the variance in every LayerNorm."""
    initializer_range: float = Field(default=0.02, ge=0)
    """σ of the initial matrices, cut at ± 2 σ; 0 stands for 1 / √(inputs of the matrix). Matrices that write into the residual
    stream, and the head's, are divided by √(2 · num_layers)."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_derived_sizes(cls, data: Any) -> Any:
        """Resolve 0 here, so that a spelled-out default and an omitted one have one identity."""
        if not isinstance(data, dict):
            return data
        hidden = data.get("hidden_size", cls.model_fields["hidden_size"].default)
        if not isinstance(hidden, int):
            return data
        derived = {"num_heads": max(1, hidden // _HEAD_SIZE), "intermediate_size": 3 * hidden // 2}
        return data | {name: data.get(name) or size for name, size in derived.items()}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"num_heads = {self.num_heads} does not cut hidden_size = {self.hidden_size} into heads of even width, which "
                "rotary positions need; choose a number of heads that does"
            )
        return self

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def longest_sequence(self) -> int:
        """Positions that tokens can take."""
        return self.max_positions

    def is_global(self, layer: int) -> bool:
        """Whether a layer (from 0) attends to the whole sequence."""
        return layer % self.global_every == 0


class ModernConfig(ModernSpec):
    """A complete modern encoder: the architecture and what data and objective decide. Stored as ``config.json``."""

    later: ClassVar[frozenset[str]] = frozenset({"word_rows", "bag_of_words"})
    pooler: ClassVar[bool] = False
    type_vocab_size: ClassVar[int] = 1
    position_offset: ClassVar[int] = 0
    generator_hidden_size: ClassVar[int] = 0
    activation: ClassVar[Literal["gelu"]] = "gelu"

    vocab_size: int = Field(ge=5)
    """V: pieces, special ones included."""
    word_rows: int = Field(default=0, ge=0)
    """Rows of the word table, those behind the pieces for matrix products of an even size: they are neither predicted nor
    exported. 0 stands for V."""
    orders_sentences: bool = False
    """Whether a head on the first token predicts the order of sentences."""
    word_order_classes: int = Field(default=0, ge=0)
    """C: classes of the word-order head, one per position of a training sequence or per offset; 0 leaves the head out."""
    bag_of_words: bool = False
    """Whether a head on mean vectors predicts masked pieces."""

    @property
    def table_rows(self) -> int:
        """Rows of the word table."""
        return self.word_rows or self.vocab_size

    def shape(self) -> ModernSpec:
        """The architecture alone."""
        return ModernSpec(**self.model_dump(include=set(ModernSpec.model_fields)))

    @property
    def embedding_size(self) -> int:
        """Width of the word table: that of the encoder."""
        return self.hidden_size


def _variant(value: Any) -> str:
    return MODERN if "architecture" in (value if isinstance(value, dict) else type(value).model_fields) else POST_NORM


POST_NORM, MODERN = "post_norm", "modern"
"""The two families of shapes, as validation errors tell them apart."""

AnySpec = Annotated[Annotated[ModelSpec, Tag(POST_NORM)] | Annotated[ModernSpec, Tag(MODERN)], Discriminator(_variant)]
"""What a recipe may say of a model: the shape of ``ModelSpec`` unless it names an ``architecture``."""

AnyConfig = Annotated[Annotated[ModelConfig, Tag(POST_NORM)] | Annotated[ModernConfig, Tag(MODERN)], Discriminator(_variant)]
"""A complete model of either family."""

_CONFIG: TypeAdapter[AnyConfig] = TypeAdapter(AnyConfig)


def even_rows(vocab_size: int) -> int:
    """``word_rows`` of a new modern model for so many pieces."""
    rows = -(-vocab_size // _EVEN_ROWS) * _EVEN_ROWS
    return 0 if rows == vocab_size else rows


def weights_file(directory: Path, snapshot: int | None = None) -> Path:
    """Weights of a directory that the stage `pretrain` wrote: those at the end, or after a step that it kept.

    Raises ValueError where it kept no such step.
    """
    if snapshot is None:
        return directory / "model.safetensors"
    file = directory / "snapshots" / f"step-{snapshot:08d}.safetensors"
    if not file.is_file():
        raise ValueError(f"{directory.name} has no snapshot of step {snapshot:,}; name the step in snapshots of its training")
    return file


THETA = "global_theta"
"""Metadata of a snapshot's file: the base of its global layers' rotary frequencies, where it is not that of ``config.json``."""


def read_config(directory: Path, snapshot: int | None = None) -> AnyConfig:
    """The model of a directory that the stage `pretrain` wrote, or of a snapshot in it, as ``weights_file`` names it.

    Raises pydantic's ValidationError where it is none, ValueError where it kept no such step.
    """
    config = _CONFIG.validate_python(json.loads((directory / "config.json").read_bytes()))
    if snapshot is None:
        return config
    with safe_open(weights_file(directory, snapshot), "np") as file:
        own = (file.metadata() or {}).get(THETA)
    return config if own is None else config.model_copy(update={"global_theta": float(own)})


def encoder_size(directory: Path) -> int:
    """Parameters of the encoder in a directory that the stage `pretrain` wrote: what its export has when it is loaded without
    heads, but for a pooler that is fresh then (RoBERTa). What layers share counts once, rows behind the pieces do not."""
    config = read_config(directory)
    with safe_open(weights_file(directory), "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys() if name.startswith("encoder.")}  # noqa: SIM118
    behind = (config.table_rows - config.vocab_size) * config.embedding_size
    return sum(map(math.prod, shapes.values())) - behind
