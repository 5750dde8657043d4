"""Rows of columnar files (Parquet, Arrow): each becomes a JSON object of the columns that the spec names.

Rows are converted one at a time, because every row may refer to the same large value of a dictionary. A column within a
structure or list has the name of its path, ``meta.title``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from korealbert.corpus.normalise import composed
from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, RawRecords
from korealbert.corpus.readers.json import parse_json
from korealbert.corpus.readers.records import Outcome, Tally, missing_text_remedy
from korealbert.corpus.readers.spec import ExtractSpec, FieldMap
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RatioGuard, RawFile, ReadFault

_NOT_UTF_8 = "a column that is read holds bytes that are not UTF-8: write it as a column of text"


def frame_rows(raw: RawFile, lines: Iterable[bytes | Quarantined]) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of the lines of ``lines_of``."""
    batch, row, byte = bytearray(), 1, 0

    def flush() -> Iterator[RawRecords]:
        nonlocal byte
        if batch:
            yield RawRecords(raw.name, "utf-8", row, byte, bytes(batch))
        byte += len(batch)
        batch.clear()

    try:
        for number, line in enumerate(lines, start=1):
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


def lines_of(
    batches: Iterable[pa.RecordBatch], raw: RawFile, guard: RatioGuard, max_record_bytes: int
) -> Iterator[bytes | Quarantined]:
    """Yield each row as a line of JSON, or as an entry of the quarantine if that is longer than ``max_record_bytes``.

    Raises ReadFault where the file cannot be read.
    """
    number = 0
    try:
        for batch in batches:
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


class Column(NamedTuple):
    """A column of values, at the top or within structures and lists."""

    name: str
    """The names of the fields that lead to it: ``meta.title``."""
    path: str
    """Its path in the file, in which lists have parts of their own."""
    type: pa.DataType
    in_list: bool

    @property
    def is_text(self) -> bool:
        """Whether it holds text, which can be read as a dictionary."""
        return _is_text(self.type)


def leaves(name: str, kind: pa.DataType, *, in_list: bool) -> Iterator[Column]:
    """Yield the columns of values in a field, without their paths."""
    types = pa.types
    if types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from leaves(f"{name}.{kind.field(number).name}", kind.field(number).type, in_list=in_list)
    elif types.is_map(kind):
        yield from leaves(f"{name}.key", kind.key_type, in_list=True)
        yield from leaves(f"{name}.value", kind.item_type, in_list=True)
    elif any(check(kind) for check in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        yield from leaves(name, kind.value_type, in_list=True)
    else:
        yield Column(name, "", kind, in_list)


def wanted_columns(schema: pa.Schema, columns: Sequence[Column], fields: FieldMap) -> list[Column]:
    """Return which of all columns to read. Raises ReadFault if one is ambiguous, missing or no text."""
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
    metadata = [column for column in wanted if composed(column.name) not in fields.text]
    texts = [column for column in wanted if column not in metadata and (column.is_text or _is_value(column))]
    named = [
        column
        for column in metadata
        if _is_string(column.type) or (not column.in_list and (column.is_text or _is_value(column)))
    ]
    # One value of each object that has a name of metadata, for its records to count as having what cannot be read.
    roles = [f"{name}." for name in fields.names if name and name not in fields.text]
    within = (
        (one for one in columns if composed(one.name).startswith(role) and not one.in_list and _is_string(one.type))
        for role in roles
    )
    objects = (one for one in (next(each, None) for each in within) if one is not None and one not in wanted)
    return [*texts, *named, *dict.fromkeys(objects)]


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
        value = cell.as_py()
        if isinstance(value, bytes) and pa.types.is_fixed_size_binary(cell.type):  # an id of 16 bytes, mostly
            with suppress(UnicodeDecodeError):
                return value.decode()
            return value.hex()
        return value
    except (ValueError, OverflowError):
        if not pa.types.is_temporal(cell.type):
            raise
        return cell.cast(pa.string()).as_py()


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


def _is_value(column: Column) -> bool:
    types = pa.types
    return any(check(column.type) for check in (types.is_primitive, types.is_decimal, types.is_fixed_size_binary))


def _is_string(kind: pa.DataType) -> bool:
    """Return whether it is text, and not bytes, which could be anything."""
    return _is_text(kind) and not any(
        check(kind) for check in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    )


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    checks = [types.is_string, types.is_large_string, types.is_string_view]
    checks += [types.is_binary, types.is_large_binary, types.is_binary_view]
    return any(check(kind) for check in checks)


def parse_columns(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield a document for each row."""
    for outcome in parse_json(spec, records, tally):
        if isinstance(outcome, Quarantined):
            remedy = _NOT_UTF_8 if outcome.reason == "invalid_utf8" else outcome.remedy
            yield replace(outcome, position=outcome.position.partition(",")[0].replace("line", "row"), remedy=remedy)
        else:
            yield outcome
