"""Reads JSON records of JSON Lines, arrays and single objects, also those of NamuWiki dumps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from korealbert.artifact.files import RepeatedName, json_fault, unambiguous
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.json_values import UNCLOSED_REMEDY, ValueScanner, is_json_object, resynchronised
from korealbert.corpus.readers.records import (
    Dropped,
    Outcome,
    Tally,
    bad_record,
    decode_record,
    document_of,
    too_long_record,
    writable,
)
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document, Drop, Quarantined, document_id

_UNTERMINATED = re.compile("malformed_json|nul_bytes|invalid_|truncated_")
"""Reasons of bad records that may contain the records after them, because their end is missing."""
_LINE = re.compile(rb"^[^\S\n]*+\S[^\n]*", re.MULTILINE)
"""Matches a line that is not blank; a file may have millions of blank ones."""


def parse_json(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield a document for each record."""
    for start, end, record in json_records(records, tally):
        yield record if isinstance(record, Quarantined) else document_of(spec, record, records, (start, end), tally)


def parse_json_file(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield one document for the file, with a paragraph for each record that has text; unreadable records are quarantined."""
    paragraphs: list[str] = []
    first: Document | None = None
    extents, unclosed = _extents_in_file(records)
    for start, end, record in json_records(records, tally, extents):
        outcome = record if isinstance(record, Quarantined) else document_of(spec, record, records, (start, end), tally)
        if isinstance(outcome, Quarantined):
            yield outcome
            continue
        document = outcome.document if isinstance(outcome, Dropped) else outcome
        first = first or document
        if document.text:
            paragraphs.append(document.text.replace("\n\n", "\n"))
    if unclosed:
        yield bad_record(records, len(records.data), len(records.data), unclosed, UNCLOSED_REMEDY)
    if first is None:
        if not records.data.strip().strip(b"[]").strip():
            remedy = "the file holds no records: remove it from the source"
            yield bad_record(records, 0, len(records.data), "no_records", remedy)
        return
    whole = replace(
        first, id=document_id(spec.source, records.file), text="\n\n".join(paragraphs), title="", url="", published=""
    )
    yield whole if paragraphs else Dropped(whole, Drop("empty"))


def _extents_in_file(records: RawRecords) -> tuple[Iterable[tuple[int, int]], str]:
    """Return the extents of the records of a whole file, which is JSON Lines, an array, or objects in a row.

    Also returns the reason for the quarantine if the array is not closed behind a whole record, else "".
    """
    if is_json_object(records.data.partition(b"\n")[0]):
        return line_extents(records), ""
    scanner = ValueScanner()
    scanner.feed(records.data)
    unclosed = scanner.finish()
    return scanner.take()[1], unclosed


def line_extents(records: RawRecords) -> Iterator[tuple[int, int]]:
    """Yield the extents of lines that are not blank, without their line ends."""
    for found in _LINE.finditer(records.data):
        yield found.span()


def json_records(
    records: RawRecords, tally: Tally, extents: Iterable[tuple[int, int]] | None = None
) -> Iterator[tuple[int, int, dict[str, Any] | Quarantined]]:
    """Yield the objects at ``extents`` of a batch: by default those that the framing found, else one for each line.

    A broken record that is not a line may contain the records after it, which are then recovered.
    """
    by_line = extents is None and not records.extents
    if extents is None:
        extents = records.extents or line_extents(records)
    last: dict[str, Any] = {}
    for start, end in extents:
        record = _json_object(records, start, end)
        if by_line or not isinstance(record, Quarantined) or not _UNTERMINATED.match(record.reason):
            tally.records += 1
            last = last if isinstance(record, Quarantined) else record
            yield start, end, record
            continue
        for part_start, part_end in resynchronised(records.data[start:end], last):
            part = start + part_start, start + part_end
            tally.records += 1
            yield *part, _json_object(records, *part)


_MAX_VALUES = 1 << 20
"""Largest number of values in one record: an empty list of two bytes takes 56 bytes of memory."""
_STRING = re.compile(r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)(?:"|\\?\Z)', re.DOTALL)
"""Matches an open string, too, to the end: a search from each of the escaped quotes in it would take quadratic time."""

_CUT_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity", ".", "e+", "e-", "E+", "E-")
"""Values, and ends of numbers, of which only the beginning may be left."""
_CUT_ESCAPE = re.compile(r"u[\dA-Fa-f]{0,4}", re.ASCII)

# Not strict: raw tabs and line feeds in strings are common and harmless.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=unambiguous)


def _count_values(text: str) -> int:
    return sum(map(text.count, ",[{"))


def _json_object(records: RawRecords, start: int, end: int) -> dict[str, Any] | Quarantined:  # noqa: PLR0911 (one for each fault)
    text = decode_record(records, start, end)
    if isinstance(text, Quarantined):
        return text
    if _count_values(text) > _MAX_VALUES and _count_values(_STRING.sub("", text)) > _MAX_VALUES:
        remedy = f"it holds more than {_MAX_VALUES:,} values: leave it out, or the lists in it"
        return bad_record(records, start, end, "too_many_values", remedy)
    boms = len(text) - len(text.lstrip("\ufeff"))  # joined files have byte order marks between their lines
    try:
        record = _DECODER.decode(text[boms:])
    except RepeatedName as error:
        remedy = "the record gives it twice, and only its owner knows which counts: delete one"
        return bad_record(records, start, end, "duplicate_key", remedy, field=writable(error.name))
    except json.JSONDecodeError as error:
        at = start + len(text[: boms + error.pos].encode(records.encoding))
        position = f"line {records.line_at(at)}, byte {records.byte + at}"
        reason, remedy = "malformed_json", f"{error.msg}: correct the record"
        if records.ends(end) and _is_cut(text[boms:], error):
            reason, remedy = "truncated_json", "the file ends within this record; those before are kept: fetch the file again"
        return bad_record(records, start, end, reason, remedy, position=position)
    except (RecursionError, ValueError) as error:  # a thousand levels, or an integer of 4,300 digits
        return bad_record(records, start, end, "malformed_json", f"{json_fault(error)}: correct the record")
    if not isinstance(record, dict):
        remedy = f"expected an object with fields, found {type(record).__name__}"
        return bad_record(records, start, end, "wrong_type", remedy)
    return too_long_record(records, start, end) or record  # last: a broken record may hold the ones after it


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether a record ends within a value. One that lacks a brace goes on to the bracket at the end of the array."""
    text = text.rstrip()
    if not text.lstrip().startswith("{") or text.endswith("]") or error.msg == "Extra data":
        return False
    rest = text[error.pos :]
    is_cut_value = any(word.startswith(rest) for word in _CUT_WORDS) or _CUT_ESCAPE.fullmatch(rest) is not None
    return is_cut_value or error.msg.startswith("Unterminated")
