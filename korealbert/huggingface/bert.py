"""BERT and RoBERTa: unshared layers as wide as the embeddings.

RoBERTa counts positions from behind the padding id, and has one segment type and no pooler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from korealbert.huggingface.family import Array, SpecialIds, common_fields, common_settings, embeddings, linear
from korealbert.model.config import ModelConfig

_DEFAULTS = {
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
"""Of ``transformers.BertConfig``; a ``config.json`` lists only what differs."""

_ROBERTA_DEFAULTS = {**_DEFAULTS, "vocab_size": 50_265, "pad_token_id": 1}
"""Of ``transformers.RobertaConfig``."""

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
"""Modules of a layer."""


def layers(config: ModelConfig, prefix: str) -> Iterator[tuple[str, str]]:
    """Every tensor of unshared layers; a block that only our model shares occurs several times."""
    for layer in range(config.num_layers):
        for ours, theirs in _LAYER.items():
            block = config.blocks_of(layer)[0 if ours.startswith("attention") else 1]
            yield from linear(f"encoder.{ours.format(block)}", f"{prefix}encoder.layer.{layer}.{theirs}")


def _plain(config: ModelConfig) -> bool:
    return config.embedding_size == config.hidden_size and config.ffn_dropout and not config.generator_hidden_size


class Bert:
    """``model_type`` "bert"."""

    model_type = "bert"
    title = "BERT"
    architecture = "BertForPreTraining"
    prefix = "bert."

    def expresses(self, config: ModelConfig) -> bool:
        """Embeddings as wide as the layers, a pooler, positions from 0."""
        return _plain(config) and config.pooler and not config.position_offset

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """``config.json``."""
        return common_settings(self, config, special)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Unshared layers."""
        fields = common_fields(settings, _DEFAULTS)
        return ModelConfig(**fields, embedding_size=fields["hidden_size"], share="none")

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """All tensors of ``BertForPreTraining``; class 1 of its sentence head is "not the next", ours "swapped"."""
        yield from embeddings(self.prefix)
        yield from layers(config, self.prefix)
        yield from linear("encoder.pooler", f"{self.prefix}pooler.dense")
        yield from linear("mlm.dense", "cls.predictions.transform.dense")
        yield from linear("mlm.norm", "cls.predictions.transform.LayerNorm")
        yield "mlm.bias", "cls.predictions.bias"
        yield from linear("sop", "cls.seq_relationship")

    def constants(self, config: ModelConfig) -> dict[str, Array]:
        """Every tensor of theirs has a counterpart."""
        return {}


class Roberta:
    """``model_type`` "roberta"."""

    model_type = "roberta"
    title = "RoBERTa"
    architecture = "RobertaForMaskedLM"
    prefix = "roberta."

    def expresses(self, config: ModelConfig) -> bool:
        """Embeddings as wide as the layers, no pooler, positions that leave out the first rows."""
        return _plain(config) and not config.pooler and config.position_offset > 0

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """``config.json``. Raises ValueError where positions do not begin right behind the padding id."""
        if config.position_offset != special.pad + 1:
            raise ValueError(
                f"position_offset = {config.position_offset}: RoBERTa counts positions from pad + 1 = {special.pad + 1}; "
                "train with this offset"
            )
        return common_settings(self, config, special)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Unshared layers, no pooler; the position table's unreachable rows stay."""
        settings = {**_ROBERTA_DEFAULTS, **settings}
        fields = common_fields(settings, _ROBERTA_DEFAULTS)
        pad = settings["pad_token_id"]
        if not isinstance(pad, int) or pad < 0:
            raise ValueError(f"pad_token_id = {pad!r}: RoBERTa counts its positions from this id; give the tokenizer's")
        offset = pad + 1
        size = fields["hidden_size"]
        return ModelConfig(**fields, embedding_size=size, share="none", position_offset=offset, pooler=False)

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """All tensors of ``RobertaForMaskedLM``."""
        yield from embeddings(self.prefix)
        yield from layers(config, self.prefix)
        yield from linear("mlm.dense", "lm_head.dense")
        yield from linear("mlm.norm", "lm_head.layer_norm")
        yield "mlm.bias", "lm_head.bias"

    def constants(self, config: ModelConfig) -> dict[str, Array]:
        """Every tensor of theirs has a counterpart."""
        return {}
