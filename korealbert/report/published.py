"""Published scores, as printed, each row with its source; and what is known to be wrong with them.

They ship with the package; who changes a number raises the version of the report stage.
"""

from __future__ import annotations

import io
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import polars as pl

COLUMNS = ("model", "task", "metric", "value", "source")


def tables() -> list[str]:
    """Names of the published tables, sorted."""
    return sorted(path.name.removesuffix(".csv") for path in _directory().iterdir() if path.name.endswith(".csv"))


def load(name: str) -> pl.DataFrame:
    """One table: ``COLUMNS`` as text, in the order of its source, and ``number`` (null where a value is no number: 108M).

    Raises ValueError naming the known tables, or file and row of a row without model, value or source.
    """
    if name not in tables():
        raise ValueError(f"there is no published table {name!r}; known are {', '.join(tables())}")
    content = _directory().joinpath(f"{name}.csv").read_bytes()
    return parse(content, f"published/{name}.csv")


def parse(content: bytes, file: str) -> pl.DataFrame:
    """Parse one table; see ``load``."""
    frame = pl.read_csv(io.BytesIO(content), infer_schema=False)
    if tuple(frame.columns) != COLUMNS:
        raise ValueError(f"{file}, header: found {','.join(frame.columns)}; the columns are {','.join(COLUMNS)}")
    for column in COLUMNS:
        blank = frame.with_row_index(offset=2).filter(pl.col(column).fill_null("").str.strip_chars() == "")
        if blank.height:
            raise ValueError(f"{file}, line {blank['index'][0]}, field {column!r}: empty; fill it in as the source prints it")
    return frame.with_columns(number=pl.col("value").cast(pl.Float64, strict=False))


def notes(name: str) -> list[str]:
    """Known problems of a table, in full sentences."""
    lines = _directory().joinpath("NOTES.md").read_text("utf-8").splitlines()
    return [line.removeprefix("- ") for line in lines if re.match(rf"- {re.escape(name)}\.csv\b", line)]


def comparable(frame: pl.DataFrame, *, task: str, metric: str) -> pl.DataFrame:
    """The rows of exactly this task and metric that are numbers.

    Tables write accuracy as ``acc``. Other metrics are never equated: an F1 of one table need not be that of another.
    """
    spellings = [metric, "acc"] if metric == "accuracy" else [metric]
    same_task = pl.col("task").str.to_lowercase() == task
    return frame.filter(same_task & pl.col("metric").is_in(spellings) & pl.col("number").is_not_null())


def _directory() -> Traversable:
    return files("korealbert.report") / "published"
