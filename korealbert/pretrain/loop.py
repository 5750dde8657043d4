"""The training loop on a DeepSpeed engine: global means, exact resumption, held-out scores.

One step is one update from ``global_batch_size`` sequences. The targets of the whole global batch are counted before its first
forward pass, so each micro-batch can be weighted such that DeepSpeed's averaging over ranks gives exactly
``mlm + sop_weight · sop + wop_weight · wop`` with each loss a mean over its targets of the global batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from korealbert.artifact import Stats
from korealbert.examples.batches import Batch
from korealbert.files import write_json
from korealbert.model.config import ModelConfig
from korealbert.model.flops import training_flops
from korealbert.model.heads import PretrainingModel, initialise
from korealbert.model.parameters import count_parameters
from korealbert.pretrain import checkpoint
from korealbert.pretrain.batches import BatchSource, TensorBatch, count_targets, micro_batches, on_host, to_device
from korealbert.pretrain.guard import Guard
from korealbert.pretrain.heldout import evaluate
from korealbert.pretrain.initial import digest_of, freeze, load_initial
from korealbert.pretrain.lamb import Lamb
from korealbert.pretrain.metrics import Metrics, MetricsFile, TaskTotals, rounded
from korealbert.pretrain.objective import task_sums
from korealbert.pretrain.optimizer import Clipping, make_optimizer
from korealbert.pretrain.ranks import AUTOCAST, Ranks, make_engine
from korealbert.pretrain.read_ahead import ReadAhead
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.speed import Speed, matrix_rate
from korealbert.pretrain.state import TrainingState

log = logging.getLogger(__name__)

Report = Callable[[int, Metrics], None]
"""Receives the step and the newest metrics at every log line."""


class Collapsed(FloatingPointError):
    """Training has collapsed more often than its guard allows."""


class Stopped(Exception):
    """Training was asked to stop; the checkpoint of ``step`` is on disk."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped after step {step:,}; the next run resumes there")
        self.step = step


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
        initial: Path | None = None,
        report: Report = lambda step, metrics: None,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        self.spec, self.config, self.ranks, self.out_dir = spec, config, ranks, out_dir
        self.train, self.heldout, self.report, self.stop_requested = train, heldout, report, stop_requested
        self.model = PretrainingModel(config)
        initialise(self.model, config.initializer_range, spec.seed)
        if initial is not None:
            load_initial(self.model, initial)
        self.frozen = freeze(self.model, spec.frozen)
        self.frozen_digest = digest_of(self.frozen)
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
        self.speed = Speed(self._flops_per_sequence(), self._peak())

    @property
    def guard(self) -> Guard:
        """The judge of this run's steps; what it remembers belongs to the state."""
        return Guard(self.spec.guard, self.state.guard)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints live; hidden, so that they leave with the stage's completion."""
        return self.out_dir / ".checkpoints"

    def _flops_per_sequence(self) -> int:
        example = self.train.gather(0, np.zeros(1, dtype=np.int64))
        slots = {"mlm_slots": example.mlm_positions.shape[1], "wop_slots": example.wop_positions.shape[1]}
        return training_flops(self.config, length=self.train.sequence_length, **slots)

    def _peak(self) -> float:
        return self.ranks.sum([matrix_rate(self.ranks.device, AUTOCAST[self.spec.precision] or torch.float32)])[0]

    def run(self) -> Stats:
        """Train to the last step, write model and config, and return the stage's statistics.

        Raises ``Stopped`` when asked to stop (after saving), ``Collapsed`` when training diverged more often than allowed.
        """
        spec = self.spec
        if self.fresh:
            self._score_heldout()
            self._save()
        self.engine.train()
        while self.state.step < spec.steps:
            with self.speed.step():
                fault = self._train_step()
            if fault is not None:
                self._roll_back(fault)
                continue
            if self.state.step % spec.log_every == 0 or self.state.step == spec.steps:
                self._log()
            if self.state.step % spec.heldout_every == 0 or self.state.step == spec.steps:
                fault = self._score_heldout()
            if fault is not None:
                self._roll_back(fault)
                continue
            if self.state.step in spec.snapshots and self.ranks.rank == 0:
                self._write_snapshot()
            if self.state.step % spec.checkpoint_every == 0 or self.state.step == spec.steps:
                self.state.returns_to = self.state.step
                self._save()
        if digest_of(self.frozen) != self.frozen_digest:
            raise RuntimeError("training has changed tensors that are declared frozen; this model must not be used")
        if self.ranks.rank == 0:
            self._write_model()
        return self._stats()

    def _load(self, start: int, count: int) -> list[tuple[Batch, TensorBatch]]:
        """This rank's micro-batches of a global batch, ready to be copied to the device."""
        whose = {"rank": self.ranks.rank, "world_size": self.ranks.world_size}
        batches = micro_batches(self.train, self.spec, start=start, count=count, **whose)
        return [(batch, on_host(batch, pinned=self.ranks.device.type == "cuda")) for batch in batches]

    def _train_step(self) -> str | None:
        """One update; returns what the guard has against it."""
        spec, ranks, state = self.spec, self.ranks, self.state
        size = spec.batch_at(state.step)
        if state.step and self._changes_at(state.step):
            self.guard.forget()
        with self.speed.waiting():
            loaded = self.reader.take(state.position, size)
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
            group["lr"] = rate * state.rate_factor
        sums = torch.zeros(2, len(counts), dtype=torch.float64, device=ranks.device)
        updates_before = self.clipping.updates
        for index, (_, tensors_on_host) in enumerate(loaded):
            torch.manual_seed(dropout_seed(spec.seed, state.step, index * ranks.world_size + ranks.rank))
            tensors = to_device(tensors_on_host, ranks.device)
            # DeepSpeed itself would count micro-batches since its start, which is another step in a resumed run.
            self.engine.set_gradient_accumulation_boundary(index == len(loaded) - 1)
            losses, correct = task_sums(self.engine(*tensors.inputs), tensors)
            self.engine.backward((losses * scale).sum(), scale_wrt_gas=False)
            self.engine.step()
            sums += torch.stack([losses.detach().double(), correct.double()])
        summed = ranks.sum(sums.flatten().tolist())
        state.step += 1
        state.position += size
        state.sequences += size
        state.tokens += int(all_tokens)
        self.speed.tokens += int(all_tokens)
        self.speed.sequences += size
        updated = self.clipping.updates - updates_before
        state.updates += updated
        if not updated:  # An overflown fp16 step has no losses worth averaging.
            return None
        state.window.add(losses=summed[:3], correct=summed[3:], targets=targets)
        return self.guard.after_step(summed[0] / targets[0] if targets[0] else None, float(self.clipping.norm))

    def _changes_at(self, step: int) -> bool:
        """Whether the batch size or the tasks that count differ from those of the step before."""
        now, before = ((self.spec.batch_at(s), self.spec.task_weights(s)) for s in (step, step - 1))
        return now != before

    def _roll_back(self, fault: str) -> None:
        """Return to the last checkpoint, leave out the data since, lower the rate; ``Collapsed`` where that was in vain."""
        guard, step, position = self.spec.guard, self.state.step, self.state.position
        saved = checkpoint.latest(self.checkpoints, until=self.state.returns_to)
        if saved is None or saved.state["training"]["guard"]["rollbacks"] >= guard.max_rollbacks:
            raise Collapsed(
                f"training has collapsed at step {step} ({fault}), after {self.state.guard.rollbacks} returns to a checkpoint; "
                "lower optimizer.lr or optimizer.max_grad_norm, or lengthen the warm-up"
            )
        self._resume(saved)
        state = self.state
        state.position = position
        state.rate_factor *= guard.rate_factor
        state.guard.rollbacks += 1
        state.guard.bad_steps = 0
        if self.scaler is not None:
            self.scaler.load_state_dict(saved.state["scaler"])
        event = {"fault": fault, "at_step": step, "skipped_sequences": position - saved.state["training"]["position"]}
        if self.metrics_file:
            self.metrics_file = MetricsFile(self.metrics_file.path, saved.metrics)
            self.metrics_file.append("guard", state.step, {**event, "rate_factor": state.rate_factor})
        self.ranks.sum([0.0])  # Nobody writes what others still read.
        log.warning("collapse at step %d: %s; back to step %d, rate × %g", step, fault, state.step, state.rate_factor)
        self._save()

    def _log(self) -> None:
        state = self.state
        metrics = state.window.metrics(self.spec.task_weights(state.step - 1))
        state.window = TaskTotals()
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        metrics["gradient_norm"] = float(self.clipping.norm)
        if isinstance(self.optimizer, Lamb):
            metrics |= self.optimizer.ratio_quantiles()
        if self.metrics_file:
            self.metrics_file.append("train", state.step, {"tokens": state.tokens, **metrics})
        self.report(state.step, {**metrics, **self.speed.metrics(self.spec.steps - state.step)})

    def _score_heldout(self) -> str | None:
        """Score the held-out rows; returns what the guard has against the scores."""
        if not self.heldout.num_rows:
            return None
        batch_size, autocast = self.spec.micro_batch_size, AUTOCAST[self.spec.precision]
        metrics = evaluate(self.model, self.heldout, self.ranks, batch_size=batch_size, autocast=autocast)
        self.state.heldout = metrics
        if self.metrics_file:
            self.metrics_file.append("heldout", self.state.step, {"tokens": self.state.tokens, **metrics})
        self.report(self.state.step, {f"heldout_{name}": value for name, value in metrics.items()})
        return self.guard.after_scoring(metrics["sop_accuracy"])

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
                keep=self.state.returns_to,
            )
        self.ranks.sum([0.0])  # Nobody leaves before rank 0 has written.

    def _resume(self, saved: checkpoint.Checkpoint) -> None:
        if saved.state["identity"] != self.identity:
            raise ValueError(f"{saved.path} belongs to another spec; remove {self.checkpoints} to start over")
        self.state = TrainingState.of(saved.state["training"])
        checkpoint.restore(saved, self.model, self.optimizer)

    def _write_snapshot(self) -> None:
        (self.out_dir / "snapshots").mkdir(exist_ok=True)
        path = self.out_dir / "snapshots" / f"step-{self.state.step:08d}.safetensors"
        save_file(checkpoint.detached(self.model), path, metadata={"format": "pt"})

    def _write_model(self) -> None:
        save_file(checkpoint.detached(self.model), self.out_dir / "model.safetensors", metadata={"format": "pt"})
        write_json(self.out_dir / "config.json", self.config.model_dump(mode="json"), sort_keys=True)

    def _stats(self) -> Stats:
        state, positions = self.state, self.state.sequences * self.train.sequence_length
        speed = self.speed.metrics(0)
        return {
            "steps": state.step,
            "skipped_steps": state.step - state.updates,
            "tokens": state.tokens,
            "sequences": state.sequences,
            "epochs": round(state.sequences / self.train.num_rows, 3),
            "rollbacks": state.guard.rollbacks,
            "parameters": count_parameters(self.model),
            "trainable_parameters": count_parameters(self.model) - sum(tensor.numel() for tensor in self.frozen.values()),
            "frozen_tensors": len(self.frozen),
            "frozen_sha256": self.frozen_digest,
            "sequence_length": self.train.sequence_length,
            "heldout": state.heldout,
            "processes": self.ranks.world_size,
            "resumed_from_step": self.resumed_from,
            "padding_share": round(1 - state.tokens / positions, 4),
            **rounded({name: speed.get(name) for name in ("tokens_per_second", "loading_share", "model_flops_utilization")}),
        }


def dropout_seed(seed: int, step: int, micro_batch: int) -> int:
    """Seed of torch's generator for one micro-batch of the global batch: the same whichever rank computes it."""
    digest = blake2b(f"dropout/{seed}/{step}/{micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
