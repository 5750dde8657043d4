"""Fine-tuning scores by benchmark, read from the ``metrics.json`` of each cell; a cell is one task × one encoder × one seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
"""Scores of the model as ONNX in ``metrics.json``, and what tables call them."""


@dataclass(frozen=True)
class Cell:
    """One fine-tuning run: a cell of the grid benchmark × system × seed."""

    artifact: Artifact
    metrics: Mapping[str, Any]
    system: str
    """Initial weights (pretrained or random) of the run's own model, or another encoder's name and its weights."""

    @property
    def init(self) -> str:
        """pretrained or random."""
        return str(self.metrics["init"])

    @property
    def seed(self) -> int:
        """Seed of fine-tuning."""
        return int(self.metrics["seed"])

    @property
    def dev(self) -> float:
        """The task's main metric on dev in the best epoch, times 100."""
        return float(self.metrics["dev"][self.metrics["metric"]])

    @property
    def test(self) -> float:
        """The task's main metric on test, times 100."""
        return float(self.metrics["test"][self.metrics["metric"]])

    def undefined(self, metric: str, split: str = "test") -> str:
        """Why the official script prints ``nan`` for a metric, on test or another split; nothing where it prints a number."""
        return why_undefined(self.metrics, metric, split)

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its settings."""
        spec: Mapping[str, Any] = self.artifact.manifest["spec"]
        return spec


@dataclass(frozen=True)
class Benchmark:
    """All cells of one benchmark: the same task and settings, several systems and seeds."""

    name: str
    """The recipe's name of the benchmark and its settings: ``nsmc``, ``nsmc_small``."""
    cells: Sequence[Cell]
    summary: Mapping[str, Any]
    """``summary.json`` of the benchmark, or nothing where no summary was made."""

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Confidence interval of the mean test score in the task's main metric, by system; none where a score is undefined."""
        known = {name: found.get("interval") for name, found in self.summary.get("systems", {}).items()}
        return {name: (float(ends[0]), float(ends[1])) for name, ends in known.items() if ends and not self.undefined(name)}

    @property
    def interval_title(self) -> str:
        """Heading of the intervals: ``95 % interval``."""
        return f"{percent(self.summary.get('confidence', 0.95), 0)} interval"

    @property
    def head(self) -> str:
        """The head, where it is not the task's own: ``mean``, ``bi-encoder``. That of ELECTRA follows from the encoder."""
        return str(self.cells[0].metrics.get("head", "")).replace(_OF_ARCHITECTURE, "")

    @property
    def head_title(self) -> str:
        """The head for people, and on what its vectors were trained before; empty for the task's own."""
        title = _HEAD_TITLES.get(self.head, self.head)
        title += ", whitened" if self.cells[0].metrics.get("settings", {}).get("whiten") else ""
        before = self.cells[0].metrics.get("contrast")
        return f"{title} after {before['title']} triples" if before else title

    def head_of(self, system: str) -> str:
        """The head of a system for people, empty for the task's own."""
        found = str(self.of(system)[0].metrics.get("head", ""))
        return _HEAD_TITLES[found] if found == _OF_ARCHITECTURE else self.head_title

    @property
    def name_with_head(self) -> str:
        """The recipe's name, and a head that is not the task's own."""
        return f"{self.name}, {self.head_title}" if self.head else self.name

    @property
    def task(self) -> str:
        """The task's name, with a head other than its own, so that no table confuses the two."""
        task = str(self.cells[0].metrics["task"])
        return f"{task}/{self.head}" if self.head else task

    @property
    def compared_with(self) -> str:
        """The task whose published scores are comparable with these; none for a bi-encoder, as those are of cross-encoders."""
        return "" if self.head == "bi-encoder" else str(self.cells[0].metrics["task"])

    @property
    def metric(self) -> str:
        """The task's main metric."""
        return str(self.cells[0].metrics["metric"])

    @property
    def title(self) -> str:
        """The task's title, with the benchmark's name in the recipe where they differ, and a head other than the task's own."""
        title = str(self.cells[0].metrics["title"])
        named = title if self.name == self.cells[0].metrics["task"] else f"{title} ({self.name})"
        return f"{named}, {self.head_title}" if self.head else named

    @property
    def systems(self) -> list[str]:
        """The systems: the inits of the run's own model first, in their order."""
        return sorted({cell.system for cell in self.cells}, key=lambda name: (name not in INITS, _place(name), name))

    @property
    def lead(self) -> str:
        """The system shown first: the run's own model, or the best encoder where there is none."""
        own = [init for init in INITS if self.of(init)]
        return own[0] if own else max(self.systems, key=lambda system: mean_and_sd(self.values(system))[0])

    def of(self, system: str) -> list[Cell]:
        """The cells of one system, by seed."""
        return sorted((cell for cell in self.cells if cell.system == system), key=lambda cell: cell.seed)

    def values(self, system: str, metric: str | None = None, *, kind: str = "test") -> list[float]:
        """Test scores of one system, by seed: official ones (``test``), ``test_corrected`` or ``test_oracle``, where cells have
        them."""
        found = [(cell.metrics.get(kind) or {}).get(metric or self.metric) for cell in self.of(system)]
        return [float(value) for value in found if value is not None]

    def shown(self, system: str, metric: str | None = None, *, kind: str = "test") -> str:
        """Scores of one system as ``mean ± sd`` over seeds, or for how many of them there is none; a dash without cells."""
        values, missing = self.values(system, metric, kind=kind), len(self.undefined(system, metric, kind=kind))
        if missing:
            return undefined_for(missing, seeds(len(values)) if missing < len(values) else "")
        return spread(values) if values else MISSING

    def undefined(self, system: str, metric: str | None = None, *, kind: str = "test") -> dict[int, str]:
        """Why there is no official score, by seed. ``values`` then has ours, as charts need a number."""
        found = {cell.seed: cell.undefined(metric or self.metric, kind) for cell in self.of(system)}
        return {seed: why for seed, why in found.items() if why}

    @property
    def metrics(self) -> list[str]:
        """All metrics, the main one first."""
        return sorted(self.cells[0].metrics["test"], key=lambda name: (name != self.metric, name))

    @property
    def metric_title(self) -> str:
        """The main metric's name for people."""
        return metric_title(self.metric)

    @property
    def gain(self) -> float | None:
        """Mean of pretrained minus mean of random, or None where one of them was not run or is undefined."""
        pretrained, random = ([] if self.undefined(init) else self.values(init) for init in INITS)
        return mean_and_sd(pretrained)[0] - mean_and_sd(random)[0] if pretrained and random else None

    @property
    def part(self) -> str:
        """``30 of 50,000 examples`` where scores are not over the official test set, as published ones are; else nothing."""
        return part_tested(self.cells[0].metrics)


def read(artifacts: Mapping[str, Artifact], summaries: Mapping[str, Artifact]) -> list[Benchmark]:
    """The benchmarks of all ``finetune/BENCHMARK/INIT/SEED`` and ``finetune/ENCODER/BENCHMARK/INIT/SEED`` artifacts.

    ``summaries`` are the ``summary/BENCHMARK`` artifacts; a benchmark without one has no intervals.
    """
    cells: dict[str, list[Cell]] = {}
    for label, artifact in artifacts.items():
        metrics = artifact.read_json("metrics.json")
        init = str(metrics["init"])
        *root, benchmark = _parts(label, init)
        cells.setdefault(benchmark, []).append(Cell(artifact, metrics, "/".join([*root, init])))
    return [Benchmark(name, own, _summary(summaries.get(f"summary/{name}"))) for name, own in cells.items()]


def benchmark_of(label: str, init: str) -> str:
    """The benchmark of the label of a cell with these initial weights."""
    return _parts(label, init)[-1]


def _parts(label: str, init: str) -> list[str]:
    """``[ENCODER, BENCHMARK]`` or ``[BENCHMARK]``: labels omit initial weights where all runs start from pretrained ones."""
    return [part for part in label.split("/")[1:-1] if part != init]


def _summary(artifact: Artifact | None) -> Mapping[str, Any]:
    if artifact is None:
        return {}
    summary: Mapping[str, Any] = artifact.read_json("summary.json")
    return summary


def _place(system: str) -> int:
    return INITS.index(system) if system in INITS else 0


def seeds(number: int) -> str:
    """How many seeds, in words."""
    return "1 seed" if number == 1 else f"{number} seeds"


def undefined_for(missing: int, runs: str = "") -> str:
    """What stands in the place of a mean that lacks so many of its ``runs`` (``3 seeds``); nothing: all of them."""
    return f"undefined for {missing} of {runs}" if runs else "undefined"


def part_tested(metrics: Mapping[str, Any]) -> str:
    """How many of the official test examples a ``metrics.json`` is over, ``30 of 50,000 examples``; nothing where of all."""
    return part_of(metrics["examples_test"], metrics["examples_test_official"]) if "examples_test" in metrics else ""


def note_of(*parts: str, undefined: str = "") -> str:
    """A note of a row of CSV: its ``parts`` that are not empty, and why the score is undefined."""
    return "; ".join(filter(None, (*parts, f"undefined: {undefined}" if undefined else "")))


def metric_title(name: str) -> str:
    """A metric's name for people."""
    return name.title() if name in ("spearman", "pearson") else name


_OF_ARCHITECTURE = "electra"

_HEAD_TITLES = {
    "mean": "mean pooling",
    "answerability": "classifier of answerability",
    "electra": "ELECTRA's head (dense layer, GELU)",
}
"""Heads whose names are not plain enough."""

CSV_COLUMNS = ("model", "benchmark", "task", "init", "seed", "split", "metric", "value", "source", "note")


def table(
    benchmarks: Sequence[Benchmark], model: str, tables: Sequence[published.TableOrScore], more: Iterable[tuple[Any, ...]] = ()
) -> pl.DataFrame:
    """All scores, one a row: ours by cell, split and metric, then the published ones of the same task and metric; then ``more``
    rows, which are no benchmark's.

    ``value`` is times 100 and as exact as ``metrics.json``, null where the official script prints ``nan``; ``source`` is our
    artifact's name or a publication's table; ``note`` has the known misprint of a printed value, and of ours the
    head, where it is not the task's own, how many of the official examples were tested, and why there is no value. The splits
    ``test_corrected`` and ``test_oracle`` are the same test examples, scored as the text defines, and with the best reachable
    predictions; ``ONNX_SPLITS`` the same with the predictions of the model as ONNX.
    """
    rows: list[tuple[Any, ...]] = []
    for benchmark in benchmarks:
        for system in benchmark.systems:
            name = model if system in INITS else system
            for cell in benchmark.of(system):
                for split in ("dev", "test", "test_corrected", "test_oracle", *ONNX_SPLITS):
                    own = (name, benchmark.name, benchmark.task, cell.init, cell.seed, split)
                    scores = cell.metrics.get(split) or {}
                    for metric, value in scores.items():
                        why = cell.undefined(metric, split)
                        note = note_of(benchmark.head_of(system), "" if split == "dev" else benchmark.part, undefined=why)
                        rows.append((*own, metric, None if why else value, cell.artifact.name, note))
        for metric in benchmark.metrics:
            comparable = published.comparable(benchmark.compared_with, metric, tables).select(
                "model", "number", "source", "note"
            )
            for printed, value, source, note in comparable.iter_rows():
                rows.append((printed, benchmark.name, benchmark.compared_with, "", None, "", metric, value, source, note))
    rows += more
    text, whole, real = pl.String(), pl.Int64(), pl.Float64()
    kinds = [text, text, text, text, whole, text, text, real, text, text]
    return pl.DataFrame(rows, schema=dict(zip(CSV_COLUMNS, kinds, strict=True)), orient="row")
