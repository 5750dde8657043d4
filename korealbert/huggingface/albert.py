"""ALBERT: whole layers shared within groups, embeddings that are always projected, no dropout after the feed-forward block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from korealbert.huggingface.family import Array, SpecialIds, common_fields, common_settings, embeddings, linear
from korealbert.model.config import ModelConfig

_ATTENTION = {"query": "query", "key": "key", "value": "value", "output": "dense", "norm": "LayerNorm"}
_FEED_FORWARD = {"inner": "ffn", "outer": "ffn_output", "norm": "full_layer_layer_norm"}

_DEFAULTS = {
    "vocab_size": 30_000,
    "embedding_size": 128,
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "num_attention_heads": 64,
    "intermediate_size": 16_384,
    "inner_group_num": 1,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
}
"""Of ``transformers.AlbertConfig``; a ``config.json`` lists only what differs."""


def exported_groups(config: ModelConfig) -> int:
    """Layer groups of the exported model.

    Their ALBERT shares whole layers within groups and nothing less, so a model that shares attention or feed-forward alone is
    written out with one group per layer: exact copies, larger file. The same goes for the few sizes where their floating-point
    assignment of layers to groups differs from ours (18 layers in 14 groups is the smallest).
    """
    layers, groups = config.num_layers, config.num_groups
    if config.share == "all" and _groups_of(layers, groups) == [config.group_of(layer) for layer in range(layers)]:
        return groups
    return layers


def _groups_of(layers: int, groups: int) -> list[int]:
    return [int(layer / (layers / groups)) for layer in range(layers)]


_PROJECTION = "albert.encoder.embedding_hidden_mapping_in"


class Albert:
    """``model_type`` "albert"."""

    model_type = "albert"
    title = "ALBERT"
    architecture = "AlbertForPreTraining"
    prefix = "albert."

    def expresses(self, config: ModelConfig) -> bool:
        """With a pooler and positions from 0; any sharing, since unshared copies of a shared block are exact.

        What BERT says as well is left to it where the activation is exact, as BERT's own is.
        """
        its_own = config.activation == "gelu_tanh" or config.embedding_size != config.hidden_size or not config.ffn_dropout
        return its_own and config.pooler and not config.position_offset

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """``config.json``."""
        return {
            **common_settings(self, config, special),
            "embedding_size": config.embedding_size,
            "num_hidden_groups": exported_groups(config),
            "inner_group_num": 1,
            "classifier_dropout_prob": 0.1,
        }

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Sharing by groups, or none where there are as many groups as layers."""
        settings = {**_DEFAULTS, **settings}
        layers, groups, inner = (settings[name] for name in ("num_hidden_layers", "num_hidden_groups", "inner_group_num"))
        if inner != 1:
            raise ValueError(f"inner_group_num = {inner}: only groups of one layer can be read")
        shared = {"share": "none"} if groups == layers > 1 else {"share": "all", "num_groups": groups}
        fields = common_fields(settings, _DEFAULTS)
        config = ModelConfig(**fields, **shared, embedding_size=settings["embedding_size"], ffn_dropout=False)
        if config.share == "all" and exported_groups(config) != groups:
            raise ValueError(
                f"num_hidden_groups = {groups}: {layers} layers fall into these groups by rounding; cannot be read"
            )
        return config

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """All tensors of ``AlbertForPreTraining`` but the projection of a model whose embeddings are as wide as its layers."""
        yield from embeddings(self.prefix)
        if config.embedding_size != config.hidden_size:
            yield from linear("encoder.projection", _PROJECTION)
        groups, layers = exported_groups(config), config.num_layers
        for group in range(groups):
            layer = group if groups == layers else _groups_of(layers, groups).index(group)
            attention, ffn = config.blocks_of(layer)
            theirs = f"{self.prefix}encoder.albert_layer_groups.{group}.albert_layers.0"
            for name, their_name in _ATTENTION.items():
                yield from linear(f"encoder.attention.{attention}.{name}", f"{theirs}.attention.{their_name}")
            for name, their_name in _FEED_FORWARD.items():
                yield from linear(f"encoder.ffn.{ffn}.{name}", f"{theirs}.{their_name}")
        yield from linear("encoder.pooler", f"{self.prefix}pooler")
        yield from linear("mlm.dense", "predictions.dense")
        yield from linear("mlm.norm", "predictions.LayerNorm")
        yield "mlm.bias", "predictions.bias"
        yield from linear("sop", "sop_classifier.classifier")

    def constants(self, config: ModelConfig) -> dict[str, Array]:
        """Theirs always projects the embeddings; where ours does not, an identity stands for it."""
        size = config.hidden_size
        if config.embedding_size != size:
            return {}
        return {
            f"{_PROJECTION}.weight": np.eye(size, dtype=np.float32),
            f"{_PROJECTION}.bias": np.zeros(size, dtype=np.float32),
        }
