"""ELECTRA: BERT's layers with factorised embeddings and no pooler; as a model of masked tokens, or as a discriminator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from korealbert.huggingface.bert import layers
from korealbert.huggingface.family import Array, SpecialIds, common_fields, common_settings, embeddings, linear
from korealbert.model.config import ModelConfig

_DEFAULTS = {
    "vocab_size": 30_522,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
"""Of ``transformers.ElectraConfig``; a ``config.json`` lists only what differs."""


class Electra:
    """``model_type`` "electra": a discriminator is read without its head, which says of words whether they were replaced."""

    model_type = "electra"
    title = "ELECTRA"
    architecture = "ElectraForMaskedLM"
    prefix = "electra."

    def expresses(self, config: ModelConfig) -> bool:
        """No pooler, positions from 0; the masked-token head has the exact GELU whatever the layers have."""
        return config.activation == "gelu" and config.ffn_dropout and not config.pooler and not config.position_offset

    def settings(self, config: ModelConfig, special: SpecialIds) -> dict[str, Any]:
        """``config.json``."""
        return {**common_settings(self, config, special), "embedding_size": config.embedding_size}

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Unshared layers, no pooler."""
        settings = {**_DEFAULTS, **settings}
        fields = common_fields(settings, _DEFAULTS)
        if fields["activation"] != "gelu" and self.architecture in settings.get("architectures", ()):
            raise ValueError(
                f"hidden_act = {settings['hidden_act']!r}: an ELECTRA with a masked-token head can be read with 'gelu' only"
            )
        return ModelConfig(**fields, embedding_size=settings["embedding_size"], share="none", pooler=False)

    def names(self, config: ModelConfig) -> Iterator[tuple[str, str]]:
        """All tensors of ``architecture``."""
        yield from embeddings(self.prefix)
        if config.embedding_size != config.hidden_size:
            yield from linear("encoder.projection", f"{self.prefix}embeddings_project")
        yield from layers(config, self.prefix)
        yield from self.head()

    def head(self) -> Iterator[tuple[str, str]]:
        """The tensors beside those of the encoder."""
        yield from linear("mlm.dense", "generator_predictions.dense")
        yield from linear("mlm.norm", "generator_predictions.LayerNorm")
        yield "mlm.bias", "generator_lm_head.bias"

    def constants(self, config: ModelConfig) -> dict[str, Array]:
        """Every tensor of theirs has a counterpart."""
        return {}


class ElectraDiscriminator(Electra):
    """What replaced-token detection trains; its generator has done its work and is left out."""

    architecture = "ElectraForPreTraining"

    def expresses(self, config: ModelConfig) -> bool:
        """No pooler, positions from 0. Blocks that layers share are written several times."""
        return config.ffn_dropout and not config.pooler and not config.position_offset

    def head(self) -> Iterator[tuple[str, str]]:
        """The tensors beside those of the encoder."""
        yield from linear("rtd.dense", "discriminator_predictions.dense")
        yield from linear("rtd.output", "discriminator_predictions.dense_prediction")
