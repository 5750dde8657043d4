"""Our weights under the names of Hugging Face's ALBERT, and the configuration that goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korealbert.model.config import AlbertConfig
from korealbert.vocab.tokenizer import SPECIAL

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
    """Tensors of ``AlbertForPreTraining`` from those of our pretraining model; the word-order head is left out.

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
        projection = NAMES["encoder.projection"]
        renamed[f"{projection}.weight"] = np.eye(config.hidden_size, dtype=np.float32)
        renamed[f"{projection}.bias"] = np.zeros(config.hidden_size, dtype=np.float32)
    groups, layers = exported_groups(config), range(config.num_layers)
    for group in range(groups):
        layer = group if groups == len(layers) else next(layer for layer in layers if config.group_of(layer) == group)
        renamed |= _group(config, weights, group, layer)
    return renamed


def _group(config: AlbertConfig, weights: Mapping[str, Array], group: int, first: int) -> dict[str, Array]:
    """The tensors of an exported group: those of the blocks that its first layer uses."""
    attention, ffn = config.blocks_of(first)
    target = f"albert.encoder.albert_layer_groups.{group}.albert_layers.0"
    renamed = {}
    for kind in ("weight", "bias"):
        for ours, theirs in ATTENTION_NAMES.items():
            renamed[f"{target}.attention.{theirs}.{kind}"] = weights[f"encoder.attention.{attention}.{ours}.{kind}"]
        for ours, theirs in FFN_NAMES.items():
            renamed[f"{target}.{theirs}.{kind}"] = weights[f"encoder.ffn.{ffn}.{ours}.{kind}"]
    return renamed


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
        "pad_token_id": SPECIAL.pad,
        "bos_token_id": SPECIAL.cls,
        "eos_token_id": SPECIAL.sep,
        "tie_word_embeddings": True,
    }
