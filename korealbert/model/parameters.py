"""The parameters of a model as its optimiser and its readers want them."""

from __future__ import annotations

from typing import Any

from torch import nn


def parameter_groups(model: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for an optimiser: matrices and tables, which decay; then biases and LayerNorms, which do not.

    Decided by rank, never by name: the official lists of names ("LayerNorm", "bias") miss what PyTorch calls differently.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trainable matrices of the layers (and of a generator's): what maps hidden states to hidden states.

    Not the tables and projections of embeddings, poolers and heads, whose rows or columns stand for single things.
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
    """Numbers of the model, frozen ones included; a shared tensor counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
