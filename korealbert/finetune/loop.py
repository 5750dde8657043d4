"""The training loop of fine-tuning: length-bucketed batches, AdamW with linear warm-up and decay, best epoch by dev score.

The encoder may compute in bfloat16. Weights, optimiser, heads and losses are always float32.
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
"""So many batches of shuffled examples are sorted by length together: enough to save padding, and still random."""

_Indices = npt.NDArray[np.int64]

EVALUATION_BATCH_SIZE = 128
"""Not a setting, because the batch size can change the last bit of a score."""


class Diverged(ValueError):
    """The loss or the weights are no longer finite."""


_CURVE_POINTS = 200
"""Approximate number of points of a loss curve, for any number of steps."""


class Answers(NamedTuple):
    """One prediction per example and, if requested, the loss of each example: the mean over its features."""

    predicted: list[Any]
    losses: list[float]


@dataclass(frozen=True)
class FinetunedModel:
    """An encoder with the head of a task, on a device."""

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
        """Put a fresh head on an encoder, whose last layer computes only the first position if the head reads no other."""
        task = spec.benchmark
        head = task.head(hidden_size=encoder.hidden_size, dropout=spec.dropout, train=train)
        if spec.whiten:
            head = WhitenedHead(head, encoder.hidden_size)
        if isinstance(head, PooledHead) and not task.pools_mean:
            encoder.keep_first_position()
        return cls(task, encoder.to(device), head.to(device), pad_id, device, spec.precision)

    def logits(self, features: Sequence[Feature]) -> tuple[Any, list[Any]]:
        """Return logits and targets of a batch."""
        batch = pad(features, pad_id=self.pad_id, device=self.device)
        return self.logits_of(batch), batch.targets

    def logits_of(self, batch: PaddedBatch) -> Any:
        """Return the logits of a padded batch."""
        return self.head(self.encoded(batch))

    def encoded(self, batch: PaddedBatch) -> EncoderOutput:
        """Return the head's input for a padded batch, in float32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            encoded = self.encoder(batch)
        hidden_BLH = encoded.hidden_BLH.float()
        pooled_BH = mean_vectors(hidden_BLH, batch.attention_mask_BL) if self.task.pools_mean else encoded.pooled_BH.float()
        return EncoderOutput(hidden_BLH, pooled_BH, encoded.features)

    def whiten(self, features: Sequence[Feature]) -> None:
        """Fit the whitening map before the head to the vectors of these features, without dropout."""
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
        """Predict each example, without dropout."""
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
        """Return the evidence for the prediction of each example, without dropout."""
        weighed: list[Any] = [None] * len(encoded.features)
        for rows, batch, logits, _ in self._evaluated(encoded.features):
            for row, found in zip(rows, self.task.weigh(logits, batch), strict=True):
                weighed[row] = found
        return self.task.evidence(encoded, weighed)

    def _evaluated(self, features: Sequence[Feature]) -> Iterator[tuple[_Indices, list[Feature], Any, list[Any]]]:
        """Yield batches as positions in ``features``, features, logits and targets.

        Raises Diverged if a logit is nan, since argmax would silently take the first class.
        """
        self.modules.eval()
        for rows in evaluation_batches(lengths_of(features), batch_size=EVALUATION_BATCH_SIZE):
            batch = [features[row] for row in rows]
            logits, targets = self.logits(batch)
            parts = logits if isinstance(logits, tuple) else (logits,)
            if any(bool(part.isnan().any()) for part in parts if isinstance(part, torch.Tensor)):
                raise Diverged("the model's outputs are nan; lower learning_rate or look for damaged weights")
            yield rows, batch, logits, targets

    def evaluate(self, encoded: Encoded) -> Scores:
        """Return the task's scores as its official script computes them."""
        return self.task.score(encoded.examples, self.answer(encoded).predicted, "official")


def _row(logits: Any, row: int) -> Any:
    """Return the logits of one input, as a batch of one."""
    if isinstance(logits, torch.Tensor):
        return logits[row : row + 1]
    return type(logits)(*(part[row : row + 1] for part in logits))


def _by_example(features: Sequence[Feature], losses: npt.NDArray[np.float64], examples: int) -> list[float]:
    """Return the mean loss over each example's features. Every example has at least one."""
    owners = np.array([feature.example for feature in features])
    means: list[float] = (np.bincount(owners, losses, examples) / np.bincount(owners, minlength=examples)).tolist()
    return means


@dataclass
class _History:
    """The loss curve of a run, and its dev scores after each epoch."""

    curve: list[dict[str, float]] = field(default_factory=list)
    """``step``, ``loss`` (mean since the previous point) and ``lr`` of that step."""
    epochs: list[dict[str, float]] = field(default_factory=list)
    """``epoch`` counted from 1, and its dev scores."""
    best_epoch: int = 0
    """The earliest of equally good epochs."""
    dev: Scores = field(default_factory=lambda: Scores({}))
    """Dev scores of the best epoch."""


def train(
    model: FinetunedModel,
    train_features: Sequence[Feature],
    dev: Encoded,
    spec: FinetuneSpec,
    report: Callable[[int, int, dict[str, float]], None],
) -> _History:
    """Fine-tune ``model`` in place and load the weights of its best epoch on dev.

    ``report(step, total_steps, metrics)`` is called at every point of the curve. Raises Diverged if the loss is not finite.
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
    """Train the encoder of ``model`` in place on entailment triples, with the settings of ``spec.contrast``."""
    assert spec.contrast is not None
    settings = {name: getattr(spec.contrast, name) for name in ("epochs", "batch_size", "learning_rate", "warmup_ratio")}
    head = triples.task.head(hidden_size=model.encoder.hidden_size, dropout=0.0, train=triples.train)
    ranked = FinetunedModel(triples.task, model.encoder, head, model.pad_id, model.device, model.precision)
    others = dict.fromkeys(("micro_batch_size", "patience", "steps", "warmup_steps"))
    return train(ranked, triples.train, triples.dev, spec.with_settings({**settings, **others}), report)


def _train_step(
    model: FinetunedModel, features: Sequence[Feature], optimizer: torch.optim.Optimizer, spec: FinetuneSpec
) -> torch.Tensor:
    """Take one optimiser step and return its loss. The gradients of micro-batches are weighted by their sizes."""
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
    """Return the learning rate's factor as a function of finished steps: a linear rise to 1, then a linear fall.

    No step has a factor of 0.
    """
    warmup = round(total_steps * warmup_ratio)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return max(0.0, (total_steps - step) / max(1, total_steps - warmup))

    return factor


@contextlib.contextmanager
def repeatable(*, seed: int, threads: int, device: torch.device) -> Iterator[None]:
    """Seed torch and make it deterministic on the CPU; its former state is restored afterwards.

    Results are equal bit by bit only for the same number of threads, which decides the order of partial sums. CUDA may use
    its faster nondeterministic kernels.
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
    """Return the examples' positions in random batches of similar length, which depend only on seed and epoch.

    Every batch but one is full.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    order = random.permutation(len(lengths))
    length_N = np.asarray(lengths)
    bucket = batch_size * _BATCHES_PER_BUCKET
    batches = []
    for start in range(0, len(order), bucket):
        part = order[start : start + bucket]
        by_length = part[np.argsort(length_N[part], kind="stable")]
        batches += [by_length[at : at + batch_size] for at in range(0, len(by_length), batch_size)]
    return [batches[index] for index in random.permutation(len(batches))]


def evaluation_batches(lengths: Sequence[int] | _Indices, *, batch_size: int) -> list[_Indices]:
    """Return the examples' positions in batches, longest first, so that a lack of memory shows in the first batch."""
    order = np.argsort(-np.asarray(lengths), kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
