"""The shape of an encoder: what a recipe says of it, and what a checkpoint stores of it.

The fields span ALBERT, BERT (no sharing, E = H, exact GELU) and RoBERTa (besides: two rows before the first position, one
segment type, no pooler).
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from korealbert.artifact import Spec

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
    """A complete model: the architecture and the two sizes that the data decide. Stored as ``config.json``."""

    vocab_size: int = Field(ge=5)
    """V: rows of the word table, special pieces included."""
    word_order_classes: int = Field(default=0, ge=0)
    """C: classes of the word-order head, one per position of a training sequence; 0 leaves the head out."""
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
