"""Where a process computes."""

from __future__ import annotations

import torch

from korealbert.artifact import Device


def pick_device(wanted: Device, *, local_rank: int = 0) -> torch.device:
    """The device of a process. Processes of one machine share its GPUs out by rank.

    Raises ValueError when CUDA is wanted and torch finds none.
    """
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("runtime.device = 'cuda', but torch finds no CUDA device here; use 'cpu' or 'auto'")
    return torch.device("cuda", local_rank % torch.cuda.device_count())
