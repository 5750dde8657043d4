"""Paired significance tests between the systems of a benchmark, from its summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from korealbert.formatting import MISSING, fixed, signed
from korealbert.report.render.blocks import Block, Fold, Table, Text
from korealbert.report.scores import Benchmark

_SMALLEST_P = 0.0005
"""What would be written 0.000."""

MOST_OPEN = 12
"""Pairs that stand open; nine systems are 36 of them."""


def blocks(benchmarks: Sequence[Benchmark], name: Callable[[str], str] = str) -> list[Block]:
    """A table of all pairs of systems, written as ``name`` says, or nothing where no summary compares any."""
    rows = []
    for benchmark in benchmarks:
        for pair in benchmark.summary.get("comparisons", []):
            low, high = pair["interval"]
            mcnemar = pair.get("mcnemar") or {}
            rows.append(
                [
                    f"{benchmark.title}, {benchmark.metric_title}",
                    f"{name(pair['first'])} less {name(pair['second'])}",
                    signed(pair["difference"]),
                    f"{signed(low)} to {signed(high)}",
                    _p_value(pair.get("p_value")),
                    _p_value(mcnemar.get("p_value")),
                ]
            )
    if not rows:
        return []
    header = ["Benchmark", "Systems", "Difference", "Interval", "p", "p, McNemar"]
    text = (
        "Intervals are of the difference of the means over seeds, by bootstrap over test examples; p by approximate "
        "randomisation, McNemar's between the seeds that are best on dev."
    )
    title = "Differences between systems, test"
    note, columns = Text(text, quiet=True), frozenset({2, 3, 4, 5})
    if len(rows) > MOST_OPEN:
        return [Fold(f"{title}: {len(rows)} pairs", [Table("", header, rows, columns), note])]
    return [Table(title, header, rows, columns), note]


def _p_value(value: float | None) -> str:
    if value is None:
        return MISSING
    return "<0.001" if value < _SMALLEST_P else fixed(value, 3)
