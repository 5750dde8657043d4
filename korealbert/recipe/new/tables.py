"""The first records of a file as a table: of Parquet, Arrow and JSON. ``delimited`` reads text with delimiters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from korealbert.recipe.new.columns import BODY_NAMES, normalized
from korealbert.recipe.new.formats import SAMPLED_RECORDS, decoded, json_objects

MAX_SAMPLED_RECORDS = 20_000
"""Records read when a field that may hold the text is empty in all of the first ones."""


@dataclass(frozen=True)
class Table:
    """How the records of a file are written, and the first of them."""

    records: Sequence[Mapping[str, Any]] = ()
    delimiter: str = ""
    columns: tuple[str, ...] = ()
    """Names given to the columns of a table without a header."""
    uncertain_header: tuple[str, ...] = ()
    """The first row if it was taken for a header though none of its names is a usual one."""
    quoted: bool = True
    """Whether quotation marks quote fields; otherwise they are text."""
    skipped: int = 0
    """Rows above the header."""
    escaped: bool = False
    """Whether quotation marks within fields are escaped by a backslash, which no reader understands."""

    def extended(self, later: Table) -> Table:
        """Return this table with those later records that fill one of ``empty_bodies``."""
        empty = self.empty_bodies
        found = (record for record in later.records if any(record.get(name) for name in empty))
        return replace(self, records=[*self.records, *islice(found, SAMPLED_RECORDS)])

    @property
    def empty_bodies(self) -> list[str]:
        """Fields that may hold the text by their names, but are empty in every record."""
        names = dict.fromkeys(name for record in self.records for name in record if normalized(str(name)) in BODY_NAMES)
        return [name for name in names if not any(record.get(name) for record in self.records)]


def table_of_parquet(file: Path | bytes) -> Table:
    """Return the first rows of a Parquet file, and further ones if the first lack a text. Raises ArrowException."""
    parquet = pq.ParquetFile(pa.BufferReader(file) if isinstance(file, bytes) else file)
    return _table_of_batches(parquet.iter_batches(SAMPLED_RECORDS))


def table_of_arrow(file: Path | bytes) -> Table:
    """Return the same of an Arrow file or stream. Raises ArrowException."""
    with pa.BufferReader(file) if isinstance(file, bytes) else pa.memory_map(str(file)) as source:
        source.seek(8 if source.read(8).startswith(b"ARROW1") else 0)
        batches = ipc.open_stream(source)
        return _table_of_batches(part for batch in batches for part in _sliced(batch))


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, SAMPLED_RECORDS) for start in range(0, batch.num_rows, SAMPLED_RECORDS))


def _table_of_batches(batches: Iterable[pa.RecordBatch]) -> Table:
    table = Table()
    for batch in islice(batches, MAX_SAMPLED_RECORDS // SAMPLED_RECORDS):
        rows = Table([{name: _with_strings(value) for name, value in row.items()} for row in batch.to_pylist()])
        table = table.extended(rows) if table.records else rows
        if not table.empty_bodies:
            break
    return table


def _with_strings(value: Any) -> Any:
    """Decode bytes in a value from UTF-8, as extraction does, or from CP949, which it quarantines; keep other bytes."""
    if isinstance(value, list):
        return [_with_strings(each) for each in value]
    if isinstance(value, dict):
        return {name: _with_strings(each) for name, each in value.items()}
    for encoding in ("utf-8", "cp949") if isinstance(value, bytes) else ():
        with suppress(UnicodeDecodeError):
            return value.decode(encoding)
    return value


def table_of_json(begin: bytes, *, more: bool) -> Table:
    """Return the first whole objects of a JSON list or of JSON lines; ``more``: up to ``MAX_SAMPLED_RECORDS``."""
    objects = (value for *_, value in json_objects(decoded(begin)))
    return Table(list(islice(objects, MAX_SAMPLED_RECORDS if more else SAMPLED_RECORDS)))
