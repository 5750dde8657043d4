"""The learning rate as a pure function of the number of updates made."""

from __future__ import annotations

from korealbert.pretrain.spec import ScheduleSpec


def learning_rate(update: int, *, peak: float, steps: int, schedule: ScheduleSpec) -> float:
    """Learning rate of the update that follows ``update`` updates: the first of a warm-up is 0, as in TF and Hugging Face."""
    warmup = schedule.warmup(steps)
    if update < warmup:
        return peak * update / warmup
    if schedule.decay == "constant":
        return peak
    if schedule.decay == "linear_tf":
        return peak * max(0.0, 1 - update / steps)
    return peak * max(0.0, (steps - update) / max(1, steps - warmup))
