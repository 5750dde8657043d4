"""Reads Parquet files: each row becomes a JSON object of the columns that the spec names.

A file is copied to disk first, because its footer is at the end; for that reason nothing of a truncated file can be read.

Arrow decompresses all pages of a batch of rows into memory. Their decompressed size is added up from the headers of the pages
before a row group is read, because the footer could state anything. Columns in a delta encoding cannot be read as a dictionary,
and each text may share its beginning with the one before, so each of their rows counts as much as the largest page.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.corpus.readers.columns import Column, frame_rows, leaves, lines_of, wanted_columns
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.other_formats import remedy_for
from korealbert.corpus.readers.spec import FieldMap
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ANY_RATIO_BYTES, BYTES_PER_READ, RatioGuard, RawFile, ReadFault

_BATCH_ROWS = 1 << 10
_BATCH_BYTES = 64 << 20
"""Decompressed size of a batch, if all rows of the group have the same size."""
_LIST_VALUE_BYTES = 16
"""Memory of a value in a list, beside its bytes."""
_DELTA_ENCODINGS = frozenset(("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"))
_MAX_STRUCTURE_DEPTH = 8
"""Nested structures in the header of a page; the format has three levels."""


def frame_parquet(raw: RawFile, *, fields: FieldMap, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of rows; a row whose JSON is longer than ``max_record_bytes`` is quarantined."""
    return frame_rows(raw, _lines(raw, fields, max_record_bytes))


def _lines(raw: RawFile, fields: FieldMap, max_record_bytes: int) -> Iterator[bytes | Quarantined]:
    with TemporaryFile() as copy:
        while block := raw.read():
            copy.write(block)
        copy.flush()
        file_bytes = copy.tell()
        columns = _select_columns(copy, fields)
        yield from lines_of(_all_batches(copy, columns, raw), raw, RatioGuard(raw.limits, lambda: file_bytes), max_record_bytes)


def _all_batches(copy: IO[bytes], columns: list[Column], raw: RawFile) -> Iterator[pa.RecordBatch]:
    texts = [column.path for column in columns if column.is_text]
    delta_columns = _delta_columns(pq.read_metadata(copy), texts)
    file = pq.ParquetFile(copy, read_dictionary=[path for path in texts if path not in delta_columns])
    yield from _batches(file, copy, columns, delta_columns, raw)


def _columns(schema: pa.Schema, metadata: pq.FileMetaData) -> list[Column]:
    """Return all columns of values, which the file has in the order of the schema."""
    found = [column for field in schema for column in leaves(field.name, field.type, in_list=False)]
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    if len(found) != len(paths):  # a type of another library, or a structure without fields
        flat = set(schema.names) & set(paths)
        return [Column(name, name, schema.field(name).type, in_list=False) for name in schema.names if name in flat]
    return [column._replace(path=path) for column, path in zip(found, paths, strict=True)]


def _select_columns(copy: IO[bytes], fields: FieldMap) -> list[Column]:
    """Return the columns to read. Raises ReadFault."""
    try:
        schema = pq.read_schema(copy)
        columns = _columns(schema, pq.read_metadata(copy))
    except (pa.ArrowException, OSError) as error:
        copy.seek(0)
        block = copy.read(BYTES_PER_READ)
        if not block.startswith(b"PAR1") and (remedy := remedy_for(block, "parquet")):
            raise ReadFault("other_format", "byte 0", remedy) from None
        remedy = "set the format that it has, leave it out by `members` (*.parquet), or fetch it again"
        raise ReadFault("corrupt_file", "byte 0", f"{error} (the file begins with {block[:8]!r}); {remedy}") from None
    return wanted_columns(schema, columns, fields)


def _delta_columns(metadata: pq.FileMetaData, texts: list[str]) -> set[str]:
    """Return the text columns that are in a delta encoding in any row group."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = (group.column(index) for group in groups for index in range(group.num_columns))
    return {
        one.path_in_schema for one in chunks if one.path_in_schema in texts and not _DELTA_ENCODINGS.isdisjoint(one.encodings)
    }


def _batches(
    file: pq.ParquetFile, copy: Any, columns: list[Column], delta_columns: set[str], raw: RawFile
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns in batches of rows. Raises ReadFault for a row group that is compressed too strongly."""
    limit = raw.limits.max_decompression_ratio
    in_list = {column.path: column.in_list for column in columns}
    with mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            chunks = (group.column(index) for index in range(group.num_columns))
            decompressed = compressed = delta_row_bytes = 0
            for chunk in (each for each in chunks if each.path_in_schema in in_list):
                if in_list[
                    chunk.path_in_schema
                ]:  # a row may have any number of the values, which take few bytes if all are equal
                    decompressed += _LIST_VALUE_BYTES * chunk.num_values
                begin = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
                largest = 0
                for page_decompressed, page_compressed in _pages(data, begin, begin + chunk.total_compressed_size):
                    decompressed += page_decompressed
                    compressed += page_compressed
                    largest = max(largest, page_decompressed)
                if chunk.path_in_schema in delta_columns:
                    delta_row_bytes += largest
            if decompressed > max(ANY_RATIO_BYTES, limit * compressed):
                remedy = (
                    f"{compressed:,} bytes of its pages unfold to {decompressed:,}, and the limit is {limit:,}-fold; rows"
                    " before are kept; if that is right, raise limits.max_decompression_ratio"
                )
                raise ReadFault("decompression_bomb", f"row group {number + 1}", remedy)
            rows = min(_BATCH_BYTES * group.num_rows // max(1, decompressed), _BATCH_BYTES // max(1, delta_row_bytes))
            yield from file.iter_batches(min(max(1, rows), _BATCH_ROWS), row_groups=[number], columns=list(in_list))


def _pages(data: mmap.mmap, position: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield decompressed and compressed size of the pages of a column chunk, from their headers (Thrift's compact protocol).

    Raises OSError if the pages are damaged.
    """
    try:
        while position < end:
            first_bytes = position
            sizes, position = _read_struct(data, position)
            decompressed, compressed = sizes[2], sizes[3]
            if decompressed < 0 or compressed < 0:
                raise OSError("a page of less than no bytes")
            position += compressed
            yield decompressed, position - first_bytes
    except (IndexError, KeyError):
        raise OSError("a column's pages do not end where the file says") from None


def _read_struct(data: mmap.mmap, position: int, depth: int = 0) -> tuple[dict[int, int], int]:
    """Return the integers of a structure by field, and the position after it."""
    found: dict[int, int] = {}
    field = 0
    while kind := data[position]:
        position += 1
        if kind >> 4:
            field += kind >> 4
        else:
            field, position = _read_integer(data, position)
        value, position = _read_value(data, position, kind & 15, depth)
        if value is not None:
            found[field] = value
    return found, position + 1


def _read_value(data: mmap.mmap, position: int, kind: int, depth: int) -> tuple[int | None, int]:
    """Return the value if it is an integer, and the position after it."""
    if kind in (1, 2):  # true, false
        return None, position
    if kind == 3:
        return None, position + 1
    if kind in (4, 5, 6):
        return _read_integer(data, position)
    if kind == 7:
        return None, position + 8
    if kind == 8:
        length, position = _read_varint(data, position)
        return None, position + length
    if kind == 12 and depth < _MAX_STRUCTURE_DEPTH:
        return None, _read_struct(data, position, depth + 1)[1]
    raise OSError(f"the header of a page has a field of kind {kind}")


def _read_varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise OSError("an endless number in the header of a page")


def _read_integer(data: mmap.mmap, position: int) -> tuple[int, int]:
    value, position = _read_varint(data, position)
    return (value >> 1) ^ -(value & 1), position
