"""Parquet files as records: each row becomes a JSON object of the columns that the spec names.

The footer of a Parquet file is at its end, so a file is copied to disk before it is read, and of a truncated one nothing can be
read. Rows are taken out one at a time: what a dictionary holds once may stand in every row. Columns that are neither text nor
numbers or times (lists, structures) count as missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, RawRecords
from korealbert.corpus.readers.json import parse_json
from korealbert.corpus.readers.records import Outcome, Tally
from korealbert.corpus.readers.spec import ExtractSpec, FieldMap
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault, Unfolding

_ROWS_AT_ONCE = 1 << 10


def frame_parquet(raw: RawFile, *, fields: FieldMap, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Batches of rows; a row whose JSON is longer than ``max_record_bytes`` goes to quarantine."""
    batch, row, byte = bytearray(), 1, 0
    try:
        for number, line in enumerate(_rows(raw, fields), start=1):
            too_long = len(line) > max_record_bytes
            if batch and (too_long or len(batch) >= RAW_RECORDS_BYTES):
                yield RawRecords(raw.name, "utf-8", row, byte, bytes(batch))
                byte += len(batch)
                batch.clear()
            if too_long:
                remedy = f"it is longer than limits.max_record_bytes ({max_record_bytes:,}); raise that, or leave it out"
                yield Quarantined(raw.name, f"row {number}", "", "record_too_long", remedy)
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


def _rows(raw: RawFile, fields: FieldMap) -> Iterator[bytes]:
    """The rows as lines of JSON. Raises ReadFault where the file cannot be read, or read on."""
    with TemporaryFile() as copy:
        while block := raw.read():
            copy.write(block)
        size, number = copy.tell(), 0
        unfolding = Unfolding(raw.limits, lambda: size)
        try:
            schema = pq.read_schema(copy)
        except (pa.ArrowException, OSError) as error:
            copy.seek(0)
            told = f"{error} (the file begins with {copy.read(8)!r}); set the format that it has, or fetch it again"
            raise ReadFault("corrupt_file", "byte 0", told) from None
        wanted = [name for name in schema.names if name in fields.names]
        if fields.text[0] not in wanted:
            remedy = f"no column {fields.text[0]!r} among {', '.join(schema.names)[:300]}: set fields.text of the spec"
            raise ReadFault("missing_field", "byte 0", remedy)
        texts = [name for name in wanted if _is_text(schema.field(name).type)]
        for name in (one for one in fields.text if one in wanted and one not in texts):
            remedy = f"column {name!r} is {schema.field(name).type}, not text: set fields.text of the spec"
            raise ReadFault("wrong_type", "byte 0", remedy)
        wanted = [name for name in wanted if name in texts or pa.types.is_primitive(schema.field(name).type)]
        try:
            for batch in pq.ParquetFile(copy, read_dictionary=texts).iter_batches(_ROWS_AT_ONCE, columns=wanted):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                for index in range(batch.num_rows):
                    number += 1
                    record = {name: column[index].as_py() for name, column in columns.items()}
                    line = json.dumps(record, ensure_ascii=False, default=_written).encode("utf-8", "surrogateescape") + b"\n"
                    unfolding.add(len(line), f"row {number}")
                    yield line
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            remedy = f"{error}; rows before are kept, fetch the file again"
            raise ReadFault("corrupt_file", f"row {number + 1}", remedy) from None


def _written(value: object) -> str:
    """What JSON has no form for: times and numbers as Python writes them; bytes, which are decoded where lines are read."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column can be read as a dictionary, in which a value stands once; in lists each row would have its own."""
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(each(kind) for each in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))


def parse_parquet(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """One document per row."""
    for outcome in parse_json(spec, records, tally):
        if isinstance(outcome, Quarantined):
            yield replace(outcome, position=outcome.position.partition(",")[0].replace("line", "row"))
        else:
            yield outcome
