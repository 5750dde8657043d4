"""Our weights under the names of Hugging Face's ALBERT, and the configuration that goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korealbert.model.config import AlbertConfig

Array = NDArray[np.float32]

NAMES = {
    "encoder.embeddings.word": "albert.embeddings.word_embeddings",
    "encoder.embeddings.position": "albert.embeddings.position_embeddings",
    "encoder.embeddings.token_type": "albert.embeddings.token_type_embeddings",
    "encoder.embeddings.norm": "albert.embeddings.LayerNorm",
    "encoder.projection": "albert.encoder.embedding_hidden_mapping_in",
    "encoder.pooler": "albert.pooler",
    "mlm": "predictions",
    "mlm.dense": "predictions.dense",
    "mlm.norm": "predictions.LayerNorm",
    "sop": "sop_classifier.classifier",
}
"""Modules outside the layers, ours to theirs."""

ATTENTION_NAMES = {"query": "query", "key": "key", "value": "value", "output": "dense", "norm": "LayerNorm"}
FFN_NAMES = {"inner": "ffn", "outer": "ffn_output", "norm": "full_layer_layer_norm"}

MAPPING_IN = "albert.encoder.embedding_hidden_mapping_in"


def exported_groups(config: AlbertConfig) -> int:
    """Layer groups of the exported model.

    Their ALBERT shares whole layers within groups and nothing less, so a model that shares attention or feed-forward alone is
    written out with one group per layer: exact copies, larger file. The same goes for the few sizes where their floating-point
    assignment of layers to groups differs from ours (18 layers in 14 groups is the smallest).
    """
    layers, groups = config.num_layers, config.num_groups
    theirs = [int(layer / (layers / groups)) for layer in range(layers)]
    if config.share == "all" and theirs == [config.group_of(layer) for layer in range(layers)]:
        return groups
    return layers


def to_huggingface(config: AlbertConfig, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of ``AlbertForPreTraining`` from those of our pre-training model; the word-order head is left out.

    Raises ValueError for a tensor that has no place there.
    """
    renamed: dict[str, Array] = {}
    for name, array in weights.items():
        module, _, kind = name.rpartition(".")
        if module in NAMES:
            renamed[f"{NAMES[module]}.{kind}"] = array
        elif not name.startswith(("encoder.attention.", "encoder.ffn.", "wop.")):
            raise ValueError(f"model.safetensors: tensor {name!r} has no name in Hugging Face's ALBERT")
    if config.embedding_size == config.hidden_size:  # Theirs always projects; ours does not where there is nothing to do.
        renamed[f"{MAPPING_IN}.weight"] = np.eye(config.hidden_size, dtype=np.float32)
        renamed[f"{MAPPING_IN}.bias"] = np.zeros(config.hidden_size, dtype=np.float32)
    for group in range(exported_groups(config)):
        renamed |= _layer(config, weights, group)
    return renamed


def _layer(config: AlbertConfig, weights: Mapping[str, Array], group: int) -> dict[str, Array]:
    """One group's layer; where groups are layers, the blocks that this layer uses."""
    expanded = exported_groups(config) != config.num_groups
    index = config.group_of(group) if expanded else group
    attention = index if config.share in {"all", "attention"} else group
    ffn = index if config.share in {"all", "ffn"} else group
    target = f"albert.encoder.albert_layer_groups.{group}.albert_layers.0"
    layer = {}
    for kind in ("weight", "bias"):
        for ours, theirs in ATTENTION_NAMES.items():
            layer[f"{target}.attention.{theirs}.{kind}"] = weights[f"encoder.attention.{attention}.{ours}.{kind}"]
        for ours, theirs in FFN_NAMES.items():
            layer[f"{target}.{theirs}.{kind}"] = weights[f"encoder.ffn.{ffn}.{ours}.{kind}"]
    return layer


def huggingface_config(config: AlbertConfig) -> dict[str, Any]:
    """``config.json`` of the exported model."""
    return {
        "model_type": "albert",
        "architectures": ["AlbertForPreTraining"],
        "dtype": "float32",
        "vocab_size": config.vocab_size,
        "embedding_size": config.embedding_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_hidden_groups": exported_groups(config),
        "inner_group_num": 1,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": config.hidden_dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout_prob": 0.1,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.type_vocab_size,
        "initializer_range": config.initializer_range,
        "layer_norm_eps": config.layer_norm_eps,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "tie_word_embeddings": True,
    }
