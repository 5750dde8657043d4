"""Fine-tuning: epochs over length-bucketed batches, AdamW with linear warm-up and decay, the best epoch by dev.

The encoder may compute in bfloat16; heads and losses see float32, and so do the weights and their optimiser.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from korealbert.finetune.encoders.encoder import Encoder, PaddedBatch, mean_vectors, pad
from korealbert.finetune.features import EncodedTriples, lengths_of
from korealbert.finetune.spec import FinetuneSpec, Precision
from korealbert.finetune.task import Encoded, EncoderOutput, Feature, Scores, Task
from korealbert.finetune.task_types.heads import PooledHead, WhitenedHead
from korealbert.model.parameters import parameter_groups

_BATCHES_PER_BUCKET = 50
"""Training batches are cut from stretches of this many shuffled batches, each sorted by length."""

_Indices = npt.NDArray[np.int64]

EVALUATION_BATCH_SIZE = 128
"""Fixed, because the size of a batch can change the last bit of a score."""


class Diverged(ValueError):
    """The loss is not finite any more, or the weights are not."""


_CURVE_POINTS = 200
"""Approximate number of points of a loss curve, whatever the number of steps."""


class Answers(NamedTuple):
    """One prediction per example in order and, where asked for, the loss of each: the mean over its features."""

    predicted: list[Any]
    losses: list[float]


@dataclass(frozen=True)
class FinetunedModel:
    """An encoder with a task's head, on a device."""

    task: Task
    encoder: Encoder
    head: nn.Module
    pad_id: int
    device: torch.device
    precision: Precision = "float32"

    @classmethod
    def of(
        cls, spec: FinetuneSpec, encoder: Encoder, train: Sequence[Feature], *, pad_id: int, device: torch.device
    ) -> FinetunedModel:
        """An encoder with a fresh head. Where the head reads the pooled vector alone, the last layer computes no more."""
        task = spec.benchmark
        head = task.head(hidden_size=encoder.hidden_size, dropout=spec.dropout, train=train)
        if spec.whiten:
            head = WhitenedHead(head, encoder.hidden_size)
        if isinstance(head, PooledHead) and not task.pools_mean:
            encoder.keep_first_position()
        return cls(task, encoder.to(device), head.to(device), pad_id, device, spec.precision)

    def logits(self, features: Sequence[Feature]) -> tuple[Any, list[Any]]:
        """Logits and targets of a batch."""
        batch = pad(features, pad_id=self.pad_id, device=self.device)
        return self.logits_of(batch), batch.targets

    def logits_of(self, batch: PaddedBatch) -> Any:
        """What the head gives for a padded batch."""
        return self.head(self.encoded(batch))

    def encoded(self, batch: PaddedBatch) -> EncoderOutput:
        """What the head reads of a padded batch, in float32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            encoded = self.encoder(batch)
        hidden_BLH = encoded.hidden_BLH.float()
        pooled_BH = mean_vectors(hidden_BLH, batch.attention_mask_BL) if self.task.pools_mean else encoded.pooled_BH.float()
        return EncoderOutput(hidden_BLH, pooled_BH, encoded.features)

    def whiten(self, features: Sequence[Feature]) -> None:
        """Let the map before the head whiten the vectors of these features, without dropout."""
        assert isinstance(self.head, WhitenedHead)
        self.modules.eval()
        with torch.inference_mode():
            batches = evaluation_batches(lengths_of(features), batch_size=EVALUATION_BATCH_SIZE)
            padded = (pad([features[row] for row in rows], pad_id=self.pad_id, device=self.device) for rows in batches)
            vectors_NH = torch.cat([self.encoded(batch).pooled_BH for batch in padded])
        self.head.whiten(vectors_NH)

    @property
    def modules(self) -> nn.ModuleDict:
        """Encoder and head as one module."""
        return nn.ModuleDict({"encoder": self.encoder, "head": self.head})

    @torch.inference_mode()
    def answer(self, encoded: Encoded, *, with_losses: bool = False) -> Answers:
        """The model's prediction for each example, without dropout."""
        features = encoded.features
        decoded: list[Any] = [None] * len(features)
        losses = np.zeros(len(features))
        for rows, batch, logits, targets in self._evaluated(features):
            for row, found in zip(rows, self.task.decode(logits, batch), strict=True):
                decoded[row] = found
            if with_losses:
                single = [self.task.loss(_row(logits, n), [target]) for n, target in enumerate(targets)]
                losses[rows] = torch.stack(single).double().cpu().numpy()
        predicted = self.task.predictions(encoded, decoded)
        return Answers(predicted, _by_example(features, losses, len(encoded.examples)) if with_losses else [])

    @torch.inference_mode()
    def evidence(self, encoded: Encoded) -> list[Any]:
        """The evidence for the model's prediction for each example, without dropout."""
        weighed: list[Any] = [None] * len(encoded.features)
        for rows, batch, logits, _ in self._evaluated(encoded.features):
            for row, found in zip(rows, self.task.weigh(logits, batch), strict=True):
                weighed[row] = found
        return self.task.evidence(encoded, weighed)

    def _evaluated(self, features: Sequence[Feature]) -> Iterator[tuple[_Indices, list[Feature], Any, list[Any]]]:
        """Batches by the numbers of their features, with logits and targets. Raises Diverged where a logit is nan: the best of
        them would be the first."""
        self.modules.eval()
        for rows in evaluation_batches(lengths_of(features), batch_size=EVALUATION_BATCH_SIZE):
            batch = [features[row] for row in rows]
            logits, targets = self.logits(batch)
            parts = logits if isinstance(logits, tuple) else (logits,)
            if any(bool(part.isnan().any()) for part in parts if isinstance(part, torch.Tensor)):
                raise Diverged("the model's outputs are nan; lower learning_rate or look for damaged weights")
            yield rows, batch, logits, targets

    def evaluate(self, encoded: Encoded) -> Scores:
        """The task's scores, as its official script prints them."""
        return self.task.score(encoded.examples, self.answer(encoded).predicted, "official")


def _row(logits: Any, row: int) -> Any:
    """The logits of one input, as a batch of one."""
    if isinstance(logits, torch.Tensor):
        return logits[row : row + 1]
    return type(logits)(*(part[row : row + 1] for part in logits))


def _by_example(features: Sequence[Feature], losses: npt.NDArray[np.float64], examples: int) -> list[float]:
    """Mean loss of each example's features. Every example has one at least."""
    owners = np.array([feature.example for feature in features])
    means: list[float] = (np.bincount(owners, losses, examples) / np.bincount(owners, minlength=examples)).tolist()
    return means


@dataclass
class _History:
    """Record of a run: the loss curve, and dev scores after each epoch."""

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
) -> _History:
    """Fine-tune ``model`` in place and leave it with the weights of the epoch that is best on dev.

    ``report(step, total_steps, metrics)`` is called at every point of the curve. Raises Diverged when the loss is not finite.
    """
    history = _History()
    lengths = lengths_of(train_features)
    steps_per_epoch = math.ceil(len(lengths) / spec.batch_size)
    total_steps = spec.steps or steps_per_epoch * spec.epochs
    warmup_ratio = spec.warmup_ratio if spec.warmup_steps is None else spec.warmup_steps / total_steps
    groups = parameter_groups(model.modules, weight_decay=spec.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=spec.learning_rate, eps=1e-8, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, linear_schedule(total_steps, warmup_ratio))
    every = max(1, total_steps // _CURVE_POINTS)
    best: dict[str, torch.Tensor] = {}
    recent: list[torch.Tensor] = []
    step = 0
    for epoch in range(math.ceil(total_steps / steps_per_epoch)):
        model.modules.train()
        batches = training_batches(lengths, batch_size=spec.batch_size, seed=spec.seed, epoch=epoch)
        for rows in batches[: total_steps - step]:
            step += 1
            rate = float(optimizer.param_groups[0]["lr"])
            loss = _train_step(model, [train_features[row] for row in rows], optimizer, spec)
            schedule.step()
            recent.append(loss)
            if step % every == 0 or step == total_steps:
                point: dict[str, float] = {"step": step, "loss": _mean(recent, step), "lr": rate}
                history.curve.append(point)
                recent.clear()
                report(step, total_steps, {"loss": point["loss"], "learning_rate": rate})
        scores = model.evaluate(dev)
        history.epochs.append({"epoch": epoch + 1, **scores.values})
        if not best or scores.values[model.task.selects_by] > history.dev.values[model.task.selects_by]:
            history.best_epoch, history.dev = epoch + 1, scores
            best = {name: weight.detach().clone() for name, weight in model.modules.state_dict().items()}
        elif spec.patience is not None and epoch + 1 - history.best_epoch >= spec.patience:
            break
    model.modules.load_state_dict(best)
    return history


def contrast(
    model: FinetunedModel,
    triples: EncodedTriples,
    spec: FinetuneSpec,
    report: Callable[[int, int, dict[str, float]], None],
) -> _History:
    """Train the encoder of ``model`` in place on triples of entailment, as ``spec.contrast`` says."""
    assert spec.contrast is not None
    settings = {name: getattr(spec.contrast, name) for name in ("epochs", "batch_size", "learning_rate", "warmup_ratio")}
    head = triples.task.head(hidden_size=model.encoder.hidden_size, dropout=0.0, train=triples.train)
    ranked = FinetunedModel(triples.task, model.encoder, head, model.pad_id, model.device, model.precision)
    others = dict.fromkeys(("micro_batch_size", "patience", "steps", "warmup_steps"))
    return train(ranked, triples.train, triples.dev, spec.with_settings({**settings, **others}), report)


def _train_step(
    model: FinetunedModel, features: Sequence[Feature], optimizer: torch.optim.Optimizer, spec: FinetuneSpec
) -> torch.Tensor:
    """One optimiser step; the loss of its batch, weighted by examples where it was cut into smaller ones."""
    optimizer.zero_grad(set_to_none=True)
    size = spec.micro_batch_size or len(features)
    total = torch.zeros((), device=model.device)
    for start in range(0, len(features), size):
        part = features[start : start + size]
        logits, targets = model.logits(part)
        loss = model.task.loss(logits, targets) * (len(part) / len(features))
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.modules.parameters(), spec.max_grad_norm)
    optimizer.step()
    return total


def _mean(losses: Sequence[torch.Tensor], step: int) -> float:
    mean = float(torch.stack(list(losses)).double().mean())
    if not math.isfinite(mean):
        raise Diverged(f"the loss at step {step:,} is {mean}; lower learning_rate or look for damaged weights")
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
    """torch seeded, bit-repeatable on the CPU, with this number of threads; everything is restored afterwards.

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


def training_batches(lengths: Sequence[int] | _Indices, *, batch_size: int, seed: int, epoch: int) -> list[_Indices]:
    """Every example once, in batches of similar length and random order: a function of seed and epoch alone.

    All batches are full but one.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    order = random.permutation(len(lengths))
    length_N = np.asarray(lengths)
    bucket = batch_size * _BATCHES_PER_BUCKET
    batches = []
    for start in range(0, len(order), bucket):
        stretch = order[start : start + bucket]
        by_length = stretch[np.argsort(length_N[stretch], kind="stable")]
        batches += [by_length[at : at + batch_size] for at in range(0, len(by_length), batch_size)]
    return [batches[index] for index in random.permutation(len(batches))]


def evaluation_batches(lengths: Sequence[int] | _Indices, *, batch_size: int) -> list[_Indices]:
    """Every example once, longest first: the first batch shows whether memory suffices."""
    order = np.argsort(-np.asarray(lengths), kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
