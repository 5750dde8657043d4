"""The training loop of fine-tuning: length-bucketed batches, AdamW with linear warm-up and decay, best epoch by dev score."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from korealbert.finetune.features import EncodedTriples, lengths_of
from korealbert.finetune.model import Diverged, FinetunedModel, Indices
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task import Encoded, Feature, Scores
from korealbert.model.parameters import parameter_groups

_BATCHES_PER_BUCKET = 50
"""Number of batches whose shuffled examples are sorted by length together: enough to save padding, and still random."""

_CURVE_POINTS = 200
"""Approximate number of points of a loss curve, for any number of steps."""


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

    ``report(step, total_steps, metrics)`` is called at every point of the curve. Raises Diverged if the loss is not finite,
    and ValueError if the warm-up is as long as the run.
    """
    history = _History()
    lengths = lengths_of(train_features)
    steps_per_epoch = math.ceil(len(lengths) / spec.batch_size)
    total_steps = steps_of(spec, len(lengths))
    warmup_ratio = spec.warmup_ratio if spec.warmup_steps is None else spec.warmup_steps / total_steps
    optimizer = torch.optim.AdamW(optimizer_groups(model, spec), lr=spec.learning_rate, eps=1e-8, fused=True)
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


def steps_of(spec: FinetuneSpec, features: int) -> int:
    """Return the number of steps of a run over this many features. Raises ValueError if its warm-up is as long."""
    total = spec.steps or math.ceil(features / spec.batch_size) * spec.epochs
    if spec.warmup_steps is not None and spec.warmup_steps >= total:
        raise ValueError(f"warmup_steps = {spec.warmup_steps} leaves no step of {total}; shorten the warm-up or train longer")
    return total


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


def optimizer_groups(model: FinetunedModel, spec: FinetuneSpec) -> list[dict[str, Any]]:
    """Return the parameters in groups for AdamW. The encoder's tables of embeddings have learning rates of their own."""
    groups = parameter_groups(model.modules, weight_decay=spec.weight_decay)
    if spec.embedding_lr_factor == 1:
        return groups
    tables = {module.weight for module in model.encoder.modules() if isinstance(module, nn.Embedding)}
    matrices, vectors = groups
    embeddings = {**matrices, "params": [*tables], "lr": spec.learning_rate * spec.embedding_lr_factor}
    return [{**matrices, "params": [p for p in matrices["params"] if p not in tables]}, vectors, embeddings]


def _train_step(
    model: FinetunedModel, features: Sequence[Feature], optimizer: torch.optim.Optimizer, spec: FinetuneSpec
) -> torch.Tensor:
    """Take one optimiser step and return its loss. Micro-batches are weighted by their terms, so their sizes change nothing."""
    optimizer.zero_grad(set_to_none=True)
    size = spec.micro_batch_size or len(features)
    total = torch.zeros((), device=model.device)
    terms = max(1, model.task.terms([feature.target for feature in features]))
    for start in range(0, len(features), size):
        part = features[start : start + size]
        logits, targets = model.logits(part)
        loss = model.task.loss(logits, targets) * (model.task.terms(targets) / terms)
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


def training_batches(lengths: Sequence[int] | Indices, *, batch_size: int, seed: int, epoch: int) -> list[Indices]:
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
