"""The training loop on a DeepSpeed engine: global means, exact resumption, held-out scores.

One step is one update from ``global_batch_size`` sequences. The targets of the whole global batch are counted before its first
forward pass, so each micro-batch can be weighted such that DeepSpeed's averaging over ranks gives exactly
``mlm + sop_weight · sop + wop_weight · wop`` with each loss a mean over its targets of the global batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from korealbert.artifact import Stats
from korealbert.examples.batches import Batch
from korealbert.files import write_json
from korealbert.model.config import ModelConfig
from korealbert.model.heads import PretrainingModel, initialise
from korealbert.model.parameters import count_parameters
from korealbert.pretrain import checkpoint
from korealbert.pretrain.batches import BatchSource, TensorBatch, count_targets, micro_batches, on_host, to_device
from korealbert.pretrain.heldout import evaluate
from korealbert.pretrain.metrics import Metrics, MetricsFile, TaskTotals
from korealbert.pretrain.objective import task_sums
from korealbert.pretrain.optimizer import Clipping, make_optimizer
from korealbert.pretrain.ranks import AUTOCAST, Ranks, make_engine
from korealbert.pretrain.read_ahead import ReadAhead
from korealbert.pretrain.spec import PretrainSpec

Report = Callable[[int, Metrics], None]
"""Receives the step and the newest metrics at every log line."""


class Stopped(Exception):
    """Training was asked to stop; the checkpoint of ``step`` is on disk."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped after step {step:,}; the next run resumes there")
        self.step = step


@dataclass
class TrainingState:
    """All that a checkpoint needs beside tensors."""

    step: int = 0
    """Steps done."""
    updates: int = 0
    """Updates made: steps less those that fp16 overflow skipped. The learning rate follows it."""
    tokens: int = 0
    """Real tokens seen, specials included, padding not."""
    window: TaskTotals = field(default_factory=TaskTotals)
    """Sums since the last log line."""
    heldout: Metrics = field(default_factory=dict)
    """The newest held-out scores."""


class Trainer:
    """One rank's part of a pretraining run. Every rank constructs the same and calls ``run``; rank 0 writes the files.

    Where ``heldout`` has no rows there are no held-out scores.
    """

    def __init__(
        self,
        spec: PretrainSpec,
        config: ModelConfig,
        *,
        train: BatchSource,
        heldout: BatchSource,
        ranks: Ranks,
        out_dir: Path,
        report: Report = lambda step, metrics: None,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        self.spec, self.config, self.ranks, self.out_dir = spec, config, ranks, out_dir
        self.train, self.heldout, self.report, self.stop_requested = train, heldout, report, stop_requested
        self.model = PretrainingModel(config)
        initialise(self.model, config.initializer_range, spec.seed)
        self.model.to(ranks.device)
        self.optimizer = make_optimizer(self.model, spec.optimizer, scaled=spec.precision == "fp16")
        self.clipping = Clipping(self.optimizer, spec.optimizer.max_grad_norm)
        self.state = TrainingState()
        self.identity = {"spec": spec.model_dump(mode="json"), "config": config.model_dump(mode="json")}
        saved = checkpoint.latest(self.checkpoints)
        if saved is not None:
            self._resume(saved)
        self.resumed_from = self.state.step
        self.engine = make_engine(self.model, self.optimizer, spec, ranks)
        self.scaler = getattr(self.engine, "torch_autocast_z0_gradscaler", None)
        if saved is not None and self.scaler is not None:
            self.scaler.load_state_dict(saved.state["scaler"])
        self.metrics_file = MetricsFile(out_dir / "metrics.jsonl", saved.metrics if saved else b"") if ranks.rank == 0 else None
        self.fresh = saved is None
        self.reader = ReadAhead(self._load)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints live; hidden, so that they leave with the stage's completion."""
        return self.out_dir / ".checkpoints"

    def run(self) -> Stats:
        """Train to the last step, write model and config, and return the stage's statistics.

        Raises ``Stopped`` when asked to stop (after saving), FloatingPointError when training diverged.
        """
        spec, state = self.spec, self.state
        seconds, tokens_before = 0.0, state.tokens
        if self.fresh:
            self._score_heldout()
        self.engine.train()
        while state.step < spec.steps:
            start = time.perf_counter()
            self._train_step()
            seconds += time.perf_counter() - start
            if state.step % spec.log_every == 0 or state.step == spec.steps:
                self._log((state.tokens - tokens_before) / seconds)
            if state.step % spec.heldout_every == 0 or state.step == spec.steps:
                self._score_heldout()
            if state.step % spec.checkpoint_every == 0 or state.step == spec.steps:
                self._save()
        if self.ranks.rank == 0:
            self._write_model()
        return self._stats((state.tokens - tokens_before) / seconds if seconds else None)

    def _load(self, start: int, count: int) -> list[tuple[Batch, TensorBatch]]:
        """This rank's micro-batches of a global batch, ready to be copied to the device."""
        ranks = self.ranks
        batches = micro_batches(self.train, self.spec, step=start // count, rank=ranks.rank, world_size=ranks.world_size)
        return [(batch, on_host(batch, pinned=ranks.device.type == "cuda")) for batch in batches]

    def _train_step(self) -> None:
        spec, ranks, state = self.spec, self.ranks, self.state
        size = spec.global_batch_size
        loaded = self.reader.take(state.step * size, size)
        batches = [batch for batch, _ in loaded]
        counts = np.sum([count_targets(batch, self.model.heads) for batch in batches], axis=0)
        tokens = sum(int(batch.lengths.sum()) for batch in batches)
        *targets, all_tokens, stop = ranks.sum([*map(float, counts), float(tokens), float(self.stop_requested())])
        if stop:
            self._save()
            raise Stopped(state.step)
        scale = torch.tensor(
            [w * ranks.world_size / max(n, 1.0) for w, n in zip(spec.task_weights(state.step), targets, strict=True)],
            device=ranks.device,
        )
        rate = spec.schedule.learning_rate(state.updates, peak=spec.optimizer.lr, steps=spec.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = torch.zeros(2, len(counts), dtype=torch.float64, device=ranks.device)
        updates_before = self.clipping.updates
        for index, (_, tensors_on_host) in enumerate(loaded):
            torch.manual_seed(dropout_seed(spec.seed, state.step, index * ranks.world_size + ranks.rank))
            tensors = to_device(tensors_on_host, ranks.device)
            losses, correct = task_sums(self.engine(*tensors.inputs), tensors)
            self.engine.backward((losses * scale).sum(), scale_wrt_gas=False)
            self.engine.step()
            sums += torch.stack([losses.detach().double(), correct.double()])
        summed = ranks.sum(sums.flatten().tolist())
        state.step += 1
        state.tokens += int(all_tokens)
        updated = self.clipping.updates - updates_before
        state.updates += updated
        if updated:  # An overflown fp16 step has no losses worth averaging.
            state.window.add(losses=summed[:3], correct=summed[3:], targets=targets)
            state.window.check_finite(state.step)

    def _log(self, tokens_per_second: float) -> None:
        state = self.state
        metrics = state.window.metrics(self.spec.task_weights(state.step - 1))
        state.window = TaskTotals()
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        metrics["gradient_norm"] = float(self.clipping.norm)
        if self.metrics_file:
            self.metrics_file.append("train", state.step, {"tokens": state.tokens, **metrics})
        self.report(state.step, {**metrics, "tokens_per_second": tokens_per_second})

    def _score_heldout(self) -> None:
        if not self.heldout.num_rows:
            return
        batch_size, autocast = self.spec.micro_batch_size, AUTOCAST[self.spec.precision]
        metrics = evaluate(self.model, self.heldout, self.ranks, batch_size=batch_size, autocast=autocast)
        self.state.heldout = metrics
        if self.metrics_file:
            self.metrics_file.append("heldout", self.state.step, {"tokens": self.state.tokens, **metrics})
        self.report(self.state.step, {f"heldout_{name}": value for name, value in metrics.items()})

    def _save(self) -> None:
        if self.metrics_file is not None:
            scaler = self.scaler.state_dict() if self.scaler is not None else None
            checkpoint.save(
                self.checkpoints,
                step=self.state.step,
                model=self.model,
                optimizer=self.optimizer,
                state={"identity": self.identity, "training": asdict(self.state), "scaler": scaler},
                metrics=self.metrics_file.content(),
            )
        self.ranks.sum([0.0])  # Nobody leaves before rank 0 has written.

    def _resume(self, saved: checkpoint.Checkpoint) -> None:
        if saved.state["identity"] != self.identity:
            raise ValueError(f"{saved.path} belongs to another spec; remove {self.checkpoints} to start over")
        values = dict(saved.state["training"])
        self.state = TrainingState(**{**values, "window": TaskTotals(**values["window"])})
        checkpoint.restore(saved, self.model, self.optimizer)

    def _write_model(self) -> None:
        save_file(checkpoint.detached(self.model), self.out_dir / "model.safetensors", metadata={"format": "pt"})
        write_json(self.out_dir / "config.json", self.config.model_dump(mode="json"), sort_keys=True)

    def _stats(self, tokens_per_second: float | None) -> Stats:
        state = self.state
        sequences = state.step * self.spec.global_batch_size
        return {
            "steps": state.step,
            "skipped_steps": state.step - state.updates,
            "tokens": state.tokens,
            "sequences": sequences,
            "epochs": round(sequences / self.train.num_rows, 3),
            "parameters": count_parameters(self.model),
            "sequence_length": self.train.sequence_length,
            "heldout": state.heldout,
            "processes": self.ranks.world_size,
            "resumed_from_step": self.resumed_from,
            "tokens_per_second": tokens_per_second and round(tokens_per_second, 1),
        }


def dropout_seed(seed: int, step: int, micro_batch: int) -> int:
    """Seed of torch's generator for one micro-batch of the global batch: the same whichever rank computes it."""
    digest = blake2b(f"dropout/{seed}/{step}/{micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
