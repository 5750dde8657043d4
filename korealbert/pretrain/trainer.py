"""The training loop on a DeepSpeed engine: global means, exact resumption, held-out scores.

One step is one update from ``global_batch_size`` sequences. The targets of the whole global batch are counted before its first
forward pass, so each micro-batch can be weighted such that DeepSpeed's averaging over ranks gives exactly
``mlm + sop_weight · sop + wop_weight · wop + bow_weight · bow`` (or ``mlm + rtd.weight · rtd``) with each loss a mean over its
targets of the global batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors.torch import save_file

from korealbert.artifact import Stats, markers
from korealbert.artifact.files import atomic_path, write_json
from korealbert.model.config import THETA, AnyConfig, ModernConfig
from korealbert.model.parameters import count_parameters
from korealbert.pretrain.checkpoint import RunCheckpoints, TrainingState, detached
from korealbert.pretrain.data import Copies, Loaded, Loader, noised_at, operations
from korealbert.pretrain.engine import AUTOCAST, Ranks, make_engine
from korealbert.pretrain.guard import Guard
from korealbert.pretrain.metrics import Metrics, MetricsFile, Speed, TaskTotals, matrix_rate, rounded
from korealbert.pretrain.objective import (
    DROPOUTS,
    begin_with,
    digest_of,
    dropout_seed,
    dropouts_of,
    evaluate,
    freeze,
    load_initial,
    make_objective,
)
from korealbert.pretrain.optimizer import Clipping, Lamb, ZeroClipping, make_optimizer
from korealbert.pretrain.rows import BatchSource, Rows, check_rows
from korealbert.pretrain.spec import PretrainSpec

log = logging.getLogger(__name__)

_OTHER_NOISE = 0.01
"""Share of the pieces by which the noise of two views differs where loss and norm may jump; shares counted in few rows scatter
less."""

_Report = Callable[[int, Metrics], None]
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

    ``long`` holds the rows of ``spec.long``. Raises ValueError where spec, model and rows do not fit together.
    """

    def __init__(
        self,
        spec: PretrainSpec,
        config: AnyConfig,
        *,
        train: BatchSource,
        heldout: BatchSource,
        ranks: Ranks,
        out_dir: Path,
        initial: Path | None = None,
        cooccurrence: Path | None = None,
        long: Rows | None = None,
        report: _Report = lambda step, metrics: None,
        stop_requested: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec, self.config, self.ranks, self.out_dir = spec, config, ranks, out_dir
        self.short, self.long, self.report, self.stop_requested = Rows(train, heldout), long, report, stop_requested
        self.clock, self.seconds_of_step = clock, 0.0
        check_rows(spec, config, self.short, long)
        self.objective = make_objective(config, seed=spec.seed)
        self.model = self.objective.model
        if initial is not None:
            load_initial(self.model, initial)
        if cooccurrence is not None:
            begin_with(self.model, cooccurrence)
        self.frozen = freeze(self.model, spec.frozen)
        self.frozen_digest = digest_of(self.frozen)
        self.dropouts = dropouts_of(self.model)
        self.objective.to(ranks.device)
        self.optimizer = make_optimizer(self.model, spec.optimizer, scaled=spec.precision == "fp16")
        self.engine = make_engine(self.objective, self.optimizer, spec, ranks)
        self.checkpoints = RunCheckpoints(
            out_dir / ".checkpoints",  # Hidden, so that they leave with the stage's completion.
            spec,
            config,
            model=self.model,
            optimizer=self.optimizer,
            engine=self.engine,
        )
        clipping = ZeroClipping(self.engine) if spec.zero_stage else Clipping(self.optimizer, spec.optimizer.max_grad_norm)
        self.clipping: Clipping | ZeroClipping = clipping
        saved = self.checkpoints.latest()
        if saved is not None and (lost := self._lost_snapshot(saved.state["training"]["step"])):
            log.warning("%s; there is no earlier checkpoint, so training starts again", lost)
            saved = None
        self.state = TrainingState() if saved is None else self.checkpoints.restore(saved)
        self.resumed_from = self.state.step
        self.metrics_file = self._metrics_file(saved.metrics if saved else b"") if ranks.rank == 0 else None
        self.fresh = saved is None
        self.loader, self.copies = Loader(spec, self.short, long, ranks), Copies(ranks.device)
        self.operations = tuple(operations(rows, config) for rows in (self.short, long) if rows is not None)
        self.speed = Speed(self._peak())

    @property
    def guard(self) -> Guard:
        """The guard of this run's steps; its memory is part of the state."""
        return Guard(self.spec.guard, self.state.guard)

    def _metrics_file(self, content: bytes) -> MetricsFile:
        return MetricsFile(self.out_dir / "metrics.jsonl", content, events=self.spec.tensorboard)

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
        while self.state.step < spec.steps and not self._out_of_time():
            started = self.clock()
            with self.speed.step():
                fault = self._train_step()
            self.seconds_of_step = self.clock() - started
            if fault is not None:
                self._roll_back(fault)
                continue
            if self.state.step % spec.log_every == 0 or self.state.step == spec.steps:
                self._log()
            if self._is_scored(self.state.step):
                fault = self._score_heldout()
            if fault is not None:
                self._roll_back(fault)
                continue
            if self.state.step in spec.snapshots and self.ranks.rank == 0:
                self._write_snapshot()
            if self.state.step % spec.checkpoint_every == 0 or self.state.step == spec.steps:
                if not self.guard.doubts:
                    self.state.returns_to = self.state.step
                self._save()
        if self._out_of_time():
            self._tell_the_rest()
        if digest_of(self.frozen) != self.frozen_digest:
            raise RuntimeError("training has changed tensors that are declared frozen; this model must not be used")
        if self.ranks.rank == 0:
            self._write_model()
        return self._stats()

    def _out_of_time(self) -> bool:
        """Whether the time budget is spent; the same on all ranks."""
        budget = self.spec.stop_after_seconds
        return budget is not None and self.state.seconds >= budget

    def _tell_the_rest(self) -> None:
        """Log and score as after the last step, if the time budget ended before it."""
        if self.state.window.targets:
            self._log()
        if not self._is_scored(self.state.step):
            self._score_heldout()

    def _is_scored(self, step: int) -> bool:
        """Whether the held-out rows are scored after this many steps; also where long sequences begin."""
        return step % self.spec.heldout_every == 0 or step == self.spec.steps or self._turns_long(step)

    def _turns_long(self, step: int) -> bool:
        return self.spec.long is not None and step == self.spec.long.from_step

    def _train_step(self) -> str | None:
        """One update; returns the guard's fault, or None."""
        spec, ranks, state = self.spec, self.ranks, self.state
        long, size = spec.is_long(state.step), spec.batch_at(state.step)
        if state.step and self._changes_at(state.step):
            self.guard.forget()
        with self.speed.waiting():
            loaded = self.loader.take(state.step, state.long_position if long else state.position)
        counts = np.sum([self.objective.count_targets(batch) for batch, _ in loaded], axis=0)
        tokens = sum(int(batch.lengths.sum()) for batch, _ in loaded)
        # Rank 0's clock is everybody's.
        taken = self.seconds_of_step if spec.stop_after_seconds is not None and ranks.rank == 0 else 0.0
        local = [*map(float, counts), float(tokens), taken, float(self.stop_requested())]
        *targets, all_tokens, seconds, stop = ranks.sum(local)
        state.seconds += seconds
        if stop:
            self._stop()
        self._set_theta(state.step)
        self._set_dropout(spec.drops_out(state.step))
        scheduled = spec.scheduled(state.updates, state.seconds)
        rate = spec.schedule.learning_rate(scheduled, peak=spec.optimizer.lr, steps=spec.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * state.rate_factor * group.get("lr_factor", 1.0)
        updates_before = self.clipping.updates
        summed = TaskTotals.of(ranks.sum(self._accumulate(loaded, targets)))
        state.step += 1
        state.position += 0 if long else size
        state.long_position += size if long else 0
        state.sequences += size
        state.slots += size * self._rows(long).train.sequence_length
        state.tokens += int(all_tokens)
        self.speed.tokens += int(all_tokens)
        self.speed.operations += size * self.operations[long]
        updated = self.clipping.updates - updates_before
        state.updates += updated
        loss = summed.losses[0] / targets[0] if targets[0] else None
        if not updated:  # An overflown fp16 step has no losses worth averaging.
            return self.guard.after_overflow(loss)
        state.window.add(summed)
        return self.guard.after_step(loss, float(self.clipping.norm))

    def _set_theta(self, step: int) -> None:
        """Turn positions as at a step."""
        if isinstance(self.config, ModernConfig):
            self.model.encoder.global_theta = self.spec.theta_at(step) or self.config.global_theta

    def _set_dropout(self, on: bool) -> None:
        for module, name, own in self.dropouts if self.spec.dropout_until_step is not None else ():
            setattr(module, name, own if on else 0.0)

    def _accumulate(self, loaded: Loaded, targets: list[float]) -> list[float]:
        """Forward and backward passes over this rank's micro-batches, and the update; their sums one after the other."""
        spec, ranks, step = self.spec, self.ranks, self.state.step
        weights = [w * ranks.world_size / max(n, 1.0) for w, n in zip(spec.task_weights(step), targets, strict=True)]
        scale = torch.tensor(weights, device=ranks.device)
        sums = torch.zeros(3, len(targets), dtype=torch.float64, device=ranks.device)
        for index, (_, on_host) in enumerate(loaded):
            if index and index % self.stop_interval == 0 and any(ranks.sum([float(self.stop_requested())])):
                self._stop()
            torch.manual_seed(dropout_seed(spec.seed, step, index * ranks.world_size + ranks.rank))
            if spec.compile == "graphs":  # The outputs of the pass before are read: their memory may be used again.
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            # DeepSpeed itself would count micro-batches since its start, which is another step in a resumed run.
            self.engine.set_gradient_accumulation_boundary(index == len(loaded) - 1)
            result = self.engine(*self.copies.take(on_host))
            self.engine.backward((result.losses * scale).sum(), scale_wrt_gas=False)
            self.engine.step()
            sums += torch.stack([part.detach().double() for part in result])
        flat: list[float] = sums.flatten().tolist()
        return flat

    @property
    def stop_interval(self) -> int:
        """Micro-batches after which a step that takes long is given up if a stop was asked for; alone it costs nothing."""
        return 1 if self.ranks.world_size == 1 else 8

    def _stop(self) -> NoReturn:
        """Save the state after the last whole step, and exit."""
        self._save()
        raise Stopped(self.state.step)

    def _rows(self, long: bool) -> Rows:
        return self.long if long and self.long is not None else self.short

    def _changes_at(self, step: int) -> bool:
        """Whether batch size, length, the tasks that count or the amount of noise differ from those of the step before."""
        spec = self.spec
        now, before = ((spec.batch_at(s), spec.is_long(s), spec.task_weights(s)) for s in (step, step - 1))
        position = self.state.long_position if spec.is_long(step) else self.state.position
        return now != before or self._noise_differs(step, position - 1, position + spec.batch_at(step) - 1)

    def _noise_differs(self, step: int, one: int, other: int) -> bool:
        """Whether the views at two positions of the order that this step reads differ in how much they mask or move."""
        rows = self._rows(self.spec.is_long(step)).train
        return any(abs(a - b) > _OTHER_NOISE for a, b in zip(noised_at(rows, one), noised_at(rows, other), strict=True))

    def _roll_back(self, fault: str) -> None:
        """Return to the last checkpoint, leave out the data since, lower the rate; ``Collapsed`` where that was in vain."""
        guard, failed = self.spec.guard, self.state
        step = failed.step
        saved = self.checkpoints.latest(until=failed.returns_to)
        if saved is None or saved.state["training"]["guard"]["rollbacks"] >= guard.max_rollbacks:
            raise Collapsed(
                f"training has collapsed at step {step} ({fault}), after {self.state.guard.rollbacks} returns to a checkpoint; "
                "lower optimizer.lr or optimizer.max_grad_norm, or lengthen the warm-up"
            )
        state = self.state = self.checkpoints.restore(saved)
        skipped = failed.position + failed.long_position - state.position - state.long_position
        position, further = (of.long_position if self.spec.is_long(state.step) else of.position for of in (state, failed))
        if self._noise_differs(state.step, position - 1, further - 1):
            self.guard.forget()  # Views of other noise begin amid what is left out.
        state.position, state.long_position = failed.position, failed.long_position
        state.seconds = failed.seconds
        state.rate_factor *= guard.rate_factor
        state.guard.rollbacks += 1
        state.guard.bad_steps = state.guard.overflows = 0
        event = {"fault": fault, "at_step": step, "skipped_sequences": skipped}
        if self.metrics_file:
            self.metrics_file = self._metrics_file(saved.metrics)
            self.metrics_file.append("guard", state.step, {**event, "rate_factor": state.rate_factor})
        self.ranks.sum([0.0])  # No rank writes files that others still read.
        log.warning("collapse at step %d: %s; back to step %d, rate × %g", step, fault, state.step, state.rate_factor)
        self._save()

    def _log(self) -> None:
        state = self.state
        metrics = state.window.metrics(self.spec.tasks, self.spec.task_weights(state.step - 1))
        state.window = TaskTotals()
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        metrics["gradient_norm"] = float(self.clipping.norm)
        if isinstance(self.optimizer, Lamb):
            metrics |= self.optimizer.ratio_quantiles()
        if self.metrics_file:
            self.metrics_file.append("train", state.step, {"tokens": state.tokens, **metrics})
        self.report(state.step, {**metrics, **self.speed.metrics(self.spec.steps - state.step)})

    def _score_heldout(self) -> str | None:
        """Score the held-out rows, the long ones too once they are trained on; returns the guard's fault, or None.

        Positions turn as in the last step, but for long rows where these begin: there as in the next one.
        """
        self._set_theta(max(0, self.state.step - 1))
        self.state.heldout = self._scores("heldout", self.short, self.spec.micro_batch_at(0))
        if self.long is not None and (self._turns_long(self.state.step) or self.spec.is_long(self.state.step)):
            self._set_theta(self.state.step)
            scores = self._scores("heldout_long", self.long, self.spec.micro_batch_at(self.spec.steps))
            self.state.heldout_long = scores
        return self.guard.after_scoring(self.state.heldout.get("sop_accuracy"))

    def _scores(self, split: str, rows: Rows, batch_size: int) -> Metrics:
        if not rows.heldout.num_rows:
            return {}
        tasks, autocast = self.spec.tasks, AUTOCAST[self.spec.precision]
        metrics = evaluate(self.objective, rows.heldout, self.ranks, tasks=tasks, batch_size=batch_size, autocast=autocast)
        if self.metrics_file:
            self.metrics_file.append(split, self.state.step, {"tokens": self.state.tokens, **metrics})
        self.report(self.state.step, {f"{split}_{name}": value for name, value in metrics.items()})
        return metrics

    def _save(self) -> None:
        self.checkpoints.save(self.state, self.metrics_file)
        self.ranks.sum([0.0])  # Nobody leaves before rank 0 has written.

    def _write_snapshot(self) -> None:
        path, done = self._snapshot(self.state.step)
        for directory in (path.parent, done.parent):
            directory.mkdir(exist_ok=True)
        with atomic_path(path) as temporary:
            # One entry: safetensors writes several in an order of chance.
            save_file(detached(self.model), temporary, metadata=self._own_theta() or {"format": "pt"})
        markers.write(done, {}, markers.facts_of([path], self.out_dir))

    def _own_theta(self) -> dict[str, str]:
        """What ``read_config`` reads of a snapshot: the θ of its global layers, where the trained model has another."""
        final = self.spec.theta_at(self.spec.steps)
        if final is None or not isinstance(self.config, ModernConfig):
            return {}
        theta = self.spec.theta_at(self.state.step - 1) or self.config.global_theta
        return {} if theta == final else {THETA: repr(theta)}

    def _snapshot(self, step: int) -> tuple[Path, Path]:
        """The snapshot of a step, and the marker that vouches for it."""
        path = self.out_dir / "snapshots" / f"step-{step:08d}.safetensors"
        return path, markers.marker(self.out_dir, "snapshot", step)

    def _lost_snapshot(self, until: int) -> str | None:
        """What is wrong with a snapshot that a checkpoint of step ``until`` has behind it, or None."""
        steps = (step for step in self.spec.snapshots if step <= until)
        faults = (f"snapshot of step {step}: {fault}" for step in steps if (fault := markers.fault(self._snapshot(step)[1])))
        return next(faults, None)

    def _write_model(self) -> None:
        save_file(detached(self.model), self.out_dir / "model.safetensors", metadata={"format": "pt"})
        theta = self.spec.theta_at(self.spec.steps)
        changed: dict[str, float] = {"global_theta": theta} if theta else {}
        if not self.spec.drops_out(self.state.step):
            changed |= {name: 0.0 for name in type(self.config).model_fields if name in DROPOUTS}
        config = self.config.model_copy(update=changed)
        write_json(self.out_dir / "config.json", config.as_before(), sort_keys=True)

    def _stats(self) -> Stats:
        state, speed = self.state, self.speed.metrics(0)
        stats: dict[str, Any] = {
            "steps": state.step,
            "skipped_steps": state.step - state.updates,
            "tokens": state.tokens,
            "sequences": state.sequences,
            "epochs": round((state.sequences - self._long_sequences()) / self.short.train.num_rows, 3),
            "rollbacks": state.guard.rollbacks,
            "parameters": count_parameters(self.model),
            "trainable_parameters": count_parameters(self.model) - sum(tensor.numel() for tensor in self.frozen.values()),
            "frozen_tensors": len(self.frozen),
            "frozen_sha256": self.frozen_digest,
            "sequence_length": (self.long or self.short).train.sequence_length,
            "heldout": state.heldout,
            "processes": self.ranks.world_size,
            "resumed_from_step": self.resumed_from,
            "padding_share": round(1 - state.tokens / state.slots, 4),
            **rounded({name: speed.get(name) for name in ("tokens_per_second", "loading_share", "model_flops_utilization")}),
        }
        if self.spec.stop_after_seconds is not None:
            stats["seconds"] = round(state.seconds, 3)
        if self.long is not None:
            long_epochs = self._long_sequences() / self.long.train.num_rows
            stats |= {"heldout_long": state.heldout_long, "long_epochs": round(long_epochs, 3)}
        return stats

    def _long_sequences(self) -> int:
        """Sequences trained on after the short ones."""
        long = self.spec.long
        return 0 if long is None else max(0, self.state.step - long.from_step) * self.spec.batch_at(self.spec.steps)
