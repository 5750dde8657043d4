"""This process among the training processes."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import distributed


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
