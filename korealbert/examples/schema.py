"""The two kinds of shard: clean rows, and views (noise) aligned with them row by row.

Both are Arrow IPC files of one uncompressed record batch with fixed-width columns, so a shard is memory-mapped and its columns
are numpy arrays over the file. Legend of shapes: R rows, N = L - 3 pieces a row, L sequence length including special pieces, P
prediction slots, W word-order slots.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc

from korealbert.artifact.files import atomic_path
from korealbert.documents.shards import ShardError, not_whole

Array = npt.NDArray[Any]
SentenceTask = Literal["none", "nsp", "sop"]

_SPECIALS_PER_ROW = 3
"""``[CLS]`` and two ``[SEP]``: a row holds at most L - 3 pieces."""
_SHORT_VOCABULARY = 65_535
"""Largest vocabulary whose ids take two bytes."""
MOST_SOURCES = 255
"""Largest number in the column ``source``."""
HELDOUT_VIEW = 0xFFFFFFFF
"""View number of the held-out noise, which no training view can have."""
FIXED_COLUMNS = ("example_id", "doc_id", "source", "ids", "length")
"""Columns of rows with a fixed width. Sentence lengths are stored in addition."""
_METADATA_KEY = b"korealbert"


@dataclass(frozen=True)
class RowsHeader:
    """Metadata of a shard of rows."""

    sequence_length: int
    """L, including special pieces."""
    vocab_size: int
    vocab_sha256: str
    sources: list[str] = field(default_factory=list)
    """Names that the column ``source`` indexes, in this shard."""
    digest: str = ""
    """Digest of the rows' content, by which views refer to their rows."""

    @property
    def common(self) -> tuple[int, int, str]:
        """Return what all shards of an artifact share: sequence length, vocabulary size, vocabulary digest."""
        return self.sequence_length, self.vocab_size, self.vocab_sha256


@dataclass(frozen=True)
class ViewHeader:
    """Metadata of a shard of noise."""

    sequence_length: int
    vocab_size: int
    vocab_sha256: str
    rows_digest: str
    """``RowsHeader.digest`` of the shard that this noise is for."""
    view: int
    sentence_task: SentenceTask
    prediction_slots: int
    word_order_slots: int
    batch_portion: float | None = None
    """If word order is drawn per batch: the share of batches that get it. None if it is drawn per row."""
    seed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Counts of this shard's noise (``noise.GeneratedNoise.counts``)."""

    @property
    def common(self) -> dict[str, Any]:
        """Return what all shards of a view share besides vocabulary and sequence length."""
        names = ("sentence_task", "prediction_slots", "word_order_slots", "batch_portion", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Rows:
    """Clean rows: chunks of documents before they are split into two segments."""

    example_id: Array
    """uint64 [R]: document shard << 32 | ordinal in the shard."""
    doc_id: Array
    """uint64 [R]: the document's id."""
    source: Array
    """uint8 [R]: index into ``RowsHeader.sources``."""
    ids: Array
    """uint16 or uint32 [R, N]: pieces without specials, 0 after ``length``."""
    length: Array
    """uint16 [R]: pieces in the row."""
    sentence_lengths: Array
    """uint16 [Σ sentences]: pieces of each sentence, row after row; they sum to ``length``."""
    sentence_offsets: Array
    """int32 or int64 [R + 1]: start of each row's sentences in ``sentence_lengths``."""

    def __len__(self) -> int:
        return len(self.length)

    def slice(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop); only the offsets are copied."""
        offsets = self.sentence_offsets[start : stop + 1]
        inner = self.sentence_lengths[offsets[0] : offsets[-1]]
        columns = {name: getattr(self, name)[start:stop] for name in FIXED_COLUMNS}
        return Rows(**columns, sentence_lengths=inner, sentence_offsets=offsets - offsets[0])


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in FIXED_COLUMNS}
    counts = np.concatenate([np.diff(part.sentence_offsets) for part in parts])
    return Rows(
        **columns,
        sentence_lengths=np.concatenate([part.sentence_lengths for part in parts]),
        sentence_offsets=np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
    )


@dataclass(frozen=True)
class View:
    """Noise of R rows. Positions are those of the final layout ``[CLS] first [SEP] second [SEP]``."""

    a_len: Array
    """[R]: pieces of the segment that comes first; the row's length if there is only one."""
    sop: Array
    """int8 [R]: label of the sentence task (1 = swapped, or a random second segment), -1 if none."""
    mlm_pos: Array
    """[R, P]: positions to predict, ascending; 0 in unused slots."""
    mlm_id: Array
    """[R, P]: input id there: ``[MASK]``, a random piece, or the piece itself."""
    mlm_count: Array
    """[R]: used slots."""
    wop_pos: Array
    """[R, W]: positions to which tokens were moved, ascending; 0 in unused slots."""
    wop_src: Array
    """[R, W]: original position of each moved token; the same set of positions as ``wop_pos``."""
    wop_count: Array
    """[R]: used slots."""
    b_row: Array | None = None
    """int64 [R], NSP only: row (over all sorted shards of the split) of the second segment, -1 for the row itself."""
    b_start: Array | None = None
    """uint16 [R], NSP only: its first piece there."""
    b_len: Array | None = None
    """uint16 [R], NSP only: its pieces."""


def pieces_per_row(sequence_length: int) -> int:
    """Return N, the maximum of ordinary pieces in a row."""
    return sequence_length - _SPECIALS_PER_ROW


def id_type(vocab_size: int) -> pa.DataType:
    """Return the type of a piece id."""
    return pa.uint16() if vocab_size <= _SHORT_VOCABULARY else pa.uint32()


def position_type(sequence_length: int) -> pa.DataType:
    """Return the type of a position in the final layout."""
    return pa.uint8() if sequence_length <= 256 else pa.uint16()


def _rows_schema(header: RowsHeader) -> pa.Schema:
    return pa.schema(
        [
            ("example_id", pa.uint64()),
            ("doc_id", pa.uint64()),
            ("source", pa.uint8()),
            ("ids", pa.list_(id_type(header.vocab_size), pieces_per_row(header.sequence_length))),
            ("length", pa.uint16()),
            ("sent_lens", pa.list_(pa.uint16())),
        ],
        _metadata(header),
    )


def _view_schema(header: ViewHeader) -> pa.Schema:
    position, piece = position_type(header.sequence_length), id_type(header.vocab_size)
    next_sentence = [("b_row", pa.int64()), ("b_start", pa.uint16()), ("b_len", pa.uint16())]
    return pa.schema(
        [
            ("a_len", position),
            ("sop", pa.int8()),
            ("mlm_pos", pa.list_(position, header.prediction_slots)),
            ("mlm_id", pa.list_(piece, header.prediction_slots)),
            ("mlm_count", position),
            ("wop_pos", pa.list_(position, header.word_order_slots)),
            ("wop_src", pa.list_(position, header.word_order_slots)),
            ("wop_count", position),
            *(next_sentence if header.sentence_task == "nsp" else []),
        ],
        _metadata(header),
    )


def _metadata(header: RowsHeader | ViewHeader) -> dict[bytes, bytes]:
    return {_METADATA_KEY: json.dumps(asdict(header), sort_keys=True).encode()}


def _digest_rows(rows: Rows) -> str:
    """Return a digest of everything that noise depends on."""
    digest = blake2b(digest_size=16)
    offsets = rows.sentence_offsets.astype(np.int64)
    for column in (rows.example_id, rows.doc_id, rows.length, rows.sentence_lengths, offsets, rows.ids):
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()


def write_rows(path: Path, rows: Rows, header: RowsHeader) -> None:
    """Write one shard of clean rows atomically; the digest is filled in.

    Raises ValueError for an id beyond the vocabulary, which the column's type might cut off.
    """
    if rows.ids.size and int(rows.ids.max()) >= header.vocab_size:
        raise ValueError(f"{path}: holds the piece {rows.ids.max()}, the vocabulary ends at {header.vocab_size - 1}")
    schema = _rows_schema(RowsHeader(**{**asdict(header), "digest": _digest_rows(rows)}))
    sentences = pa.ListArray.from_arrays(pa.array(rows.sentence_offsets.astype(np.int32)), pa.array(rows.sentence_lengths))
    columns = [_to_arrow(getattr(rows, name), schema.field(name).type) for name in FIXED_COLUMNS]
    _write(path, [*columns, sentences], schema)


def write_view(path: Path, view: View, header: ViewHeader) -> None:
    """Write one shard of noise atomically."""
    schema = _view_schema(header)
    _write(path, [_to_arrow(getattr(view, f.name), f.type) for f in schema], schema)


def _write(path: Path, columns: list[pa.Array], schema: pa.Schema) -> None:
    with atomic_path(path) as temporary, pa.OSFile(str(temporary), "wb") as sink, ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))


def _to_arrow(column: Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_list(kind):
        width = kind.value_type.to_pandas_dtype()
        return pa.FixedSizeListArray.from_arrays(pa.array(column.astype(width, copy=False).reshape(-1)), type=kind)
    return pa.array(column.astype(kind.to_pandas_dtype(), copy=False))


def open_rows(path: Path) -> tuple[Rows, RowsHeader]:
    """Memory-map a shard of clean rows. Raises ShardError naming the file if it is damaged or of another kind."""
    batch, header = _open(path, RowsHeader)
    _check_schema(path, batch.schema, _rows_schema(header))
    columns = {name: _to_numpy(batch.column(name)) for name in FIXED_COLUMNS}
    sentences = batch.column("sent_lens")
    lengths, offsets = sentences.values.to_numpy(zero_copy_only=True), sentences.offsets.to_numpy(zero_copy_only=True)
    return Rows(**columns, sentence_lengths=lengths, sentence_offsets=offsets), header


def open_view(path: Path) -> tuple[View, ViewHeader]:
    """Memory-map a shard of noise. Raises ShardError naming the file if it is damaged or of another kind."""
    batch, header = _open(path, ViewHeader)
    _check_schema(path, batch.schema, _view_schema(header))
    return View(**{name: _to_numpy(batch.column(name)) for name in batch.schema.names}), header


def _open(path: Path, kind: type[Any]) -> tuple[pa.RecordBatch, Any]:
    try:
        reader = ipc.open_file(pa.memory_map(str(path)))
        if reader.num_record_batches != 1:
            raise ShardError(f"{path}: holds {reader.num_record_batches} record batches, expected one; rebuild its stage")
        batch = reader.get_batch(0)
        batch.validate()
        if any(column.null_count for column in batch.columns):
            raise pa.ArrowInvalid("it has empty cells, which are never written")
        header = kind(**json.loads((reader.schema.metadata or {})[_METADATA_KEY]))
    except (pa.ArrowException, OSError) as error:
        raise not_whole(path, error) from error
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        content = "rows" if kind is RowsHeader else "views"
        raise ShardError(f"{path}: not a shard of {content}; rebuild its stage") from error
    return batch, header


def _check_schema(path: Path, found: pa.Schema, expected: pa.Schema) -> None:
    if not found.equals(expected):
        raise ShardError(f"{path}: has columns {found.names} of other types than its header declares; rebuild its stage")


def _to_numpy(column: pa.Array) -> Array:
    if pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.values.to_numpy(zero_copy_only=True)).reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=True))
