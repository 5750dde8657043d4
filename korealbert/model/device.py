"""Where a process computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
"""Where training runs; auto takes CUDA where there is one."""


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
