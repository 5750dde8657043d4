"""Fine-tuning: epochs over length-bucketed batches, AdamW with linear warm-up and decay, the best epoch by dev."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from korealbert.finetune.encode import evaluation_batches, pad, training_batches
from korealbert.finetune.encoder import Encoder
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task import Encoded, Feature, Scores, Task
from korealbert.model.parameters import parameter_groups

EVALUATION_BATCH_SIZE = 128
"""Fixed, because the size of a batch can change the last bit of a score."""

CURVE_POINTS = 200
"""About so many points make a loss curve, whatever the number of steps."""


@dataclass(frozen=True)
class FinetunedModel:
    """An encoder with a task's head, on a device."""

    task: Task
    encoder: Encoder
    head: nn.Module
    pad_id: int
    device: torch.device

    def logits(self, features: Sequence[Feature]) -> tuple[Any, list[Any]]:
        """Logits and targets of a batch."""
        batch = pad(features, pad_id=self.pad_id, device=self.device)
        return self.head(self.encoder(batch)), batch.targets

    @property
    def modules(self) -> nn.ModuleDict:
        """Encoder and head as one module."""
        return nn.ModuleDict({"encoder": self.encoder, "head": self.head})

    def predict(self, encoded: Encoded) -> list[Any]:
        """One prediction per example, in order. Dropout is off."""
        self.modules.eval()
        features = encoded.features
        decoded: list[Any] = [None] * len(features)
        lengths = [len(feature.input_ids) for feature in features]
        with torch.inference_mode():
            for rows in evaluation_batches(lengths, batch_size=EVALUATION_BATCH_SIZE):
                batch = [features[row] for row in rows]
                logits, _ = self.logits(batch)
                for row, found in zip(rows, self.task.decode(logits, batch), strict=True):
                    decoded[row] = found
        return self.task.predictions(encoded, decoded)

    def evaluate(self, encoded: Encoded) -> Scores:
        """The task's scores, as its official script prints them."""
        return self.task.score(encoded.examples, self.predict(encoded), "official")


@dataclass
class History:
    """What happened: a loss curve, and dev scores after each epoch."""

    curve: list[dict[str, float]] = field(default_factory=list)
    """``step``, ``loss`` (mean since the point before) and ``lr`` at that step."""
    epochs: list[dict[str, float]] = field(default_factory=list)
    """``epoch`` from 1 and all dev scores of it."""
    best_epoch: int = 0
    dev: Scores = field(default_factory=lambda: Scores({}))
    """Scores of the best epoch; the earliest of equals."""


def train(
    model: FinetunedModel,
    train_features: Sequence[Feature],
    dev: Encoded,
    spec: FinetuneSpec,
    report: Callable[[int, int, dict[str, float]], None],
) -> History:
    """Fine-tune ``model`` in place and leave it with the weights of the epoch that is best on dev.

    ``report(step, total_steps, metrics)`` is called at every point of the curve. Raises ValueError when the loss is not finite.
    """
    history = History()
    lengths = [len(feature.input_ids) for feature in train_features]
    steps_per_epoch = math.ceil(len(lengths) / spec.batch_size)
    total_steps = steps_per_epoch * spec.epochs
    groups = parameter_groups(model.modules, weight_decay=spec.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=spec.learning_rate, eps=1e-8)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, linear_schedule(total_steps, spec.warmup_ratio))
    every = max(1, total_steps // CURVE_POINTS)
    best: dict[str, torch.Tensor] = {}
    recent: list[torch.Tensor] = []
    step = 0
    for epoch in range(spec.epochs):
        model.modules.train()
        for rows in training_batches(lengths, batch_size=spec.batch_size, seed=spec.seed, epoch=epoch):
            step += 1
            rate = float(optimizer.param_groups[0]["lr"])
            loss = _train_step(model, [train_features[row] for row in rows], optimizer, spec.max_grad_norm)
            schedule.step()
            recent.append(loss)
            if step % every == 0 or step == total_steps:
                point: dict[str, float] = {"step": step, "loss": _mean(recent, step), "lr": rate}
                history.curve.append(point)
                recent.clear()
                report(step, total_steps, {"loss": point["loss"], "learning_rate": rate})
        scores = model.evaluate(dev)
        history.epochs.append({"epoch": epoch + 1, **scores.values})
        if not best or scores.values[model.task.metric] > history.dev.values[model.task.metric]:
            history.best_epoch, history.dev = epoch + 1, scores
            best = {name: weight.detach().clone() for name, weight in model.modules.state_dict().items()}
    model.modules.load_state_dict(best)
    return history


def _train_step(
    model: FinetunedModel, features: Sequence[Feature], optimizer: torch.optim.Optimizer, max_grad_norm: float
) -> torch.Tensor:
    logits, targets = model.logits(features)
    loss = model.task.loss(logits, targets)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.modules.parameters(), max_grad_norm)
    optimizer.step()
    return loss.detach()


def _mean(losses: Sequence[torch.Tensor], step: int) -> float:
    mean = float(torch.stack(list(losses)).double().mean())
    if not math.isfinite(mean):
        raise ValueError(f"the loss at step {step:,} is {mean}; lower learning_rate or look for damaged weights")
    return mean


def linear_schedule(total_steps: int, warmup_ratio: float) -> Callable[[int], float]:
    """Factor of the learning rate after ``step`` finished steps: up to 1 over the warm-up, then down; never 0 in a step."""
    warmup = round(total_steps * warmup_ratio)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return max(0.0, (total_steps - step) / max(1, total_steps - warmup))

    return factor


@contextlib.contextmanager
def repeatable(*, seed: int, threads: int, device: torch.device) -> Iterator[None]:
    """torch seeded, bit-repeatable on the CPU, on so many threads; everything as it was afterwards.

    Bits repeat for one number of threads: more of them add partial sums in another order. CUDA stays as fast as it is.
    """
    threads_before = torch.get_num_threads()
    deterministic_before = torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(device.type == "cpu")
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield
    finally:
        torch.use_deterministic_algorithms(deterministic_before)
        torch.set_num_threads(threads_before)
