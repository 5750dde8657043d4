"""Timed training steps of an encoder.

Shapes: B inputs, L pieces, H hidden size.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import AutoModel


class Trainer:
    """An encoder with fresh weights, a head of two classes, their optimiser, and one batch of random pieces [B, L]."""

    def __init__(self, config: Any, batch_size: int, sequence_length: int, *, device: torch.device, bf16: bool) -> None:
        self.encoder = AutoModel.from_config(config, dtype=torch.float32).to(device).train()
        self.head = nn.Linear(config.hidden_size, 2).to(device)
        self.parameters = [*self.encoder.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-6, fused=True)
        self.device, self.bf16 = device, bf16
        shape = (batch_size, sequence_length)
        self.ids_BL = torch.randint(5, config.vocab_size, shape, device=device)
        self.mask_BL = torch.ones(shape, dtype=torch.int64, device=device)
        self.labels_B = torch.randint(0, 2, shape[:1], device=device)

    def step(self) -> float:
        """Seconds of one training step."""
        self._wait()
        begin = time.perf_counter()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            hidden_BLH = self.encoder(input_ids=self.ids_BL, attention_mask=self.mask_BL).last_hidden_state
            loss = nn.functional.cross_entropy(self.head(hidden_BLH[:, 0]).float(), self.labels_B)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self._wait()
        return time.perf_counter() - begin

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@contextlib.contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
