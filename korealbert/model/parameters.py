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


def count_parameters(model: nn.Module) -> int:
    """Numbers of the model, frozen ones included; a shared tensor counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
