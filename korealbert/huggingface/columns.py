"""What stages computed about documents and keep beside them, as columns of an exported dataset.

Languages are those of the clean stage, scores those of the quality stage, and copies those that deduplication dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from korealbert.artifact import Artifact, ancestors
from korealbert.corpus.quality.stage import copies_found

_Frame = pl.DataFrame | pl.LazyFrame


@dataclass(frozen=True)
class Column:
    """A column in addition to those of documents."""

    name: str
    kind: pa.DataType
    meaning: str
    """For the card."""


_LANGUAGES = (
    Column("language", pa.string(), "language of most letters, empty without letters"),
    Column("language_share", pa.float64(), "share of the letters in lines of that language"),
)
_QUALITY = Column("quality", pa.float64(), "score of the classifier, from 0 (bad) to 1 (good)")
_PERPLEXITY = Column("perplexity", pa.float64(), "of a language model of the reference texts; low: similar to them")
_COPIES = Column("copies", pa.int64(), "documents of the sources that were copies or near-copies of this one, with itself")


@dataclass(frozen=True)
class _Table:
    """Values of some columns by document id."""

    columns: tuple[Column, ...]
    values: pl.DataFrame
    """A column ``key``, the id as a number, in ascending order without repeats, and one for each of ``columns``."""
    default: int | None = None
    """Value of documents without a row."""

    @cached_property
    def _keys(self) -> np.ndarray:
        return self.values["key"].to_numpy()

    def of(self, keys: np.ndarray) -> Iterator[pa.Array]:
        """Yield the values of each column for some documents."""
        places = np.searchsorted(self._keys, keys)
        places[places == len(self._keys)] = 0
        found = self._keys[places] == keys if len(self._keys) else np.zeros(len(keys), dtype=bool)
        indices = pa.array(places, pa.int64(), mask=~found)
        for column in self.columns:
            values = self.values[column.name].to_arrow().cast(column.kind).take(indices)
            yield values if self.default is None else values.fill_null(self.default)


def _table(columns: Sequence[Column], frame: _Frame, default: int | None = None) -> _Table:
    key = pl.col("id").str.to_integer(base=16, dtype=pl.UInt64).alias("key")
    distinct = frame.lazy().select(key, *(column.name for column in columns)).unique()
    # Which row belongs to which of several documents with one id of the source is unknown.
    return _Table(tuple(columns), distinct.filter(~pl.col("key").is_duplicated()).sort("key").collect(), default)


class ComputedColumns:
    """The columns that the ancestors of exported artifacts computed; none if no stage did."""

    def __init__(self, artifacts: Iterable[Artifact]) -> None:
        by_stage: dict[str, list[Artifact]] = {}
        for artifact in ancestors({artifact.name: artifact for artifact in artifacts}).values():
            by_stage.setdefault(artifact.manifest["recipe"]["stage"], []).append(artifact)
        self._tables: list[_Table] = []
        if languages := [file for clean in by_stage.get("clean", ()) for file in clean.files("languages-*.arrow")]:
            rows = pl.scan_ipc(languages, glob=False).rename({"share": "language_share"})
            self._tables.append(_table(_LANGUAGES, rows))
        scored = by_stage.get("quality", ())
        chosen = [
            column
            for column, field in ((_QUALITY, "classifier"), (_PERPLEXITY, "perplexity"))
            if any(artifact.manifest["spec"].get(field) is not None for artifact in scored)
        ]
        if scores := [file for artifact in scored for file in artifact.files("scores-*.arrow")] if chosen else []:
            self._tables.append(_table(chosen, pl.scan_ipc(scores, glob=False)))
        for dedup in by_stage.get("dedup", ())[:1]:
            copies = copies_found(dedup)
            schema = {"id": pl.String, "copies": pl.Int64}
            frame = pl.DataFrame({"id": list(copies), "copies": list(copies.values())}, schema=schema)
            self._tables.append(_table([_COPIES], frame, default=1))

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order of ``add``."""
        return tuple(column for table in self._tables for column in table.columns)

    def schema(self, documents: pa.Schema) -> pa.Schema:
        """Return the schema of documents with these columns."""
        return pa.schema([*documents, *(pa.field(column.name, column.kind) for column in self.columns)])

    def add(self, documents: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of documents with these columns; a value that no stage computed is null."""
        keys = np.array([int(one, 16) for one in documents["id"].to_pylist()], np.uint64)
        more = [values for table in self._tables for values in table.of(keys)]
        return pa.record_batch([*documents.columns, *more], schema=self.schema(documents.schema))
