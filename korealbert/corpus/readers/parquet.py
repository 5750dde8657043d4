"""Parquet files as records: each row becomes a JSON object of the columns that the spec names.

The footer of a Parquet file is at its end, so a file is copied to disk before it is read, and of a truncated one nothing can be
read. Rows are taken out one at a time: a value that a dictionary holds once may be in every row. Columns that are neither text
nor numbers or times (lists, structures) count as missing. A time that Python has none for (beyond a microsecond or the year
9999) is written as Arrow writes it.

Arrow unfolds whole pages into memory and holds all those of a batch of rows, so what they unfold to is added up from their own
headers before a row group is read; the footer could say anything. Columns in the delta encodings cannot be read as a
dictionary, and a text there begins as the one before does, so of these each row counts as the largest page of its column.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, RawRecords
from korealbert.corpus.readers.json import parse_json
from korealbert.corpus.readers.records import ARROW_REMEDY, Outcome, Tally, is_arrow, without_field
from korealbert.corpus.readers.spec import ExtractSpec, FieldMap
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ANY_RATIO_BYTES, RawFile, ReadFault, Unfolding

_ROWS_AT_ONCE = 1 << 10
_BYTES_AT_ONCE = 64 << 20
"""Unfolded size of a batch of rows, if the rows of its group are of one size."""
_DELTA = frozenset(("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"))
_NOT_UTF_8 = "a column that is read holds bytes that are not UTF-8: write it as a column of text"
_MAX_DEPTH = 8
"""Structures within the header of a page; the format has three."""


def frame_parquet(raw: RawFile, *, fields: FieldMap, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Batches of rows; a row whose JSON is longer than ``max_record_bytes`` goes to quarantine."""
    batch, row, byte = bytearray(), 1, 0
    try:
        for number, line in enumerate(_rows(raw, fields, max_record_bytes), start=1):
            fault = line if isinstance(line, Quarantined) else None
            if batch and (fault or len(batch) >= RAW_RECORDS_BYTES):
                yield RawRecords(raw.name, "utf-8", row, byte, bytes(batch))
                byte += len(batch)
                batch.clear()
            if isinstance(line, Quarantined):
                yield line
                continue
            row = row if batch else number
            batch += line
    except ReadFault as fault:
        if batch:
            yield RawRecords(raw.name, "utf-8", row, byte, bytes(batch))
        yield raw.quarantined(fault)
        return
    if batch:
        yield RawRecords(raw.name, "utf-8", row, byte, bytes(batch))


def _rows(raw: RawFile, fields: FieldMap, max_record_bytes: int) -> Iterator[bytes | Quarantined]:
    """The rows as lines of JSON, or why one is none. Raises ReadFault where the file cannot be read on."""
    with TemporaryFile() as copy:
        while block := raw.read():
            copy.write(block)
        copy.flush()
        file_bytes, number = copy.tell(), 0
        unfolding = Unfolding(raw.limits, lambda: file_bytes)
        try:
            schema = pq.read_schema(copy)
        except (pa.ArrowException, OSError) as error:
            copy.seek(0)
            begin = copy.read(8)
            remedy = "set the format that it has, leave it out by `members` (*.parquet), or fetch it again"
            message = ARROW_REMEDY if is_arrow(begin) else f"{error} (the file begins with {begin!r}); {remedy}"
            raise ReadFault("corrupt_file", "byte 0", message) from None
        wanted = [name for name in schema.names if name in fields.names]
        if twice := sorted({name for name in wanted if wanted.count(name) > 1}):
            remedy = f"two columns are named {twice[0]!r}, and which one is meant is not known; write the file with one of them"
            raise ReadFault("ambiguous_field", "byte 0", remedy)
        if fields.text[0] not in wanted:
            raise ReadFault("missing_field", "byte 0", without_field(fields.text[0], schema.names))
        texts = [name for name in wanted if _is_text(schema.field(name).type)]
        for name in (one for one in fields.text if one in wanted and one not in texts):
            remedy = f"column {name!r} is {schema.field(name).type}, not text: set fields.text of the spec"
            raise ReadFault("wrong_type", "byte 0", remedy)
        wanted = [name for name in wanted if name in texts or pa.types.is_primitive(schema.field(name).type)]
        try:
            whole = _written_whole(pq.read_metadata(copy), texts)
            file = pq.ParquetFile(copy, read_dictionary=[name for name in texts if name not in whole])
            for batch in _batches(file, copy, wanted, whole, raw):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                for index in range(batch.num_rows):
                    number += 1
                    cells = {name: column[index] for name, column in columns.items()}
                    size = sum(_text_bytes(cells[name]) for name in texts)
                    raw.records.add(1, size, 1)
                    where = raw.name, f"row {number}"
                    line = (
                        _too_long(where, max_record_bytes) if size > max_record_bytes else _line(cells, where, max_record_bytes)
                    )
                    unfolding.add(len(line) if isinstance(line, bytes) else size, f"row {number}")
                    raw.refuse_empty_records(f"row {number}")
                    yield line
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            remedy = f"{error}; rows before are kept, fetch the file again"
            raise ReadFault("corrupt_file", f"row {number + 1}", remedy) from None


def _too_long(where: tuple[str, str], max_record_bytes: int) -> Quarantined:
    remedy = f"it is longer than limits.max_record_bytes ({max_record_bytes:,}); raise that, or leave it out"
    return Quarantined(*where, "", "record_too_long", remedy)


def _line(cells: Mapping[str, Any], where: tuple[str, str], max_record_bytes: int) -> bytes | Quarantined:
    """A row as a line of JSON; ``where``: its file and position."""
    record = {}
    for name, cell in cells.items():
        try:
            record[name] = _of_cell(cell)
        except UnicodeDecodeError:
            raise
        except (ValueError, LookupError, OverflowError, pa.ArrowException) as error:
            remedy = (
                f"a {cell.type} that cannot be read ({' '.join(str(error).split())}); write it as text, or leave the row out"
            )
            return Quarantined(*where, name, "wrong_type", remedy)
    line = json.dumps(record, ensure_ascii=False, default=_written).encode("utf-8", "surrogateescape") + b"\n"
    return line if len(line) <= max_record_bytes else _too_long(where, max_record_bytes)


def _of_cell(cell: Any) -> Any:
    """What a cell holds; a time that Python has none for, as Arrow writes it."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        if not pa.types.is_temporal(cell.type):
            raise
        return cell.cast(pa.string()).as_py()


def _written_whole(metadata: pq.FileMetaData, texts: list[str]) -> set[str]:
    """The text columns of which Arrow makes no dictionary, because a row group has them in a delta encoding."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = (group.column(index) for group in groups for index in range(group.num_columns))
    return {one.path_in_schema for one in chunks if one.path_in_schema in texts and not _DELTA.isdisjoint(one.encodings)}


def _batches(file: pq.ParquetFile, copy: Any, wanted: list[str], whole: set[str], raw: RawFile) -> Iterator[pa.RecordBatch]:
    """The wanted columns in batches of rows, those in ``whole`` not as dictionaries. Raises ReadFault at a row group whose
    pages unfold to too much for their size.
    """
    with mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            chunks = (group.column(index) for index in range(group.num_columns))
            unfolded = folded = longest = 0
            for chunk in (each for each in chunks if each.path_in_schema in wanted):
                begin = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
                largest = 0
                for size, packed in _pages(data, begin, begin + chunk.total_compressed_size):
                    unfolded, folded, largest = unfolded + size, folded + packed, max(largest, size)
                longest += largest if chunk.path_in_schema in whole else 0
            limit = raw.limits.max_decompression_ratio
            if unfolded > max(ANY_RATIO_BYTES, limit * folded):
                remedy = (
                    f"{folded:,} bytes of its pages unfold to {unfolded:,}, and the limit is {limit:,}-fold; rows before are"
                    " kept; if that is right, raise limits.max_decompression_ratio"
                )
                raise ReadFault("decompression_bomb", f"row group {number + 1}", remedy)
            rows = min(_BYTES_AT_ONCE * group.num_rows // max(1, unfolded), _BYTES_AT_ONCE // max(1, longest))
            yield from file.iter_batches(min(max(1, rows), _ROWS_AT_ONCE), row_groups=[number], columns=wanted)


def _pages(data: mmap.mmap, position: int, end: int) -> Iterator[tuple[int, int]]:
    """Unfolded size and size in the file of the pages of a column chunk, by the header (Thrift's compact protocol) of each.

    Raises OSError where they are not as the format says.
    """
    try:
        while position < end:
            begin = position
            sizes, position = _structure(data, position)
            unfolded, folded = sizes[2], sizes[3]
            if unfolded < 0 or folded < 0:
                raise OSError("a page of less than no bytes")
            position += folded
            yield unfolded, position - begin
    except (IndexError, KeyError):
        raise OSError("a column's pages do not end where the file says") from None


def _structure(data: mmap.mmap, position: int, depth: int = 0) -> tuple[dict[int, int], int]:
    """The integers of a structure by field, and where it ends."""
    found: dict[int, int] = {}
    field = 0
    while kind := data[position]:
        position += 1
        if kind >> 4:
            field += kind >> 4
        else:
            field, position = _integer(data, position)
        value, position = _value(data, position, kind & 15, depth)
        if value is not None:
            found[field] = value
    return found, position + 1


def _value(data: mmap.mmap, position: int, kind: int, depth: int) -> tuple[int | None, int]:
    """The value of an integer, and where a value of any kind that headers of pages have ends."""
    if kind in (1, 2):  # true, false
        return None, position
    if kind == 3:
        return None, position + 1
    if kind in (4, 5, 6):
        return _integer(data, position)
    if kind == 7:
        return None, position + 8
    if kind == 8:
        length, position = _varint(data, position)
        return None, position + length
    if kind == 12 and depth < _MAX_DEPTH:
        return None, _structure(data, position, depth + 1)[1]
    raise OSError(f"the header of a page has a field of kind {kind}")


def _varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise OSError("an endless number in the header of a page")


def _integer(data: mmap.mmap, position: int) -> tuple[int, int]:
    value, position = _varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def _text_bytes(cell: Any) -> int:
    """Size of the text that a cell shows."""
    found = cell.value if isinstance(cell, pa.DictionaryScalar) else cell
    return found.as_buffer().size if found is not None and found.is_valid else 0


def _written(value: object) -> str:
    """Return a value that JSON has no form for as text: times and numbers as Python writes them; bytes, decoded with lines."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column can be read as a dictionary, which holds a value once; in lists each row would have a copy."""
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    strings = (types.is_string, types.is_large_string, types.is_string_view)
    return any(each(kind) for each in (*strings, types.is_binary, types.is_large_binary, types.is_binary_view))


def parse_parquet(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """One document per row."""
    for outcome in parse_json(spec, records, tally):
        if isinstance(outcome, Quarantined):
            remedy = _NOT_UTF_8 if outcome.reason == "invalid_utf8" else outcome.remedy
            yield replace(outcome, position=outcome.position.partition(",")[0].replace("line", "row"), remedy=remedy)
        else:
            yield outcome
