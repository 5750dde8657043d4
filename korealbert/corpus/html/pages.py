"""Reads HTML files, WARC files of HTTP responses, and WET files of texts.

WARC files are cut into records here, because readers of streams neither report the position of a damaged record nor continue
after it; fastwarc parses a single record.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from korealbert.corpus.html.article import UnreadablePage, read_article
from korealbert.corpus.html.encoding import BodyError, decode_body, is_html
from korealbert.corpus.html.metadata import Article
from korealbert.corpus.readers.dates import iso_date
from korealbert.corpus.readers.framing import RAW_RECORDS_BYTES, Cursor, OtherRecord, RawRecords, quarantining_faults
from korealbert.corpus.readers.other_formats import remedy_for
from korealbert.corpus.readers.records import (
    EXCERPT_CHARS,
    UNWANTED,
    Dropped,
    Outcome,
    Tally,
    bad_record,
    category_of_folder,
    decode_record,
    document_of,
)
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document, Drop, Quarantined, document_id
from korealbert.documents.streams import RawFile, ReadFault

_MAX_HEADER_BYTES = 64 << 10
_MAX_FASTWARC_HEADER = 1 << 30
"""fastwarc's default limit of 32,000 bytes is below the 100 KB that a crawl accepts."""
# Some programs and editors write line feeds alone instead of the line ends of the standard.
_VERSION = re.compile(rb"WARC/\d\.\d{1,2}\r?\n")
_NEXT_HEADER = re.compile(rb"\n(?=WARC/\d\.\d{1,2}\r?\n[\w-]{1,64}:)|(?<=[^\n])(?=WARC/1\.[01]\r\nWARC-[\w-]{1,59}:)")
"""Before a header. Within a line one stands where a writer was killed and began again."""
_MAX_NEXT_HEADER_BYTES = len(b"\nWARC/1.00\r\n") + 65
_HEADER_END = re.compile(rb"\n\r?\n")
_LINE_END = re.compile("\r?\n")
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_TARGET = re.compile(rb"^warc-target-uri:[ \t]*<?([^\r\n>]{1,2000})", re.IGNORECASE | re.MULTILINE)
_TYPE = re.compile(rb"^warc-type:[ \t]*([A-Za-z]+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)

OTHER_TYPE = "other_record_type"
"""Reason of records of other types than the format reads: texts in a WARC file, responses in a WET file."""
_ABOUT_OTHERS = (b"warcinfo", b"request", b"metadata")
"""Types of records that hold nothing of their own."""
_OTHER_KIND_REMEDIES = {
    b"response": 'they hold responses of servers; set format = "warc"',
    b"conversion": 'they hold texts of pages; set format = "wet"',
    b"resource": 'they hold files (resource), which are not read; write their pages as files and set format = "html"',
}
"""Remedies for files in which all records have another type."""


@dataclass(frozen=True, slots=True)
class _Site:
    """What the snapshot of a crawl states about its site."""

    outlet: str = ""
    categories: dict[str, str] = field(default_factory=dict)
    """Categories of sections."""
    first_day: str = ""
    last_day: str = ""

    def outside_window(self, published: str) -> bool:
        """Return whether a date, as precise as it is known, is outside the window of the crawl."""
        day = published[:10]
        return bool(day and self.first_day) and not self.first_day[: len(day)] <= day <= self.last_day[: len(day)]


@lru_cache(maxsize=8)
def _site_of(context: str) -> _Site:
    """Parse the ``snapshot.json`` of a crawl, which is the context of the batches of its WARC files."""
    if not context:
        return _Site()
    facts = json.loads(context)
    categories = {section: category for category, sections in facts["categories"].items() for section in sections}
    return _Site(facts["outlet"], categories, facts["first_day"], facts["last_day"])


def parse_html(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield one document for the file."""
    tally.records += 1
    declared = f"charset={spec.encoding}" if {"encoding"} & spec.model_fields_set and spec.encoding != "auto" else ""
    try:
        article = read_article(records.data, declared, spec.outlet)
    except UnreadablePage as fault:
        yield bad_record(records, 0, len(records.data), fault.reason, str(fault))
        return
    if not is_html(records.data):
        remedy = "it is no HTML page: give it another format, or leave it out by `members`"
        yield bad_record(records, 0, len(records.data), "not_html", remedy)
        return
    section = article.section or category_of_folder(spec, records.file)
    page = _Page(records.file, article.url, section, article.published, article)
    yield _document(spec, records, (0, len(records.data)), page, _Site(spec.outlet), tally)


def parse_warc(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield a document for each response, identified by its address if a crawl stage fetched it, else by its record id."""
    yield from _other_records(spec, records)
    site = _site_of(records.context)
    for start, end in records.extents:
        tally.records += 1
        record = records.data[start:end]
        try:
            response = _read_response(record)
        except (OSError, ValueError) as error:  # what fastwarc raises on damaged headers
            response, detail = None, f" ({str(error)[:EXCERPT_CHARS]})"
        else:
            detail = ""
        if response is None:
            remedy = (
                f"{_address_of(record)}: it is no HTTP response{detail}: fetch the file again, the records around it were read"
            )
            yield bad_record(records, start, end, "malformed_record", remedy)
        else:
            yield _outcome_of(spec, records, (start, end), response, site, tally)


def _other_records(spec: ExtractSpec, records: RawRecords) -> Iterator[Dropped]:
    """Yield the records of a batch that hold something, but not what the format reads."""
    for one in records.others:
        identity = document_id(spec.source, f"{one.address} {records.file}@{one.byte}")
        yield Dropped(Document(identity, spec.source, "", url=one.address), Drop(OTHER_TYPE, one.type))


def _address_of(record: bytes) -> str:
    """Return the address of a record, which may be damaged."""
    found = _TARGET.search(record, 0, _MAX_HEADER_BYTES)
    return UNWANTED.sub("", found[1].decode("utf-8", "replace")) if found else "a record without an address"


def _outcome_of(
    spec: ExtractSpec, records: RawRecords, extent: tuple[int, int], response: _Response, site: _Site, tally: Tally
) -> Outcome:
    limit = spec.limits.max_record_bytes
    fault: BodyError | None = None
    try:
        body = decode_body(response.body, response.http.get("transfer-encoding", ""), limit)
    except BodyError as error:
        body, fault = response.body, error
    content_type = response.http.get("content-type", "")
    if response.status != 200 or not is_html(body, content_type):
        identity = document_id(spec.source, f"{response.url} {records.file}@{records.byte + extent[0]}")
        drop = Drop("not_html", content_type) if response.status == 200 else Drop("not_a_page", f"status {response.status}")
        return Dropped(Document(identity, spec.source, "", url=response.url), drop)
    try:
        if fault is not None:
            raise fault
        body = decode_body(body, response.http.get("content-encoding", ""), limit)
        article = read_article(body, content_type, site.outlet or spec.outlet)
    except BodyError as error:
        return bad_record(records, *extent, f"{error.reason}_body", f"{response.url}: {error.detail}; fetch it again")
    except UnreadablePage as error:
        return bad_record(records, *extent, error.reason, f"{response.url}: {error}")
    section = unquote(response.headers.get("x-section", "")) or article.section
    native_id = (not records.context and response.headers.get("warc-record-id")) or response.url
    published = article.published or iso_date(unquote(response.headers.get("x-published", "")))
    return _document(spec, records, extent, _Page(native_id, response.url, section, published, article), site, tally)


class _Page(NamedTuple):
    """An article, and what the page or the crawl states about it."""

    native_id: str
    url: str
    section: str
    published: str
    article: Article


def _document(
    spec: ExtractSpec, records: RawRecords, extent: tuple[int, int], page: _Page, site: _Site, tally: Tally
) -> Outcome:
    article = page.article
    document = Document(
        id=document_id(spec.source, page.native_id),
        source=spec.source,
        text=article.text,
        title=article.title,
        outlet=site.outlet or article.outlet or spec.outlet,
        category=site.categories.get(page.section, page.section) or spec.category,
        url=page.url,
        published=page.published,
        authors=", ".join(article.authors),
    )
    for role in ("title", "outlet", "category", "url", "published"):
        if not getattr(document, role):
            tally.missing_fields[role] += 1
    if article.text:
        outside = site.outside_window(page.published)
        return Dropped(document, Drop("outside_window", page.published)) if outside else document
    if not article.declared:
        return Dropped(document, Drop("empty"))
    remedy = f"{page.url or records.file}: it declares itself an article, but no main text was found; look at the page"
    return bad_record(records, *extent, "no_main_text", remedy)


@dataclass(frozen=True, slots=True)
class _Response:
    """One HTTP response of a WARC file."""

    url: str
    status: int
    http: dict[str, str]
    """HTTP headers by lower-case name."""
    headers: dict[str, str]
    """Headers of the WARC record by lower-case name."""
    body: bytes
    """With content and transfer encoding."""


def _read_response(record: bytes) -> _Response | None:
    """Return the HTTP response of one whole record, or None. Raises OSError or ValueError on damaged headers."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType  # noqa: PLC0415

    for found in ArchiveIterator(
        io.BytesIO(record),
        record_types=WarcRecordType.response,
        parse_http=True,
        max_header_len=_MAX_FASTWARC_HEADER,
        quirks_mode=True,  # line feeds alone
    ):
        if found.http_headers is None or not found.http_headers.status_code:
            return None
        http = {name.lower(): value for name, value in found.http_headers.items()}
        headers = {name.lower(): value for name, value in found.headers.items()}
        url = headers.get("warc-target-uri", "").strip("<>")
        return _Response(url, int(found.http_headers.status_code), http, headers, found.reader.read())
    return None


def frame_warc(
    raw: RawFile, *, encoding: str, max_record_bytes: int, kind: bytes = b"response"
) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of whole records of one type, and name others. The encoding of responses is decided for each page."""
    cursor = Cursor(raw, encoding, max_record_bytes, counts=False)
    return quarantining_faults(cursor, _WarcFramer(cursor, kind).batches)


def parse_wet(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield a document for each conversion record, that is the text of a page, of Common Crawl's WET files.

    Fields of a record are ``text``, ``url``, ``date`` (of the crawl), ``languages`` (identified by the crawl) and ``id``.
    """
    yield from _other_records(spec, records)
    for start, end in records.extents:
        tally.records += 1
        head_end = next(_HEADER_END.finditer(records.data, start)).end()
        body = decode_record(records, head_end, end)
        if isinstance(body, Quarantined):
            yield body
            continue
        lines = _LINE_END.split(records.data[start:head_end].decode("utf-8", "replace"))[1:]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        url = headers.get("warc-target-uri", "").strip("<>")
        facts = {"date": headers.get("warc-date", ""), "languages": headers.get("warc-identified-content-language", "")}
        record = {"text": body, "url": url, "id": headers.get("warc-record-id") or url, **facts}
        yield document_of(spec, record, records, (start, end), tally)


class _WarcFramer:
    """Cuts a WARC file into records. The buffer begins after the last batch; the position is that of the next record in it."""

    def __init__(self, cursor: Cursor, kind: bytes) -> None:
        self._cursor, self._kind = cursor, kind
        self._buffer = bytearray()
        self._position = 0
        self._extents: list[tuple[int, int]] = []
        self._others: list[OtherRecord] = []
        self._seen_kinds: set[bytes] = set()
        self._ended = False

    def batches(self) -> Iterator[RawRecords | Quarantined]:
        """Yield all batches. Raises ReadFault after all records before the fault; then it can be called again."""
        try:
            while self._at_record():
                yield from self._record()
            yield from self._flush()
        except ReadFault:
            yield from self._flush()
            self._drop(len(self._buffer))
            raise
        if self._kind not in self._seen_kinds and (others := sorted(self._seen_kinds & _OTHER_KIND_REMEDIES.keys())):
            remedy = f"no record is of type {self._kind.decode()}: {_OTHER_KIND_REMEDIES[others[0]]}"
            yield Quarantined(self._cursor.raw.name, "byte 0", "", "no_records", remedy)

    def _at_record(self) -> bool:
        """Move past the line ends between records; return whether anything follows."""
        while self._read_ahead(1) and self._buffer[self._position] in b"\r\n":
            self._position += 1
        return self._read_ahead(1)

    def _record(self) -> Iterator[RawRecords | Quarantined]:
        header_bytes = self._header_bytes()
        head = bytes(self._buffer[self._position : self._position + header_bytes])
        length = _LENGTH.search(head) if _VERSION.match(head) else None
        body_bytes = int(length[1]) if length else 0
        size = header_bytes + body_bytes if length else 0
        self._cursor.raw.records.add(1, body_bytes, 1)
        if not size or size > self._cursor.limit or not self._read_ahead(size) or not self._ends_record(size):
            yield from self._flush()
            yield self._fault(size)
            self._drop_until_header(_MAX_HEADER_BYTES if not size else None)
            return
        found = _TYPE.search(head)
        kind = found[1].lower() if found is not None else b""
        self._seen_kinds.add(kind)
        if kind == self._kind:
            self._extents.append((self._position, self._position + size))
        elif kind not in _ABOUT_OTHERS:
            found = _TARGET.search(head)
            address = UNWANTED.sub("", found[1].decode("utf-8", "replace")) if found else ""
            self._others.append(OtherRecord(kind.decode() or "none", address, self._cursor.byte + self._position))
        self._position += size
        if self._position >= RAW_RECORDS_BYTES:
            yield from self._flush()

    def _ends_record(self, size: int) -> bool:
        """Return whether a line end, another record or nothing follows a record of this size.

        A record that was cut may seem to end at a line end of the next one; then that one's header is within it.
        """
        end = self._position + size
        try:
            self._read_ahead(size + len(b"\r\n\r\nWARC/"))
        except ReadFault:  # raised again when what follows is read
            return True
        following = bytes(self._buffer[end : end + len(b"\r\n\r\nWARC/")])
        if b"WARC/".startswith(following.lstrip(b"\r\n")[: len(b"WARC/")]):
            return True
        return following[0] in b"\r\n" and not _NEXT_HEADER.search(self._buffer, self._position + 1, end)

    def _header_bytes(self) -> int:
        """Return the length of the header with its blank line; 0 if there is none."""
        searched = 4
        while True:
            end = _HEADER_END.search(self._buffer, self._position + searched - 4, self._position + _MAX_HEADER_BYTES)
            if end is not None:
                return end.end() - self._position
            searched = max(searched, len(self._buffer) - self._position)
            if searched > _MAX_HEADER_BYTES or not self._read_ahead(searched + 1):
                return 0

    def _read_ahead(self, size: int) -> bool:
        """Buffer ``size`` bytes from the position on; return whether there are so many."""
        while len(self._buffer) - self._position < size and not self._ended:
            block = self._cursor.raw.read_text()
            self._ended = not block
            self._buffer += block
        return len(self._buffer) - self._position >= size

    def _flush(self) -> Iterator[RawRecords]:
        data = bytes(self._buffer[: self._position])
        del self._buffer[: self._position]
        self._position = 0
        extents, self._extents = tuple(self._extents), []
        others, self._others = tuple(self._others), []
        if extents:
            for batch in self._cursor.batch(data, extents):
                yield replace(batch, others=others)
        else:
            cursor = self._cursor
            if others:
                yield RawRecords(cursor.raw.name, cursor.encoding, cursor.line, cursor.byte, b"", others=others)
            cursor.skip(data)

    def _fault(self, size: int) -> Quarantined:
        """Return the entry for what begins at the cursor, which has ``size`` bytes by its header, or no header (0)."""
        cursor = self._cursor
        if size > cursor.limit:
            return cursor.too_long(cursor.line, cursor.byte)
        reason, remedy = "malformed_record", "no WARC header; the bytes up to the next one were left out"
        if not cursor.byte and not self._buffer.startswith(b"WARC/"):
            other = remedy_for(bytes(self._buffer), "parquet") or "set the format that it has, if the whole file is no WARC"
            remedy = f"no WARC header: {other}; the bytes up to the next one were left out"
        if size and not self._read_ahead(size):
            reason, remedy = "truncated_record", "the file ends within this record; the others are kept; fetch the file again"
        elif size:
            remedy = "its Content-Length does not lead to its end; it was left out up to the next header; fetch the file again"
        excerpt = UNWANTED.sub("", self._buffer[:EXCERPT_CHARS].decode("utf-8", "replace"))
        return Quarantined(cursor.raw.name, f"line {cursor.line}, byte {cursor.byte}", "", reason, remedy, excerpt)

    def _drop(self, size: int) -> None:
        """Move past ``size`` bytes of the buffer."""
        self._cursor.skip(bytes(self._buffer[:size]))
        del self._buffer[:size]

    def _drop_until_header(self, at_most: int | None) -> None:
        """Move to the next header, which may be before the end that the length of the bad record states.

        Stop after ``at_most`` bytes, so that a long part without headers counts as more than one bad record.
        """
        while True:
            found = _NEXT_HEADER.search(self._buffer, 0, at_most or len(self._buffer))
            if found is not None:
                self._drop(found.end())
                return
            if at_most and len(self._buffer) >= at_most:
                self._drop(at_most - _MAX_NEXT_HEADER_BYTES)
                return
            if not at_most:
                self._drop(max(0, len(self._buffer) - _MAX_NEXT_HEADER_BYTES))
            if not self._read_ahead(len(self._buffer) + 1):
                self._drop(len(self._buffer))
                return
