"""Arrow IPC files of rows: written whole or not at all, read a batch at a time against the schema that they must have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import ipc

from korealbert.artifact.files import atomic_path

_ROWS_PER_BATCH = 2_000
"""Rows of one Arrow record batch; a reader holds one batch at a time."""


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
