"""Where fine-tuned models err: what is predicted for each gold label, confusions, and the hardest examples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.formatting import MISSING, count, fixed, percent
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.scores import Benchmark, Cell

_MAX_DRAWN = 16
"""Labels of a drawn confusion matrix; of more than that only the table is shown."""

_SHOWN = 6
"""Predictions listed for a gold label, where the task does not say how many."""

_MAX_TEXT = 160
"""Characters of a hard example that are quoted."""


def section(benchmarks: Sequence[Benchmark], hardest: int) -> Section | None:
    """For each benchmark the errors of its cell that was best on dev, pretrained if there is one."""
    blocks: list[Block] = []
    figures: list[Figure] = []
    for benchmark in benchmarks:
        cell = _best(benchmark)
        path = cell.artifact.path / "analysis.json"
        if path.exists():
            found = json.loads(path.read_text("utf-8"))
            figures += _drawn(benchmark, found)
            blocks += _tables(benchmark, cell, found, hardest)
    if not blocks:
        return None
    text = "For each gold label what was predicted, of the pretrained cell that scored best on dev, over the test examples."
    return Section("errors", "Errors", [Text(text), *([Figures(figures)] if figures else []), *blocks])


def _best(benchmark: Benchmark) -> Cell:
    cells = benchmark.of("pretrained") or benchmark.cells
    return max(cells, key=lambda cell: (cell.dev, -cell.seed))


def _drawn(benchmark: Benchmark, found: Mapping[str, Any]) -> list[Figure]:
    labels, counts = found["confusion"]["labels"], found["confusion"]["counts"]
    if not 1 < len(labels) <= _MAX_DRAWN:
        return []
    label = f"{benchmark.title}: share of each gold label's {found['unit']} by predicted label"
    svg = charts.matrix(labels, counts, label=label)
    return [Figure(f"confusion-{benchmark.name}", f"{benchmark.title}: gold in rows, predicted in columns", svg)]


def _tables(benchmark: Benchmark, cell: Cell, found: Mapping[str, Any], hardest: int) -> list[Block]:
    rows = []
    for gold, predicted in found["dist"].items():
        total, right = sum(predicted.values()), predicted.get(gold, 0)
        listed = list(predicted.items())[: found.get("listed") or _SHOWN]
        rows.append([gold, count(total), percent(right / total), ", ".join(f"{name} {count(n)}" for name, n in listed)])
    header = ["Gold", found["unit"].capitalize(), "Correct", "Predicted labels, most frequent first"]
    title = f"{benchmark.title}: what is predicted for each gold label, seed {cell.seed}"
    blocks: list[Block] = [Table(title, header, rows, frozenset({1, 2}), prose=frozenset({3}))]
    hard = found["hardest"][:hardest]
    if hard:
        quoted = [[e["id"], _quoted(e), _value(e["gold"]), _value(e["pred"]), fixed(e["loss"])] for e in hard]
        table = Table(
            f"{benchmark.title}: the test examples with the largest loss",
            ["Example", "Text", "Gold", "Predicted", "Loss"],
            quoted,
            frozenset({4}),
            prose=frozenset({1, 2, 3}),
        )
        blocks.append(Fold(f"Hardest examples of {benchmark.title}", [table]))
    return blocks


def _quoted(example: Mapping[str, Any]) -> str:
    return " / ".join(_cut(text) for text in (example["text"], example.get("pair")) if text)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT].rstrip()}…"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if part is not None and name != "probs"}
    if isinstance(value, float):
        return fixed(value)
    return MISSING if value in (None, "") else _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
