"""Fine-tuning scores: every cell as its ``metrics.json`` has it, and what the cells of one benchmark say together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from korealbert.artifact import Artifact
from korealbert.finetune.init import INITS
from korealbert.numbers import mean_and_sd
from korealbert.report import published


@dataclass(frozen=True)
class Cell:
    """One fine-tuning cell: a benchmark, an init, a seed."""

    artifact: Artifact
    metrics: Mapping[str, Any]

    @property
    def init(self) -> str:
        """pretrained or random."""
        return str(self.metrics["init"])

    @property
    def seed(self) -> int:
        """Seed of the cell."""
        return int(self.metrics["seed"])

    @property
    def dev(self) -> float:
        """The task's own metric on dev in the best epoch, times 100."""
        return float(self.metrics["dev"][self.metrics["metric"]])

    @property
    def test(self) -> float:
        """The task's own metric on test, times 100."""
        return float(self.metrics["test"][self.metrics["metric"]])

    @property
    def spec(self) -> Mapping[str, Any]:
        """The cell's recipe."""
        spec: Mapping[str, Any] = self.artifact.manifest["spec"]
        return spec


@dataclass(frozen=True)
class Benchmark:
    """All cells of one benchmark: the same task and settings, several inits and seeds."""

    name: str
    """The recipe's name of the benchmark and its settings: ``nsmc``, ``nsmc_small``."""
    cells: Sequence[Cell]

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.cells[0].metrics["task"])

    @property
    def metric(self) -> str:
        """The task's own metric."""
        return str(self.cells[0].metrics["metric"])

    @property
    def title(self) -> str:
        """The task's title, with the recipe's name where that tells more."""
        title = str(self.cells[0].metrics["title"])
        return title if self.name == self.task else f"{title} ({self.name})"

    def of(self, init: str) -> list[Cell]:
        """The cells of one init, by seed."""
        return sorted((cell for cell in self.cells if cell.init == init), key=lambda cell: cell.seed)

    def values(self, init: str, metric: str | None = None) -> list[float]:
        """Test scores of one init, by seed."""
        return [float(cell.metrics["test"][metric or self.metric]) for cell in self.of(init)]

    @property
    def metrics(self) -> list[str]:
        """All metrics, the task's own first."""
        return sorted(self.cells[0].metrics["test"], key=lambda name: (name != self.metric, name))

    @property
    def metric_title(self) -> str:
        """The task's own metric as people write it."""
        return metric_title(self.metric)

    @property
    def gain(self) -> float | None:
        """Mean of pretrained less mean of random, or None where one of them was not run."""
        pretrained, random = (self.values(init) for init in INITS)
        return mean_and_sd(pretrained)[0] - mean_and_sd(random)[0] if pretrained and random else None

    @property
    def on_whole_test_set(self) -> bool:
        """Whether the scores are over the official test set, as published ones are."""
        metrics = self.cells[0].metrics
        return bool(metrics["examples_test"] == metrics["examples_test_official"])


def read(artifacts: Mapping[str, Artifact]) -> list[Benchmark]:
    """The benchmarks of all ``finetune/BENCHMARK/INIT/SEED`` artifacts, in the order of their labels."""
    cells: dict[str, list[Cell]] = {}
    for label, artifact in artifacts.items():
        name = label.split("/")[1] if "/" in label else label
        metrics = json.loads((artifact.path / "metrics.json").read_text("utf-8"))
        cells.setdefault(name, []).append(Cell(artifact, metrics))
    return [Benchmark(name, own) for name, own in cells.items()]


def seeds(number: int) -> str:
    """How many seeds, in words."""
    return "1 seed" if number == 1 else f"{number} seeds"


def metric_title(name: str) -> str:
    """A metric's name as people write it."""
    return name.title() if name in ("spearman", "pearson") else name


def published_beside(benchmark: Benchmark, tables: Sequence[str]) -> pl.DataFrame:
    """Published scores of the same task and metric, best first: ``model``, ``number``, ``value``, ``source``."""
    frames = [published.comparable(published.load(name), task=benchmark.task, metric=benchmark.metric) for name in tables]
    found = (
        pl.concat(frames)
        if frames
        else pl.DataFrame(schema={**dict.fromkeys(published.COLUMNS, pl.String), "number": pl.Float64})
    )
    return found.sort("number", descending=True, maintain_order=True)


CSV_COLUMNS = ("model", "benchmark", "task", "init", "seed", "split", "metric", "value", "source")


def table(benchmarks: Sequence[Benchmark], model: str, tables: Sequence[str]) -> pl.DataFrame:
    """Every score as one row: ours per cell, split and metric, then the published ones of the same task and metric.

    ``value`` is times 100 and as exact as ``metrics.json``; ``source`` is our artifact's name or a publication's table.
    """
    rows: list[tuple[Any, ...]] = []
    for benchmark in benchmarks:
        for init in INITS:
            for cell in benchmark.of(init):
                for split in ("dev", "test"):
                    own = (model, benchmark.name, benchmark.task, init, cell.seed, split)
                    rows += [(*own, name, value, cell.artifact.name) for name, value in cell.metrics[split].items()]
        for model_name, value, source in published_beside(benchmark, tables).select("model", "number", "source").iter_rows():
            rows.append((model_name, benchmark.name, benchmark.task, "", None, "", benchmark.metric, value, source))
    text, whole, real = pl.String(), pl.Int64(), pl.Float64()
    kinds = [text, text, text, text, whole, text, text, real, text]
    return pl.DataFrame(rows, schema=dict(zip(CSV_COLUMNS, kinds, strict=True)), orient="row")
