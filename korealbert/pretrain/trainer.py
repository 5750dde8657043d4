"""The training loop of one rank: exact resumption, held-out scores, and a return to a checkpoint when training collapses.

A step is one update from a global batch, which ranks and gradient accumulation cut into micro-batches. The targets of the
global batch are counted before its first forward pass, so that each loss is a mean over all of them, however the batch is cut.
The loss is ``mlm + sop_weight · sop + wop_weight · wop + bow_weight · bow``, or ``mlm + rtd.weight · rtd`` under ``objective =
"rtd"``.

Shapes: T tasks, in the order of ``PretrainSpec.tasks``; those of batches are in ``korealbert.examples.batches.Batch``.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from korealbert.artifact import Stats, markers
from korealbert.artifact.files import atomic_path, write_json
from korealbert.model.config import THETA, AnyConfig, ModernConfig
from korealbert.model.parameters import count_parameters
from korealbert.pretrain.checkpoint import Checkpoints, TrainingState, detached
from korealbert.pretrain.data import DeviceCopier, Loaded, Loader, flops_per_sequence, noised_at
from korealbert.pretrain.engine import AUTOCAST, Ranks, make_engine
from korealbert.pretrain.guard import Guard
from korealbert.pretrain.initial import digest_of, freeze, load_initial, set_word_embeddings
from korealbert.pretrain.metrics import Metrics, MetricsFile, Speed, TaskTotals, matrix_rate, rounded
from korealbert.pretrain.objective import dropout_seed, evaluate, make_objective
from korealbert.pretrain.optimizer import Clipping, Lamb, ZeroClipping, make_optimizer
from korealbert.pretrain.rows import BatchSource, Rows, check_rows
from korealbert.pretrain.spec import PretrainSpec

log = logging.getLogger(__name__)

_OTHER_NOISE = 0.01
"""Two views differ in noise if their shares of masked or moved pieces differ by more than this: loss and gradient norm may then
jump. Smaller differences occur by chance, where shares are counted in few rows."""

_DROPOUT_FIELDS = {"hidden_dropout", "embedding_dropout", "attention_dropout", "mlp_dropout"}
"""The fields of a model's configuration that are dropout rates."""

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

    ``long`` has the rows of ``spec.long``. Raises ValueError if spec, model and rows do not fit together.
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
            set_word_embeddings(self.model, cooccurrence)
        self.frozen = freeze(self.model, spec.frozen)
        self.frozen_digest = digest_of(self.frozen)
        self.dropouts = _dropouts_of(self.model)
        self.objective.to(ranks.device)
        self.optimizer = make_optimizer(self.model, spec.optimizer, scaled=spec.precision == "fp16")
        self.engine = make_engine(self.objective, self.optimizer, spec, ranks)
        clipping = ZeroClipping(self.engine) if spec.zero_stage else Clipping(self.optimizer, spec.optimizer.max_grad_norm)
        self.clipping: Clipping | ZeroClipping = clipping

        root = out_dir / ".checkpoints"  # Hidden files are removed when the stage completes.
        self.checkpoints = Checkpoints(root, spec, config, model=self.model, optimizer=self.optimizer, engine=self.engine)
        saved = self.checkpoints.latest()
        while saved is not None and (damaged := self._damaged_snapshot(saved.training.step)) is not None:
            log.warning("snapshot of step %d: %s; it is made again from an earlier checkpoint, or from the start", *damaged)
            saved = self.checkpoints.latest(until=damaged[0] - 1)
        self.fresh = saved is None
        self.state = TrainingState() if saved is None else self.checkpoints.restore(saved)
        self.resumed_from = self.state.step
        self.metrics_file = self._metrics_file(saved.metrics if saved else b"") if ranks.rank == 0 else None

        self.loader, self.copier = Loader(spec, self.short, long, ranks), DeviceCopier(ranks.device)
        self.operations = tuple(flops_per_sequence(rows, config) for rows in (self.short, long) if rows is not None)
        self.speed = Speed(ranks.sum([matrix_rate(ranks.device, AUTOCAST[spec.precision] or torch.float32)])[0])

    def run(self) -> Stats:
        """Train to the last step, write model and config, and return the stage's statistics.

        Raises ``Stopped`` after saving if it was asked to stop, ``Collapsed`` if training diverged more often than allowed.
        """
        if self.fresh:
            self._score_heldout()
            self._save()
        self.engine.train()
        while self.state.step < self.spec.steps and not self._out_of_time():
            fault = self._timed_step() or self._log_and_score()
            if fault is not None:
                self._roll_back(fault)
            else:
                self._save_if_due()
        if not self.state.step:
            raise Collapsed(
                f"the {self.spec.stop_after_seconds:g} seconds were over when training had returned to its start after a "
                "collapse; lower optimizer.lr, or raise stop_after_seconds"
            )
        if self._out_of_time():
            self._log_and_score_last()
        if digest_of(self.frozen) != self.frozen_digest:
            raise RuntimeError("training has changed tensors that are declared frozen; this model must not be used")
        if self.ranks.rank == 0:
            self._write_model()
        return self._stats()

    def _out_of_time(self) -> bool:
        """Whether the time budget is spent; all ranks agree."""
        return self._seconds_left() == 0

    def _seconds_left(self) -> float:
        budget = self.spec.stop_after_seconds
        return math.inf if budget is None else max(0.0, budget - self.state.seconds)

    def _timed_step(self) -> str | None:
        started = self.clock()
        with self.speed.step():
            fault = self._train_step()
        self.seconds_of_step = self.clock() - started
        return fault

    def _train_step(self) -> str | None:
        """Make one update from the next global batch; return the guard's fault, or None."""
        spec, state = self.spec, self.state
        long, size = spec.is_long(state.step), spec.batch_at(state.step)
        if state.step and self._changes_at(state.step):
            self.guard.forget(order=self._begins_long(state.step))

        # Read this rank's micro-batches, and count the targets and tokens of the global batch.
        with self.speed.waiting():
            loaded = self.loader.take(state.step, state.long_position if long else state.position)
        targets, tokens = self._count(loaded)

        # Set what depends on the step.
        self._set_theta(state.step)
        self._set_dropout(spec.drops_out(state.step))
        self._set_learning_rate()

        # Update the model. An fp16 overflow skips the update.
        updates_before = self.clipping.updates
        sums = TaskTotals.of(self.ranks.sum(self._accumulate(loaded, targets)))
        updated = self.clipping.updates - updates_before

        # Move on to the next step.
        state.step += 1
        state.updates += updated
        if long:
            state.long_position += size
        else:
            state.position += size
        state.sequences += size
        state.slots += size * self._rows(long).train.sequence_length
        state.tokens += tokens
        self.speed.tokens += tokens
        self.speed.operations += size * self.operations[long]

        # Judge the step by its gradient norm and the loss of masked tokens, the first task.
        loss = sums.losses[0] / targets[0] if targets[0] else None
        if not updated:
            return self.guard.after_overflow(loss)
        state.window.add(sums)
        return self.guard.after_step(loss, float(self.clipping.norm))

    def _count(self, loaded: Loaded) -> tuple[list[float], int]:
        """Sum the targets [T] and the tokens of a global batch over all ranks. This is also where ranks learn that one of them
        was asked to stop, and what time rank 0's clock shows, so that all agree on when the time budget is spent."""
        counts_T = np.sum([self.objective.count_targets(batch) for batch, _ in loaded], axis=0)
        tokens = sum(int(batch.lengths.sum()) for batch, _ in loaded)
        timed = self.spec.stop_after_seconds is not None and self.ranks.rank == 0
        own = [*counts_T, tokens, self.seconds_of_step if timed else 0.0, self.stop_requested()]
        *targets, all_tokens, seconds, stop = self.ranks.sum([float(number) for number in own])
        self.state.seconds += seconds
        if stop:
            self._stop()
        return targets, int(all_tokens)

    def _accumulate(self, loaded: Loaded, targets: list[float]) -> list[float]:
        """Run forward and backward passes over this rank's micro-batches, then update the model.

        Returns the summed losses, hits and targets of the tasks, [3 · T].
        """
        spec, ranks, step = self.spec, self.ranks, self.state.step
        # DeepSpeed averages gradients over ranks, but the global mean divides by all targets.
        weights = [w * ranks.world_size / max(n, 1.0) for w, n in zip(spec.task_weights(step), targets, strict=True)]
        weights_T = torch.tensor(weights, device=ranks.device)
        sums_3T = torch.zeros(3, len(targets), dtype=torch.float64, device=ranks.device)
        stop_interval = 1 if ranks.world_size == 1 else 8  # Asking other ranks takes a round trip, asking oneself nothing.
        for index, (_, on_host) in enumerate(loaded):
            if index and index % stop_interval == 0 and any(ranks.sum([float(self.stop_requested())])):
                self._stop()
            torch.manual_seed(dropout_seed(spec.seed, step, index * ranks.world_size + ranks.rank))
            if spec.compile == "graphs":  # The outputs of the previous pass have been read, so its memory may be reused.
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            # DeepSpeed counts micro-batches from its own start, which is another step in a resumed run.
            self.engine.set_gradient_accumulation_boundary(index == len(loaded) - 1)
            result = self.engine(*self.copier.copy(on_host))  # Losses, hits and targets, [T] each.
            self.engine.backward((result.losses * weights_T).sum(), scale_wrt_gas=False)
            self.engine.step()
            sums_3T += torch.stack([part.detach().double() for part in result])
        flat: list[float] = sums_3T.flatten().tolist()
        return flat

    def _stop(self) -> NoReturn:
        """Save the state after the last whole step, and leave."""
        self._save()
        raise Stopped(self.state.step)

    def _set_theta(self, step: int) -> None:
        """Set the rotary base of global layers to that of a step."""
        if isinstance(self.config, ModernConfig):
            self.model.encoder.global_theta = self.spec.theta_at(step) or self.config.global_theta

    def _set_dropout(self, on: bool) -> None:
        for module, name, rate in self.dropouts if self.spec.dropout_until_step is not None else ():
            setattr(module, name, rate if on else 0.0)

    def _set_learning_rate(self) -> None:
        spec, state = self.spec, self.state
        scheduled = spec.scheduled(state.updates, state.seconds)
        rate = spec.schedule.learning_rate(scheduled, peak=spec.optimizer.lr, steps=spec.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * state.rate_factor * group.get("lr_factor", 1.0)

    def _rows(self, long: bool) -> Rows:
        return self.long if long and self.long is not None else self.short

    @property
    def guard(self) -> Guard:
        """The collapse guard, whose memory is part of the training state."""
        return Guard(self.spec.guard, self.state.guard)

    def _changes_at(self, step: int) -> bool:
        """Return whether batch size, length, task weights or noise differ from those of the step before."""
        spec = self.spec
        now, before = ((spec.batch_at(s), spec.is_long(s), spec.task_weights(s)) for s in (step, step - 1))
        position = self.state.long_position if spec.is_long(step) else self.state.position
        return now != before or self._noise_differs(step, position - 1, position + spec.batch_at(step) - 1)

    def _noise_differs(self, step: int, one: int, other: int) -> bool:
        """Return whether the views at two positions of a step's training order mask or move different shares of the pieces."""
        rows = self._rows(self.spec.is_long(step)).train
        return any(abs(a - b) > _OTHER_NOISE for a, b in zip(noised_at(rows, one), noised_at(rows, other), strict=True))

    def _roll_back(self, fault: str) -> None:
        """Return to the last checkpoint, skip the data since, and lower the learning rate.

        Raises ``Collapsed`` if there is no checkpoint, or if there were too many rollbacks already.
        """
        guard, failed = self.spec.guard, self.state
        saved = self.checkpoints.latest(until=failed.returns_to)
        if saved is None or saved.training.guard.rollbacks >= guard.max_rollbacks:
            raise Collapsed(
                f"training has collapsed at step {failed.step} ({fault}), after {failed.guard.rollbacks} returns to a "
                "checkpoint; lower optimizer.lr or optimizer.max_grad_norm, or lengthen the warm-up"
            )
        state = self.state = self.checkpoints.restore(saved)
        skipped = failed.position + failed.long_position - state.position - state.long_position
        begin, end = (s.long_position if self.spec.is_long(state.step) else s.position for s in (state, failed))
        if self._noise_differs(state.step, begin - 1, end - 1):
            self.guard.forget()  # The noise changes within the data that is skipped.
        state.position, state.long_position = failed.position, failed.long_position
        state.seconds, state.returns_to_scored = failed.seconds, failed.returns_to_scored
        state.rate_factor *= guard.rate_factor
        state.guard.rollbacks += 1
        state.guard.bad_steps = state.guard.overflows = 0
        if self.metrics_file:
            event = {"fault": fault, "at_step": failed.step, "skipped_sequences": skipped, "rate_factor": state.rate_factor}
            self.metrics_file = self._metrics_file(saved.metrics)
            self.metrics_file.append("guard", state.step, event)
        self.ranks.sum([0.0])  # Wait until all ranks have read the checkpoint, before a file is written.
        log.warning("collapse at step %d: %s; back to step %d, rate × %g", failed.step, fault, state.step, state.rate_factor)
        self._save()

    def _log_and_score(self) -> str | None:
        """Log the training metrics and score the held-out rows if due; return the guard's fault, or None."""
        state = self.state
        if state.step % self.spec.log_every == 0 or state.step == self.spec.steps:
            self._log()
        if not self._scores_at(state.step):
            return None
        fault = self._score_heldout()
        if fault is None:
            state.returns_to_scored = state.returns_to
        else:
            state.returns_to = state.returns_to_scored
        return fault

    def _log_and_score_last(self) -> None:
        """Log and score as after the last step, if a time budget ended the run before it."""
        if self.state.window.targets:
            if not self.speed.steps:  # resumed after its last step
                self._set_learning_rate()
            self._log()
        if not self._scores_at(self.state.step):
            self._score_heldout()

    def _scores_at(self, step: int) -> bool:
        """Return whether held-out rows are scored after a step; they are also scored where long sequences begin."""
        return step % self.spec.heldout_every == 0 or step == self.spec.steps or self._begins_long(step)

    def _begins_long(self, step: int) -> bool:
        return self.spec.long is not None and step == self.spec.long.from_step

    def _log(self) -> None:
        state = self.state
        metrics = state.window.metrics(self.spec.tasks, self.spec.task_weights(state.step - 1))
        state.window = TaskTotals()
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        metrics["gradient_norm"] = float(self.clipping.norm) if self.clipping.updates else None
        if isinstance(self.optimizer, Lamb):
            metrics |= self.optimizer.ratio_quantiles()
        if self.metrics_file:
            self.metrics_file.append("train", state.step, {"tokens": state.tokens, **metrics})
        self.report(state.step, {**metrics, **self.speed.metrics(self.spec.steps - state.step, self._seconds_left())})

    def _score_heldout(self) -> str | None:
        """Score the held-out rows, and the long ones once training has reached them; return the guard's fault, or None.

        The rotary base is that of the last step. Where long sequences begin, their rows are scored with that of the next step.
        """
        spec, state = self.spec, self.state
        self._set_theta(max(0, state.step - 1))
        state.heldout = self._scores("heldout", self.short, spec.micro_batch_at(0))
        if self.long is not None and (self._begins_long(state.step) or spec.is_long(state.step)):
            self._set_theta(state.step)
            state.heldout_long = self._scores("heldout_long", self.long, spec.micro_batch_at(spec.steps))
        return self.guard.after_scoring(state.heldout.get("sop_accuracy"), self.short.heldout.num_rows)

    def _scores(self, split: str, rows: Rows, batch_size: int) -> Metrics:
        if not rows.heldout.num_rows:
            return {}
        tasks, autocast = self.spec.tasks, AUTOCAST[self.spec.precision]
        metrics = evaluate(self.objective, rows.heldout, self.ranks, tasks=tasks, batch_size=batch_size, autocast=autocast)
        if self.metrics_file:
            self.metrics_file.append(split, self.state.step, {"tokens": self.state.tokens, **metrics})
        self.report(self.state.step, {f"{split}_{name}": value for name, value in metrics.items()})
        return metrics

    def _metrics_file(self, content: bytes) -> MetricsFile:
        return MetricsFile(self.out_dir / "metrics.jsonl", content, events=self.spec.tensorboard)

    def _save_if_due(self) -> None:
        """Write a snapshot or a checkpoint if one is due after this step."""
        step = self.state.step
        if step in self.spec.snapshots and self.ranks.rank == 0:
            self._write_snapshot()
        if step % self.spec.checkpoint_every == 0 or step == self.spec.steps:
            if not self.guard.doubts:
                self.state.returns_to = step
                if self._scores_at(step) or not self.spec.sop_weight:  # Scores of sentence order alone are judged.
                    self.state.returns_to_scored = step
            self._save()

    def _save(self) -> None:
        self.checkpoints.save(self.state, self.metrics_file)
        self.ranks.sum([0.0])  # Wait until rank 0 has written.

    def _write_snapshot(self) -> None:
        path, marker = self._snapshot(self.state.step)
        for directory in (path.parent, marker.parent):
            directory.mkdir(exist_ok=True)
        final = self.spec.theta_at(self.spec.steps)
        metadata = {"format": "pt"}
        if final is not None and isinstance(self.config, ModernConfig):
            # Read by ``read_config``. It replaces the entry above: safetensors writes several in random order.
            theta = self.spec.theta_at(self.state.step - 1) or self.config.global_theta
            metadata = metadata if theta == final else {THETA: repr(theta)}
        with atomic_path(path) as temporary:
            save_file(detached(self.model), temporary, metadata=metadata)
        markers.write(marker, {}, markers.facts_of([path], self.out_dir))

    def _snapshot(self, step: int) -> tuple[Path, Path]:
        """Return the paths of a step's snapshot and of the marker that has its digest."""
        path = self.out_dir / "snapshots" / f"step-{step:08d}.safetensors"
        return path, markers.marker(self.out_dir, "snapshot", step)

    def _damaged_snapshot(self, until: int) -> tuple[int, str] | None:
        """Return the step of the first damaged snapshot up to a step, and what is wrong with it; None if all are whole."""
        found = ((step, markers.fault(self._snapshot(step)[1])) for step in self.spec.snapshots if step <= until)
        return next(((step, fault) for step, fault in found if fault), None)

    def _write_model(self) -> None:
        save_file(detached(self.model), self.out_dir / "model.safetensors", metadata={"format": "pt"})
        theta = self.spec.theta_at(self.spec.steps)
        changed: dict[str, float] = {"global_theta": theta} if theta else {}
        if not self.spec.drops_out(self.state.step):
            changed |= dict.fromkeys(_DROPOUT_FIELDS & type(self.config).model_fields.keys(), 0.0)
        config = self.config.model_copy(update=changed)
        write_json(self.out_dir / "config.json", config.as_before(), sort_keys=True)

    def _stats(self) -> Stats:
        state, speed = self.state, self.speed.metrics(0)
        long_sequences = self._long_sequences()
        stats: dict[str, Any] = {
            "steps": state.step,
            "skipped_steps": state.step - state.updates,
            "tokens": state.tokens,
            "sequences": state.sequences,
            "epochs": round((state.sequences - long_sequences) / self.short.train.num_rows, 3),
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
            stats |= {"heldout_long": state.heldout_long, "long_epochs": round(long_sequences / self.long.train.num_rows, 3)}
        return stats

    def _long_sequences(self) -> int:
        """Return how many long sequences the model was trained on."""
        long = self.spec.long
        return 0 if long is None else max(0, self.state.step - long.from_step) * self.spec.batch_at(self.spec.steps)


def _dropouts_of(model: nn.Module) -> list[tuple[nn.Module, str, Any]]:
    """Return all dropout rates of a model as (module, attribute, rate)."""
    layers = [(part, "p", part.p) for part in model.modules() if isinstance(part, nn.Dropout)]
    attention = [part for part in model.modules() if hasattr(part, "attention_dropout")]
    return [*layers, *((part, "attention_dropout", part.attention_dropout) for part in attention)]
