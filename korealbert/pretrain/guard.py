"""The collapse guard: detects that training has diverged, so that the loop can return to an earlier checkpoint.

A step is bad if its masked-token loss or its gradient norm exceeds the recent ones by more than the spec allows. One bad step
is a hard batch; several in a row are a collapse, and so is a single NaN or infinity. Steps that fp16 overflow skips are not
bad, unless there are too many in a row. All values are global, so all ranks decide alike, and part of the checkpoint, so a
resumed run decides like an uninterrupted one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pydantic import Field

from korealbert.artifact import Spec

_LOSS_FLOOR = 0.02
"""Smallest standard deviation of the loss, in nats: 8 of them are 0.16, more than the loss of a sound run rises."""

_NORM_FLOOR = 0.25
"""The same for the log of the norm: 8 of them are a factor of 7. Norms double when a model leaves its plateau."""

_MAX_OVERFLOWS = 40
"""Skipped steps in a row that are a collapse although the loss is finite: the loss scale has fallen from 2¹⁶ to 2⁻²⁴."""

_LEARNT_ACCURACY = 0.65
"""Held-out accuracy of sentence order above which it counts as learnt, if that is four standard errors of guessing."""

_CHANCE_DISTANCE = 0.02
"""Distance from 0.5 below which it counts as guessing."""


class GuardSpec(Spec):
    """When training counts as collapsed: it returns to its last checkpoint, skips the data since, and continues more slowly."""

    max_rollbacks: int = Field(default=3, ge=0)
    """Returns per run; a further collapse is an error."""
    horizon: int = Field(default=200, ge=2)
    """Steps over which recent means and deviations are taken; before there are as many, only NaN and infinity are bad."""
    max_z: float = Field(default=8.0, gt=0)
    """Standard deviations above the recent mean beyond which the loss or the gradient norm of a step is bad."""
    patience: int = Field(default=5, ge=1)
    """Bad steps in a row that are a collapse; a single one is a hard batch."""
    rate_factor: float = Field(default=0.5, gt=0, le=1)
    """Factor on the learning rate for the rest of the run, applied at each return."""


@dataclass
class Recent:
    """Exponentially weighted mean and variance of a series."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def z(self, value: float, floor: float) -> float:
        """Return how many standard deviations ``value`` lies above the mean; the deviation is at least ``floor``."""
        return (value - self.mean) / max(math.sqrt(self.variance), floor)

    def add(self, value: float, horizon: int) -> None:
        """Add a value with weight 1 / ``horizon``, or 1 / count while there are fewer values."""
        self.count += 1
        weight = max(1 / self.count, 1 / horizon)
        difference = value - self.mean
        self.mean += weight * difference
        self.variance = (1 - weight) * (self.variance + weight * difference * difference)


@dataclass
class GuardState:
    """The guard's part of a checkpoint."""

    loss: Recent = field(default_factory=Recent)
    gradient: Recent = field(default_factory=Recent)
    """Logarithms of the gradient norm."""
    bad_steps: int = 0
    """Bad steps in a row."""
    overflows: int = 0
    """Steps in a row that fp16 overflow skipped."""
    best_order: float = 0.0
    """Highest held-out accuracy of sentence order."""
    rollbacks: int = 0


class Guard:
    """Judges steps and held-out scores. All methods return what is wrong, or None."""

    def __init__(self, spec: GuardSpec, state: GuardState) -> None:
        self.spec, self.state = spec, state

    def after_step(self, loss: float | None, gradient_norm: float) -> str | None:
        """Judge a step by its loss (None if it had no masked tokens) and its gradient norm."""
        if not (math.isfinite(gradient_norm) and (loss is None or math.isfinite(loss))):
            return f"loss {loss}, gradient norm {gradient_norm}: not finite"
        spec, state = self.spec, self.state
        state.overflows = 0
        seen = [("log of the gradient norm", state.gradient, math.log(max(gradient_norm, 1e-30)), _NORM_FLOOR)]
        if loss is not None:
            seen.insert(0, ("masked-token loss", state.loss, loss, _LOSS_FLOOR))
        faults = [
            f"{name} {value:.4g} is {recent.z(value, floor):.1f} standard deviations above its recent mean {recent.mean:.4g}"
            for name, recent, value, floor in seen
            if recent.count >= spec.horizon and recent.z(value, floor) > spec.max_z
        ]
        if not faults:
            state.bad_steps = 0
            for _, recent, value, _ in seen:
                recent.add(value, spec.horizon)
            return None
        state.bad_steps += 1
        return f"{faults[0]}, for {state.bad_steps} steps in a row" if state.bad_steps >= spec.patience else None

    @property
    def doubts(self) -> bool:
        """Whether the latest step was bad or skipped. A collapse may have begun, so it must not return to its checkpoint."""
        return self.state.bad_steps > 0 or self.state.overflows > 0

    def after_overflow(self, loss: float | None) -> str | None:
        """Judge a skipped step. A lower loss scale mends gradients that overflow, but not a loss that is not finite."""
        self.state.overflows += 1
        finite = loss is None or math.isfinite(loss)
        if self.state.overflows < (_MAX_OVERFLOWS if finite else self.spec.patience):
            return None
        return f"fp16 overflow skipped {self.state.overflows} steps in a row, the last with loss {loss}"

    def forget(self, *, order: bool = False) -> None:
        """Forget recent values: from here on other tasks, other noise or another batch size change loss and norm.

        ``order`` forgets that sentence order was learnt, too: other rotary frequencies may undo it for a while.
        """
        self.state.loss, self.state.gradient, self.state.bad_steps = Recent(), Recent(), 0
        if order:
            self.state.best_order = 0.0

    def after_scoring(self, order_accuracy: float | None, rows: int) -> str | None:
        """Judge the scores of held-out rows: a model that had learnt sentence order and guesses again has collapsed."""
        if order_accuracy is None:
            return None
        best, self.state.best_order = self.state.best_order, max(self.state.best_order, order_accuracy)
        learnt = max(_LEARNT_ACCURACY, 0.5 + 4 * 0.5 / math.sqrt(rows))
        if best >= learnt and abs(order_accuracy - 0.5) < _CHANCE_DISTANCE:
            return f"held-out accuracy of sentence order fell from {best:.3f} to {order_accuracy:.3f}, which is guessing"
        return None
