"""The learning rate over the steps of a run."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from korealbert.artifact import Spec


class ScheduleSpec(Spec):
    """Learning rate over the steps: linear warm-up from 0, then a decay."""

    warmup_steps: int | None = Field(default=None, ge=0)
    """Steps of the warm-up."""
    warmup_ratio: float | None = Field(default=None, ge=0, lt=1)
    """Steps of the warm-up as a share of all steps; 0.0125 (KoreALBERT) where neither is given."""
    decay: Literal["linear", "linear_tf", "constant"] = "linear"
    """``linear`` falls from the peak at the end of the warm-up to 0 at the last step (Hugging Face). ``linear_tf`` follows
    peak · (1 − t / steps) from the end of the warm-up on, so it starts below the peak (google-research/albert)."""

    @model_validator(mode="after")
    def _refuse_both(self) -> Self:
        if self.warmup_steps is not None and self.warmup_ratio is not None:
            raise ValueError(
                f"warmup_steps = {self.warmup_steps} and warmup_ratio = {self.warmup_ratio} exclude each other; give one"
            )
        return self

    def warmup(self, steps: int) -> int:
        """Steps of the warm-up within a run of ``steps``."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return int((0.0125 if self.warmup_ratio is None else self.warmup_ratio) * steps)

    def learning_rate(self, update: int, *, peak: float, steps: int) -> float:
        """Learning rate of the update that follows ``update`` updates: the first of a warm-up is 0 (TF, Hugging Face)."""
        warmup = self.warmup(steps)
        if update < warmup:
            return peak * update / warmup
        if self.decay == "constant":
            return peak
        if self.decay == "linear_tf":
            return peak * max(0.0, 1 - update / steps)
        return peak * max(0.0, (steps - update) / max(1, steps - warmup))
