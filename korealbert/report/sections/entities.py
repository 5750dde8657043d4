"""KoreALBERT's Table IV from the data: how often each type of entity is tagged in Naver NER, beside the printed counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import polars as pl
from pyarrow import ipc

from korealbert.formatting import by_number, count, percent
from korealbert.report import published
from korealbert.report.render.blocks import Block, Table, Text
from korealbert.report.scores import Benchmark

TASK = "naver_ner"

_PRINTED_IN = "KoreALBERT Table IV"

_PREFIX = "count_"


def tag_counts(sentences: Iterable[Sequence[str]]) -> Counter[str]:
    """How many tags each type has, ``B`` and ``I`` together, which is what the paper counts."""
    return Counter(tag[2:] for tags in sentences for tag in tags if tag != "O")


def printed_counts() -> dict[str, int]:
    """The paper's counts by type."""
    frame = published.load("korealbert").filter((pl.col("source") == _PRINTED_IN) & pl.col("metric").str.starts_with(_PREFIX))
    return {metric.removeprefix(_PREFIX): int(n) for metric, n in frame.select("metric", "number").iter_rows()}


def blocks(benchmarks: Sequence[Benchmark]) -> list[Block]:
    """Counts and shares of each type over the test sentences of the first Naver NER benchmark, or nothing without one."""
    found = next((b for b in benchmarks if b.task == TASK and (b.cells[0].artifact.path / "predictions.arrow").exists()), None)
    if found is None:
        return []
    with ipc.open_file(str(found.cells[0].artifact.path / "predictions.arrow")) as reader:
        gold = reader.read_all()["gold"].to_pylist()
    here = tag_counts(gold)
    printed = printed_counts()
    totals = sum(here.values()) or 1, sum(printed.values())
    order = [kind for kind, _ in by_number({kind: printed.get(kind, 0) for kind in (*printed, *here)})]
    rows = [
        [
            kind,
            count(here[kind]),
            percent(here[kind] / totals[0]),
            count(printed.get(kind)),
            percent(printed[kind] / totals[1]) if kind in printed else "",
        ]
        for kind in order
    ]
    header = ["Type", "Tags here", "Share", "Tags printed", "Share printed"]
    table = Table(f"{found.title}: entity types in the data, beside {_PRINTED_IN}", header, rows, frozenset({1, 2, 3, 4}))
    text = f"Counted over the gold tags of {count(len(gold))} test sentences; the paper counts all 90,000, B and I together."
    return [table, Text(text, quiet=True)]
