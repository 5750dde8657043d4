"""The process group of the ranks, and the DeepSpeed engine of a run."""

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
from urllib.parse import unquote, urlsplit

import torch
from torch import distributed, nn
from torch._C._distributed_c10d import FileStore
from torch.distributed.constants import default_pg_timeout
from torch.optim import Optimizer

from korealbert.pretrain.spec import PretrainSpec


@dataclass(frozen=True)
class Ranks:
    """This training process (rank) among ``world_size``, and the device it computes on."""

    rank: int
    world_size: int
    device: torch.device

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums of the ranks' values; all must call it with equally many."""
        if self.world_size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return total.tolist()


def join(*, rank: int, world_size: int, device: torch.device, init_method: str | None = None) -> Ranks:
    """Join the process group that DeepSpeed will use.

    Without ``init_method`` this process is alone. The ranks of one machine meet through a file (``file:///…``), because torch's
    own TCP server would listen on all addresses. A launcher across machines gives ``env://``.
    """
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed requires it.
    on_one_machine = init_method is None or init_method.startswith("file:")
    if on_one_machine and "lo" in {name for _, name in socket.if_nameindex()}:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    if not distributed.is_initialized():
        if init_method is None:
            init_method = (Path(tempfile.mkdtemp(prefix="korealbert-ranks-")) / "rendezvous").as_uri()
        store = None
        if on_one_machine:  # torch would not decode the URL of a directory with blanks or Korean letters.
            store = FileStore(unquote(urlsplit(init_method).path), world_size)
            store.set_timeout(default_pg_timeout)
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            init_method=None if on_one_machine else init_method,
            store=store,
            rank=rank,
            world_size=world_size,
        )
    return Ranks(rank, world_size, device)


AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Type of forward and backward pass by ``PretrainSpec.precision``."""

log = logging.getLogger(__name__)


def compile_mode(spec: PretrainSpec, device: torch.device) -> str | None:
    """Return the mode of torch.compile, or None if the model is not compiled.

    ``compile = "no"`` is still compiled on GPUs since Volta (2017) if Triton finds a C compiler; like the choice of the device
    itself, that only changes the last bits. ``TORCH_COMPILE_DISABLE=1`` turns every compilation off.
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
    """Return DeepSpeed's configuration.

    Low precision is autocast: parameters, gradients and moments are fp32. DeepSpeed clips gradients only under ZeRO; otherwise
    ``Clipping`` does. The trainer sets the learning rate and marks the last micro-batch of a step.
    """
    dtype = AUTOCAST[spec.precision]
    micro_batch, accumulation = spec.micro_batches(ranks.world_size, spec.batch_at(0), spec.micro_batch_at(0))
    return {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": spec.optimizer.max_grad_norm if spec.zero_stage else 0.0,
        # Under ZeRO, gradients are reduced over ranks during the backward pass.
        "zero_optimization": {"stage": spec.zero_stage, "overlap_comm": ranks.device.type == "cuda"},
        "zero_allow_untested_optimizer": bool(spec.zero_stage),
        "torch_autocast": {"enabled": dtype is not None, "dtype": str(dtype or torch.bfloat16).removeprefix("torch.")},
        "steps_per_print": 2**31,
        "timers": {"throughput": {"enabled": False}},
    }


def make_engine(objective: nn.Module, optimizer: Optimizer, spec: PretrainSpec, ranks: Ranks) -> Any:
    """Return a DeepSpeed engine around ``objective``. It broadcasts the weights of rank 0, and averages gradients over
    ranks."""
    deepspeed = _quiet_deepspeed(ranks.device)
    if mode := compile_mode(spec, ranks.device):
        objective.compile(mode=mode)
    engine, *_ = deepspeed.initialize(model=objective, optimizer=optimizer, config=_engine_settings(spec, ranks))
    if not spec.zero_stage:
        # Even for a single rank DeepSpeed would flatten all gradients and copy them back.
        engine.enable_backward_allreduce = ranks.world_size > 1
    return engine


def _quiet_deepspeed(device: torch.device) -> Any:
    """Import DeepSpeed for this device, with errors as its only log messages, and without compiling anything.

    On CPUs the first ``initialize`` would compile ``deepspeed_shm_comm``, which takes 53 s and a C++ compiler, and leaves a
    lock file that hangs the next run if it is killed. DeepSpeed looks up each operator in a private table; with an empty one it
    takes the operator for incompatible, and communicates through gloo.
    """
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    import deepspeed  # noqa: PLC0415 - slow to import, and reads DS_ACCELERATOR then
    import deepspeed.ops  # noqa: PLC0415

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    if device.type == "cpu":
        if not callable(getattr(deepspeed.ops, "__getattr__", None)) and not hasattr(deepspeed.ops, "__compatible_ops__"):
            log.warning("this DeepSpeed has no operator table; it may compile deepspeed_shm_comm, about a minute, once")
        deepspeed.ops.__compatible_ops__ = {}
    return deepspeed
