"""Published scores as printed, each with its source and known misprints.

They ship with the package; benchmarks outside of it bring their own. Changing a shipped number needs a new version of the
report stage.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import polars as pl
from pydantic import Field

from korealbert.finetune.definition import PublishedScore

COLUMNS = ("model", "task", "metric", "value", "source")


class OwnScore(PublishedScore):
    """A printed score of a benchmark outside the package."""

    task: str = Field(min_length=1)
    """Name of the benchmark."""
    metric: str = Field(min_length=1)
    """Metric of the score."""


TableOrScore = str | OwnScore
"""Published scores to compare with: a table of the package, or a single score."""


def tables() -> list[str]:
    """Return the sorted names of the published tables."""
    return sorted(path.name.removesuffix(".csv") for path in _directory().iterdir() if path.name.endswith(".csv"))


@cache
def load(name: str) -> pl.DataFrame:
    """Read a table: ``COLUMNS`` as text; ``number``, null for a value such as 108M; ``note``, the known problems of the row;
    and ``noted``, their numbers in ``known_problems``, from 1.

    Raises ValueError if there is no such table.
    """
    if name not in tables():
        raise ValueError(f"there is no published table {name!r}; known are {', '.join(tables())}")
    frame = pl.read_csv(_directory().joinpath(f"{name}.csv").read_bytes(), infer_schema=False)
    known = [row for row in _toml("misprints")["row"] if row["table"] == name]
    noted = [[place for place, row in enumerate(known) if _applies(row, printed)] for printed in frame.iter_rows(named=True)]
    return frame.with_columns(
        number=pl.col("value").cast(pl.Float64, strict=False),
        note=pl.Series([" ".join(known[place]["note"] for place in places) for places in noted], dtype=pl.String),
        noted=pl.Series([[place + 1 for place in places] for places in noted], dtype=pl.List(pl.Int64)),
    )


def known_problems(name: str) -> list[tuple[str, str]]:
    """Return the known problems of a table, each as the rows that it is about and a note."""
    return [(_rows_of(row), row["note"]) for row in _toml("misprints")["row"] if row["table"] == name]


def notes(name: str) -> list[str]:
    """Return the known problems of a table as sentences with their numbers, by which tables refer to them."""
    return [f"Known problem {number}: {place}: {note}" for number, (place, note) in enumerate(known_problems(name), start=1)]


def comparable(task: str, metric: str, names: Sequence[TableOrScore]) -> pl.DataFrame:
    """Return the printed numbers that measure the same as a task's metric, the best first.

    ``matches.toml`` lists the columns of the package's tables that do; metrics are never matched by name. Single scores state
    their task and metric.
    """
    columns = [column for column in _toml("matches").get(task, {}).get(metric, []) if column[0] in names]
    frames = [
        load(name).filter((pl.col("task") == printed_task) & (pl.col("metric") == printed_metric))
        for name, printed_task, printed_metric in columns
    ]
    schema = {**dict.fromkeys(COLUMNS, pl.String()), "number": pl.Float64(), "note": pl.String()}
    further = [score for score in names if isinstance(score, OwnScore) and (score.task, score.metric) == (task, metric)]
    rows = [(s.model, s.task, s.metric, s.value, s.source, float(s.value), s.note) for s in further]
    found = pl.concat([frame.select(*schema) for frame in (*frames, pl.DataFrame(rows, schema=schema, orient="row"))])
    return found.filter(pl.col("number").is_not_null()).sort("number", descending=True, maintain_order=True)


def matches(task: str, metric: str, table: str, printed: tuple[str, str]) -> bool:
    """Whether a task and metric of a printed table are known to measure the same as this task's metric."""
    return [table, *printed] in _toml("matches").get(task, {}).get(metric, [])


def not_comparable(task: str, names: Sequence[TableOrScore]) -> list[str]:
    """Return sentences on why columns of these tables that look like a task's are not comparable with it."""
    return [
        column["why"] for column in _toml("misprints")["not_comparable"] if column["task"] == task and column["table"] in names
    ]


def _applies(problem: Mapping[str, Any], printed: Mapping[str, Any]) -> bool:
    """Whether a known problem is about a printed row."""
    fields = [(printed[name], problem[name]) for name in COLUMNS if name in problem]
    return all(value in wanted if isinstance(wanted, list) else value == wanted for value, wanted in fields)


def _rows_of(problem: Mapping[str, Any]) -> str:
    """Describe the rows that a known problem is about: ``ALBERT Table 2; ALBERT-xxlarge; MNLI``."""
    fields = [problem[name] for name in ("source", "model", "task", "metric") if name in problem]
    return "; ".join(" and ".join(field) if isinstance(field, list) else field for field in fields) or "All rows"


@cache
def _toml(name: str) -> Mapping[str, Any]:
    return tomllib.loads(_directory().joinpath(f"{name}.toml").read_text("utf-8"))


def _directory() -> Traversable:
    return files("korealbert.report") / "published"
