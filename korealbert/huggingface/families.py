"""Families of checkpoints: ``config.json`` and tensor names of ALBERT, BERT, RoBERTa and ELECTRA for our models.

ALBERT shares whole layers within groups, always projects its embeddings, and has no dropout after the feed-forward block. BERT
has unshared layers as wide as the embeddings. RoBERTa counts positions from the padding id on, and has one segment type and
no pooler. ELECTRA has BERT's layers, factorised embeddings and no pooler; it is a masked-token model or a discriminator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from korealbert.model.config import AnyConfig, ModelConfig

Array = NDArray[np.float32]


class SpecialIds(NamedTuple):
    """The tokenizer's special ids that ``config.json`` repeats."""

    pad: int
    cls: int
    sep: int


C = TypeVar("C", bound=AnyConfig)


class Family(Protocol[C]):
    """One model type of Hugging Face. ModernBERT's class is in ``modern``."""

    model_type: str
    title: str
    """Its name in prose."""
    architecture: str
    """The class of ``transformers`` whose heads our checkpoints fill."""
    prefix: str
    """Prefix of the encoder's tensors in that class; checkpoints of the bare encoder leave it out."""
    fields: Mapping[str, str]
    """Our fields and the names that ``config.json`` gives them."""

    def expresses(self, config: C) -> bool:
        """Whether the family has models of this shape."""
        ...

    def settings(self, config: C, special: SpecialIds) -> dict[str, Any]:
        """Return ``config.json``. Raises ValueError if the family cannot express ``config``."""
        ...

    def config(self, settings: Mapping[str, Any]) -> C:
        """Return the shape that a ``config.json`` describes. Raises ValueError naming a setting that we do not support."""
        ...

    def names(self, config: C) -> Iterator[tuple[str, str]]:
        """Yield the names of every tensor, ours and theirs. A block that only our model shares occurs several times."""
        ...

    def constants(self, config: C) -> dict[str, Array]:
        """Return tensors that only their model has, with the values that leave its outputs equal to ours."""
        return {}


def unsupported(name: str, value: object, supported: str) -> ValueError:
    """Return the error for a setting of ``config.json`` with which our models cannot compute the same."""
    return ValueError(f"{name} = {value!r}: only {supported} can be read; take another model")


HEADS = ("mlm.", "sop.", "wop.", "bow.", "rtd.")
"""Prefixes of our heads' tensors."""


def _linear(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    yield from ((f"{ours}.{kind}", f"{theirs}.{kind}") for kind in ("weight", "bias"))


def _embeddings(prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the three tables and their LayerNorm, which all families share."""
    for table in ("word", "position", "token_type"):
        yield f"encoder.embeddings.{table}.weight", f"{prefix}embeddings.{table}_embeddings.weight"
    yield from _linear("encoder.embeddings.norm", f"{prefix}embeddings.LayerNorm")


_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_eps": "layer_norm_eps",
    "initializer_range": "initializer_range",
}
"""Our fields and the names that every family gives them."""

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh"}
"""``hidden_act`` and our name for it."""


def _common_settings(family: Family[ModelConfig], config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
    """Return the part of ``config.json`` that all families have."""
    return {
        "model_type": family.model_type,
        "architectures": [family.architecture],
        **{theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()},
        "dtype": "float32",
        "hidden_act": "gelu_new" if config.activation == "gelu_tanh" else "gelu",
        "pad_token_id": special.pad,
        "bos_token_id": special.cls,
        "eos_token_id": special.sep,
        "tie_word_embeddings": True,
    }


def _common_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return our fields from a ``config.json`` that is filled up with the family's defaults."""
    activation, positions = settings["hidden_act"], settings.get("position_embedding_type", "absolute")
    if activation not in _ACTIVATIONS:
        raise unsupported("hidden_act", activation, ", ".join(_ACTIVATIONS))
    if positions != "absolute":
        raise unsupported("position_embedding_type", positions, "absolute positions")
    for name, what in (("is_decoder", "encoders"), ("quantization_config", "unquantised weights")):
        if settings.get(name):
            raise unsupported(name, settings[name], what)
    fields = {ours: settings[theirs] for ours, theirs in _SETTINGS.items()}
    return {**fields, "activation": _ACTIVATIONS[activation]}


_ATTENTION = {"query": "query", "key": "key", "value": "value", "output": "dense", "norm": "LayerNorm"}
_FEED_FORWARD = {"inner": "ffn", "outer": "ffn_output", "norm": "full_layer_layer_norm"}

_BERT_DEFAULTS = {
    "vocab_size": 30_522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
"""Defaults of ``transformers.BertConfig``; a ``config.json`` lists only what differs from them."""

_ROBERTA_DEFAULTS = {**_BERT_DEFAULTS, "vocab_size": 50_265, "pad_token_id": 1}

_ELECTRA_DEFAULTS = {
    **_BERT_DEFAULTS,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}

_ALBERT_DEFAULTS = {
    **_BERT_DEFAULTS,
    "vocab_size": 30_000,
    "embedding_size": 128,
    "hidden_size": 4096,
    "num_hidden_groups": 1,
    "num_attention_heads": 64,
    "intermediate_size": 16_384,
    "inner_group_num": 1,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def exported_groups(config: ModelConfig) -> int:
    """Return the number of layer groups of the exported model.

    Transformers' ALBERT can only share whole layers within groups. A model that shares attention or feed-forward alone is
    therefore exported with one group per layer: exact copies in a larger file. So are the few sizes where their floating-point
    assignment of layers to groups differs from ours (18 layers in 14 groups is the smallest).
    """
    layers, groups = config.num_layers, config.num_groups
    if config.share == "all" and _groups_of(layers, groups) == [config.group_of(layer) for layer in range(layers)]:
        return groups
    return layers


def _groups_of(layers: int, groups: int) -> list[int]:
    return [int(layer / (layers / groups)) for layer in range(layers)]


_PROJECTION = "albert.encoder.embedding_hidden_mapping_in"


class Albert(Family[ModelConfig]):
    """``model_type`` "albert"."""

    model_type = "albert"
    title = "ALBERT"
    architecture = "AlbertForPreTraining"
    prefix = "albert."
    fields: Mapping[str, str] = {**_SETTINGS, "num_groups": "num_hidden_groups"}

    def expresses(self, config: ModelConfig) -> bool:
        """A pooler, positions from 0, and any sharing, since copies of a shared block compute the same.

        Shapes with the exact GELU that BERT can express too are left to BERT.
        """
        not_bert = config.activation == "gelu_tanh" or config.embedding_size != config.hidden_size or not config.ffn_dropout
        return not_bert and config.pooler and not config.position_offset

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """Return ``config.json``."""
        return {
            **_common_settings(self, config, special),
            "embedding_size": config.embedding_size,
            "num_hidden_groups": exported_groups(config),
            "inner_group_num": 1,
            "classifier_dropout_prob": 0.1,
        }

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Layers share by groups, or not at all if there are as many groups as layers."""
        settings = {**_ALBERT_DEFAULTS, **settings}
        layers, groups, inner = (settings[name] for name in ("num_hidden_layers", "num_hidden_groups", "inner_group_num"))
        if inner != 1:
            raise unsupported("inner_group_num", inner, "groups of one layer")
        shared = {"share": "none"} if groups == layers > 1 else {"share": "all", "num_groups": groups}
        fields = _common_fields(settings)
        config = ModelConfig(**fields, **shared, embedding_size=settings["embedding_size"], ffn_dropout=False)
        if config.share == "all" and exported_groups(config) != groups:
            raise unsupported("num_hidden_groups", groups, f"groups into which {layers} layers fall without rounding")
        return config

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """Tensors of ``AlbertForPreTraining``; without the projection if embeddings are as wide as the layers."""
        yield from _embeddings(self.prefix)
        if config.embedding_size != config.hidden_size:
            yield from _linear("encoder.projection", _PROJECTION)
        groups, layers = exported_groups(config), config.num_layers
        for group in range(groups):
            layer = group if groups == layers else _groups_of(layers, groups).index(group)
            attention, ffn = config.blocks_of(layer)
            theirs = f"{self.prefix}encoder.albert_layer_groups.{group}.albert_layers.0"
            for name, their_name in _ATTENTION.items():
                yield from _linear(f"encoder.attention.{attention}.{name}", f"{theirs}.attention.{their_name}")
            for name, their_name in _FEED_FORWARD.items():
                yield from _linear(f"encoder.ffn.{ffn}.{name}", f"{theirs}.{their_name}")
        yield from _linear("encoder.pooler", f"{self.prefix}pooler")
        yield from _linear("mlm.dense", "predictions.dense")
        yield from _linear("mlm.norm", "predictions.LayerNorm")
        yield "mlm.bias", "predictions.bias"
        yield from _linear("sop", "sop_classifier.classifier")

    def constants(self, config: ModelConfig) -> dict[str, Array]:
        """An identity as projection of the embeddings if our model has none; theirs always has one."""
        size = config.hidden_size
        if config.embedding_size != size:
            return {}
        return {
            f"{_PROJECTION}.weight": np.eye(size, dtype=np.float32),
            f"{_PROJECTION}.bias": np.zeros(size, dtype=np.float32),
        }


_LAYER = {
    "attention.{}.query": "attention.self.query",
    "attention.{}.key": "attention.self.key",
    "attention.{}.value": "attention.self.value",
    "attention.{}.output": "attention.output.dense",
    "attention.{}.norm": "attention.output.LayerNorm",
    "ffn.{}.inner": "intermediate.dense",
    "ffn.{}.outer": "output.dense",
    "ffn.{}.norm": "output.LayerNorm",
}
"""Modules of a layer, ours and theirs."""


def _layers(config: ModelConfig, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the names of every tensor of unshared layers; our shared blocks occur several times."""
    for layer in range(config.num_layers):
        for ours, theirs in _LAYER.items():
            block = config.blocks_of(layer)[0 if ours.startswith("attention") else 1]
            yield from _linear(f"encoder.{ours.format(block)}", f"{prefix}encoder.layer.{layer}.{theirs}")


def _plain(config: ModelConfig) -> bool:
    return config.embedding_size == config.hidden_size and config.ffn_dropout and not config.generator_hidden_size


class Bert(Family[ModelConfig]):
    """``model_type`` "bert"."""

    model_type = "bert"
    title = "BERT"
    architecture = "BertForPreTraining"
    prefix = "bert."
    fields = _SETTINGS

    def expresses(self, config: ModelConfig) -> bool:
        """Embeddings as wide as the layers, a pooler, positions from 0."""
        return _plain(config) and config.pooler and not config.position_offset

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """Return ``config.json``."""
        return _common_settings(self, config, special)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Unshared layers."""
        fields = _common_fields({**_BERT_DEFAULTS, **settings})
        return ModelConfig(**fields, embedding_size=fields["hidden_size"], share="none")

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """Tensors of ``BertForPreTraining``. Class 1 of its sentence head is "not the next", of ours "swapped"."""
        yield from _embeddings(self.prefix)
        yield from _layers(config, self.prefix)
        yield from _linear("encoder.pooler", f"{self.prefix}pooler.dense")
        yield from _linear("mlm.dense", "cls.predictions.transform.dense")
        yield from _linear("mlm.norm", "cls.predictions.transform.LayerNorm")
        yield "mlm.bias", "cls.predictions.bias"
        yield from _linear("sop", "cls.seq_relationship")


class Roberta(Family[ModelConfig]):
    """``model_type`` "roberta"."""

    model_type = "roberta"
    title = "RoBERTa"
    architecture = "RobertaForMaskedLM"
    prefix = "roberta."
    fields: Mapping[str, str] = {**_SETTINGS, "position_offset": "pad_token_id + 1"}

    def expresses(self, config: ModelConfig) -> bool:
        """Embeddings as wide as the layers, no pooler, and a position offset."""
        return _plain(config) and not config.pooler and config.position_offset > 0

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """Return ``config.json``. Raises ValueError unless positions begin directly after the padding id."""
        if config.position_offset != special.pad + 1:
            raise ValueError(
                f"position_offset = {config.position_offset}: RoBERTa counts positions from pad + 1 = {special.pad + 1}; "
                "train with this offset"
            )
        return _common_settings(self, config, special)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Unshared layers, no pooler; the unused first rows of the position table are kept."""
        settings = {**_ROBERTA_DEFAULTS, **settings}
        fields = _common_fields(settings)
        pad = settings["pad_token_id"]
        if not isinstance(pad, int) or pad < 0:
            raise ValueError(f"pad_token_id = {pad!r}: RoBERTa counts its positions from this id; give the tokenizer's")
        size = fields["hidden_size"]
        return ModelConfig(**fields, embedding_size=size, share="none", position_offset=pad + 1, pooler=False)

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """Tensors of ``RobertaForMaskedLM``."""
        yield from _embeddings(self.prefix)
        yield from _layers(config, self.prefix)
        yield from _linear("mlm.dense", "lm_head.dense")
        yield from _linear("mlm.norm", "lm_head.layer_norm")
        yield "mlm.bias", "lm_head.bias"


class Electra(Family[ModelConfig]):
    """``model_type`` "electra". A discriminator is read without its head."""

    model_type = "electra"
    title = "ELECTRA"
    architecture = "ElectraForMaskedLM"
    prefix = "electra."
    fields = _SETTINGS

    def expresses(self, config: ModelConfig) -> bool:
        """No pooler, positions from 0, and the exact GELU, which ELECTRA's masked-token head always has."""
        return config.activation == "gelu" and config.ffn_dropout and not config.pooler and not config.position_offset

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """Return ``config.json``."""
        return {**_common_settings(self, config, special), "embedding_size": config.embedding_size}

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Unshared layers, no pooler."""
        settings = {**_ELECTRA_DEFAULTS, **settings}
        fields = _common_fields(settings)
        if fields["activation"] != "gelu" and self.architecture in settings.get("architectures", ()):
            raise unsupported("hidden_act", settings["hidden_act"], "'gelu' in an ELECTRA with a masked-token head")
        return ModelConfig(**fields, embedding_size=settings["embedding_size"], share="none", pooler=False)

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """Tensors of ``architecture``."""
        yield from _embeddings(self.prefix)
        if config.embedding_size != config.hidden_size:
            yield from _linear("encoder.projection", f"{self.prefix}embeddings_project")
        yield from _layers(config, self.prefix)
        yield from self.head()

    def head(self) -> Iterator[tuple[str, str]]:
        """Tensors of the head."""
        yield from _linear("mlm.dense", "generator_predictions.dense")
        yield from _linear("mlm.norm", "generator_predictions.LayerNorm")
        yield "mlm.bias", "generator_lm_head.bias"


class ElectraDiscriminator(Electra):
    """The model that replaced-token detection trains; its generator is not exported."""

    architecture = "ElectraForPreTraining"

    def expresses(self, config: ModelConfig) -> bool:
        """No pooler, positions from 0. Shared blocks are written several times."""
        return config.ffn_dropout and not config.pooler and not config.position_offset

    def head(self) -> Iterator[tuple[str, str]]:
        """Tensors of the head."""
        yield from _linear("rtd.dense", "discriminator_predictions.dense")
        yield from _linear("rtd.output", "discriminator_predictions.dense_prediction")
