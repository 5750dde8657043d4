"""How fast training runs, and what of its time is lost: tokens per second, waiting for batches, share of the device's peak."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from korealbert.pretrain.metrics import Metrics

MATRIX_SIZE = {"cpu": 512, "cuda": 8192}
"""Rows and columns of the matrix product that stands for a device's peak."""

MATRIX_PRODUCTS = 3
"""Products timed after the first; the fastest counts."""


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of a large matrix product on this device: what a model that is nothing else would reach."""
    size = MATRIX_SIZE[device.type]
    a, b = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    fastest = float("inf")
    for index in range(1 + MATRIX_PRODUCTS):
        _finish(device)
        start = time.perf_counter()
        torch.mm(a, b)
        _finish(device)
        fastest = min(fastest, time.perf_counter() - start) if index else fastest
    return 2 * size**3 / fastest


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@dataclass
class Speed:
    """One rank's clock over the steps that it made since it started; scoring and checkpoints stand outside."""

    peak: float
    """Operations per second that all ranks together could reach."""
    steps: int = 0
    seconds: float = 0.0
    loading: float = 0.0
    """Seconds of them spent waiting for batches."""
    tokens: int = 0
    """Of all ranks, padding left out."""
    operations: int = 0
    """Floating-point operations of all ranks that the model asks for."""

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time one step."""
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start
        self.steps += 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time the wait for a step's batches."""
        start = time.perf_counter()
        yield
        self.loading += time.perf_counter() - start

    def metrics(self, steps_left: int) -> Metrics:
        """Tokens per second, share of time spent loading, MFU, minutes left for ``steps_left``; {} before any step."""
        if not self.steps:
            return {}
        return {
            "tokens_per_second": self.tokens / self.seconds,
            "loading_share": self.loading / self.seconds,
            "model_flops_utilization": self.operations / self.seconds / self.peak,
            "minutes_left": steps_left * self.seconds / self.steps / 60,
        }
