"""WARC files: cut into records by their own lengths, and the HTTP responses in them.

The cutting is ours, because a reader that works on a stream cannot say where a damaged record lies, nor go on behind it; the
inside of a record is read by fastwarc.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, Cursor, RawRecords, guarded
from korealbert.corpus.readers.records import EXCERPT_CHARS, UNWANTED
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault

_MAX_HEADER_BYTES = 64 << 10
_VERSION = re.compile(rb"WARC/1\.[01]\r\n")
_NEXT = re.compile(rb"\r\n\r\nWARC/1\.[01]\r\n")
_LONGEST_NEXT = len(b"\r\n\r\nWARC/1.0\r\n")
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
_TYPE = re.compile(rb"^warc-type:[ \t]*([A-Za-z]+)[ \t]*\r$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Response:
    """One stored answer."""

    url: str
    status: int
    content_type: str
    content_encoding: str
    headers: dict[str, str]
    """Of the WARC record, by lower-case name."""
    body: bytes


def read_response(record: bytes) -> Response | None:
    """The HTTP response in one whole record; None if it holds none."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType  # noqa: PLC0415

    for found in ArchiveIterator(
        io.BytesIO(record), record_types=WarcRecordType.response, parse_http=True, auto_decode="transfer"
    ):
        if found.http_headers is None or not found.http_headers.status_code:
            return None
        http = {name.lower(): value for name, value in found.http_headers.items()}
        headers = {name.lower(): value for name, value in found.headers.items()}
        return Response(
            url=headers.get("warc-target-uri", "").strip("<>"),
            status=int(found.http_headers.status_code),
            content_type=http.get("content-type", ""),
            content_encoding=http.get("content-encoding", ""),
            headers=headers,
            body=found.reader.read(),
        )
    return None


def frame_warc(raw: RawFile, *, encoding: str, max_record_bytes: int) -> Iterator[RawRecords | Quarantined]:
    """Batches of whole response records; other records are passed over. ``encoding`` is each page's own affair."""
    cursor = Cursor(raw, encoding, max_record_bytes)
    return guarded(cursor, _Cutter(cursor).batches())


class _Cutter:
    """Holds the bytes from the last batch up to where the file was read, and cuts them into records."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._buffer = bytearray()
        self._position = 0  # of the next record in the buffer
        self._cuts: list[tuple[int, int]] = []
        self._ended = False

    def batches(self) -> Iterator[RawRecords | Quarantined]:
        """All batches in order. Raises ReadFault once everything before it was cut."""
        try:
            while self._at_record():
                yield from self._record()
        except ReadFault:
            yield from self._flush()
            raise
        yield from self._flush()

    def _at_record(self) -> bool:
        """Move behind the line ends that separate records; whether anything follows."""
        while self._hold(2) and self._buffer.startswith(b"\r\n", self._position):
            self._position += 2
        return self._hold(1)

    def _record(self) -> Iterator[RawRecords | Quarantined]:
        header_bytes = self._header_bytes()
        head = bytes(self._buffer[self._position : self._position + header_bytes])
        length = _LENGTH.search(head) if _VERSION.match(head) else None
        if length is None:
            yield from self._flush()
            yield self._fault("malformed_record", "no WARC header; the bytes before the next one were left out")
            self._forget_until_header()
            return
        size = header_bytes + int(length[1])
        if size > self._cursor.limit:
            yield from self._flush()
            yield self._cursor.too_long(self._cursor.line, self._cursor.byte)
            self._forget(size)
        elif not self._hold(size):
            yield from self._flush()
            yield self._fault(
                "truncated_record", "the file ends within this record; those before are kept; fetch the file again"
            )
            self._forget(size)
        else:
            kind = _TYPE.search(head)
            if kind is not None and kind[1].lower() == b"response":
                self._cuts.append((self._position, self._position + size))
            self._position += size
            if self._position >= RAW_RECORDS_BYTES:
                yield from self._flush()

    def _header_bytes(self) -> int:
        """Length of the header at the position with its blank line; 0 if there is none."""
        held = 4
        while True:
            end = self._buffer.find(b"\r\n\r\n", self._position + held - 4, self._position + _MAX_HEADER_BYTES)
            if end >= 0:
                return end + 4 - self._position
            held = max(held, len(self._buffer) - self._position)
            if held > _MAX_HEADER_BYTES or not self._hold(held + 1):
                return 0

    def _hold(self, size: int) -> bool:
        """Read until ``size`` bytes from the position on are there; whether they are."""
        while len(self._buffer) - self._position < size and not self._ended:
            block = self._cursor.raw.read_text()
            self._ended = not block
            self._buffer += block
        return len(self._buffer) - self._position >= size

    def _flush(self) -> Iterator[RawRecords]:
        data = bytes(self._buffer[: self._position])
        del self._buffer[: self._position]
        self._position = 0
        cuts, self._cuts = tuple(self._cuts), []
        if cuts:
            yield self._cursor.records(data, cuts)
        else:
            self._cursor.skip(data)

    def _fault(self, reason: str, remedy: str) -> Quarantined:
        position = f"line {self._cursor.line}, byte {self._cursor.byte}"
        excerpt = UNWANTED.sub("", self._buffer[:EXCERPT_CHARS].decode("utf-8", "replace"))
        return Quarantined(self._cursor.raw.name, position, "", reason, remedy, excerpt)

    def _forget(self, size: int) -> None:
        """Move behind ``size`` bytes without holding them."""
        while size > 0 and (self._buffer or self._hold(1)):
            block = bytes(self._buffer[:size])
            self._cursor.skip(block)
            del self._buffer[: len(block)]
            size -= len(block)

    def _forget_until_header(self) -> None:
        while True:
            found = _NEXT.search(self._buffer)
            if found is not None:
                self._forget(found.start() + 4)
                return
            self._forget(max(0, len(self._buffer) - _LONGEST_NEXT))
            if not self._hold(len(self._buffer) + 1):
                self._forget(len(self._buffer))
                return
