"""Floating-point operations of a training step, counted from the shapes of its matrix products."""

from __future__ import annotations

from korealbert.model.config import ModelConfig

BACKWARD = 2
"""The backward pass has two matrix products for each of the forward pass: one for the inputs, one for the weights."""


def training_flops(config: ModelConfig, *, length: int, mlm_slots: int, wop_slots: int) -> int:
    """Operations of one sequence of ``length`` positions, forward and backward; a multiplication and an addition are two.

    Padding counts, as it is computed; table look-ups, LayerNorms and activations do not (below 1 % of the whole).
    """
    hidden, embedding = config.hidden_size, config.embedding_size
    layer = length * (4 * hidden**2 + 2 * hidden * config.intermediate_size) + 2 * length**2 * hidden
    products = config.num_layers * layer
    if embedding != hidden:
        products += length * embedding * hidden
    products += mlm_slots * (hidden * embedding + embedding * config.vocab_size)
    products += wop_slots * hidden * config.word_order_classes
    if config.pooler:
        products += hidden**2 + 2 * hidden
    return 2 * (1 + BACKWARD) * products
