"""The state of an optimiser by the names of its parameters: whole tensors, however ZeRO divides them among ranks.

So a checkpoint fits any number of ranks and any ZeRO stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def moments_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """All state as ``<parameter>/<field>`` on the CPU; nothing before the first update."""
    return {
        f"{name}/{field}": torch.as_tensor(value).detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for field, value in optimizer.state.get(parameter, {}).items()
    }


def set_moments(model: nn.Module, optimizer: Optimizer, moments: Mapping[str, Tensor]) -> None:
    """Replace all state by what ``moments_of`` gave."""
    optimizer.state.clear()  # The checkpoint of step 0 holds no moments, and a return to it must keep none.
    parameters = dict(model.named_parameters())
    for key, tensor in moments.items():
        name, _, field = key.rpartition("/")
        parameter = parameters[name]
        # Optimisers keep their step counters on the CPU.
        optimizer.state[parameter][field] = tensor if field == "step" else tensor.to(parameter.device)


ADAM = ("exp_avg", "exp_avg_sq")
"""The fields of Adam's state that have the shape of the parameter."""


def gather_moments(model: nn.Module, zero: Any) -> dict[str, Tensor]:
    """``moments_of`` an AdamW under DeepSpeed's ZeRO 1 or 2; every rank must call it, and receives the same."""
    from deepspeed.utils import safe_get_full_optimizer_state  # noqa: PLC0415 - imported by the engine, as its device demands

    if not any(zero.optimizer.state.values()):
        return {}
    _link(zero)
    (step,) = {float(state["step"]) for state in zero.optimizer.state.values()}
    gathered: dict[str, Tensor] = {}
    for name, parameter in _trained(model).items():
        gathered |= {f"{name}/{field}": safe_get_full_optimizer_state(parameter, field).cpu() for field in ADAM}
        gathered[f"{name}/step"] = torch.tensor(step)
    return gathered


def scatter_moments(model: nn.Module, zero: Any, moments: Mapping[str, Tensor]) -> None:
    """``set_moments`` of such an optimiser, and have its master weights follow the model's, which were set before."""
    from deepspeed.utils import safe_set_full_optimizer_state  # noqa: PLC0415

    zero.refresh_fp32_params()
    zero.optimizer.state.clear()
    if not moments:
        return
    step = next(tensor for key, tensor in moments.items() if key.endswith("/step"))
    for partition in zero.single_partition_of_fp32_groups:
        empty = {field: torch.zeros_like(partition) for field in ADAM}
        zero.optimizer.state[partition] = {"step": step.clone(), **empty}
    _link(zero)
    for name, parameter in _trained(model).items():
        for field in ADAM:
            safe_set_full_optimizer_state(parameter, moments[f"{name}/{field}"].to(parameter.device), field)


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _link(zero: Any) -> None:
    """Tie parameters to their places in the divided state; DeepSpeed itself does so before all of it exists."""
    from deepspeed.utils import lazy_init_hp_params_optimizer_state  # noqa: PLC0415

    for parameters, partition in zip(zero.bit16_groups, zero.single_partition_of_fp32_groups, strict=True):
        lazy_init_hp_params_optimizer_state(parameters, partition, zero.optimizer.state)
