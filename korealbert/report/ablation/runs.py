"""Values of an ablation by row, column and seed; their means with Student's t intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from korealbert.artifact import Artifact
from korealbert.finetune.statistics import t_quantile
from korealbert.formatting import fixed, mean_and_sd, signed
from korealbert.pretrain.intrinsic import IntrinsicStats
from korealbert.pretrain.stage import PretrainStats
from korealbert.report.ablation.spec import Column, Row, Training

Runs = Mapping[int, Mapping[int, float]]
"""Values × 100 by pretraining seed and, below that, fine-tuning seed (0 without fine-tuning)."""


@dataclass(frozen=True)
class Values:
    """All values of an ablation, by row and column."""

    columns: Mapping[str, Column]
    runs: Mapping[tuple[str, str], Runs]
    """By key of the row and title of the column."""

    @classmethod
    def read(
        cls, rows: tuple[Row, ...], columns: tuple[Column, ...], artifacts: Mapping[str, Artifact], *, baseline: str
    ) -> Values:
        """Read ``pretrain/ROW/SEED``, ``intrinsic/ROW/SEED/NOISE``, ``finetune/ROW/SEED/BENCHMARK/INIT/SEED`` and
        ``ensemble/ROW/BENCHMARK``. ``baseline``: label of the row that speeds are relative to."""
        runs: dict[tuple[str, str], dict[int, dict[int, float]]] = {(r.key, c.title): {} for r in rows for c in columns}
        for label, artifact in artifacts.items():
            stage, *rest = label.split("/")
            if stage not in ("pretrain", "intrinsic", "finetune", "ensemble"):
                continue
            row, seed, *what = [rest[0], "0", *rest[1:], "", "0"] if stage == "ensemble" else rest
            for column in columns:
                value = _value(column, stage, what, artifact)
                if value is not None:
                    runs[row, column.title].setdefault(int(seed), {})[int(what[-1]) if stage in _TUNED else 0] = value
        for column in columns:
            if column.training == "speedup":
                _relate(runs, column.title, rows, baseline)
        found = cls({column.title: column for column in columns}, runs)
        for row_ in rows:
            for column in columns:
                if column.average:
                    runs[row_.key, column.title] = found._averaged(row_.key, column)
        return found

    def _averaged(self, row: str, column: Column) -> dict[int, dict[int, float]]:
        """Means of columns per pretraining seed, where all of them have that seed; fine-tuning seeds are averaged first."""
        parts = [[self.per_pretraining(row, title) for title in group] for group in column.average]
        seeds = set.intersection(*(set(part) for group in parts for part in group))
        return {
            seed: {0: statistics.fmean(statistics.fmean(part[seed] for part in group) for group in parts)}
            for seed in sorted(seeds)
        }

    def per_pretraining(self, row: str, title: str) -> dict[int, float]:
        """One value per pretraining seed: the mean of its fine-tuning runs."""
        return {seed: statistics.fmean(values.values()) for seed, values in sorted(self.runs[row, title].items())}

    def independent(self, row: str, title: str) -> dict[int, float]:
        """The values that an interval treats as independent: one per pretraining seed.

        With a single such seed, one per fine-tuning seed; the interval then says nothing about other pretraining runs.
        """
        runs = self.runs[row, title]
        if len(runs) == 1:
            return dict(sorted(next(iter(runs.values())).items()))
        return self.per_pretraining(row, title)

    def counts(self, row: str, title: str) -> tuple[int, int]:
        """Pretraining runs, and fine-tuning runs of each at most."""
        runs = self.runs[row, title]
        return len(runs), max((len(values) for values in runs.values()), default=0)


def _relate(runs: dict[tuple[str, str], dict[int, dict[int, float]]], title: str, rows: Sequence[Row], baseline: str) -> None:
    """Divide the values of a column by the mean of the row whose label is ``baseline``; without one there are none."""
    unit = [value[0] for row in rows if row.label == baseline for value in runs[row.key, title].values()]
    for row in rows:
        own = runs[row.key, title]
        runs[row.key, title] = {seed: {0: value[0] / statistics.fmean(unit)} for seed, value in own.items()} if unit else {}


_TUNED = ("finetune", "ensemble")
"""Stages whose artifacts are scores of a benchmark."""


def _value(column: Column, stage: str, what: list[str], artifact: Artifact) -> float | None:
    """An artifact's value for a column, or None: the score on test, or on dev where the recipe names no test file."""
    if stage in _TUNED:
        if column.benchmark != "/".join(what[:-2]):
            return None
        metrics = artifact.read_json("metrics.json")
        scores = metrics.get("test") or metrics["dev"]
        metric = column.metric or metrics["metric"]
        if metric not in scores:
            raise ValueError(
                f"column {column.title!r}: {column.benchmark} has no metric {metric!r}; it has {', '.join(scores)}"
            )
        return float(scores[metric])
    if column.training is not None:
        return _of_training(column.training, artifact.stats_as(PretrainStats)) if stage == "pretrain" else None
    if column.heldout is None or (column.noise != what[0] if what else column.noise):
        return None
    if stage == "intrinsic":
        heldout = artifact.stats_as(IntrinsicStats).heldout
    else:
        heldout = artifact.stats_as(PretrainStats).heldout or {}
    accuracy = heldout.get(f"{column.heldout}_accuracy")
    return None if accuracy is None else 100 * float(accuracy)


def _of_training(what: Training, stats: PretrainStats) -> float | None:
    if what == "parameters":
        return float(stats.parameters)
    if what == "hours":
        return None if stats.seconds is None else stats.seconds / 3600
    return stats.tokens_per_second


@dataclass(frozen=True)
class Estimate:
    """A mean and half the width of its interval; None for a single value, which has no spread."""

    mean: float
    half_width: float | None
    values: int
    """Number of independent values."""

    @property
    def text(self) -> str:
        """``mean ± half width``."""
        return fixed(self.mean) + self._plus_minus

    @property
    def signed_text(self) -> str:
        """The same for a difference, with its sign."""
        return signed(self.mean) + self._plus_minus

    @property
    def leaves_out_zero(self) -> bool:
        """Whether 0 is outside the interval; equal values have no spread and so no interval."""
        return bool(self.half_width) and abs(self.mean) > float(self.half_width or 0)

    @property
    def _plus_minus(self) -> str:
        return "" if self.half_width is None else f" ± {fixed(self.half_width)}"


def estimate(values: Sequence[float], confidence: float) -> Estimate:
    """The mean of independent values with its t interval: s · t / √n, t being the quantile at n − 1 degrees of freedom."""
    mean, deviation = mean_and_sd(values)
    if deviation is None:
        return Estimate(mean, None, 1)
    quantile = t_quantile(confidence, len(values) - 1)
    return Estimate(mean, quantile * deviation / math.sqrt(len(values)), len(values))
