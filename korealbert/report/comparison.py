"""What others published: our scores among those of the same task and metric, then the tables as printed."""

from __future__ import annotations

from collections.abc import Sequence

from korealbert.finetune.init import INITS
from korealbert.numbers import mean_and_sd, spread
from korealbert.report import published
from korealbert.report.blocks import Block, Fold, Section, Table, Text
from korealbert.report.scores import Benchmark, published_beside, seeds


def section(benchmarks: Sequence[Benchmark], tables: Sequence[str]) -> Section | None:
    """Published scores of the same task and metric with ours among them, then the tables as printed, with their misprints."""
    if not tables:
        return None
    blocks: list[Block] = [
        Text(
            "Only scores of the same task and the same metric share a table. They come from models of other sizes, "
            "corpora and budgets, and from other numbers of seeds; each source is named."
        )
    ]
    blocks += [table for benchmark in benchmarks if len((table := _beside(benchmark, tables)).rows)]
    for name in tables:
        printed = [_as_printed(source, rows) for source, rows in _by_source(name).items()]
        known = [Text(f"Known problems: {note}", quiet=True) for note in published.notes(name)]
        blocks.append(Fold(f"As printed: {name.replace('_', ' ')}", [*known, *printed]))
    return Section("published", "Beside published scores", blocks)


def _beside(benchmark: Benchmark, tables: Sequence[str]) -> Table:
    entries = list(published_beside(benchmark, tables).select("number", "model", "value", "source").iter_rows())
    published_rows = len(entries)
    for init in INITS:
        if values := benchmark.values(init):
            whole = "" if benchmark.on_whole_test_set else ", part of the test set"
            entries.append((mean_and_sd(values)[0], f"this run, {init}", spread(values), f"{seeds(len(values))}{whole}"))
    entries.sort(key=lambda entry: -entry[0])
    rows = [[model, value, source] for _, model, value, source in entries] if published_rows else []
    marked = frozenset(index for index, row in enumerate(rows) if row[0].startswith("this run, "))
    return Table(f"{benchmark.title}, {benchmark.metric_title}", ["Model", "Score", "Source"], rows, frozenset({1}), marked)


def _by_source(name: str) -> dict[str, list[tuple[str, str, str, str]]]:
    sources: dict[str, list[tuple[str, str, str, str]]] = {}
    for model, task, metric, value, source in published.load(name).select(published.COLUMNS).iter_rows():
        sources.setdefault(source, []).append((model, task, metric, value))
    return sources


def _as_printed(source: str, rows: Sequence[tuple[str, str, str, str]]) -> Table:
    """Models by columns of task and metric; a value that a source prints twice is shown twice."""
    columns = list(dict.fromkeys((task, metric) for _, task, metric, _ in rows))
    cells: dict[tuple[str, str, str], list[str]] = {}
    for model, task, metric, value in rows:
        cells.setdefault((model, task, metric), []).append(value)
    models = list(dict.fromkeys(model for model, *_ in rows))
    header = ["Model", *(f"{task} {metric}" for task, metric in columns)]
    body = [[model, *(" / ".join(cells.get((model, *column), [""])) for column in columns)] for model in models]
    return Table(source, header, body, frozenset(range(1, len(header))))
