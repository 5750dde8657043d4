"""Training metrics between two log lines, their files, and how fast training goes.

``metrics.jsonl`` and TensorBoard's event file hold no wall time and so repeat byte for byte.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

import torch

from korealbert.artifact import Artifact
from korealbert.artifact.files import refuse_overwriting
from korealbert.formatting import flat

Metrics = dict[str, float | None]


@dataclass
class TaskTotals:
    """Sums over targets, one entry per task; they are global: added up over ranks. Empty before the first batch."""

    losses: list[float] = field(default_factory=list)
    correct: list[float] = field(default_factory=list)
    targets: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, sums: Sequence[float]) -> Self:
        """From losses, hits and targets one after the other."""
        tasks = len(sums) // 3
        return cls(*(list(sums[i * tasks : (i + 1) * tasks]) for i in range(3)))

    def add(self, other: TaskTotals) -> None:
        """Add the sums of one more batch."""
        for name in ("losses", "correct", "targets"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, [a + b for a, b in zip(mine, theirs, strict=True)] if mine else list(theirs))

    def metrics(self, tasks: Sequence[str], weights: Sequence[float]) -> Metrics:
        """``loss`` (weighted sum of the means), and loss and accuracy per task; None where there were no targets."""
        means: Metrics = {}
        total = 0.0
        sums = zip(self.losses, self.correct, self.targets, strict=True) if self.losses else [(0.0, 0.0, 0.0)] * len(tasks)
        for task, weight, (loss, hits, count) in zip(tasks, weights, sums, strict=True):
            means[f"{task}_loss"] = loss / count if count else None
            means[f"{task}_accuracy"] = hits / count if count else None
            total += weight * loss / count if count else 0.0
        return {"loss": total if any(self.targets) else None, **means}


def rounded(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Floats to six significant digits."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in metrics.items()}


class MetricsFile:
    """``metrics.jsonl``: a line per log interval (``split`` "train"), scoring ("heldout") and rollback ("guard").

    ``events`` writes the same to an event file of TensorBoard beside it, which always says what the lines say.
    """

    def __init__(self, path: Path, content: bytes = b"", *, events: bool = False) -> None:
        self.path = path
        path.write_bytes(content)
        self._events = _EventFile(path.parent) if events else None
        if self._events:
            for line in content.splitlines():
                self._events.append(json.loads(line))

    def append(self, split: str, step: int, metrics: Mapping[str, Any]) -> None:
        """Add one line."""
        line = {"split": split, "step": step, **rounded(metrics)}
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(line) + "\n")
        if self._events:
            self._events.append(line)

    def content(self) -> bytes:
        """Everything written so far, forced to disk."""
        with self.path.open("rb") as handle:
            os.fsync(handle.fileno())
            return handle.read()


EVENT_FILE = "events.out.tfevents.0.pretrain"
"""TensorBoard looks for files named so; with a fixed name a resumed run continues the same file."""

_NOT_SCALARS = {"split", "step"}


class _EventFile:
    """A fresh event file in a directory. Needs the package ``tensorboard``."""

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 - optional, and slow to import
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

        self._event, self._summary, self._writer = Event, Summary, RecordWriter
        self._path = directory / EVENT_FILE
        self._path.write_bytes(b"")
        self._write(Event(wall_time=0.0, file_version="brain.Event:2"))

    def append(self, line: Mapping[str, Any]) -> None:
        """The numbers of one line of ``metrics.jsonl``, as ``<split>/<name>`` at its step."""
        values = [self._summary.Value(tag=f"{line['split']}/{name}", simple_value=value) for name, value in _scalars(line)]
        self._write(self._event(wall_time=float(line["step"]), step=line["step"], summary=self._summary(value=values)))

    def _write(self, event: Any) -> None:
        with self._path.open("ab") as handle:
            self._writer(handle).write(event.SerializeToString())


Tracker = Literal["tensorboard", "wandb", "mlflow"]
"""Who shows curves: by files in a directory, or by its own configuration (``WANDB_MODE``, ``MLFLOW_TRACKING_URI``, …)."""


def export_curves(artifact: Artifact, tracker: Tracker, directory: Path) -> int:
    """Give the curves of a finished training to a tracker; the number of lines of ``metrics.jsonl``.

    Names are ``<split>/<metric>``, as in the event files that a training writes itself. TensorBoard's are in a directory below
    with the artifact's name, so that it shows the curves of several beside each other. Raises ValueError where the artifact has
    no curves, the tracker is not installed, or files would be written into an artifact.
    """
    source = artifact.path / "metrics.jsonl"
    if not source.is_file():
        raise ValueError(f"{artifact.name}: it has no metrics.jsonl; name the artifact of a pretraining")
    if find_spec(tracker) is None:
        raise ValueError(f"{tracker} is not installed; run `pip install {tracker}`")
    lines = [json.loads(line) for line in source.read_bytes().splitlines()]
    if tracker == "tensorboard":
        directory /= artifact.name
        refuse_overwriting(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if tracker == "tensorboard":
        events = _EventFile(directory)
        for line in lines:
            events.append(line)
        return len(lines)
    settings = {name: str(value) for name, value in flat(artifact.manifest["spec"]).items()}
    log = (
        _to_wandb(artifact.name, settings, directory) if tracker == "wandb" else _to_mlflow(artifact.name, settings, directory)
    )
    with log as append:
        for line in lines:
            append({f"{line['split']}/{name}": value for name, value in _scalars(line)}, line["step"])
    return len(lines)


@contextmanager
def _to_wandb(name: str, settings: Mapping[str, str], directory: Path) -> Iterator[Callable[[dict[str, float], int], None]]:
    import wandb  # noqa: PLC0415 - optional

    with wandb.init(project=os.environ.get("WANDB_PROJECT", "korealbert"), name=name, config=settings, dir=directory) as run:
        run.define_metric("*", step_metric="step")  # A training that went back to a checkpoint repeats steps.
        yield lambda values, step: run.log({**values, "step": step})


@contextmanager
def _to_mlflow(name: str, settings: Mapping[str, str], directory: Path) -> Iterator[Callable[[dict[str, float], int], None]]:
    import mlflow  # noqa: PLC0415 - optional

    if "MLFLOW_TRACKING_URI" not in os.environ:
        mlflow.set_tracking_uri(f"sqlite:///{directory.resolve() / 'mlflow.db'}")
    mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "korealbert"))
    with mlflow.start_run(run_name=name):
        mlflow.log_params(settings)
        yield lambda values, step: mlflow.log_metrics(values, step=step)


def _scalars(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of one line of ``metrics.jsonl`` by name."""
    return ((name, value) for name, value in line.items() if name not in _NOT_SCALARS and isinstance(value, int | float))


_MATRIX_SIZE = {"cpu": 512, "cuda": 8192}
"""Rows and columns of the matrix product by which a device's peak is measured."""

_MATRIX_PRODUCTS = 3
"""Products timed after the first; the fastest counts."""


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of a large matrix product on this device, an upper bound for a model."""
    size = _MATRIX_SIZE[device.type]
    a, b = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    fastest = float("inf")
    for index in range(1 + _MATRIX_PRODUCTS):
        _finish(device)
        start = time.perf_counter()
        torch.mm(a, b)
        _finish(device)
        fastest = min(fastest, time.perf_counter() - start) if index else fastest
    return 2 * size**3 / fastest


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@dataclass
class Speed:
    """One rank's clock over the steps since its start, without scoring and checkpoints."""

    peak: float
    """Operations per second that all ranks together could reach."""
    steps: int = 0
    seconds: float = 0.0
    loading: float = 0.0
    """Seconds of them spent waiting for batches."""
    tokens: int = 0
    """Of all ranks, padding left out."""
    operations: int = 0
    """Floating-point operations of all ranks that the model asks for."""

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time one step."""
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start
        self.steps += 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time the wait for a step's batches."""
        start = time.perf_counter()
        yield
        self.loading += time.perf_counter() - start

    def metrics(self, steps_left: int) -> Metrics:
        """Tokens per second, share of time spent loading, MFU, minutes left for ``steps_left``; {} before any step."""
        if not self.steps:
            return {}
        return {
            "tokens_per_second": self.tokens / self.seconds,
            "loading_share": self.loading / self.seconds,
            "model_flops_utilization": self.operations / self.seconds / self.peak,
            "minutes_left": steps_left * self.seconds / self.steps / 60,
        }
