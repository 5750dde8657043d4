"""The parameters of a model: their groups for an optimiser, their number, and the operations of a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from korealbert.model.config import AnyConfig, ModelConfig, ModernConfig

if TYPE_CHECKING:  # A plan counts operations without torch.
    from torch import nn


def parameter_groups(model: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Return two groups for an optimiser: matrices and tables with weight decay, then biases and LayerNorms without.

    The rank of a tensor decides, because the official lists of names ("LayerNorm", "bias") miss other names in PyTorch.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the trainable matrices of the layers, including a generator's, and the projection of factorised embeddings.

    Tables of embeddings, poolers and heads are not among them.
    """
    outside = (".embeddings.", ".pooler.", ".mlm.")
    return [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
        and parameter.ndim == 2
        and name.startswith(("encoder.", "generator."))
        and not any(part in name for part in outside)
    ]


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters, including frozen ones; a shared tensor counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


_BACKWARD = 2
"""Matrix products of the backward pass for each of the forward pass: one for the inputs, one for the weights."""


def training_flops(config: AnyConfig, *, length: int, mlm_slots: int, wop_slots: int, seen: int | None = None) -> int:
    """Return the operations of one sequence of ``length`` positions, forward and backward; multiply and add are two.

    ``seen`` is how many positions a token attends to on average in packed rows; by default all. Padding counts, since it is
    computed. Table look-ups, LayerNorms and activations do not: they are below 1 %. Those of a generator are included.
    """
    if isinstance(config, ModelConfig) and config.generator_hidden_size:
        generator = config.generator()
        products = _layers(config, length) + length * (config.hidden_size**2 + config.hidden_size)
        products += _layers(generator, length) + mlm_slots * _masked_token(generator)
        return 2 * (1 + _BACKWARD) * products
    products = _layers(config, length, seen) + mlm_slots * _masked_token(config)
    products += wop_slots * config.hidden_size * config.word_order_classes
    products += round(length / (seen or length)) * _masked_token(config) if config.bag_of_words else 0
    if config.pooler:
        products += config.hidden_size**2 + 2 * config.hidden_size
    return 2 * (1 + _BACKWARD) * products


def _layers(config: AnyConfig, length: int, seen: int | None = None) -> int:
    if isinstance(config, ModernConfig):
        hidden, keys, every = config.hidden_size, config.local_attention + 1, seen or length
        by_layer = [every if config.is_global(layer) else min(every, keys) for layer in range(config.num_layers)]
        matrices = config.num_layers * (4 * hidden**2 + 3 * hidden * config.intermediate_size)
        return length * (matrices + 2 * hidden * sum(by_layer))
    hidden, embedding = config.hidden_size, config.embedding_size
    layer = length * (4 * hidden**2 + 2 * hidden * config.intermediate_size) + 2 * length**2 * hidden
    return config.num_layers * layer + (length * embedding * hidden if embedding != hidden else 0)


def _masked_token(config: AnyConfig) -> int:
    return config.hidden_size * config.embedding_size + config.embedding_size * config.vocab_size


def expected_parameters(config: AnyConfig) -> int:
    """Return the parameters of a pretraining model from its shape, without biases and LayerNorms of the layers, which are below
    1 %."""
    hidden, embedding = config.hidden_size, config.embedding_size
    if isinstance(config, ModernConfig):
        layers = config.num_layers * (4 * hidden**2 + 3 * hidden * config.intermediate_size)
    else:
        layers = config.attention_blocks * 4 * hidden**2 + config.ffn_blocks * 2 * hidden * config.intermediate_size
        layers += config.max_positions * embedding + (embedding * hidden if embedding != hidden else 0)
        layers += hidden**2 if config.pooler else 0
        if config.generator_hidden_size:
            layers += expected_parameters(config.generator()) - config.table_rows * embedding
    words = config.table_rows * embedding
    heads = (1 + config.bag_of_words) * (hidden * embedding + config.vocab_size)
    return layers + words + heads + hidden * config.word_order_classes
