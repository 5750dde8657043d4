"""Training metrics, their files, and the speed of training.

``metrics.jsonl`` and TensorBoard's event file contain no wall time, so that a repeated run writes the same bytes.
"""

from __future__ import annotations

import json
import math
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
    """Sums over the targets of all ranks, one entry per task; empty before the first batch."""

    losses: list[float] = field(default_factory=list)
    correct: list[float] = field(default_factory=list)
    targets: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, sums: Sequence[float]) -> Self:
        """Split the concatenated losses, hits and targets."""
        tasks = len(sums) // 3
        return cls(*(list(sums[i * tasks : (i + 1) * tasks]) for i in range(3)))

    def add(self, other: TaskTotals) -> None:
        """Add the sums of another batch."""
        for name in ("losses", "correct", "targets"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, [a + b for a, b in zip(mine, theirs, strict=True)] if mine else list(theirs))

    def metrics(self, tasks: Sequence[str], weights: Sequence[float]) -> Metrics:
        """Return ``loss`` (the weighted sum of mean losses), and loss and accuracy per task; None without targets."""
        means: Metrics = {}
        total = 0.0
        sums = zip(self.losses, self.correct, self.targets, strict=True) if self.losses else [(0.0, 0.0, 0.0)] * len(tasks)
        for task, weight, (loss, hits, count) in zip(tasks, weights, sums, strict=True):
            means[f"{task}_loss"] = loss / count if count else None
            means[f"{task}_accuracy"] = hits / count if count else None
            total += weight * loss / count if count else 0.0
        return {"loss": total if any(self.targets) else None, **means}


def rounded(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Round floats to six significant digits."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in metrics.items()}


class MetricsFile:
    """``metrics.jsonl``: a line per log interval (``split`` "train"), scoring ("heldout") and rollback ("guard").

    With ``events``, the same numbers are written to a TensorBoard event file beside it.
    """

    def __init__(self, path: Path, content: bytes, *, events: bool) -> None:
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
        """Return everything written so far, after forcing it to disk."""
        with self.path.open("rb") as handle:
            os.fsync(handle.fileno())
            return handle.read()


EVENT_FILE = "events.out.tfevents.0.pretrain"
"""A name that TensorBoard looks for. It is fixed, so that a resumed run continues the same file."""

_NOT_SCALARS = {"split", "step"}


class _EventFile:
    """A new event file in a directory. Needs the package ``tensorboard``."""

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 - optional, and slow to import
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

        self._event, self._summary, self._writer = Event, Summary, RecordWriter
        self._path = directory / EVENT_FILE
        self._path.write_bytes(b"")
        self._write(Event(wall_time=0.0, file_version="brain.Event:2"))

    def append(self, line: Mapping[str, Any]) -> None:
        """Write the numbers of one line of ``metrics.jsonl`` as ``<split>/<name>`` at its step."""
        values = [self._summary.Value(tag=f"{line['split']}/{name}", simple_value=value) for name, value in _scalars(line)]
        self._write(self._event(wall_time=float(line["step"]), step=line["step"], summary=self._summary(value=values)))

    def _write(self, event: Any) -> None:
        with self._path.open("ab") as handle:
            self._writer(handle).write(event.SerializeToString())


Tracker = Literal["tensorboard", "wandb", "mlflow"]
"""Tools that show curves. W&B and MLflow are configured by their environment variables (``WANDB_MODE``, …)."""


def export_curves(artifact: Artifact, tracker: Tracker, directory: Path) -> int:
    """Export the curves of a finished training to a tracker; return the number of lines of ``metrics.jsonl``.

    Names are ``<split>/<metric>``, as in the event file of a training itself. TensorBoard's file gets a subdirectory with the
    artifact's name, so that it shows several trainings side by side. Raises ValueError if the artifact has no curves, the
    tracker is not installed, or files would be written into an artifact.
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
    connect = _to_wandb if tracker == "wandb" else _to_mlflow
    with connect(artifact.name, settings, directory) as append:
        for line in lines:
            append({f"{line['split']}/{name}": value for name, value in _scalars(line)}, line["step"])
    return len(lines)


@contextmanager
def _to_wandb(name: str, settings: Mapping[str, str], directory: Path) -> Iterator[Callable[[dict[str, float], int], None]]:
    import wandb  # noqa: PLC0415 - optional

    with wandb.init(project=os.environ.get("WANDB_PROJECT", "korealbert"), name=name, config=settings, dir=directory) as run:
        run.define_metric("*", step_metric="step")  # A training that returned to a checkpoint repeats steps.
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
    """Return the numbers of one line of ``metrics.jsonl`` by name."""
    return ((name, value) for name, value in line.items() if name not in _NOT_SCALARS and isinstance(value, int | float))


_MATRIX_SIZE = {"cpu": 512, "cuda": 8192}
"""Size of the matrices whose product measures a device's peak rate."""

_MATRIX_PRODUCTS = 3
"""Products that are timed, after one to warm up; the fastest counts."""


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the operations per second of a large matrix product, an upper bound for a model on this device."""
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
    """The speed of training since the start of this process, without scoring and checkpoints."""

    peak: float
    """Largest possible operations per second of all ranks together."""
    steps: int = 0
    seconds: float = 0.0
    loading: float = 0.0
    """Seconds spent waiting for batches, included in ``seconds``."""
    tokens: int = 0
    """Tokens of all ranks, without padding."""
    operations: int = 0
    """Floating-point operations of the model on all ranks."""

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

    def metrics(self, steps_left: int, seconds_left: float = math.inf) -> Metrics:
        """Return tokens per second, share of time spent loading, MFU and minutes left; {} before any step."""
        if not self.steps:
            return {}
        return {
            "tokens_per_second": self.tokens / self.seconds,
            "loading_share": self.loading / self.seconds,
            "model_flops_utilization": self.operations / self.seconds / self.peak,
            "minutes_left": min(steps_left * self.seconds / self.steps, seconds_left) / 60,
        }
