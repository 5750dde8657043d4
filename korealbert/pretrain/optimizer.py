"""The optimiser that a spec describes (LAMB, AdamW or Muon), and clipping of the global gradient norm before each update."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from korealbert.model.parameters import hidden_matrices, parameter_groups
from korealbert.pretrain.optimizer_spec import MuonSpec, OptimizerSpec


def make_optimizer(model: nn.Module, spec: OptimizerSpec | MuonSpec, *, scaled: bool = False) -> Optimizer:
    """Return the optimiser of all trainable parameters of ``model``; ``scaled`` says that fp16 scales their loss."""
    groups = parameter_groups(model, weight_decay=spec.weight_decay)
    # The fused kernel makes one pass over memory instead of ten. Under fp16 it would undo the loss scale after the clipping.
    fused = not scaled and next(model.parameters()).device.type in ("cpu", "cuda")
    kernel = {"fused": fused, "foreach": not fused}
    if isinstance(spec, MuonSpec):
        matrices = hidden_matrices(model)
        of_muon = {id(matrix) for matrix in matrices}
        for group in groups:
            group["params"] = [p for p in group["params"] if id(p) not in of_muon]
            group["lr_factor"] = spec.adamw_lr_factor
        adamw = torch.optim.AdamW(groups, lr=spec.lr * spec.adamw_lr_factor, betas=spec.betas, eps=spec.eps, **kernel)
        if not matrices:  # All are frozen.
            return adamw
        dtype = torch.bfloat16 if spec.arithmetic == "bf16" else torch.float32
        muon = _Muon(matrices, lr=spec.lr, weight_decay=spec.weight_decay, momentum=spec.momentum, dtype=dtype)
        return _MuonWithAdamW(muon, adamw)
    if spec.name == "adamw":
        return torch.optim.AdamW(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, **kernel)
    groups[1]["adapt"] = False  # Biases and LayerNorms.
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


class Lamb(Optimizer):
    """LAMB: for each tensor w with gradient g

    ``m ← β₁m + (1−β₁)g``, ``v ← β₂v + (1−β₂)g²``, ``u = m / (√v + ε) + weight_decay · w`` and ``w ← w − lr · r · u``,
    where the trust ratio r is ``‖w‖ / ‖u‖``, or 1 if either norm is 0.

    Parameter groups may set ``adapt`` (False: r = 1), ``bias_correction``, ``max_trust_ratio`` and ``max_weight_norm`` (bounds
    on r and on ‖w‖ in it; 0: none), and ``gradient_averaging`` (False: ``m ← β₁m + g``). Tensors without a gradient are not
    changed, nor are adapted tensors whose gradients have always been 0.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        adapt: bool = True,
        bias_correction: bool = False,
        max_trust_ratio: float = 0.0,
        max_weight_norm: float = 0.0,
        gradient_averaging: bool = True,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "adapt": adapt,
            "bias_correction": bias_correction,
            "max_trust_ratio": max_trust_ratio,
            "max_weight_norm": max_weight_norm,
            "gradient_averaging": gradient_averaging,
        }
        super().__init__(params, defaults)
        self._ratios: list[Tensor] = []

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all tensors that have gradients."""
        self._ratios = []
        for group in self.param_groups:
            tensors = [tensor for tensor in group["params"] if tensor.grad is not None]
            if tensors:
                self._update(group, tensors)

    def _update(self, group: dict[str, Any], tensors: list[Tensor]) -> None:
        states = [self._state_of(tensor) for tensor in tensors]
        gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
        means = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        beta1, beta2 = group["betas"]
        for state in states:
            state["step"] += 1

        torch._foreach_mul_(means, beta1)
        torch._foreach_add_(means, gradients, alpha=1 - beta1 if group["gradient_averaging"] else 1.0)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)

        scales = torch._foreach_sqrt(squares)
        updates: tuple[Tensor, ...] = tuple(means)
        if group["bias_correction"]:
            updates = torch._foreach_div(means, [1 - beta1 ** int(state["step"]) for state in states])
            torch._foreach_div_(scales, [(1 - beta2 ** int(state["step"])) ** 0.5 for state in states])
        torch._foreach_add_(scales, group["eps"])
        updates = torch._foreach_div(updates, scales)
        norms_without_decay = torch.stack(torch._foreach_norm(updates)) if group["adapt"] else None
        if group["weight_decay"]:
            torch._foreach_add_(updates, tensors, alpha=group["weight_decay"])
        if norms_without_decay is not None:
            ratios = _trust_ratios(tensors, updates, group["max_trust_ratio"], group["max_weight_norm"])
            # DeepSpeed turns missing gradients into zeros. The update would then be weight decay alone, scaled to the norm of
            # the tensor: a head whose loss has no weight yet would shrink by the factor 1 - lr at each step.
            torch._foreach_mul_(updates, list(torch.where(norms_without_decay > 0, ratios, 0.0).unbind()))
            self._ratios.append(torch.where(norms_without_decay > 0, ratios, torch.nan))
        torch._foreach_add_(tensors, updates, alpha=-group["lr"])

    def ratio_quantiles(self) -> dict[str, float]:
        """Return the smallest, median and largest trust ratio of the latest update, of the tensors that it moved."""
        names = ("trust_ratio_min", "trust_ratio_median", "trust_ratio_max")
        ratios = torch.cat(self._ratios) if self._ratios else torch.empty(0)
        if ratios.isnan().all():
            return {}
        return dict(zip(names, ratios.nanquantile(ratios.new_tensor([0.0, 0.5, 1.0])).tolist(), strict=True))

    def _state_of(self, tensor: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[tensor]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(tensor)
            state["exp_avg_sq"] = torch.zeros_like(tensor)
        return state


def _trust_ratios(tensors: list[Tensor], updates: tuple[Tensor, ...], bound: float, weight_bound: float) -> Tensor:
    """Return ‖w‖ / ‖u‖ of n tensors [n], 1 if either norm is 0. ``bound`` limits the ratio, ``weight_bound`` ‖w‖; 0: no
    limit."""
    weight_norms = torch.stack(torch._foreach_norm(tensors))
    update_norms = torch.stack(torch._foreach_norm(updates))
    defined = (weight_norms > 0) & (update_norms > 0)
    bounded = weight_norms.clamp(max=weight_bound) if weight_bound else weight_norms
    ratios = torch.where(defined, bounded / update_norms, 1.0)
    return ratios.clamp(max=bound) if bound else ratios


_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration of Jordan (2024), which brings all singular values between 0.7 and 1.2."""
_NEWTON_SCHULZ_STEPS = 5


def orthogonal(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Approximate U Vᵀ of ``matrix`` [A, B] = U S Vᵀ by a Newton–Schulz iteration in ``dtype``."""
    a, b, c = _NEWTON_SCHULZ
    wide = matrix.to(dtype, copy=True) if matrix.shape[0] <= matrix.shape[1] else matrix.to(dtype, copy=True).T
    wide.div_(wide.norm().clamp(min=1e-7))
    for _ in range(_NEWTON_SCHULZ_STEPS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T


class _Muon(Optimizer):
    """Muon: for each matrix w [A, B] with gradient g, ``m ← μm + (1−μ)g``, ``u = orthogonal((1−μ)g + μm)`` and
    ``w ← (1 − lr · weight_decay) w − lr · 0.2 √max(A, B) · u``.

    ``torch.optim.Muon`` does the same but only in bfloat16, which CPUs without hardware for it compute ten times slower.
    """

    def __init__(
        self, matrices: Iterable[Tensor], *, lr: float, weight_decay: float, momentum: float, dtype: torch.dtype
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self._dtype = dtype

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all matrices that have gradients."""
        for group in self.param_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            for batch in _batches(matrices):
                self._update(group, batch)

    def _update(self, group: dict[str, Any], matrices: list[Tensor]) -> None:
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        means = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, means, group["momentum"])
        lr = float(group["lr"])
        torch._foreach_mul_(matrices, 1 - lr * group["weight_decay"])
        torch._foreach_add_(matrices, self._orthogonal(ahead), alpha=-lr * 0.2 * max(matrices[0].shape) ** 0.5)

    def _orthogonal(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Return ``orthogonal`` of each matrix, computed for several of one shape at once."""
        if len(matrices) == 1:
            return [orthogonal(matrices[0], self._dtype)]
        stacked = torch.vmap(partial(orthogonal, dtype=self._dtype))(torch.stack(list(matrices)))
        return list(stacked.to(matrices[0].dtype).unbind())


def _batches(matrices: list[Tensor]) -> list[list[Tensor]]:
    """Group the matrices to update at once: on a GPU those of one shape, which need as many kernels as one of them; on a CPU
    each by itself, because batched products would change the last bits."""
    if not matrices or matrices[0].device.type == "cpu":
        return [[matrix] for matrix in matrices]
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for matrix in matrices:
        by_shape.setdefault(matrix.shape, []).append(matrix)
    return list(by_shape.values())


class _MuonWithAdamW(Optimizer):
    """Muon for some parameters and AdamW for the others, as one optimiser with the groups and the state of both."""

    def __init__(self, muon: _Muon, adamw: torch.optim.AdamW) -> None:
        super().__init__([*muon.param_groups, *adamw.param_groups], {})
        self._parts = (muon, adamw)
        for part in self._parts:
            part.state = self.state

    def step(self) -> None:  # type: ignore[override]
        """Update all tensors that have gradients."""
        for part in self._parts:
            part.step()


class Clipping:
    """Clips the global gradient norm right before each update, when the loss scale has been undone.

    It also knows what DeepSpeed does not tell: the norm, and how many updates were made, which fp16 overflow may skip.
    """

    def __init__(self, optimizer: Optimizer, bound: float) -> None:
        self._bound = bound if bound > 0 else float("inf")
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.norm: Tensor = torch.zeros(())
        """Gradient norm of the latest update, before clipping."""
        self.updates = 0
        """Updates since construction."""
        optimizer.register_step_pre_hook(self._before_update)

    def _before_update(self, *_: Any) -> None:
        self.norm = nn.utils.clip_grad_norm_(self._parameters, self._bound, foreach=True)
        self.updates += 1


class ZeroClipping:
    """``Clipping`` of an engine that shards gradients over ranks (ZeRO) and therefore clips them itself."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @property
    def norm(self) -> Tensor:
        """Gradient norm of the latest update, before clipping."""
        return torch.as_tensor(self._engine.get_global_grad_norm() or 0.0)

    @property
    def updates(self) -> int:
        """Updates since construction."""
        return int(self._engine.global_steps)
