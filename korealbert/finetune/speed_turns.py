"""How fast shapes of encoders train: each takes turns with the baseline, step by step."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import AutoModel

from korealbert.artifact import Progress
from korealbert.finetune.architectures import BASELINE, SpeedSpec, config_of, parameters_of
from korealbert.model.device import pick_device
from korealbert.pretrain.runtime import TrainingRuntime


class Trainer:
    """One shape with its optimiser, on a device."""

    def __init__(self, name: str, spec: SpeedSpec, device: torch.device) -> None:
        config = config_of(name, shrink=spec.shrink)
        self.encoder = AutoModel.from_config(config, dtype=torch.float32).to(device).train()
        self.head = nn.Linear(config.hidden_size, 2).to(device)
        self.parameters = [*self.encoder.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-6, fused=True)
        self.device, self.bf16 = device, spec.precision == "bf16"
        shape = (spec.batch_size, spec.sequence_length)
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


def measured(spec: SpeedSpec, runtime: TrainingRuntime) -> tuple[str, dict[str, dict[str, Any]]]:
    """The type of the device, and what each shape has to tell, one after the other."""
    device = pick_device(runtime.device)
    rows: dict[str, dict[str, Any]] = {}
    with _threads(runtime.threads), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(spec.seed)
        baseline = Trainer(BASELINE, spec, device)
        for number, name in enumerate(spec.architectures, start=1):
            rows[name] = _measured(name, baseline, spec, device)
            runtime.report(Progress(number, len(spec.architectures), "shapes", {"speedup": rows[name]["speedup"]}))
    return device.type, rows


def _measured(name: str, baseline: Trainer, spec: SpeedSpec, device: torch.device) -> dict[str, Any]:
    trainer = baseline if name == BASELINE else Trainer(name, spec, device)
    turns = [(baseline.step(), trainer.step()) for _ in range(spec.warmup_steps + spec.steps)][spec.warmup_steps :]
    ratios = [theirs / ours for theirs, ours in turns]
    seconds = statistics.median(ours for _, ours in turns)
    return {
        "parameters": parameters_of(name),
        "speedup": 1.0 if name == BASELINE else float(f"{statistics.median(ratios):.4g}"),
        "lowest": float(f"{min(ratios):.4g}"),
        "highest": float(f"{max(ratios):.4g}"),
        "pieces_per_second": float(f"{spec.batch_size * spec.sequence_length / seconds:.4g}"),
    }


@contextlib.contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
