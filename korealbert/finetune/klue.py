"""What the tasks of KLUE share: where they come from, and the settings of KLUE's own baselines for models of base size."""

from __future__ import annotations

from collections.abc import Mapping

ORIGIN = "github.com/KLUE-benchmark/KLUE (klue_benchmark), v1.1, CC BY-SA 4.0"


def defaults(*, epochs: int, **other: float) -> Mapping[str, int | float]:
    """Fields of the fine-tuning spec as in KLUE-baseline's run_all.sh, of which ``other`` replaces some."""
    common = {"batch_size": 32, "learning_rate": 5e-5, "max_length": 128, "warmup_ratio": 0.1, "weight_decay": 0.0}
    return {"epochs": epochs, **common, **other}
