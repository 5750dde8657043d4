"""Reads and writes the shards of a data stage: Arrow files that are written whole or not at all, and read batch by batch.

``documents-*`` hold the documents that pass, ``dropped-*`` dropped documents with the reason and rule,
``quarantine-*`` input that could not be read as documents, with file, position, field and remedy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc
from pydantic import Field

from korealbert.artifact import Artifact, Statistics
from korealbert.artifact.files import atomic_path
from korealbert.documents.schema import Document, Drop, Quarantined

_ROWS_PER_BATCH = 2_000
"""Rows of one Arrow record batch; a reader holds one batch at a time."""


class ShardError(ValueError):
    """A shard that is damaged or has another schema than expected."""


ARROW_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors that pyarrow raises for damaged files: damaged metadata, for example, are an OSError."""


def not_whole(path: Path, error: Exception) -> ShardError:
    """Return the error for a file that raised one of ``ARROW_FAULTS``."""
    return ShardError(f"{path}: not a whole Arrow file ({error}); rebuild its stage")


def read_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of one Arrow IPC shard. Raises ShardError naming the file."""
    try:
        with ipc.open_file(pa.memory_map(str(path))) as reader:
            if not reader.schema.equals(schema):
                raise ShardError(f"{path}: holds the schema {reader.schema.names}, expected {schema.names}; rebuild its stage")
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index)
                batch.validate(full=True)  # A flipped byte must not surface as some column's decoding error.
                yield batch
    except ARROW_FAULTS as error:
        raise not_whole(path, error) from error


def read_column(path: Path, schema: pa.Schema, name: str) -> Iterator[pa.Array]:
    """Yield one column of a shard, batch by batch; nothing else is read. Raises ShardError naming the file."""
    options = ipc.IpcReadOptions(included_fields=[schema.get_field_index(name)])
    try:
        with ipc.open_file(pa.memory_map(str(path)), options=options) as reader:
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index).column(0)
    except ARROW_FAULTS as error:
        raise not_whole(path, error) from error


def read_rows(path: Path, schema: pa.Schema) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one Arrow IPC shard. Raises ShardError as ``read_batches`` does."""
    for batch in read_batches(path, schema):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class TableWriter:
    """Writes rows to one zstd-compressed Arrow IPC file; without rows there is no file."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.schema = path, schema
        self._rows: list[tuple[Any, ...]] = []
        self._atomic = atomic_path(path)
        self._writer: ipc.RecordBatchFileWriter | None = None

    def __enter__(self) -> Self:
        return self

    def append(self, row: tuple[Any, ...]) -> None:
        """Add one row, in the order of the schema's fields."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS_PER_BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            self._sink = pa.OSFile(str(self._atomic.__enter__()), "wb")
            options = ipc.IpcWriteOptions(compression="zstd")
            self._writer = ipc.new_file(self._sink, self.schema, options=options)
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        self._writer.write_batch(pa.record_batch(arrays, schema=self.schema))
        self._rows.clear()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._rows:
            self._flush()
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
            self._atomic.__exit__(kind, error, trace)


def _schema(kind: type, *more: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([(f.name, pa.string()) for f in fields(kind)] + list(more))


DOCUMENT_SCHEMA = _schema(Document)
DROPPED_SCHEMA = _schema(Document, ("reason", pa.string()), ("rule", pa.string()))
QUARANTINE_SCHEMA = _schema(Quarantined)


class DocumentStats(Statistics):
    """Counts of a data stage; ``documents_in + repeated = documents_out + Σ dropped + quarantined``."""

    documents_in: int
    documents_out: int
    repeated: int = 0
    """Additional copies of documents; they count in ``documents_out`` but not in ``documents_in``."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Documents by reason."""
    quarantined: int = 0
    """Records that could not be read as documents."""
    quarantine_reasons: dict[str, int] = Field(default_factory=dict)
    characters_out: int | None = None
    """None if the stage does not count them."""
    bytes_out: int | None = None
    """Size of the texts in UTF-8."""
    warnings: tuple[str, ...] = ()
    """What the spec asks for and has no effect, and what of the documents was not read, with the remedy."""


NO_DOCUMENTS: Mapping[str, Any] = {
    **dict.fromkeys(("documents_in", "documents_out", "quarantined", "characters_out", "bytes_out"), 0),
    "dropped": {},
    "quarantine_reasons": {},
}
"""Statistics of a shard or stage without documents."""


def kept_nothing(artifact: Artifact) -> bool:
    """Return whether a stage of documents dropped all of them."""
    return artifact.stats.get("documents_out") == 0


def refuse_nothing_kept(stage: str, kept: Mapping[str, Mapping[str, Any]], remedy: str) -> None:
    """Raise ValueError with drops and remedy if documents came into parts of a corpus and none is left in any.

    ``kept`` has the statistics of each part by name.
    """
    lost = [_loss(name, stats) for name, stats in sorted(kept.items()) if stats["documents_in"]]
    if lost and not any(stats["documents_out"] for stats in kept.values()):
        raise ValueError(f"{stage}: no document is left: {', '.join(lost)}. {remedy}")


def _loss(name: str, stats: Mapping[str, Any]) -> str:
    drops = ", ".join(f"{number:,} {reason}" for reason, number in stats["dropped"].items())
    quarantined = f"{stats['quarantined']:,} quarantined" if stats.get("quarantined") else ""
    return f"{name} (0 of {stats['documents_in']:,} documents kept: {', '.join(filter(None, (drops, quarantined)))})"


document_row = attrgetter(*(f.name for f in fields(Document)))
"""Returns a document as a row of ``DOCUMENT_SCHEMA``; ``dataclasses.astuple`` copies deeply and takes 15 times as long."""
_quarantine_row = attrgetter(*(f.name for f in fields(Quarantined)))


def read_records(path: Path, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """Yield the rows of one shard by column."""
    for batch in read_batches(path, schema):
        yield from batch.to_pylist()


def read_documents(path: Path, chosen: npt.NDArray[np.bool_] | None = None) -> Iterator[Document]:
    """Yield the documents of one ``documents-*.arrow`` shard, or those for which ``chosen``, bool [documents], is true."""
    position = 0
    for whole in read_batches(path, DOCUMENT_SCHEMA):
        batch = whole if chosen is None else whole.filter(pa.array(chosen[position : position + len(whole)]))
        position += len(whole)
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Document(*row)


class DocumentShard:
    """Context manager that writes the documents, dropped documents and quarantine of one shard; ``stats`` are their counts."""

    def __init__(self, out_dir: Path, index: int) -> None:
        def writer(kind: str, schema: pa.Schema) -> TableWriter:
            return TableWriter(out_dir / f"{kind}-{index:05d}.arrow", schema)

        self._documents = writer("documents", DOCUMENT_SCHEMA)
        self._dropped = writer("dropped", DROPPED_SCHEMA)
        self._quarantine = writer("quarantine", QUARANTINE_SCHEMA)
        self._counts, self._reasons, self._bad = Counter[str](), Counter[str](), Counter[str]()

    def __enter__(self) -> Self:
        return self

    def keep(self, document: Document) -> None:
        """Write a document that passes."""
        self._documents.append(document_row(document))
        size = len(document.text.encode("utf-8"))
        self._counts.update(documents_in=1, documents_out=1, characters_out=len(document.text), bytes_out=size)

    def drop(self, document: Document, drop: Drop) -> None:
        """Write a document that does not pass."""
        self._dropped.append((*document_row(document), drop.reason, drop.rule))
        self._counts.update(documents_in=1)
        self._reasons[drop.reason] += 1

    def quarantine(self, bad: Quarantined) -> None:
        """Write input that could not be read; it counts as one document."""
        self._quarantine.append(_quarantine_row(bad))
        self._counts.update(documents_in=1, quarantined=1)
        self._bad[bad.reason] += 1

    @property
    def stats(self) -> dict[str, Any]:
        """Counts of this shard, for ``sum_stats``."""
        reasons = {"dropped": dict(sorted(self._reasons.items())), "quarantine_reasons": dict(sorted(self._bad.items()))}
        return sum_stats([NO_DOCUMENTS, self._counts, reasons])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for writer in (self._dropped, self._quarantine, self._documents):
            writer.__exit__(kind, error, trace)


def sum_stats(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add the numbers of all shards by key, recursively."""
    total: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, Mapping):
                total[key] = sum_stats([total.get(key, {}), value])
            else:
                total[key] = total.get(key, 0) + value
    return total
