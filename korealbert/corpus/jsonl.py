"""JSON records: JSON Lines, arrays, one object a file; also the records of NamuWiki dumps before their markup is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from korealbert.corpus.framing import Piece
from korealbert.corpus.json_values import ValueScanner, is_json_object, resynchronised
from korealbert.corpus.records import Dropped, Outcome, Tally, bad_record, decode_record, document_of, writable
from korealbert.corpus.sources import ExtractSpec
from korealbert.documents import Document, Drop, Quarantined, document_id


def parse_json(spec: ExtractSpec, piece: Piece, tally: Tally) -> Iterator[Outcome]:
    """One document per record."""
    for start, end, record in json_records(piece, tally):
        yield record if isinstance(record, Quarantined) else document_of(spec, record, piece, (start, end), tally)


def parse_json_file(spec: ExtractSpec, piece: Piece, tally: Tally) -> Iterator[Outcome]:
    """One document per file: each record is one paragraph; records without text are left out, unreadable ones quarantined."""
    paragraphs: list[str] = []
    first: Document | None = None
    for start, end, record in json_records(piece, tally, _extents_in_file(piece)):
        outcome = record if isinstance(record, Quarantined) else document_of(spec, record, piece, (start, end), tally)
        if isinstance(outcome, Quarantined):
            yield outcome
            continue
        document = outcome.document if isinstance(outcome, Dropped) else outcome
        first = first or document
        if document.text:
            paragraphs.append(document.text.replace("\n\n", "\n"))
    if first is None:
        if not piece.data.strip().strip(b"[]").strip():
            yield bad_record(piece, 0, len(piece.data), "no_records", "the file holds no records: remove it from the source")
        return
    whole = replace(
        first, id=document_id(spec.source, piece.file), text="\n\n".join(paragraphs), title="", url="", published=""
    )
    yield whole if paragraphs else Dropped(whole, Drop("empty"))


def _extents_in_file(piece: Piece) -> Iterable[tuple[int, int]]:
    """Extents of the records of a whole file: JSON Lines, or an array, or objects in a row."""
    if is_json_object(piece.data.partition(b"\n")[0]):
        return line_extents(piece)
    scanner = ValueScanner()
    scanner.feed(piece.data)
    scanner.finish()
    return scanner.take()[1]


def line_extents(piece: Piece) -> Iterator[tuple[int, int]]:
    """Extents of the lines of a piece that are not blank, without their line ends."""
    data, start = piece.data, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if data[start:end].strip():
            yield start, end
        start = end + 1


def json_records(
    piece: Piece, tally: Tally, extents: Iterable[tuple[int, int]] | None = None
) -> Iterator[tuple[int, int, dict[str, Any] | Quarantined]]:
    """The objects at ``extents`` of a piece; by default where the framing found them, else one a line.

    Lines end by themselves; any other record that is broken may have swallowed those behind it, and gives them back.
    """
    lines = extents is None and not piece.cuts
    like: dict[str, Any] = {}
    for start, end in piece.cuts or line_extents(piece) if extents is None else extents:
        record = _json_object(piece, start, end)
        if lines or not isinstance(record, Quarantined) or record.reason != "malformed_json":
            tally.records += 1
            like = like if isinstance(record, Quarantined) else record
            yield start, end, record
            continue
        for part_start, part_end in resynchronised(piece.data[start:end], like):
            part = start + part_start, start + part_end
            tally.records += 1
            yield *part, _json_object(piece, *part)


class _DuplicateKey(ValueError):
    """An object that names a field twice; the message is the name."""


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs. JSON leaves open what a repeated name means, and Python would silently take the last."""
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _DuplicateKey(next(name for name, count in counts.items() if count > 1))
    return record


def _json_object(piece: Piece, start: int, end: int) -> dict[str, Any] | Quarantined:
    text = decode_record(piece, start, end)
    if isinstance(text, Quarantined):
        return text
    try:
        # Not strict: raw tabs and line feeds in strings are common and harmless.
        record = json.loads(text, strict=False, object_pairs_hook=_unambiguous)
    except _DuplicateKey as error:
        remedy = "the record gives it twice, and only its owner knows which counts: delete one"
        return bad_record(piece, start, end, "duplicate_key", remedy, field=writable(str(error)))
    except json.JSONDecodeError as error:
        at = start + len(text[: error.pos].encode(piece.encoding))
        position = f"line {piece.line_at(at)}, byte {piece.byte + at}"
        return bad_record(piece, start, end, "malformed_json", f"{error.msg}: correct the record", position=position)
    except (RecursionError, ValueError) as error:  # nested a thousand deep; an integer of 4,300 digits
        return bad_record(piece, start, end, "malformed_json", f"{error}: correct the record")
    if not isinstance(record, dict):
        remedy = f"expected an object with fields, found {type(record).__name__}"
        return bad_record(piece, start, end, "wrong_type", remedy)
    return record
