"""Training metrics between two log lines, and ``metrics.jsonl``, which holds no wall time and so repeats byte for byte."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from korealbert.pretrain.events import EventFile

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
        self._events = EventFile(path.parent) if events else None
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
