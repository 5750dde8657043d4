"""Comparison with published scores: ours among those of the same task and metric, then the tables as printed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import polars as pl

from korealbert.formatting import fixed, spread
from korealbert.report import published
from korealbert.report.render.blocks import Block, Fold, Section, Table, Text
from korealbert.report.scores import Benchmark, metric_title


def section(benchmarks: Sequence[Benchmark], tables: Sequence[str]) -> Section | None:
    """A leaderboard per task and metric, ours among published scores, then the tables as printed, with their misprints."""
    if not tables:
        return None
    blocks: list[Block] = [Text(_EXPLANATION)] if benchmarks else []
    blocks += [table for benchmark in benchmarks for table in _leaderboards(benchmark, tables)]
    reasons = dict.fromkeys(why for benchmark in benchmarks for why in published.apart(benchmark.task, tables))
    blocks += [Text(f"Not comparable with ours: {why}", quiet=True) for why in reasons]
    for name in tables:
        printed = [_as_printed(source, rows) for source, rows in _by_source(name).items()]
        known = [Text(f"Known problems: {note}", quiet=True) for note in published.notes(name)]
        blocks.append(Fold(f"As printed: {name.replace('_', ' ')}", [*known, *printed]))
    return Section("published", "Beside published scores", blocks)


_EXPLANATION = (
    "Score is the number that the benchmark's official script prints; ours are mean ± sd over seeds. Corrected: the same "
    "predictions, scored as the benchmark's paper defines. Oracle: the best score that the tokenizer's pieces and the length "
    "limit allow. A table holds only scores of the same task, split and metric. Published models differ in size, corpus and "
    "budget; each source is named, and known problems are noted in the row."
)

_HEADER = ("Model", "Score", "Interval", "Median", "Best", "Seeds", "Corrected", "Oracle", "Source", "Note")

_ALWAYS = 2
"""Columns that are shown even when empty."""


def _leaderboards(benchmark: Benchmark, tables: Sequence[str]) -> list[Table]:
    """The table of the main metric, and of every other metric that somebody published."""
    found = {metric: published.comparable(benchmark.task, metric, tables) for metric in benchmark.metrics}
    return [_leaderboard(benchmark, m, beside) for m, beside in found.items() if m == benchmark.metric or beside.height]


def _leaderboard(benchmark: Benchmark, metric: str, beside: pl.DataFrame) -> Table:
    entries = [
        (number, [model, value, "", "", "", "", "", "", source, note], False)
        for number, model, value, source, note in beside.select("number", "model", "value", "source", "note").iter_rows()
    ]
    part = "" if benchmark.on_whole_test_set else "part of the test set"
    for system in benchmark.systems:
        if values := benchmark.values(system, metric):
            entries.append((statistics.fmean(values), [*_own(benchmark, system, metric), "this run", part], True))
    entries.sort(key=lambda entry: -entry[0])
    kept = [n for n in range(len(_HEADER)) if n < _ALWAYS or any(row[n] for _, row, _ in entries)]
    rows = [[row[n] for n in kept] for _, row, _ in entries]
    header = [benchmark.interval_title if _HEADER[n] == "Interval" else _HEADER[n] for n in kept]
    numeric = frozenset(n for n, name in enumerate(header) if name not in ("Model", "Source", "Note"))
    marked = frozenset(n for n, (_, _, ours) in enumerate(entries) if ours)
    prose = frozenset(n for n, name in enumerate(header) if name in ("Source", "Note"))
    return Table(f"{benchmark.title}, {metric_title(metric)}", header, rows, numeric, marked, prose)


def _own(benchmark: Benchmark, system: str, metric: str) -> list[str]:
    values = benchmark.values(system, metric)
    corrected, oracle = (benchmark.values(system, metric, kind=kind) for kind in ("test_corrected", "test_oracle"))
    interval = benchmark.intervals.get(system) if metric == benchmark.metric else None
    several = len(values) > 1
    return [
        system,
        spread(values),
        f"{fixed(interval[0])} to {fixed(interval[1])}" if interval else "",
        fixed(statistics.median(values)) if several else "",
        fixed(max(values)) if several else "",
        str(len(values)),
        fixed(statistics.fmean(corrected)) if corrected else "",
        fixed(statistics.fmean(oracle)) if oracle else "",
    ]


_Printed = tuple[str, str, str, str, str]
"""Model, task, metric, value and note."""


def _by_source(name: str) -> dict[str, list[_Printed]]:
    sources: dict[str, list[_Printed]] = {}
    for model, task, metric, value, note, source in published.load(name).select(*_PRINTED, "source").iter_rows():
        sources.setdefault(source, []).append((model, task, metric, value, note))
    return sources


_PRINTED = ("model", "task", "metric", "value", "note")


def _as_printed(source: str, rows: Sequence[_Printed]) -> Table:
    """Models by columns of task and metric, with the notes on each; where a source prints two values, both are shown."""
    columns = list(dict.fromkeys((task, metric) for _, task, metric, *_ in rows))
    cells: dict[tuple[str, str, str], list[str]] = {}
    notes: dict[str, dict[str, None]] = {}
    everywhere = set.intersection(*({row[-1]} for row in rows))
    for model, task, metric, value, note in rows:
        cells.setdefault((model, task, metric), []).append(value)
        if note and note not in everywhere:
            notes.setdefault(model, {})[note] = None
    models = list(dict.fromkeys(model for model, *_ in rows))
    header = ["Model", *(f"{task} {metric}" for task, metric in columns), *(["Note"] if notes else [])]
    body = [
        [model, *(" / ".join(cells.get((model, *column), [""])) for column in columns)]
        + ([" ".join(notes.get(model, {}))] if notes else [])
        for model in models
    ]
    title = " ".join([source, *(f"({note.rstrip('.')})" for note in everywhere if note)])
    prose = frozenset({len(header) - 1}) if notes else frozenset()
    return Table(title, header, body, frozenset(range(1, len(columns) + 1)), prose=prose)
