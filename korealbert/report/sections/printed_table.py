"""A paper's table with our scores above the printed ones: models as rows, benchmarks as columns (KoreALBERT, table III).

Models that were not measured have only the printed numbers. Parameters are those of the encoders that were loaded; speeds are
those of the shapes that stage `speed` measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from pydantic import Field, model_validator

from korealbert.artifact import Spec, refuse_repeats
from korealbert.finetune.encoders.stage import EncoderStats
from korealbert.formatting import MISSING, compact
from korealbert.model.config import encoder_size
from korealbert.report.artifacts import Artifacts
from korealbert.report.paper_columns import Column, Measure, Printed, mean_of, other_metrics
from korealbert.report.render.blocks import Section, Table, Text
from korealbert.report.scores import Benchmark

OWN = "pretrained"
"""Used instead of an encoder's name for the recipe's own model."""


class TableRow(Spec):
    """One model of the table."""

    model: str = Field(min_length=1)
    """Name of the model, as printed."""
    encoder: str = ""
    """Our encoder for this row, the NAME of a table ``[encoder.NAME]``, or ``pretrained`` for the recipe's own model.
    Empty: the row has only the printed numbers."""
    shape: str = ""
    """Shape in stage `speed` whose speed is shown."""


class PrintedTable(Spec):
    """Rows and columns, in the order of the paper."""

    printed: Printed
    """Source of the printed numbers."""
    rows: tuple[TableRow, ...] = Field(min_length=1)
    """Models."""
    columns: tuple[Column, ...] = Field(min_length=1)
    """Benchmarks, averages of them, parameters and speed."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_repeats("columns", [column.title for column in self.columns])
        benchmarks = {column.title for column in self.columns if column.benchmark}
        for row in self.rows:
            self.printed.model_of(row.model, row.model)
        for column in self.columns:
            if column.heldout or column.training == "hours":
                raise ValueError(f"column {column.title!r}: a report of encoders has no such numbers; remove it")
            pairs = self.printed.elsewhere(column.source).pairs()
            if column.printed is not None and column.printed not in pairs:
                known = ", ".join(f"{task} {metric}" for task, metric in sorted(pairs))
                problem = f"printed = {list(column.printed)} is not in the published table; it has {known}"
                raise ValueError(f"column {column.title!r}: {problem}")
            for title in (title for group in column.average for title in group):
                if title not in benchmarks:
                    raise ValueError(f"column {column.title!r} averages {title!r}; benchmarks are {', '.join(benchmarks)}")
        return self


def section(spec: PrintedTable, artifacts: Artifacts, benchmarks: Sequence[Benchmark]) -> Section:
    """Show the table, and how to read it."""
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    speeds = _speeds(artifacts)
    body: list[list[str]] = []
    marked = set()
    for row in spec.rows:
        label = row.model
        if row.encoder or row.shape:
            marked.add(len(body))
            ours = [_ours(spec, column, row, artifacts, by_name, speeds) for column in spec.columns]
            body.append([label, {OWN: "ours", "": "its shape"}.get(row.encoder, row.encoder), *ours])
            medians = [_score(spec, column, row, by_name, statistics.median) for column in spec.columns]
            if spec.printed.statistic == "median" and any(each != MISSING for each in medians):
                body.append(["", "median", *medians])
            label = ""
        body.append([label, "printed", *(_printed(spec.printed, row.model, column) for column in spec.columns)])
    header = ["", "From", *(column.title for column in spec.columns)]
    title = f"{spec.printed.source}, ours above the printed"
    table = Table(title, header, body, frozenset(range(2, len(header))), frozenset(marked))
    return Section("table", spec.printed.source, [table, *(Text(note, quiet=True) for note in _notes(spec, benchmarks))])


def _notes(spec: PrintedTable, benchmarks: Sequence[Benchmark]) -> list[str]:
    """Return how to read the table, and which columns may not measure what the printed ones do."""
    text = (
        "Ours are mean ± sd over seeds, times 100; a row with only printed numbers was not measured. Parameters are those of "
        "the encoders as they are loaded, without heads. Speed is that of training steps of the shapes, on the machine of "
        "this run."
    )
    if partly := "; ".join(f"{b.title}: {b.part}" for b in benchmarks if b.part):
        text += f" Tested on a part: {partly}."
    measures = {b.name: Measure(b.cells[0].metrics["task"], b.cells[0].metrics["title"], b.metric) for b in benchmarks}
    return [text, *other_metrics(spec.columns, spec.printed, measures)]


def _ours(
    spec: PrintedTable,
    column: Column,
    row: TableRow,
    artifacts: Artifacts,
    benchmarks: Mapping[str, Benchmark],
    speeds: Mapping[str, float],
) -> str:
    if column.training == "speedup":
        return f"{speeds[row.shape]:.2f}×" if row.shape in speeds else MISSING
    if column.training == "parameters":
        return _parameters(row.encoder, artifacts)
    if column.average or column.benchmark not in benchmarks:
        return _score(spec, column, row, benchmarks, statistics.fmean)
    return benchmarks[column.benchmark].shown(_system(row, column), column.metric or None)


def _system(row: TableRow, column: Column) -> str:
    return column.init if row.encoder == OWN else f"{row.encoder}/{column.init}"


def _score(
    spec: PrintedTable,
    column: Column,
    row: TableRow,
    benchmarks: Mapping[str, Benchmark],
    statistic: Callable[[Sequence[float]], float],
) -> str:
    """Return a statistic over the seeds of a benchmark, or its mean over several benchmarks; a dash if one is missing."""
    by_title = {each.title: each for each in spec.columns}
    averaged = [by_title[title] for group in column.parts for title in group]
    if any(part.benchmark not in benchmarks for part in averaged):
        return MISSING
    found = {part.title: (benchmarks[part.benchmark], _system(row, part), part.metric or None) for part in averaged}
    if any(benchmark.undefined(system, metric) for benchmark, system, metric in found.values()):
        return "undefined"
    values = {title: benchmark.values(system, metric) for title, (benchmark, system, metric) in found.items()}
    return mean_of([[values[title] for title in group] for group in column.parts], statistic)


def _printed(printed: Printed, model: str, column: Column) -> str:
    values = printed.elsewhere(column.source).values(model)
    return values[column.printed][0] if column.printed in values else MISSING


def _parameters(encoder: str, artifacts: Artifacts) -> str:
    if encoder == OWN:
        trained = artifacts.one("pretrain")
        return compact(encoder_size(trained.path)) if trained is not None and trained.files("model.safetensors") else MISSING
    loaded = artifacts.by_label.get(f"encoder/{encoder}")
    return MISSING if loaded is None else compact(loaded.stats_as(EncoderStats).parameters)


def _speeds(artifacts: Artifacts) -> dict[str, float]:
    artifact = artifacts.one("speed")
    if artifact is None:
        return {}
    rows = artifact.read_json("speed.json")["rows"]
    return {name: float(row["speedup"]) for name, row in rows.items()}
