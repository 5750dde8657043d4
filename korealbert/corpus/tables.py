"""Books and other tables: the rows of a CSV file with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from korealbert.corpus.framing import Piece
from korealbert.corpus.records import Outcome, Tally, bad_record, decode_record, document_of
from korealbert.corpus.sources import ExtractSpec
from korealbert.documents import Quarantined


def parse_rows(spec: ExtractSpec, piece: Piece, tally: Tally) -> Iterator[Outcome]:
    """One document per row; a row with another number of fields than the header goes to quarantine."""
    csv.field_size_limit(2 * spec.limits.max_record_bytes)  # process-wide in Python; the framing keeps rows in bounds
    header = _fields(piece.context.encode("latin-1").decode(piece.encoding, "replace"), spec.delimiter)
    for start, end in piece.cuts:
        tally.records += 1
        text = decode_record(piece, start, end)
        if isinstance(text, Quarantined):
            yield text
            continue
        fields = _fields(text, spec.delimiter)
        if len(fields) != len(header):
            remedy = (
                f"the row has {len(fields)} fields, the header {len(header)}: quote the fields that hold {spec.delimiter!r}"
            )
            position = f"line {piece.line_at(start)}"
            yield bad_record(piece, start, end, "wrong_number_of_fields", remedy, position=position)
            continue
        yield document_of(spec, dict(zip(header, fields)), piece, (start, end), tally)


def _fields(row: str, delimiter: str) -> list[str]:
    return next(csv.reader(io.StringIO(row, newline="\n"), delimiter=delimiter), [])  # lines as the framing has them
