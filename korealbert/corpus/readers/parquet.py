"""Reads Parquet files: each row becomes a JSON object of the columns that the spec names.

A file is copied to disk first, because its footer is at the end; for that reason nothing of a truncated file can be read. Rows
are converted one at a time, because every row may refer to the same large value of a dictionary. A column within a structure
or list has the name of its path, ``meta.title``.

Arrow decompresses all pages of a batch of rows into memory. Their decompressed size is added up from the headers of the pages
before a row group is read, because the footer could state anything. Columns in a delta encoding cannot be read as a dictionary,
and each text may share its beginning with the one before, so each of their rows counts as much as the largest page.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.corpus.normalise import composed
from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, RawRecords
from korealbert.corpus.readers.json import parse_json
from korealbert.corpus.readers.other_formats import remedy_for
from korealbert.corpus.readers.records import Outcome, Tally, missing_text_remedy
from korealbert.corpus.readers.spec import ExtractSpec, FieldMap
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ANY_RATIO_BYTES, BYTES_PER_READ, RatioGuard, RawFile, ReadFault

_BATCH_ROWS = 1 << 10
_BATCH_BYTES = 64 << 20
"""Decompressed size of a batch, if all rows of the group have the same size."""
_LIST_VALUE_BYTES = 16
"""Memory of a value in a list, beside its bytes."""
_DELTA_ENCODINGS = frozenset(("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"))
_NOT_UTF_8 = "a column that is read holds bytes that are not UTF-8: write it as a column of text"
_MAX_STRUCTURE_DEPTH = 8
"""Nested structures in the header of a page; the format has three levels."""


def frame_parquet(raw: RawFile, *, fields: FieldMap, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of rows; a row whose JSON is longer than ``max_record_bytes`` is quarantined."""
    batch, row, byte = bytearray(), 1, 0

    def flush() -> Iterator[RawRecords]:
        nonlocal byte
        if batch:
            yield RawRecords(raw.name, "utf-8", row, byte, bytes(batch))
        byte += len(batch)
        batch.clear()

    try:
        for number, line in enumerate(_rows(raw, fields, max_record_bytes), start=1):
            if isinstance(line, Quarantined):
                yield from flush()
                yield line
                continue
            if len(batch) >= RAW_RECORDS_BYTES:
                yield from flush()
            row = row if batch else number
            batch += line
    except ReadFault as fault:
        yield from flush()
        yield raw.quarantined(fault)
    else:
        yield from flush()


def _rows(raw: RawFile, fields: FieldMap, max_record_bytes: int) -> Iterator[bytes | Quarantined]:
    """Yield each row as a line of JSON, or as an entry of the quarantine. Raises ReadFault where the file cannot be read."""
    with TemporaryFile() as copy:
        while block := raw.read():
            copy.write(block)
        copy.flush()
        file_bytes, number = copy.tell(), 0
        guard = RatioGuard(raw.limits, lambda: file_bytes)
        columns = _select_columns(copy, fields)
        texts = [column.path for column in columns if column.is_text]
        try:
            delta_columns = _delta_columns(pq.read_metadata(copy), texts)
            file = pq.ParquetFile(copy, read_dictionary=[path for path in texts if path not in delta_columns])
            for batch in _batches(file, copy, columns, delta_columns, raw):
                for index in range(batch.num_rows):
                    number += 1
                    cells = {name: batch.column(at)[index] for at, name in enumerate(batch.schema.names)}
                    size = sum(map(_text_bytes, cells.values()))
                    raw.records.add(1, size, 1)
                    position = f"row {number}"
                    line = _line(cells, size, (raw.name, position), max_record_bytes)
                    guard.add(len(line) if isinstance(line, bytes) else size, position)
                    raw.refuse_empty_records(position)
                    yield line
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            remedy = f"{error}; rows before are kept, fetch the file again"
            raise ReadFault("corrupt_file", f"row {number + 1}", remedy) from None


class _Column(NamedTuple):
    """A column of values, at the top or within structures and lists."""

    name: str
    """The names of the fields that lead to it: ``meta.title``."""
    path: str
    """Its path in the file, in which lists have parts of their own."""
    type: pa.DataType
    in_list: bool

    @property
    def is_text(self) -> bool:
        return _is_text(self.type)


def _columns(schema: pa.Schema, metadata: pq.FileMetaData) -> list[_Column]:
    """Return all columns of values, which the file has in the order of the schema."""
    found = [column for field in schema for column in _leaves(field.name, field.type, in_list=False)]
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    if len(found) != len(paths):  # a type of another library, or a structure without fields
        flat = set(schema.names) & set(paths)
        return [_Column(name, name, schema.field(name).type, in_list=False) for name in schema.names if name in flat]
    return [column._replace(path=path) for column, path in zip(found, paths, strict=True)]


def _leaves(name: str, kind: pa.DataType, *, in_list: bool) -> Iterator[_Column]:
    types = pa.types
    if types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _leaves(f"{name}.{kind.field(number).name}", kind.field(number).type, in_list=in_list)
    elif types.is_map(kind):
        yield from _leaves(f"{name}.key", kind.key_type, in_list=True)
        yield from _leaves(f"{name}.value", kind.item_type, in_list=True)
    elif any(check(kind) for check in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        yield from _leaves(name, kind.value_type, in_list=True)
    else:
        yield _Column(name, "", kind, in_list)


def _select_columns(copy: IO[bytes], fields: FieldMap) -> list[_Column]:
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
    wanted = [column for column in columns if composed(column.name) in fields.names]
    found = [composed(column.name) for column in wanted]
    if twice := sorted({name for name in found if found.count(name) > 1}):
        remedy = f"two columns are named {twice[0]!r}, and which one is meant is not known; write the file with one of them"
        raise ReadFault("ambiguous_field", "byte 0", remedy)
    kinds = {composed(name): schema.field(number).type for number, name in enumerate(schema.names)}
    for name in fields.text:
        kind = next((column.type for column in wanted if composed(column.name) == name), kinds.get(name))
        if kind is not None and not _is_text(kind):
            inner = [column.name for column in columns if composed(column.name).startswith(f"{name}.") and column.is_text]
            remedy = f"column {name!r} is {kind}, not text: set fields.text of the spec"
            raise ReadFault("wrong_type", "byte 0", f"{remedy} to one of {', '.join(inner)}" if inner else remedy)
    if fields.text[0] not in found:
        raise ReadFault("missing_field", "byte 0", missing_text_remedy(fields.text[0], [column.name for column in columns]))
    read = (column for column in wanted if composed(column.name) in fields.text or not column.in_list)
    return [column for column in read if column.is_text or pa.types.is_primitive(column.type)]


def _line(cells: Mapping[str, Any], text_bytes: int, where: tuple[str, str], max_record_bytes: int) -> bytes | Quarantined:
    """Return a row as a line of JSON; ``where`` is its file and position."""
    too_long = f"it is longer than limits.max_record_bytes ({max_record_bytes:,}); raise that, or leave it out"
    if text_bytes > max_record_bytes:
        return Quarantined(*where, "", "record_too_long", too_long)
    record = {}
    for name, cell in cells.items():
        try:
            record[name] = _value_of(cell)
        except UnicodeDecodeError:
            raise
        except (ValueError, LookupError, OverflowError, pa.ArrowException) as error:
            remedy = (
                f"a {cell.type} that cannot be read ({' '.join(str(error).split())}); write it as text, or leave the row out"
            )
            return Quarantined(*where, name, "wrong_type", remedy)
    line = json.dumps(record, ensure_ascii=False, default=_as_text).encode("utf-8", "surrogateescape") + b"\n"
    return line if len(line) <= max_record_bytes else Quarantined(*where, "", "record_too_long", too_long)


def _value_of(cell: Any) -> Any:
    """Return the value of a cell; a time that Python cannot hold (nanoseconds, the year 10000) as Arrow formats it."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        if not pa.types.is_temporal(cell.type):
            raise
        return cell.cast(pa.string()).as_py()


def _delta_columns(metadata: pq.FileMetaData, texts: list[str]) -> set[str]:
    """Return the text columns that are in a delta encoding in any row group."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = (group.column(index) for group in groups for index in range(group.num_columns))
    return {
        one.path_in_schema for one in chunks if one.path_in_schema in texts and not _DELTA_ENCODINGS.isdisjoint(one.encodings)
    }


def _batches(
    file: pq.ParquetFile, copy: Any, columns: list[_Column], delta_columns: set[str], raw: RawFile
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


def _text_bytes(cell: Any) -> int:
    """Return the size of the texts in a cell."""
    found = cell.value if isinstance(cell, pa.DictionaryScalar) else cell
    if found is None or not found.is_valid:
        return 0
    if isinstance(found, pa.StructScalar):
        return sum(map(_text_bytes, found.values()))
    if isinstance(found, pa.ListScalar):
        return sum(map(_text_bytes, found.values))
    return found.as_buffer().size if isinstance(found, pa.BinaryScalar) else 0


def _as_text(value: object) -> str:
    """Convert a value that JSON has no form for: a time, a decimal number, bytes (which are decoded with the whole line)."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text, which can be read as a dictionary."""
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    checks = [types.is_string, types.is_large_string, types.is_string_view]
    checks += [types.is_binary, types.is_large_binary, types.is_binary_view]
    return any(check(kind) for check in checks)


def parse_parquet(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield a document for each row."""
    for outcome in parse_json(spec, records, tally):
        if isinstance(outcome, Quarantined):
            remedy = _NOT_UTF_8 if outcome.reason == "invalid_utf8" else outcome.remedy
            yield replace(outcome, position=outcome.position.partition(",")[0].replace("line", "row"), remedy=remedy)
        else:
            yield outcome
