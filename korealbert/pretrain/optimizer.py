"""The optimiser of a run: which tensors decay, and gradient clipping before every update."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from korealbert.model.parameters import parameter_groups
from korealbert.pretrain.lamb import Lamb
from korealbert.pretrain.optimizer_spec import OptimizerSpec


def make_optimizer(model: nn.Module, spec: OptimizerSpec, *, scaled: bool = False) -> Optimizer:
    """The optimiser that ``spec`` describes, over all trainable parameters of ``model``; ``scaled``: fp16 scales their loss."""
    groups = parameter_groups(model, weight_decay=spec.weight_decay)
    if spec.name == "adamw":
        # One pass over memory instead of ten. Not under fp16, whose scale the fused kernel undoes after the clipping.
        fused = not scaled and next(model.parameters()).device.type == "cpu"
        return torch.optim.AdamW(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, fused=fused, foreach=not fused)
    groups[1]["adapt"] = spec.adapt_excluded
    return Lamb(
        groups,
        lr=spec.lr,
        betas=spec.betas,
        eps=spec.eps,
        bias_correction=spec.bias_correction,
        max_trust_ratio=spec.max_trust_ratio,
        max_weight_norm=spec.max_weight_norm,
        gradient_averaging=spec.gradient_averaging,
    )


class Clipping:
    """Bounds the global gradient norm right before each update, after loss scaling is undone.

    It also tells what DeepSpeed does not: the norm, and whether an update took place or fp16 overflow skipped it.
    """

    def __init__(self, optimizer: Optimizer, bound: float) -> None:
        self._bound = bound if bound > 0 else float("inf")
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.norm: Tensor = torch.zeros(())
        """Gradient norm of the latest update, before clipping."""
        self.updates = 0
        """Updates made since construction."""
        optimizer.register_step_pre_hook(self._before_update)

    def _before_update(self, *_: Any) -> None:
        self.norm = nn.utils.clip_grad_norm_(self._parameters, self._bound, foreach=True)
        self.updates += 1


class ZeroClipping:
    """The same of an engine that divides gradients among ranks, and so clips them itself."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @property
    def norm(self) -> Tensor:
        """As ``Clipping.norm``."""
        return torch.as_tensor(self._engine.get_global_grad_norm() or 0.0)

    @property
    def updates(self) -> int:
        """As ``Clipping.updates``."""
        return int(self._engine.global_steps)
