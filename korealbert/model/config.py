"""The shape of an encoder, in a recipe (``ModelSpec``, ``ModernSpec``) and as stored with its weights (``…Config``).

``ModelSpec`` covers ALBERT, BERT (no sharing, E = H, exact GELU) and RoBERTa (in addition two unused position rows, one segment
type, no pooler); ``ModernSpec`` covers ModernBERT.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter, ValidationInfo, model_validator
from safetensors import safe_open

from korealbert.artifact import Spec

_EVEN_ROWS = 64
"""The word table of a modern model has a multiple of this many rows; with others, GPUs multiply at about half the speed."""

_HIDDEN_SIZE = 768

_HEAD_SIZE = 64
"""Width of an attention head if a spec gives no number of heads (ALBERT, section 3: H/64 heads, feed-forward 4H)."""


def _derived(from_hidden_size: Callable[[int], int]) -> AfterValidator:
    """Replace 0 by a size that follows from the hidden size, so that a written default and an omitted one give the same
    identity. An invalid hidden size is an error of its own."""

    def fill_in(size: int, info: ValidationInfo) -> int:
        return size or from_hidden_size(info.data.get("hidden_size", _HIDDEN_SIZE))

    return AfterValidator(fill_in)


_Heads = Annotated[int, _derived(lambda hidden: max(1, hidden // _HEAD_SIZE))]


class ModelSpec(Spec):
    """The architecture in a recipe; the defaults are ALBERT-base."""

    embedding_size: int = Field(default=128, ge=1)
    """E: width of the embeddings; they are factorised if it is below the hidden size."""
    hidden_size: int = Field(default=_HIDDEN_SIZE, ge=1)
    """H: width of the encoder. If it equals E, there is no projection between them."""
    num_layers: int = Field(default=12, ge=1)
    """Number of layers, which may share parameters."""
    num_heads: _Heads = Field(default=0, ge=0, validate_default=True)
    """Attention heads; 0 means hidden_size / 64."""
    intermediate_size: Annotated[int, _derived(lambda hidden: 4 * hidden)] = Field(default=0, ge=0, validate_default=True)
    """Inner width of the feed-forward block; 0 means 4 × hidden_size."""
    share: Literal["all", "attention", "ffn", "none"] = "all"
    """Which parameters the layers share: all, those of attention (Q, K, V, O and their LayerNorm), those of the feed-forward
    block (both matrices and their LayerNorm), or none (ALBERT, table 4)."""
    num_groups: int = Field(default=1, ge=1)
    """Layers share parameters within groups of consecutive layers; layer l is in group ⌊l · groups / layers⌋."""
    edge_layers: int = Field(default=0, ge=0)
    """Layers at either end that share with no other: the implicit translation layers of cross-lingual post-training."""
    max_positions: int = Field(default=512, ge=4)
    """Rows of the position table. Pretraining on length n leaves rows n and above untrained."""
    position_offset: int = Field(default=0, ge=0)
    """Row of the first token; RoBERTa starts at 2 and has 514 rows for 512 positions."""
    type_vocab_size: int = Field(default=2, ge=1)
    """Segment types; with one, only the separator distinguishes the sentences of a pair (RoBERTa)."""
    pooler: bool = True
    """Apply a dense layer with tanh to the first token, for the sentence-order head; RoBERTa has none."""
    activation: Literal["gelu_tanh", "gelu"] = "gelu_tanh"
    """GELU, as its tanh approximation (ALBERT) or exact (BERT, RoBERTa)."""
    hidden_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout after the embeddings and after each block: 0.1 in KoreALBERT, 0 in ALBERT v2."""
    attention_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout on attention probabilities."""
    ffn_dropout: bool = True
    """Apply dropout after the feed-forward block, as in the papers; Hugging Face's ALBERT declares it but never applies it."""
    layer_norm_eps: float = Field(default=1e-12, gt=0)
    """Added to the variance in every LayerNorm."""
    initializer_range: float = Field(default=0.02, gt=0)
    """Standard deviation σ of the initial matrices, drawn from a normal distribution cut at ± 2 σ."""

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
        """Largest number of tokens in a sequence."""
        return self.max_positions - self.position_offset

    @property
    def orders_sentences(self) -> bool:
        """Whether the pretraining model has a sentence-order head, which needs the pooled first token."""
        return self.pooler

    @property
    def inner_layers(self) -> int:
        """Number of layers without edge layers."""
        return self.num_layers - 2 * self.edge_layers

    def group_of(self, layer: int) -> int:
        """Return the group of a layer, numbered in the order of the layers; each edge layer is a group of its own."""
        edge, inner = self.edge_layers, self.inner_layers
        if layer < edge:
            return layer
        if layer >= edge + inner:
            return layer - inner + self.num_groups
        return edge + (layer - edge) * self.num_groups // inner

    def blocks_of(self, layer: int) -> tuple[int, int]:
        """Return the numbers of the attention block and the feed-forward block of a layer."""
        group = self.group_of(layer)
        return group if self.share in {"all", "attention"} else layer, group if self.share in {"all", "ffn"} else layer

    @property
    def sharing(self) -> str:
        """How layers share, for a sentence: ``Sharing `all` with 1 group(s)``."""
        edge = self.edge_layers
        between = f" between {edge} layer{'s' * (edge > 1)} at either end that share with no other" if edge else ""
        return f"Sharing `{self.share}` with {self.num_groups} group(s){between}"

    @property
    def attention_blocks(self) -> int:
        """Number of distinct attention blocks."""
        return 2 * self.edge_layers + (self.num_groups if self.share in {"all", "attention"} else self.inner_layers)

    @property
    def ffn_blocks(self) -> int:
        """Number of distinct feed-forward blocks."""
        return 2 * self.edge_layers + (self.num_groups if self.share in {"all", "ffn"} else self.inner_layers)


class ModelConfig(ModelSpec):
    """A complete model: the architecture with the settings that follow from data and objective. Stored as ``config.json``."""

    later: ClassVar[frozenset[str]] = ModelSpec.later | {"bag_of_words"}

    vocab_size: int = Field(ge=5)
    """V: pieces, special ones included."""
    word_order_classes: int = Field(default=0, ge=0)
    """C: classes of the word-order head, one per position of a training sequence or per offset; 0 means no such head."""
    bag_of_words: bool = False
    """Predict masked pieces by a head on mean vectors."""
    generator_hidden_size: int = Field(default=0, ge=0)
    """Width of the generator that this discriminator is trained with (ELECTRA); 0 means none."""

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
        """Return the generator, which is narrower, with heads of the same width and the embeddings of the discriminator."""
        size = self.generator_hidden_size
        narrower = {
            "hidden_size": size,
            "num_heads": size // self.head_width,
            "intermediate_size": 4 * size,
            "generator_hidden_size": 0,
        }
        return ModelConfig(**{**self.model_dump(), **narrower})


class ModernSpec(Spec):
    """The architecture in a recipe; the defaults are ModernBERT-base (Warner et al. 2024)."""

    architecture: Literal["modern"]
    """``modern``: pre-norm, rotary positions, gated feed-forward, local attention between global layers."""
    hidden_size: int = Field(default=_HIDDEN_SIZE, ge=1)
    """H: width of the encoder and of the word table."""
    num_layers: int = Field(default=22, ge=1)
    """Number of layers, which share no parameters."""
    num_heads: _Heads = Field(default=0, ge=0, validate_default=True)
    """Attention heads; 0 means hidden_size / 64."""
    intermediate_size: Annotated[int, _derived(lambda hidden: 3 * hidden // 2)] = Field(default=0, ge=0, validate_default=True)
    """Inner width of the gated feed-forward block (half the rows of its first matrix); 0 means 3/2 × hidden_size."""
    global_every: int = Field(default=3, ge=1)
    """Layers 0, n, 2n, … attend to the whole sequence, the others to their neighbourhood (``local_attention``)."""
    local_attention: int = Field(default=128, ge=2, multiple_of=2)
    """Tokens that a token of a local layer attends to, half of them on each side."""
    global_theta: float = Field(default=160_000.0, ge=1)
    """Base of the rotary frequencies in global layers; 10,000 suits sequences up to 1,024 tokens."""
    local_theta: float = Field(default=10_000.0, ge=1)
    """The same in local layers."""
    max_positions: int = Field(default=8192, ge=4)
    """Longest sequence that the exported model declares; no table depends on it."""
    embedding_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout after the embeddings."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on attention probabilities and after the attention block."""
    mlp_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout within the feed-forward block."""
    layer_norm_eps: float = Field(default=1e-5, gt=0)
    """Added to the variance in every LayerNorm."""
    initializer_range: float = Field(default=0.02, ge=0)
    """Standard deviation σ of the initial matrices, cut at ± 2 σ; 0 means 1 / √(inputs of the matrix). It is divided by
    √(2 · num_layers) for matrices that write into the residual stream, and for that of the masked-token head."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"num_heads = {self.num_heads} does not divide hidden_size = {self.hidden_size} into heads of even width, "
                "which rotary positions need; choose a number of heads that does"
            )
        return self

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def longest_sequence(self) -> int:
        """Largest number of tokens in a sequence."""
        return self.max_positions

    def is_global(self, layer: int) -> bool:
        """Return whether a layer (from 0) attends to the whole sequence."""
        return layer % self.global_every == 0


class ModernConfig(ModernSpec):
    """A complete modern encoder, as ``ModelConfig``. Stored as ``config.json``."""

    later: ClassVar[frozenset[str]] = frozenset({"word_rows", "bag_of_words"})
    pooler: ClassVar[bool] = False
    type_vocab_size: ClassVar[int] = 1
    position_offset: ClassVar[int] = 0
    generator_hidden_size: ClassVar[int] = 0
    activation: ClassVar[Literal["gelu"]] = "gelu"

    vocab_size: int = Field(ge=5)
    """V: pieces, special ones included."""
    word_rows: int = Field(default=0, ge=0)
    """Rows of the word table; 0 means V. Rows after the pieces make matrix products faster, and are neither predicted nor
    exported."""
    orders_sentences: bool = False
    """Predict sentence order by a head on the first token."""
    word_order_classes: int = Field(default=0, ge=0)
    """C: classes of the word-order head, one per position of a training sequence or per offset; 0 means no such head."""
    bag_of_words: bool = False
    """Predict masked pieces by a head on mean vectors."""

    @property
    def table_rows(self) -> int:
        """Rows of the word table."""
        return self.word_rows or self.vocab_size

    def shape(self) -> ModernSpec:
        """The architecture alone."""
        return ModernSpec(**self.model_dump(include=set(ModernSpec.model_fields)))

    @property
    def embedding_size(self) -> int:
        """Width of the word table, which is that of the encoder."""
        return self.hidden_size


def _variant(value: Any) -> str:
    fields = value if isinstance(value, dict) else getattr(type(value), "model_fields", ())
    return MODERN if "architecture" in fields else POST_NORM


POST_NORM, MODERN = "post_norm", "modern"
"""Tags of the two families, which appear in the location of validation errors."""

AnySpec = Annotated[Annotated[ModelSpec, Tag(POST_NORM)] | Annotated[ModernSpec, Tag(MODERN)], Discriminator(_variant)]
"""The table of a model in a recipe: ``ModelSpec`` unless it has an ``architecture``."""

AnyConfig = Annotated[Annotated[ModelConfig, Tag(POST_NORM)] | Annotated[ModernConfig, Tag(MODERN)], Discriminator(_variant)]
"""A complete model of either family."""

_CONFIG: TypeAdapter[AnyConfig] = TypeAdapter(AnyConfig)


def even_rows(vocab_size: int) -> int:
    """Return ``word_rows`` of a new modern model."""
    rows = -(-vocab_size // _EVEN_ROWS) * _EVEN_ROWS
    return 0 if rows == vocab_size else rows


def weights_file(directory: Path, snapshot: int | None = None) -> Path:
    """Return the file of the final weights, or of a snapshot, in a directory of stage `pretrain`.

    Raises ValueError if there is no such snapshot.
    """
    if snapshot is None:
        return directory / "model.safetensors"
    file = directory / "snapshots" / f"step-{snapshot:08d}.safetensors"
    if not file.is_file():
        raise ValueError(f"{directory.name} has no snapshot of step {snapshot:,}; name the step in snapshots of its training")
    return file


THETA = "global_theta"
"""Metadata key in a snapshot: the rotary base of its global layers, if it is not that of ``config.json``."""


def read_config(directory: Path, snapshot: int | None = None) -> AnyConfig:
    """Return the final model, or that of a snapshot, in a directory of stage `pretrain`.

    Raises pydantic's ValidationError for an invalid ``config.json``, ValueError if there is no such snapshot.
    """
    config = _CONFIG.validate_python(json.loads((directory / "config.json").read_bytes()))
    if snapshot is None:
        return config
    with safe_open(weights_file(directory, snapshot), "np") as file:
        own = (file.metadata() or {}).get(THETA)
    return config if own is None else config.model_copy(update={"global_theta": float(own)})


def encoder_size(directory: Path) -> int:
    """Return the number of parameters of the encoder in a directory of stage `pretrain`, as its export has without heads,
    except for a random pooler (RoBERTa). Shared parameters count once, table rows after the pieces do not."""
    config = read_config(directory)
    with safe_open(weights_file(directory), "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys() if name.startswith("encoder.")}  # noqa: SIM118
    behind = (config.table_rows - config.vocab_size) * config.embedding_size
    return sum(map(math.prod, shapes.values())) - behind
