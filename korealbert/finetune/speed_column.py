"""Stage `speed`: shapes of encoders, from random weights → their parameters, and how fast they train beside M-BERT's.

What KoreALBERT's Table III prints as its speed column. A step is forward, backward and AdamW over encoder and a head of two
classes, on random pieces of equal length. Each shape takes turns with M-BERT's, step by step, so that whatever else the machine
does meets both alike; the speed-up is the median over the turns. Output: ``speed.json``. Times are of the machine that built
it, and another build gives others.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, field_validator
from torch import nn
from transformers import AutoModel

from korealbert.artifact import Inputs, Progress, Runtime, Spec, Stage, Stats, refuse_repeats
from korealbert.files import write_json
from korealbert.finetune.architectures import BASELINE, SHAPES, config_of, parameters_of
from korealbert.model.device import pick_device


class SpeedSpec(Spec):
    """Which shapes are measured, and how."""

    architectures: tuple[str, ...] = ()
    """Names of shapes, as ``korealbert/finetune/architectures.py`` lists them; none: nothing is measured."""
    batch_size: int = Field(default=32, ge=1)
    """Inputs of one step."""
    sequence_length: int = Field(default=128, ge=8, le=512)
    """Pieces of each input, all real: nothing is padded."""
    steps: int = Field(default=5, ge=1, le=1000)
    """Turns that are timed."""
    warmup_steps: int = Field(default=1, ge=1, le=1000)
    """Turns before them."""
    shrink: Literal[1, 2, 4, 8, 16, 32] = 1
    """Divides widths and vocabularies of all shapes, where their own are too much for the machine; parameters are always told
    of the whole shape."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16: matrix products under autocast."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seeds weights and pieces."""

    @field_validator("architectures")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in SHAPES:
                raise ValueError(f"there is no shape {name!r}; known are {', '.join(SHAPES)}")
        refuse_repeats("architectures", names)
        return names


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


def run(spec: SpeedSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Measure the shapes one after the other; see the module's docstring."""
    if not spec.architectures:
        raise ValueError("no architecture to measure; name some in architectures")
    device = pick_device(runtime.device)
    rows: dict[str, dict[str, Any]] = {}
    with _threads(runtime.threads), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(spec.seed)
        baseline = Trainer(BASELINE, spec, device)
        for number, name in enumerate(spec.architectures, start=1):
            rows[name] = _measured(name, baseline, spec, device)
            runtime.report(Progress(number, len(spec.architectures), "shapes", {"speedup": rows[name]["speedup"]}))
    settings = {name: getattr(spec, name) for name in ("batch_size", "sequence_length", "steps", "shrink", "precision")}
    write_json(out_dir / "speed.json", {"baseline": BASELINE, "device": device.type, **settings, "rows": rows})
    return {name: row["speedup"] for name, row in rows.items()}


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


STAGE = Stage("speed", version=1, spec=SpeedSpec, run=run)
