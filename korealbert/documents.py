"""Documents: what passes between the data stages, and what becomes of those that do not pass.

A data stage writes three kinds of Arrow shards: ``documents-*``, ``dropped-*`` (whole documents with the reason and rule that
dropped them) and ``quarantine-*`` (input that could not be read as documents, with file, position, field and remedy).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import ipc

from korealbert.files import atomic_path

ROWS_PER_BATCH = 2_000
"""Rows of one Arrow record batch; a reader holds one batch at a time."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text with its provenance."""

    id: str
    """16 hex digits, see ``document_id``."""
    source: str
    """Name of the source in the recipe: news, kowiki, …"""
    text: str
    """Paragraphs separated by a blank line; after sentence splitting one sentence a line."""
    title: str = ""
    outlet: str = ""
    """Newspaper or publisher, where known."""
    category: str = ""
    """Section or category as the source names it; after cleaning one of the balanced categories or the source's own name."""
    url: str = ""
    published: str = ""
    """ISO 8601 date or date-time, as precise as the source; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A decision not to keep a document."""

    reason: str
    """Snake-case name that the statistics count by: too_short, redirect, exact_duplicate, …"""
    rule: str = ""
    """What decided: the rule id, the metric with its value and limit, or the surviving twin's id."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Input that could not be read as a document."""

    file: str
    """File name, with the member's name for archives (``dump.tar.zst::AA/wiki_00``)."""
    position: str
    """Where in the file: ``line 12``, ``byte 4096``, ``record 7``."""
    field: str
    """Which field is at fault, or empty for the whole record."""
    reason: str
    """Snake-case name that the statistics count by: invalid_utf8, malformed_json, …"""
    remedy: str
    """What its owner can do about it."""
    excerpt: str = ""
    """At most 200 characters of the offending input."""

    def __str__(self) -> str:
        where = f"{self.file}, {self.position}" + (f", field {self.field!r}" if self.field else "")
        return f"{where}: {self.reason}; {self.remedy}"


def _schema(kind: type, *more: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([(f.name, pa.string()) for f in fields(kind)] + list(more))


DOCUMENT_SCHEMA = _schema(Document)
DROPPED_SCHEMA = _schema(Document, ("reason", pa.string()), ("rule", pa.string()))
QUARANTINE_SCHEMA = _schema(Quarantined)

_document_row = attrgetter(*(f.name for f in fields(Document)))  # dataclasses.astuple copies deeply and takes 15 times as long
_quarantine_row = attrgetter(*(f.name for f in fields(Quarantined)))


def document_id(source: str, native_id: str) -> str:
    """A stable 64-bit hash of source and native id, as 16 hex digits: the same in every run, order and process."""
    return blake2b(f"{source}\0{native_id}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class ShardError(ValueError):
    """A shard is truncated or holds another schema than its name promises."""


def read_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Record batches of one Arrow IPC shard. Raises ShardError naming the file when it is damaged or of another schema."""
    try:
        with ipc.open_file(pa.memory_map(str(path))) as reader:
            if not reader.schema.equals(schema):
                raise ShardError(f"{path}: holds the schema {reader.schema.names}, expected {schema.names}; rebuild its stage")
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index)
                batch.validate(full=True)  # A flipped byte must not surface as some column's decoding error.
                yield batch
    except pa.ArrowInvalid as error:
        raise ShardError(f"{path}: not a whole Arrow file ({error}); rebuild its stage") from error


def read_documents(path: Path) -> Iterator[Document]:
    """The documents of one ``documents-*.arrow`` shard, in order."""
    for batch in read_batches(path, DOCUMENT_SCHEMA):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Document(*row)


class TableWriter:
    """Writes rows to one zstd-compressed Arrow IPC file that is whole or absent; an empty table leaves no file."""

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
        if len(self._rows) >= ROWS_PER_BATCH:
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


class DocumentShard:
    """Writer of one shard of a data stage: its documents, its dropped documents, its quarantine, and their counts.

    Use as a context manager; ``stats`` afterwards holds the conserved counts, characters and UTF-8 bytes.
    """

    def __init__(self, out_dir: Path, index: int) -> None:
        def writer(kind: str, schema: pa.Schema) -> TableWriter:
            return TableWriter(out_dir / f"{kind}-{index:05d}.arrow", schema)

        self._documents = writer("documents", DOCUMENT_SCHEMA)
        self._dropped = writer("dropped", DROPPED_SCHEMA)
        self._quarantine = writer("quarantine", QUARANTINE_SCHEMA)
        self._counts: Counter[str] = Counter(documents_in=0, documents_out=0, quarantined=0, characters_out=0, bytes_out=0)
        self._reasons: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def keep(self, document: Document) -> None:
        """The document passes."""
        self._documents.append(_document_row(document))
        size = len(document.text.encode("utf-8"))
        self._counts.update(documents_in=1, documents_out=1, characters_out=len(document.text), bytes_out=size)

    def drop(self, document: Document, drop: Drop) -> None:
        """The document does not pass; it is kept beside the output."""
        self._dropped.append((*_document_row(document), drop.reason, drop.rule))
        self._counts.update(documents_in=1)
        self._reasons[drop.reason] += 1

    def quarantine(self, bad: Quarantined) -> None:
        """Input that is no readable document; counted as one document."""
        self._quarantine.append(_quarantine_row(bad))
        self._counts.update(documents_in=1, quarantined=1)
        self._bad[bad.reason] += 1

    @property
    def stats(self) -> dict[str, Any]:
        """Counts of this shard, JSON-able and summable (see ``sum_stats``)."""
        return {
            **self._counts,
            "dropped": dict(sorted(self._reasons.items())),
            "quarantine_reasons": dict(sorted(self._bad.items())),
        }

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for writer in (self._dropped, self._quarantine, self._documents):
            writer.__exit__(kind, error, trace)


def sum_stats(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add numbers by key, recursively; the statistics of shards become those of their stage."""
    total: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, dict):
                total[key] = sum_stats([total.get(key, {}), value])
            else:
                total[key] = total.get(key, 0) + value
    return total


def as_dict(document: Document) -> dict[str, str]:
    """A document as a JSON-able dictionary."""
    return asdict(document)
