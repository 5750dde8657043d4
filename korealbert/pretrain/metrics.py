"""Training metrics between two log lines, and ``metrics.jsonl``, which holds no wall time and so repeats byte for byte."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from korealbert.pretrain.batches import TASKS

Metrics = dict[str, float | None]


def _zeros() -> list[float]:
    return [0.0] * len(TASKS)


@dataclass
class TaskTotals:
    """Sums over targets per task, in the order of ``TASKS``; they are global: added up over ranks."""

    losses: list[float] = field(default_factory=_zeros)
    correct: list[float] = field(default_factory=_zeros)
    targets: list[float] = field(default_factory=_zeros)

    def add(self, *, losses: Sequence[float], correct: Sequence[float], targets: Sequence[float]) -> None:
        """Add the sums of one more batch."""
        self.losses = [a + b for a, b in zip(self.losses, losses, strict=True)]
        self.correct = [a + b for a, b in zip(self.correct, correct, strict=True)]
        self.targets = [a + b for a, b in zip(self.targets, targets, strict=True)]

    def metrics(self, weights: Sequence[float]) -> Metrics:
        """``loss`` (weighted sum of the means), and loss and accuracy per task; None for a task without targets."""
        means: Metrics = {}
        total = 0.0
        for task, weight, loss, hits, count in zip(TASKS, weights, self.losses, self.correct, self.targets, strict=True):
            means[f"{task}_loss"] = loss / count if count else None
            means[f"{task}_accuracy"] = hits / count if count else None
            total += weight * loss / count if count else 0.0
        return {"loss": total, **means}


def rounded(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Floats to six significant digits."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in metrics.items()}


class MetricsFile:
    """``metrics.jsonl``: a line per log interval (``split`` "train"), scoring ("heldout") and rollback ("guard")."""

    def __init__(self, path: Path, content: bytes = b"") -> None:
        self.path = path
        path.write_bytes(content)

    def append(self, split: str, step: int, metrics: Mapping[str, Any]) -> None:
        """Add one line."""
        line = json.dumps({"split": split, "step": step, **rounded(metrics)})
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(line + "\n")

    def content(self) -> bytes:
        """Everything written so far, forced to disk."""
        with self.path.open("rb") as handle:
            os.fsync(handle.fileno())
            return handle.read()
