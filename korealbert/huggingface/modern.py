"""ModernBERT: pre-norm layers with rotary positions, no pooler, no segment types, and no biases except the decoder's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from korealbert.huggingface.families import Family, SpecialIds, unsupported
from korealbert.model.config import ModernConfig

_SETTINGS = {
    "vocab_size": ("vocab_size", 50_368),
    "hidden_size": ("hidden_size", 768),
    "num_layers": ("num_hidden_layers", 22),
    "num_heads": ("num_attention_heads", 12),
    "intermediate_size": ("intermediate_size", 1152),
    "max_positions": ("max_position_embeddings", 8192),
    "local_attention": ("local_attention", 128),
    "embedding_dropout": ("embedding_dropout", 0.0),
    "attention_dropout": ("attention_dropout", 0.0),
    "mlp_dropout": ("mlp_dropout", 0.0),
    "layer_norm_eps": ("norm_eps", 1e-5),
    "initializer_range": ("initializer_range", 0.02),
}
"""Our fields, their names for them, and the defaults of ``transformers.ModernBertConfig``, which ``config.json`` leaves out."""

_ONLY: dict[str, Any] = {
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
    "norm_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "classifier_bias": False,
    "decoder_bias": True,
}
"""Settings of which our model supports only the default."""

CLASSIFIER: Mapping[str, Any] = {"classifier_pooling": "cls", "classifier_dropout": 0.0}
"""Settings of transformers' own classifiers, with their defaults. The encoder ignores them; an export keeps its source's."""

_CORRECT = "correct it, or copy the file again"

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"

_LAYER = {
    "attention_norm": "attn_norm",
    "attention.qkv": "attn.Wqkv",
    "attention.output": "attn.Wo",
    "ffn_norm": "mlp_norm",
    "ffn.inner": "mlp.Wi",
    "ffn.output": "mlp.Wo",
}
"""Modules of a layer, ours and theirs. The first layer has no ``attention_norm``."""


class ModernBert(Family[ModernConfig]):
    """``model_type`` "modernbert"."""

    model_type = "modernbert"
    title = "ModernBERT"
    architecture = "ModernBertForMaskedLM"
    prefix = "model."
    fields: Mapping[str, str] = {ours: theirs for ours, (theirs, _) in _SETTINGS.items()}

    def expresses(self, config: ModernConfig) -> bool:
        """All modern shapes."""
        return True

    def settings(self, config: ModernConfig, special: SpecialIds) -> dict[str, Any]:
        """Return ``config.json``."""
        types = [_GLOBAL if config.is_global(layer) else _LOCAL for layer in range(config.num_layers)]
        thetas = {_GLOBAL: config.global_theta, _LOCAL: config.local_theta}
        return {
            "model_type": self.model_type,
            "architectures": [self.architecture],
            **{theirs: getattr(config, ours) for ours, (theirs, _) in _SETTINGS.items()},
            **_ONLY,
            "dtype": "float32",
            "initializer_range": config.initializer_range or config.hidden_size**-0.5,
            "layer_types": types,
            "rope_parameters": {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()},
            "pad_token_id": special.pad,
            "bos_token_id": special.cls,
            "eos_token_id": special.sep,
            "cls_token_id": special.cls,
            "sep_token_id": special.sep,
            "tie_word_embeddings": True,
        }

    def config(self, settings: Mapping[str, Any]) -> ModernConfig:
        """Global layers at a fixed interval, rotary positions without scaling."""
        for name, value in _ONLY.items():
            if settings.get(name, value) != value:
                raise unsupported(name, settings[name], repr(value))
        if quantisation := settings.get("quantization_config"):
            raise unsupported("quantization_config", quantisation, "unquantised weights")
        fields = {ours: settings.get(theirs, default) for ours, (theirs, default) in _SETTINGS.items()}
        # Transformers attends to ``sliding_window`` pieces on each side, or to half of ``local_attention``, rounded down.
        if settings.get("sliding_window") is not None:
            half = _whole(settings, "sliding_window", 64, least=1)
        else:
            half = _whole(settings, "local_attention", 128, least=2) // 2
        fields["local_attention"] = 2 * half
        return ModernConfig(
            architecture="modern",
            **fields,
            global_every=_interval(settings, _whole(settings, "num_hidden_layers", 22, least=1)),
            global_theta=_theta(settings, _GLOBAL, "global_rope_theta", 160_000.0),
            local_theta=_theta(settings, _LOCAL, "local_rope_theta", 10_000.0),
        )

    def names(self, config: ModernConfig) -> Iterator[tuple[str, str]]:
        """Tensors of ``ModernBertForMaskedLM``."""
        yield "encoder.embeddings.word.weight", f"{self.prefix}embeddings.tok_embeddings.weight"
        yield "encoder.embeddings.norm.weight", f"{self.prefix}embeddings.norm.weight"
        for layer in range(config.num_layers):
            for ours, theirs in _LAYER.items():
                if layer or ours != "attention_norm":
                    yield f"encoder.layers.{layer}.{ours}.weight", f"{self.prefix}layers.{layer}.{theirs}.weight"
        yield "encoder.norm.weight", f"{self.prefix}final_norm.weight"
        yield "mlm.dense.weight", "head.dense.weight"
        yield "mlm.norm.weight", "head.norm.weight"
        yield "mlm.bias", "decoder.bias"


def classifier_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``CLASSIFIER`` settings of a ``config.json``; none if it is of another family."""
    of_family = settings.get("model_type") == ModernBert.model_type
    return {name: settings[name] for name in CLASSIFIER if of_family and name in settings}


def _whole(settings: Mapping[str, Any], name: str, default: Any, *, least: int) -> int:
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} = {value!r}: expected a whole number, {least} or more; {_CORRECT}")
    return value


def _interval(settings: Mapping[str, Any], layers: int) -> int:
    """Return the distance between global layers, from the list of layers or the setting of old files."""
    types = settings.get("layer_types")
    if types is None:
        return _whole(settings, "global_attn_every_n_layers", 3, least=1)
    if not isinstance(types, list):
        raise ValueError(f"layer_types = {types!r}: expected a list with {_GLOBAL} or {_LOCAL} for each layer; {_CORRECT}")
    later = [layer for layer in range(1, len(types)) if types[layer] == _GLOBAL]
    every = later[0] if later else layers
    if types != [_LOCAL if layer % every else _GLOBAL for layer in range(layers)]:
        raise unsupported("layer_types", types, "global layers at a fixed interval, from the first on,")
    return every


def _theta(settings: Mapping[str, Any], kind: str, old_name: str, default: float) -> float:
    """Return the rotary base of one kind of layers.

    As in transformers, ``rope_scaling`` (for both kinds) overrides ``rope_parameters``, which overrides the names of old files.
    """
    by_kind = settings.get("rope_parameters") or {}
    if not isinstance(by_kind, Mapping) or by_kind.keys() - {_GLOBAL, _LOCAL}:
        raise ValueError(
            f"rope_parameters = {by_kind!r}: expected an object with {_GLOBAL} and {_LOCAL}, each with its rope_theta; "
            + _CORRECT
        )
    name, theta = old_name, settings.get(old_name, default)
    for parameters in filter(None, (by_kind.get(kind), settings.get("rope_scaling"))):
        if not isinstance(parameters, Mapping):
            raise ValueError(f"rotary positions of {kind}: found {parameters!r}, expected an object with rope_type; {_CORRECT}")
        if (how := parameters.get("rope_type", parameters.get("type", "default"))) != "default":
            raise unsupported(f"rope_type of {kind}", how, "unscaled rotary positions")
        if "rope_theta" in parameters:
            name, theta = f"rope_theta of {kind}", parameters["rope_theta"]
    if isinstance(theta, bool) or not isinstance(theta, int | float) or not theta >= 1:
        raise ValueError(f"{name} = {theta!r}: expected a number, 1 or more; {_CORRECT}")
    return float(theta)
