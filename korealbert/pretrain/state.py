"""Where a pretraining run stands, as its checkpoints keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from korealbert.pretrain.guard import GuardState, Recent
from korealbert.pretrain.metrics import Metrics, TaskTotals


@dataclass
class TrainingState:
    """All that a checkpoint needs beside tensors."""

    step: int = 0
    """Steps done."""
    updates: int = 0
    """Updates made: steps less those that fp16 overflow skipped. The learning rate follows it."""
    position: int = 0
    """Where in the training order the next batch begins."""
    long_position: int = 0
    """The same of the long sequences."""
    sequences: int = 0
    """Sequences trained on; the positions less those that were left out after a collapse."""
    slots: int = 0
    """Places of their tokens, padding included."""
    returns_to: int = 0
    """Step of the checkpoint that a collapse returns to: the last that was due after a good step. One that was saved on request
    changes nothing."""
    rate_factor: float = 1.0
    """What collapses have made of the learning rate."""
    tokens: int = 0
    """Real tokens seen, specials included, padding not."""
    window: TaskTotals = field(default_factory=TaskTotals)
    """Sums since the last log line."""
    heldout: Metrics = field(default_factory=dict)
    """The newest held-out scores."""
    heldout_long: Metrics = field(default_factory=dict)
    """The same of the long held-out rows."""
    guard: GuardState = field(default_factory=GuardState)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The state that ``asdict`` gave these values of."""
        guard = {**values["guard"], **{name: Recent(**values["guard"][name]) for name in ("loss", "gradient")}}
        return cls(**{**values, "window": TaskTotals(**values["window"]), "guard": GuardState(**guard)})
