"""Fine-tuning scores by benchmark, read from the ``metrics.json`` of each cell: one benchmark × one system × one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from korealbert.artifact import Artifact
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.finetune.spec import INITS
from korealbert.formatting import MISSING, mean_and_sd, part_of, percent, spread
from korealbert.huggingface.onnx import FILES
from korealbert.report import published

ONNX_SPLITS = {f"test_onnx_{form}": f"ONNX {form}" for form in FILES}
"""Names of the ONNX models' scores in ``metrics.json`` and in tables."""


@dataclass(frozen=True)
class Cell:
    """One fine-tuning run."""

    artifact: Artifact
    metrics: Mapping[str, Any]
    system: str
    """Initial weights (pretrained or random) of the run's own model, or another encoder's name and its weights."""

    @property
    def init(self) -> str:
        """Initial weights: pretrained or random."""
        return str(self.metrics["init"])

    @property
    def seed(self) -> int:
        """Seed of fine-tuning."""
        return int(self.metrics["seed"])

    @property
    def dev(self) -> float:
        """Main metric on dev in the best epoch, times 100."""
        return float(self.metrics["dev"][self.metrics["metric"]])

    @property
    def test(self) -> float:
        """Main metric on test, times 100."""
        return float(self.metrics["test"][self.metrics["metric"]])

    def undefined(self, metric: str, split: str = "test") -> str:
        """Return why the official script prints ``nan`` for a metric, or "" if it prints a number."""
        return why_undefined(self.metrics, metric, split)

    @property
    def spec(self) -> Mapping[str, Any]:
        """Settings of the run."""
        spec: Mapping[str, Any] = self.artifact.manifest["spec"]
        return spec


@dataclass(frozen=True)
class Benchmark:
    """All cells with the same task and settings: several systems and seeds."""

    name: str
    """Name in the recipe: ``nsmc``, ``nsmc_small``."""
    cells: Sequence[Cell]
    summary: Mapping[str, Any]
    """Content of ``summary.json``; empty without a summary."""

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Confidence intervals of the mean test score in the main metric by system; systems with undefined scores have none."""
        known = {name: found.get("interval") for name, found in self.summary.get("systems", {}).items()}
        return {name: (float(ends[0]), float(ends[1])) for name, ends in known.items() if ends and not self.undefined(name)}

    @property
    def confidence(self) -> float:
        """Confidence level of the intervals."""
        return float(self.summary.get("confidence", 0.95))

    @property
    def interval_title(self) -> str:
        """Heading of the intervals: ``95 % interval``."""
        return f"{percent(self.confidence, 0)} interval"

    @property
    def head(self) -> str:
        """Head, if it is not the task's own: ``mean``, ``bi-encoder``. ELECTRA's is left out; it follows from the encoder."""
        return str(self.cells[0].metrics.get("head", "")).replace(_OF_ARCHITECTURE, "")

    @property
    def head_title(self) -> str:
        """Title of the head, with the triples that it was trained on before; "" for the task's own."""
        title = _HEAD_TITLES.get(self.head, self.head)
        title += ", whitened" if self.cells[0].metrics.get("settings", {}).get("whiten") else ""
        before = self.cells[0].metrics.get("contrast")
        return f"{title} after {before['title']} triples" if before else title

    def head_of(self, system: str) -> str:
        """Return the title of a system's head, or "" for the task's own."""
        found = str(self.of(system)[0].metrics.get("head", ""))
        return _HEAD_TITLES[found] if found == _OF_ARCHITECTURE else self.head_title

    @property
    def name_with_head(self) -> str:
        """Name in the recipe, with the head if it is not the task's own."""
        return f"{self.name}, {self.head_title}" if self.head else self.name

    @property
    def task(self) -> str:
        """Name of the task, with the head if it is not the task's own, so that tables keep them apart."""
        task = str(self.cells[0].metrics["task"])
        return f"{task}/{self.head}" if self.head else task

    @property
    def compared_with(self) -> str:
        """Task whose published scores are comparable; "" for a bi-encoder, since the published ones are of cross-encoders."""
        return "" if self.head == "bi-encoder" else str(self.cells[0].metrics["task"])

    @property
    def metric(self) -> str:
        """Main metric of the task."""
        return str(self.cells[0].metrics["metric"])

    @property
    def title(self) -> str:
        """Title of the task, with the name in the recipe if it differs, and the head if it is not the task's own."""
        title = str(self.cells[0].metrics["title"])
        named = title if self.name == self.cells[0].metrics["task"] else f"{title} ({self.name})"
        return f"{named}, {self.head_title}" if self.head else named

    @property
    def systems(self) -> list[str]:
        """Names of the systems: the run's own model first, pretrained before random, then other encoders by name."""
        return [*(init for init in INITS if self.of(init)), *sorted({cell.system for cell in self.cells} - {*INITS})]

    @property
    def is_searched(self) -> bool:
        """Whether the settings of each system are its best ones on dev."""
        return any("settings" in cell.artifact.manifest["inputs"] for cell in self.cells)

    @property
    def lead(self) -> str:
        """System shown first: the run's own model, or else the best encoder."""
        first = self.systems[0]
        return first if first in INITS else max(self.systems, key=lambda system: mean_and_sd(self.values(system))[0])

    def of(self, system: str) -> list[Cell]:
        """Return the cells of a system by seed."""
        return sorted((cell for cell in self.cells if cell.system == system), key=lambda cell: cell.seed)

    def values(self, system: str, metric: str | None = None, *, kind: str = "test") -> list[float]:
        """Return a system's scores by seed: official (``test``), ``test_corrected``, ``test_oracle`` or ``ONNX_SPLITS``."""
        found = [(cell.metrics.get(kind) or {}).get(metric or self.metric) for cell in self.of(system)]
        return [float(value) for value in found if value is not None]

    def shown(self, system: str, metric: str | None = None, *, kind: str = "test") -> str:
        """Return a system's scores as ``mean ± sd``, a dash without any, or the number of seeds with an undefined score."""
        values, missing = self.values(system, metric, kind=kind), len(self.undefined(system, metric, kind=kind))
        if missing:
            return undefined_for(missing, seeds(len(values)) if missing < len(values) else "")
        return spread(values) if values else MISSING

    def undefined(self, system: str, metric: str | None = None, *, kind: str = "test") -> dict[int, str]:
        """Return why official scores are undefined, by seed. ``values`` has our scores for these, since charts need numbers."""
        found = {cell.seed: cell.undefined(metric or self.metric, kind) for cell in self.of(system)}
        return {seed: why for seed, why in found.items() if why}

    @property
    def metrics(self) -> list[str]:
        """Names of all metrics, the main one first."""
        return sorted(self.cells[0].metrics["test"], key=lambda name: (name != self.metric, name))

    @property
    def metric_title(self) -> str:
        """Title of the main metric."""
        return metric_title(self.metric)

    @property
    def gain(self) -> float | None:
        """Mean of pretrained minus mean of random weights; None if one of them was not run or is undefined."""
        pretrained, random = ([] if self.undefined(init) else self.values(init) for init in INITS)
        return mean_and_sd(pretrained)[0] - mean_and_sd(random)[0] if pretrained and random else None

    @property
    def part(self) -> str:
        """``30 of 50,000 examples`` if scores are over a part of the official test set, else ""."""
        return part_tested(self.cells[0].metrics)


def read(artifacts: Mapping[str, Artifact], summaries: Mapping[str, Artifact]) -> list[Benchmark]:
    """Return the benchmarks of all ``finetune/BENCHMARK/INIT/SEED`` and ``finetune/ENCODER/BENCHMARK/INIT/SEED`` artifacts.

    ``summaries`` are the ``summary/BENCHMARK`` artifacts; a benchmark without one has no intervals.
    """
    cells: dict[str, list[Cell]] = {}
    for label, artifact in artifacts.items():
        metrics = artifact.read_json("metrics.json")
        _, *root, benchmark, init, _ = label.split("/")
        cells.setdefault(benchmark, []).append(Cell(artifact, metrics, "/".join([*root, init])))
    benchmarks = []
    for name, own in cells.items():
        summary = summaries.get(f"summary/{name}")
        benchmarks.append(Benchmark(name, own, {} if summary is None else summary.read_json("summary.json")))
    return benchmarks


def seeds(number: int) -> str:
    """Return ``1 seed``, ``2 seeds``."""
    return "1 seed" if number == 1 else f"{number} seeds"


def undefined_for(missing: int, runs: str) -> str:
    """Return the text for a mean of which some ``runs`` (``3 seeds``) are undefined; all are if ``runs`` is empty."""
    return f"undefined for {missing} of {runs}" if runs else "undefined"


def part_tested(metrics: Mapping[str, Any]) -> str:
    """Return ``30 of 50,000 examples`` if ``metrics.json`` is over a part of the official test set, else ""."""
    if metrics.get("examples_test") in (None, _FURTHER_TEST_SETS.get(metrics.get("task", ""))):
        return ""
    return part_of(metrics["examples_test"], metrics["examples_test_official"])


_FURTHER_TEST_SETS = {"race": 4_934}
"""Sizes of whole test sets of tasks whose official number is that of dev, because published scores are on either."""


def note_of(*parts: str, undefined: str) -> str:
    """Join the parts of a CSV note that are not empty, and the reason why the score is undefined."""
    return "; ".join(filter(None, (*parts, f"undefined: {undefined}" if undefined else "")))


def metric_title(name: str) -> str:
    """Return a metric's name for people."""
    return name.title() if name in ("spearman", "pearson") else name


_OF_ARCHITECTURE = "electra"

_HEAD_TITLES = {
    "mean": "mean pooling",
    "answerability": "classifier of answerability",
    "electra": "ELECTRA's head (dense layer, GELU)",
}
"""Titles of heads whose names need an explanation."""

CSV_COLUMNS = ("model", "benchmark", "task", "init", "seed", "split", "metric", "value", "source", "note")
_CSV_SCHEMA = {**dict.fromkeys(CSV_COLUMNS, pl.String()), "seed": pl.Int64(), "value": pl.Float64()}


def table(
    benchmarks: Sequence[Benchmark], model: str, tables: Sequence[published.TableOrScore], more: Iterable[tuple[Any, ...]] = ()
) -> pl.DataFrame:
    """Return all scores, one per row: ours, the published ones of the same task and metric, then ``more`` rows.

    ``value`` is times 100 and as exact as ``metrics.json``, or null if the official script prints ``nan``; ``source`` is our
    artifact's name or a publication's table. ``note`` has the known misprint of a printed value. For ours it has the head, if
    it is not the task's own, the number of official examples that were tested, and why there is no value. All ``test`` splits
    have the same examples: ``test_corrected`` is scored as the benchmark's paper defines, ``test_oracle`` has the best
    reachable predictions, and ``ONNX_SPLITS`` those of the model as ONNX.
    """
    rows: list[tuple[Any, ...]] = []
    for benchmark in benchmarks:
        for system in benchmark.systems:
            for cell in benchmark.of(system):
                rows += _own_rows(benchmark, cell, model if system in INITS else system)
        for metric in benchmark.metrics:
            comparable = published.comparable(benchmark.compared_with, metric, tables)
            for printed, value, source, note in comparable.select("model", "number", "source", "note").iter_rows():
                rows.append((printed, benchmark.name, benchmark.compared_with, "", None, "", metric, value, source, note))
    return pl.DataFrame([*rows, *more], schema=_CSV_SCHEMA, orient="row")


def _own_rows(benchmark: Benchmark, cell: Cell, model: str) -> Iterator[tuple[Any, ...]]:
    """Yield the scores of one fine-tuning run in all splits."""
    for split in ("dev", "test", "test_corrected", "test_oracle", *ONNX_SPLITS):
        run = (model, benchmark.name, benchmark.task, cell.init, cell.seed, split)
        part = "" if split == "dev" else benchmark.part
        for metric, value in (cell.metrics.get(split) or {}).items():
            why = cell.undefined(metric, split)
            note = note_of(benchmark.head_of(cell.system), part, undefined=why)
            yield (*run, metric, None if why else value, cell.artifact.name, note)
