"""Values of an ablation by row, column and seed, and their means with Student's t intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from korealbert.artifact import Artifact
from korealbert.finetune.scores.statistics import t_quantile
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.formatting import fixed, mean_and_sd, signed
from korealbert.model.config import encoder_size
from korealbert.pretrain.intrinsic import IntrinsicStats
from korealbert.pretrain.stage import PretrainStats
from korealbert.report.ablation.spec import Row
from korealbert.report.paper_columns import Column, Training
from korealbert.report.scores import note_of, part_tested, undefined_for

Runs = dict[int, dict[int, float]]
"""Values by pretraining seed and fine-tuning seed (0 without fine-tuning)."""


@dataclass(frozen=True)
class Values:
    """All values of an ablation, by key of the row and title of the column."""

    runs: dict[tuple[str, str], Runs]
    """Defined values."""
    undefined: dict[tuple[str, str], dict[tuple[int, int], str]]
    """Reasons of undefined values by pretraining seed and fine-tuning seed."""
    parts: dict[tuple[str, str], str]
    """``30 of 50,000 examples`` if scores are over a part of the official test set, else ""."""

    @classmethod
    def read(
        cls, rows: tuple[Row, ...], columns: tuple[Column, ...], artifacts: Mapping[str, Artifact], *, baseline: str
    ) -> Values:
        """Read the values of ``pretrain/ROW/SEED``, ``intrinsic/ROW/SEED/NOISE``, ``ensemble/ROW/BENCHMARK`` and
        ``finetune/ROW/SEED/BENCHMARK/INIT/SEED``. ``baseline``: label of the row that speeds are relative to."""
        places = [(row.key, column.title) for row in rows for column in columns]
        values = cls({place: {} for place in places}, {place: {} for place in places}, dict.fromkeys(places, ""))
        for label, artifact in artifacts.items():
            stage, *rest = label.split("/")
            if stage in ("pretrain", "intrinsic"):
                values._add_training(columns, stage, rest, artifact)
            elif stage in ("finetune", "ensemble"):
                values._add_cell(columns, stage, rest, artifact)
        for column in columns:
            if column.training == "speedup":
                _divide_by_baseline(values.runs, column.title, rows, baseline)
        for row, column in product(rows, columns):
            if column.average:
                values._add_average(row.key, column)
        return values

    def _add_training(self, columns: Sequence[Column], stage: str, label: Sequence[str], artifact: Artifact) -> None:
        row, seed, *noise = label
        for column in columns:
            if (value := _pretraining_value(column, stage, noise, artifact)) is not None:
                self.runs[row, column.title].setdefault(int(seed), {})[0] = value

    def _add_cell(self, columns: Sequence[Column], stage: str, label: Sequence[str], artifact: Artifact) -> None:
        row, benchmark, init, pretraining, finetuning = _cell_of(stage, label)
        for column in columns:
            if (column.benchmark, column.init) != (benchmark, init):
                continue
            place = row, column.title
            score, why, part = _score(column, artifact.read_json("metrics.json"))
            self.parts[place] = part or self.parts[place]
            if why:
                self.undefined[place][pretraining, finetuning] = why
            else:
                self.runs[place].setdefault(pretraining, {})[finetuning] = score

    def _add_average(self, row: str, column: Column) -> None:
        """Add means of columns for each pretraining seed that all of them have; fine-tuning seeds are averaged first."""
        groups = [[self.per_pretraining(row, title) for title in group] for group in column.average]
        for seed in sorted(set.intersection(*(set(by_seed) for by_seed in chain.from_iterable(groups)))):
            means = (statistics.fmean(by_seed[seed] for by_seed in group) for group in groups)
            self.runs[row, column.title][seed] = {0: statistics.fmean(means)}
        for title in chain.from_iterable(column.average):
            for (seed, _), why in self.undefined[row, title].items():
                self.undefined[row, column.title][seed, 0] = f"{title}: {why}"

    def all(self, row: str, title: str) -> list[float]:
        """Return the values of all runs."""
        return [value for by_seed in self.runs[row, title].values() for value in by_seed.values()]

    def per_pretraining(self, row: str, title: str) -> dict[int, float]:
        """Return the mean of the fine-tuning runs of each pretraining seed; seeds with an undefined run are left out."""
        without = {seed for seed, _ in self.undefined[row, title]}
        runs = sorted(self.runs[row, title].items())
        return {seed: statistics.fmean(values.values()) for seed, values in runs if seed not in without}

    def independent(self, row: str, title: str) -> dict[int, float]:
        """Return the values that an interval treats as independent: one per pretraining seed.

        With a single pretraining seed, they are one per fine-tuning seed; the interval does not cover other pretraining runs.
        """
        if self.counts(row, title)[0] == 1:
            return dict(sorted(item for values in self.runs[row, title].values() for item in values.items()))
        return self.per_pretraining(row, title)

    def missing(self, row: str, title: str) -> str:
        """Return ``undefined for 1 of 3 runs``, or "" if every run has a value."""
        missing, known = len(self.undefined[row, title]), sum(map(len, self.runs[row, title].values()))
        return undefined_for(missing, f"{missing + known} runs" if known else "") if missing else ""

    def note(self, row: str, title: str) -> str:
        """Return which part of the official examples was tested, and why the mean is undefined; usually ""."""
        return note_of(self.parts[row, title], undefined=", ".join(dict.fromkeys(self.undefined[row, title].values())))

    def counts(self, row: str, title: str) -> tuple[int, int]:
        """Pretraining runs, and fine-tuning runs of each at most."""
        runs = {seed: set(values) for seed, values in self.runs[row, title].items()}
        for pretraining, finetuning in self.undefined[row, title]:
            runs.setdefault(pretraining, set()).add(finetuning)
        return len(runs), max(map(len, runs.values()), default=0)


def _cell_of(stage: str, label: Sequence[str]) -> tuple[str, str, str, int, int]:
    """Return row, benchmark, initial weights, pretraining seed and fine-tuning seed of a cell; ensembles have seeds of 0."""
    if stage == "ensemble":
        return label[0], "/".join(label[1:]), "pretrained", 0, 0
    row, pretraining, *benchmark, init, finetuning = label
    return row, "/".join(benchmark), init, int(pretraining), int(finetuning)


def _divide_by_baseline(runs: dict[tuple[str, str], Runs], title: str, rows: Sequence[Row], baseline: str) -> None:
    """Divide the values of a column by the baseline's mean; without a baseline, remove them."""
    of_baseline = [value[0] for row in rows if row.label == baseline for value in runs[row.key, title].values()]
    mean = statistics.fmean(of_baseline) if of_baseline else None
    for row in rows:
        by_seed = runs[row.key, title]
        runs[row.key, title] = {} if mean is None else {seed: {0: value[0] / mean} for seed, value in by_seed.items()}


def _score(column: Column, metrics: Mapping[str, Any]) -> tuple[float, str, str]:
    """Return the score on test, or on dev if the recipe has no test file; why it is undefined; and the part that was tested."""
    split = "test" if metrics.get("test") else "dev"
    metric = column.metric or metrics["metric"]
    if metric not in metrics[split]:
        raise ValueError(
            f"column {column.title!r}: {column.benchmark} has no metric {metric!r}; it has {', '.join(metrics[split])}"
        )
    part = part_tested(metrics) if split == "test" else ""
    return float(metrics[split][metric]), why_undefined(metrics, metric, split), part


def _pretraining_value(column: Column, stage: str, noise: Sequence[str], artifact: Artifact) -> float | None:
    """Return a column's value in a training or in its evaluation with a noise, or None."""
    if column.training is not None:
        return _training_cost(column.training, artifact) if stage == "pretrain" else None
    if column.heldout is None or column.noise != "".join(noise):
        return None
    if stage == "intrinsic":
        heldout = artifact.stats_as(IntrinsicStats).heldout
    else:
        heldout = artifact.stats_as(PretrainStats).heldout or {}
    value = heldout.get(f"{column.heldout}_{column.metric or 'accuracy'}")
    return None if value is None else float(value) * (1 if column.is_loss else 100)


def _training_cost(what: Training, artifact: Artifact) -> float | None:
    if what == "parameters":
        return float(encoder_size(artifact.path)) if artifact.files("model.safetensors") else None
    stats = artifact.stats_as(PretrainStats)
    if what == "hours":
        return None if stats.seconds is None else stats.seconds / 3600
    return stats.tokens_per_second


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval."""

    mean: float
    half_width: float | None
    """None for a single value, which has no interval."""
    values: int
    """Number of independent values."""
    decimals: int = 2
    """Decimals that are shown."""

    @property
    def text(self) -> str:
        """Mean and half width: ``82.00 ± 1.10``."""
        return fixed(self.mean, self.decimals) + self._plus_minus

    @property
    def signed_text(self) -> str:
        """The same with a sign, for a difference."""
        return signed(self.mean) + self._plus_minus

    @property
    def limits(self) -> tuple[float, float] | None:
        """The ends of the interval."""
        return None if self.half_width is None else (self.mean - self.half_width, self.mean + self.half_width)

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 is outside the interval. Equal values prove nothing, as their interval has no width."""
        return bool(self.half_width) and abs(self.mean) > float(self.half_width or 0)

    @property
    def _plus_minus(self) -> str:
        return "" if self.half_width is None else f" ± {fixed(self.half_width, self.decimals)}"


def estimate(values: Sequence[float], confidence: float, decimals: int = 2) -> Estimate:
    """Return the mean of independent values with its t interval: s · t / √n, with n − 1 degrees of freedom."""
    mean, deviation = mean_and_sd(values)
    if deviation is None:
        return Estimate(mean, None, 1, decimals)
    quantile = t_quantile(confidence, len(values) - 1)
    return Estimate(mean, quantile * deviation / math.sqrt(len(values)), len(values), decimals)
