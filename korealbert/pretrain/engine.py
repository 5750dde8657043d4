"""Joining the process group, and the DeepSpeed engine of a run, whose settings come from the spec."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.optim import Optimizer

from korealbert.pretrain.spec import PretrainSpec


@dataclass(frozen=True)
class Ranks:
    """One training process (rank) of ``world_size``, and the device it computes on."""

    rank: int
    world_size: int
    device: torch.device

    def sum(self, values: Sequence[float]) -> list[float]:
        """Add up vectors of equal length over all ranks."""
        if self.world_size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return total.tolist()


def join(*, rank: int, world_size: int, device: torch.device, init_method: str | None = None) -> Ranks:
    """Join the process group that DeepSpeed will use.

    Without ``init_method`` a process is alone. On one machine the rendezvous of the ranks is a file (``file:///…``),
    because torch's own, a TCP server, listens on all addresses. A launcher across machines gives ``env://``.
    """
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed insists on a launcher's variable.
    if "lo" in {name for _, name in socket.if_nameindex()} and (init_method is None or init_method.startswith("file:")):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    if not distributed.is_initialized():
        alone = init_method is None
        directory = tempfile.mkdtemp(prefix="korealbert-ranks-") if alone else ""
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            init_method=(Path(directory) / "rendezvous").as_uri() if alone else init_method,
            rank=rank,
            world_size=world_size,
        )
    return Ranks(rank, world_size, device)


AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Arithmetic of forward and backward pass by ``PretrainSpec.precision``."""

log = logging.getLogger(__name__)


def compile_mode(spec: PretrainSpec, device: torch.device) -> str | None:
    """The mode of torch.compile; None: not at all.

    A recipe that asks for nothing is compiled on GPUs all the same, of Volta (2017) and later, where Triton finds a C compiler:
    like the device itself that moves last bits. ``TORCH_COMPILE_DISABLE=1`` turns every compilation off.
    """
    disabled = os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1"
    if spec.compile == "no" and device.type == "cuda" and not disabled and torch.cuda.get_device_capability(device)[0] >= 7:
        if find_spec("triton") is not None and any(map(shutil.which, (os.environ.get("CC", ""), "gcc", "clang"))):
            return "default"
        log.warning(
            "kernels are not compiled: Triton is not installed or finds no C compiler; training takes about twice as long"
        )
    return {"no": None, "kernels": "default", "graphs": "reduce-overhead"}[spec.compile]


def _engine_settings(spec: PretrainSpec, ranks: Ranks) -> dict[str, Any]:
    """DeepSpeed's configuration for a run on these ranks.

    Low precision is autocast: parameters, gradients and moments are fp32. Gradients are clipped by DeepSpeed where ZeRO divides
    them among ranks, else by the caller, who also sets the learning rate and says when a batch is complete.
    """
    dtype = AUTOCAST[spec.precision]
    micro_batch, accumulation = spec.micro_batches(ranks.world_size, spec.batch_at(0), spec.micro_batch_at(0))
    return {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": spec.optimizer.max_grad_norm if spec.zero_stage else 0.0,
        # Where gradients are divided they are added up over ranks while the backward pass goes on.
        "zero_optimization": {"stage": spec.zero_stage, "overlap_comm": ranks.device.type == "cuda"},
        "zero_allow_untested_optimizer": bool(spec.zero_stage),
        "torch_autocast": {"enabled": dtype is not None, "dtype": str(dtype or torch.bfloat16).removeprefix("torch.")},
        "steps_per_print": 2**31,
        "timers": {"throughput": {"enabled": False}},
    }


def make_engine(objective: nn.Module, optimizer: Optimizer, spec: PretrainSpec, ranks: Ranks) -> Any:
    """A DeepSpeed engine around ``objective``, which it broadcasts from rank 0; gradients are averaged over ranks."""
    deepspeed = _quiet_deepspeed(ranks.device)
    if mode := compile_mode(spec, ranks.device):
        objective.compile(mode=mode)
    engine, *_ = deepspeed.initialize(model=objective, optimizer=optimizer, config=_engine_settings(spec, ranks))
    if not spec.zero_stage:
        # A single rank needs no average, but DeepSpeed would still flatten all gradients and copy them back.
        engine.enable_backward_allreduce = ranks.world_size > 1
    return engine


def _quiet_deepspeed(device: torch.device) -> Any:
    """Import DeepSpeed for this device, without its chatter and without compiling anything.

    On CPUs the first ``initialize`` would compile ``deepspeed_shm_comm``: 53 s, a C++ compiler, and a lock file that hangs the
    next run when killed halfway. DeepSpeed looks each operator up in a private table; an empty one means "not compatible", and
    communication falls back to gloo.
    """
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    import deepspeed  # noqa: PLC0415 - slow to import, and it reads DS_ACCELERATOR when it is
    import deepspeed.ops  # noqa: PLC0415

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    if device.type == "cpu":
        if not callable(getattr(deepspeed.ops, "__getattr__", None)) and not hasattr(deepspeed.ops, "__compatible_ops__"):
            log.warning("this DeepSpeed has no operator table; it may compile deepspeed_shm_comm, about a minute, once")
        deepspeed.ops.__compatible_ops__ = {}
    return deepspeed
