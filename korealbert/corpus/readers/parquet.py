"""Reads Parquet files: each row becomes a JSON object of the columns that the spec names.

A file is copied to disk first, because its footer is at the end; for that reason nothing of a truncated file can be read. Rows
are converted one at a time, because every row may refer to the same large value of a dictionary. Columns of lists and
structures count as missing.

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
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.corpus.normalise import composed
from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, RawRecords
from korealbert.corpus.readers.json import parse_json
from korealbert.corpus.readers.other_formats import ARROW_REMEDY, looks_like_arrow
from korealbert.corpus.readers.records import Outcome, Tally, missing_text_remedy
from korealbert.corpus.readers.spec import ExtractSpec, FieldMap
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ANY_RATIO_BYTES, RatioGuard, RawFile, ReadFault

_BATCH_ROWS = 1 << 10
_BATCH_BYTES = 64 << 20
"""Decompressed size of a batch, if all rows of the group have the same size."""
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
        wanted, texts = _select_columns(copy, fields)
        try:
            delta_columns = _delta_columns(pq.read_metadata(copy), texts)
            file = pq.ParquetFile(copy, read_dictionary=[name for name in texts if name not in delta_columns])
            for batch in _batches(file, copy, wanted, delta_columns, raw):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                for index in range(batch.num_rows):
                    number += 1
                    cells = {name: column[index] for name, column in columns.items()}
                    size = sum(_text_bytes(cells[name]) for name in texts)
                    raw.records.add(1, size, 1)
                    position = f"row {number}"
                    line = _line(cells, size, (raw.name, position), max_record_bytes)
                    guard.add(len(line) if isinstance(line, bytes) else size, position)
                    raw.refuse_empty_records(position)
                    yield line
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            remedy = f"{error}; rows before are kept, fetch the file again"
            raise ReadFault("corrupt_file", f"row {number + 1}", remedy) from None


def _select_columns(copy: IO[bytes], fields: FieldMap) -> tuple[list[str], list[str]]:
    """Return the names of the columns to read, and of those among them that hold text. Raises ReadFault."""
    try:
        schema = pq.read_schema(copy)
    except (pa.ArrowException, OSError) as error:
        copy.seek(0)
        first_bytes = copy.read(8)
        remedy = "set the format that it has, leave it out by `members` (*.parquet), or fetch it again"
        message = ARROW_REMEDY if looks_like_arrow(first_bytes) else f"{error} (the file begins with {first_bytes!r}); {remedy}"
        raise ReadFault("corrupt_file", "byte 0", message) from None
    wanted = [name for name in schema.names if composed(name) in fields.names]
    found = list(map(composed, wanted))
    if twice := sorted({name for name in found if found.count(name) > 1}):
        remedy = f"two columns are named {twice[0]!r}, and which one is meant is not known; write the file with one of them"
        raise ReadFault("ambiguous_field", "byte 0", remedy)
    if fields.text[0] not in found:
        raise ReadFault("missing_field", "byte 0", missing_text_remedy(fields.text[0], schema.names))
    texts = [name for name in wanted if _is_text(schema.field(name).type)]
    if no_texts := [name for name in wanted if composed(name) in fields.text and name not in texts]:
        remedy = f"column {no_texts[0]!r} is {schema.field(no_texts[0]).type}, not text: set fields.text of the spec"
        raise ReadFault("wrong_type", "byte 0", remedy)
    return [name for name in wanted if name in texts or pa.types.is_primitive(schema.field(name).type)], texts


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
    file: pq.ParquetFile, copy: Any, wanted: list[str], delta_columns: set[str], raw: RawFile
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns in batches of rows. Raises ReadFault for a row group that is compressed too strongly."""
    limit = raw.limits.max_decompression_ratio
    with mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            chunks = (group.column(index) for index in range(group.num_columns))
            decompressed = compressed = delta_row_bytes = 0
            for chunk in (each for each in chunks if each.path_in_schema in wanted):
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
            yield from file.iter_batches(min(max(1, rows), _BATCH_ROWS), row_groups=[number], columns=wanted)


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
    found = cell.value if isinstance(cell, pa.DictionaryScalar) else cell
    return found.as_buffer().size if found is not None and found.is_valid else 0


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
