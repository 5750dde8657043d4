"""What a family of checkpoints is: how its ``config.json`` and its tensors spell a model of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from korealbert.model.config import AnyConfig, ModelConfig

Array = NDArray[np.float32]


class SpecialIds(NamedTuple):
    """Ids that ``config.json`` repeats from the tokenizer."""

    pad: int
    cls: int
    sep: int


C = TypeVar("C", bound=AnyConfig)


class Family(Protocol[C]):
    """One model type of Hugging Face. Implemented by the modules ``albert``, ``bert``, ``electra`` and ``modern``."""

    model_type: str
    title: str
    """Its name in prose."""
    architecture: str
    """The class with all heads that a checkpoint of ours fills."""
    prefix: str
    """What the encoder's tensors begin with in that class; a checkpoint of the bare encoder leaves it out."""

    def expresses(self, config: C) -> bool:
        """Whether a model of this shape is one of the family."""
        ...

    def settings(self, config: C, special: SpecialIds) -> dict[str, Any]:
        """``config.json``. Raises ValueError where the family cannot say what ``config`` says."""
        ...

    def config(self, settings: Mapping[str, Any]) -> C:
        """The shape that a ``config.json`` describes. Raises ValueError naming the setting that ours has no counterpart for."""
        ...

    def names(self, config: C) -> Iterator[tuple[str, str]]:
        """Every tensor, ours → theirs. One of ours may occur several times: a block that only our model shares."""
        ...

    def constants(self, config: C) -> dict[str, Array]:
        """Tensors of theirs that ours has no counterpart for, with the only values that mean the same."""
        ...


HEADS = ("mlm.", "sop.", "wop.", "rtd.")
"""What our heads' tensors begin with."""


def linear(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    """Weight and bias of one module."""
    yield from ((f"{ours}.{kind}", f"{theirs}.{kind}") for kind in ("weight", "bias"))


def embeddings(prefix: str) -> Iterator[tuple[str, str]]:
    """The three tables and their LayerNorm, which all families spell alike."""
    for table in ("word", "position", "token_type"):
        yield f"encoder.embeddings.{table}.weight", f"{prefix}embeddings.{table}_embeddings.weight"
    yield from linear("encoder.embeddings.norm", f"{prefix}embeddings.LayerNorm")


COMMON_SETTINGS = {
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
"""Fields of ours by the names that every family gives them."""

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh"}
"""``hidden_act`` → ours."""


def common_settings(family: Family[ModelConfig], config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
    """The part of ``config.json`` that all families have."""
    return {
        "model_type": family.model_type,
        "architectures": [family.architecture],
        **{theirs: getattr(config, ours) for ours, theirs in COMMON_SETTINGS.items()},
        "dtype": "float32",
        "hidden_act": "gelu_new" if config.activation == "gelu_tanh" else "gelu",
        "pad_token_id": special.pad,
        "bos_token_id": special.cls,
        "eos_token_id": special.sep,
        "tie_word_embeddings": True,
    }


def common_fields(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Our fields from a ``config.json``; a setting that it leaves out has the family's default."""
    settings = {**defaults, **settings}
    activation, positions = settings["hidden_act"], settings.get("position_embedding_type", "absolute")
    if activation not in _ACTIVATIONS:
        raise ValueError(f"hidden_act = {activation!r}: only {', '.join(_ACTIVATIONS)} can be read")
    if positions != "absolute":
        raise ValueError(f"position_embedding_type = {positions!r}: only absolute positions can be read")
    for name, what in (("is_decoder", "encoders"), ("quantization_config", "unquantised weights")):
        if settings.get(name):
            raise ValueError(f"{name} = {settings[name]!r}: only {what} can be read")
    return {
        **{ours: settings[theirs] for ours, theirs in COMMON_SETTINGS.items()},
        "activation": _ACTIVATIONS[activation],
    }
