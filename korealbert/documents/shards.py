"""Shards of a data stage: Arrow files of its documents, of those that it dropped, and of what it could not read.

``documents-*`` hold what passes, ``dropped-*`` whole documents with the reason and rule that dropped them, ``quarantine-*``
input that could not be read as documents, with file, position, field and remedy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pydantic import Field

from korealbert.artifact import Statistics
from korealbert.documents.arrow import TableWriter, read_batches
from korealbert.documents.schema import Document, Drop, Quarantined


def _schema(kind: type, *more: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([(f.name, pa.string()) for f in fields(kind)] + list(more))


DOCUMENT_SCHEMA = _schema(Document)
DROPPED_SCHEMA = _schema(Document, ("reason", pa.string()), ("rule", pa.string()))
QUARANTINE_SCHEMA = _schema(Quarantined)


class DocumentStats(Statistics):
    """What every stage that takes documents in counts; ``documents_in = documents_out + Σ dropped + quarantined``."""

    documents_in: int
    documents_out: int
    dropped: dict[str, int] = Field(default_factory=dict)
    """Documents by reason."""
    quarantined: int = 0
    """Records that could not be read as documents."""
    quarantine_reasons: dict[str, int] = Field(default_factory=dict)
    characters_out: int | None = None
    """Characters of the documents that come out; None where a stage does not count them."""
    bytes_out: int | None = None
    """The same as UTF-8."""


NO_DOCUMENTS: Mapping[str, Any] = {
    "documents_in": 0,
    "documents_out": 0,
    "quarantined": 0,
    "characters_out": 0,
    "bytes_out": 0,
    "dropped": {},
    "quarantine_reasons": {},
}
"""The statistics of a shard, or a stage, that saw no documents."""

document_row = attrgetter(*(f.name for f in fields(Document)))
"""A document as a row of ``DOCUMENT_SCHEMA``; ``dataclasses.astuple`` copies deeply and takes 15 times as long."""
_quarantine_row = attrgetter(*(f.name for f in fields(Quarantined)))


def read_documents(path: Path) -> Iterator[Document]:
    """The documents of one ``documents-*.arrow`` shard, in order."""
    for batch in read_batches(path, DOCUMENT_SCHEMA):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Document(*row)


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
        self._counts, self._reasons, self._bad = Counter[str](), Counter[str](), Counter[str]()

    def __enter__(self) -> Self:
        return self

    def keep(self, document: Document) -> None:
        """The document passes."""
        self._documents.append(document_row(document))
        size = len(document.text.encode("utf-8"))
        self._counts.update(documents_in=1, documents_out=1, characters_out=len(document.text), bytes_out=size)

    def drop(self, document: Document, drop: Drop) -> None:
        """The document does not pass; it is kept beside the output."""
        self._dropped.append((*document_row(document), drop.reason, drop.rule))
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
        reasons = {"dropped": dict(sorted(self._reasons.items())), "quarantine_reasons": dict(sorted(self._bad.items()))}
        return sum_stats([NO_DOCUMENTS, self._counts, reasons])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for writer in (self._dropped, self._quarantine, self._documents):
            writer.__exit__(kind, error, trace)


def sum_stats(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add numbers by key, recursively; the statistics of shards become those of their stage."""
    total: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, Mapping):
                total[key] = sum_stats([total.get(key, {}), value])
            else:
                total[key] = total.get(key, 0) + value
    return total
