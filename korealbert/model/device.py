"""Where a process computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from korealbert.artifact import Device, Runtime, Spec

if TYPE_CHECKING:
    import torch


def pick_device(wanted: Device, *, local_rank: int = 0) -> torch.device:
    """The device of a process. Processes of one machine share its GPUs out by rank.

    Raises ValueError when CUDA is wanted and torch finds none.
    """
    import torch  # noqa: PLC0415 (a recipe is checked without it, but where CUDA is asked for)

    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("runtime.device = 'cuda', but torch finds no CUDA device here; use 'cpu' or 'auto'")
    return torch.device("cuda", local_rank % torch.cuda.device_count())


def check_device(_: Spec, runtime: Runtime) -> None:
    """``check`` of a stage that trains: raise ValueError where its device is not to be had here."""
    if runtime.device == "cuda":
        pick_device(runtime.device)
