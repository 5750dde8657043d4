"""Reads Arrow files, as ``save_to_disk`` of the package datasets writes them, and Arrow streams.

A file is a stream between a magic and a footer, and is read as such, so that the batches before damage are kept. Arrow
decompresses a batch into memory at once; its decompressed size is added up from its buffers before.
"""

from __future__ import annotations

import json
import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow as pa
from pyarrow import ipc

from korealbert.corpus.readers.columns import frame_rows, leaves, lines_of, wanted_columns
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.other_formats import remedy_for
from korealbert.corpus.readers.spec import FieldMap, has_ending
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ANY_RATIO_BYTES, BYTES_PER_READ, RatioGuard, RawFile, ReadFault

_MAGIC = b"ARROW1\0\0"
_CACHE = re.compile(r"(?:cache|tmp)-?\w*\.arrow|indices\.arrow")
_DICTIONARY, _BATCH = 2, 3
"""Kinds of a message's header that have buffers."""


def frame_arrow(raw: RawFile, *, fields: FieldMap, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of rows; a row whose JSON is longer than ``max_record_bytes`` is quarantined."""
    return frame_rows(raw, _lines(raw, fields, max_record_bytes))


def caches(files: Mapping[str, Path]) -> set[str]:
    """Return which Arrow files, given by name, the package datasets wrote beside a dataset for its own use.

    They hold the dataset's texts once more: what ``map`` and ``filter`` made of them, and indices.
    """
    found, folders = set[str](), dict[str, list[str]]()
    for name in files:
        if has_ending(name, "arrow"):
            folders.setdefault(name.rpartition("/")[0], []).append(name)
    for folder, names in folders.items():
        state = files.get(f"{folder}/state.json".lstrip("/"))
        own = _data_files(state) if state is not None else set()
        made = {name for name in names if _CACHE.fullmatch(name.rpartition("/")[2])}
        found |= (
            {name for name in names if name.rpartition("/")[2] not in own} if own else made if len(made) < len(names) else set()
        )
    return found


def _data_files(state: Path) -> set[str]:
    """Return the names of the files of a saved dataset; none if its description is another than expected."""
    try:
        return {str(one["filename"]) for one in json.loads(state.read_bytes())["_data_files"]}
    except (ValueError, KeyError, TypeError, OSError):
        return set()


def _lines(raw: RawFile, fields: FieldMap, max_record_bytes: int) -> Iterator[bytes | Quarantined]:
    with TemporaryFile() as copy:
        while block := raw.read():
            copy.write(block)
        copy.flush()
        size = copy.tell()
        if not size:
            raise ReadFault("empty_file", "byte 0", "remove the file from the source, or fetch it again")
        data = pa.py_buffer(mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ))
        batches = _batches(data, fields, raw)
        yield from lines_of(batches, raw, RatioGuard(raw.limits, lambda: size), max_record_bytes)


def _batches(data: pa.Buffer, fields: FieldMap, raw: RawFile) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns in batches. Raises ReadFault for another format, and a batch that is compressed too strongly."""
    begin = data[:BYTES_PER_READ].to_pybytes()
    stream = data[len(_MAGIC) :] if begin.startswith(_MAGIC) else data
    try:
        reader = ipc.open_stream(pa.BufferReader(stream))
    except (pa.ArrowException, OSError) as error:
        if remedy := remedy_for(begin, "arrow"):
            raise ReadFault("other_format", "byte 0", remedy) from None
        remedy = "set the format that it has, leave it out by `members` (*.arrow), or fetch it again"
        raise ReadFault("corrupt_file", "byte 0", f"{error} (the file begins with {begin[:8]!r}); {remedy}") from None
    every = [
        column._replace(path=field.name) for field in reader.schema for column in leaves(field.name, field.type, in_list=False)
    ]
    names = list(dict.fromkeys(column.path for column in wanted_columns(reader.schema, every, fields)))
    for number in _checked_batches(stream, raw):
        try:
            batch = _with_bytes(reader.read_next_batch().select(names))
        except StopIteration:
            return
        except KeyError:
            remedy = f"two columns are named {names[0]!r}; write the file with one of them"
            raise ReadFault("ambiguous_field", f"batch {number}", remedy) from None
        batch.validate(full=True)  # An offset beyond the text must not be followed.
        yield batch


def _with_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with texts as bytes, so that one that is not UTF-8 costs its own row and not the file."""
    columns = [
        column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _checked_batches(stream: pa.Buffer, raw: RawFile) -> Iterator[int]:
    """Yield the number of each batch of rows after checking how large it and the dictionaries before it are decompressed.

    Raises ReadFault.
    """
    limit, number = raw.limits.max_decompression_ratio, 1
    for message in ipc.MessageReader.open_stream(pa.BufferReader(stream)):
        if message.body is not None:
            try:
                decompressed = _decompressed_bytes(message.metadata.to_pybytes(), message.body)
            except struct.error:
                raise ReadFault("corrupt_file", f"batch {number}", "its header is damaged; fetch the file again") from None
            if decompressed > max(ANY_RATIO_BYTES, limit * message.body.size):
                remedy = (
                    f"{message.body.size:,} bytes of it unfold to {decompressed:,}, and the limit is {limit:,}-fold; batches"
                    " before are kept; if that is right, raise limits.max_decompression_ratio"
                )
                raise ReadFault("decompression_bomb", f"batch {number}", remedy)
        if message.type == "record batch":
            yield number
            number += 1


def _decompressed_bytes(header: bytes, body: pa.Buffer) -> int:
    """Return the size of a message's buffers, each of which states its own before its compressed bytes.

    The header is a flatbuffer: https://arrow.apache.org/docs/format/Columnar.html#recordbatch-message.
    """
    (table,) = struct.unpack_from("<I", header)
    kind = _field(header, table, 1)
    content = _field(header, table, 2)
    if kind is None or content is None or header[kind] not in (_DICTIONARY, _BATCH):
        return 0
    rows = _followed(header, content)
    if header[kind] == _DICTIONARY:
        inner = _field(header, rows, 1)
        if inner is None:
            return 0
        rows = _followed(header, inner)
    buffers = _field(header, rows, 2)
    if buffers is None or _field(header, rows, 3) is None:  # not compressed
        return 0
    vector = _followed(header, buffers)
    (count,) = struct.unpack_from("<I", header, vector)
    total = 0
    for number in range(count):
        offset, length = struct.unpack_from("<qq", header, vector + 4 + 16 * number)
        if length:
            (size,) = struct.unpack_from("<q", body[offset : offset + 8].to_pybytes()) if offset >= 0 else (0,)
            total += length if size < 0 else size
    return total


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a flatbuffer's table is, or None if it has the default value."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    if 4 + 2 * number >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, table - back + 4 + 2 * number)
    return table + offset if offset else None


def _followed(data: bytes, position: int) -> int:
    return position + int(struct.unpack_from("<I", data, position)[0])
