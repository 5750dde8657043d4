"""Turns a raw record into a document: decodes it, applies the field map, and quarantines what cannot be read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from korealbert.corpus.normalise import composed
from korealbert.corpus.readers.dates import iso_date
from korealbert.corpus.readers.framing import RawRecords, too_long_remedy
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document, Drop, Quarantined, document_id

EXCERPT_CHARS = 200
"""Length of the excerpt of a bad record in the quarantine."""

NUL_REMEDY = "text holds no NUL bytes: the file is damaged, or in UTF-16; convert it to UTF-8"
NO_FIELDS_REMEDY = "the record has no fields: remove it"

UNREAD_SOURCE_CHARS = 500
"""Length of the text that is kept of wiki pages which are dropped without parsing (redirects, other namespaces)."""

UNWANTED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""Matches control characters, invisible marks, lone surrogates and noncharacters."""

_SEVERAL = frozenset(("title", "outlet", "category"))
"""Roles of which a record may have several values."""
_MAX_LISTED_CHARACTERS = 300
"""Longest list of titles or categories; a longer one is something else."""

_UNTIDY = re.compile(f"[\t\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000{UNWANTED.pattern[1:-1]}]")
"""Matches any character that ``tidy`` removes or replaces; most texts have none."""
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
"""All line breaks of Unicode but the line feed, with form feeds, which begin pages."""
_OTHER_BLANK = re.compile(r"[^\S\n ]")
_SPACES = re.compile("   *")
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_INCOMPLETE = ("unexpected end of data", "incomplete multibyte sequence")
"""What decoders say of a character of which the last bytes are missing."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A document that is not kept, and the reason."""

    document: Document
    drop: Drop


Outcome = Document | Dropped | Quarantined
"""The result of reading one raw record."""


@dataclass(slots=True)
class Tally:
    """Further statistics of one shard."""

    records: int = 0
    """Number of raw records; greater than that of documents if a whole file is one document."""
    missing_fields: Counter[str] = field(default_factory=Counter)
    """Records without a field, by its role."""
    unread_fields: Counter[str] = field(default_factory=Counter)
    """Records with a field that cannot be read as metadata, such as an object, by its role."""
    lost_characters: Counter[str] = field(default_factory=Counter)
    """Source characters that are not in the text, by construct; ``dropped_page`` counts pages that are not kept, ``layout``
    blanks and the marks of headings and lists."""
    source_characters: int = 0
    """Source characters of all wiki pages; equals the characters of all texts plus ``lost_characters``."""
    unread_dates: int = 0
    """Dates that ``iso_date`` cannot read; their documents have no date."""
    namespaces: Counter[str] = field(default_factory=Counter)
    """Wiki pages by namespace."""
    rows_in_quotes: Counter[str] = field(default_factory=Counter)
    """Lines within quoted fields that look like rows themselves, by position of the row."""

    def extracted(self, source: str, text: str, lost: Mapping[str, int]) -> None:
        """Count the characters of a page that is kept."""
        self.source_characters += len(source)
        self.lost_characters.update(lost)
        self.lost_characters["layout"] += len(source) - len(text) - sum(lost.values())

    def left_out(self, source: str) -> None:
        """Count the characters of a page that is dropped."""
        self.source_characters += len(source)
        self.lost_characters["dropped_page"] += len(source)

    def stats(self) -> dict[str, Any]:
        """Return the statistics for ``sum_stats``."""
        return {
            "records_in": self.records,
            "missing_fields": {role: count for role, count in sorted(self.missing_fields.items()) if count},
            "unread_fields": {role: count for role, count in sorted(self.unread_fields.items()) if count},
            "unread_dates": self.unread_dates,
            "source_characters": self.source_characters,
            "lost_characters": {name: count for name, count in sorted(self.lost_characters.items()) if count},
            "namespaces": dict(sorted(self.namespaces.items())),
            "rows_in_quotes": dict(sorted(self.rows_in_quotes.items())),
        }


Parser = Callable[[ExtractSpec, RawRecords, Tally], Iterator[Outcome]]
"""Yields the outcome of each raw record, in order; never raises on bad input."""


def tidy(text: str) -> str:
    """Return the text in NFC, with line feeds, single spaces and single blank lines, and without unwanted characters.

    ``normalise`` removes more (entities, fillers, joiners) and counts it.
    """
    text = composed(text)
    if _UNTIDY.search(text):
        text = _OTHER_BLANK.sub(" ", UNWANTED.sub("", _LINE_BREAK.sub("\n", text)))
    if "  " in text:
        text = _SPACES.sub(" ", text)
    text = _BLANK_LINES.sub("\n\n", text)
    return text.replace(" \n", "\n").replace("\n ", "\n").strip()


def one_line(value: str) -> str:
    """Return a title, category or name on one line, and tidy."""
    return " ".join(tidy(value).split())


def writable(text: str) -> str:
    """Escape lone surrogates, which shards and statistics cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def bad_record(
    records: RawRecords, start: int, end: int, reason: str, remedy: str, *, field: str = "", position: str | None = None
) -> Quarantined:
    """Return the entry of the quarantine for the bytes ``start:end`` of a batch."""
    if position is None:
        position = f"line {records.line_at(start)}, byte {records.byte + start}"
    excerpt = records.data[start : min(end, start + 4 * EXCERPT_CHARS)].decode(records.encoding, "replace")
    shown = UNWANTED.sub("", excerpt).strip()[:EXCERPT_CHARS]
    return Quarantined(records.file, position, field, reason, writable(remedy), shown)


def decode_record(records: RawRecords, start: int, end: int) -> str | Quarantined:
    """Return the text of a record, or an entry of the quarantine if its bytes are not text in the declared encoding."""
    data = records.data[start:end]
    nul = data.find(b"\0")
    if nul >= 0:
        return bad_record(records, start + nul, end, "nul_bytes", NUL_REMEDY)
    try:
        return data.decode(records.encoding)
    except UnicodeDecodeError as error:
        reason, remedy = "invalid_" + records.encoding.replace("-", ""), _encoding_remedy(data, records.encoding, error)
        if error.end == len(data) and error.reason in _INCOMPLETE:
            reason = "truncated_text" if records.last and end == len(records.data) else reason
            remedy = "it ends within a character, where the file or record was cut: fetch it again"
        return bad_record(records, start + error.start, end, reason, remedy)


def too_long_record(records: RawRecords, start: int, end: int) -> Quarantined | None:
    """Return the entry of the quarantine for a record that is longer than ``limits.max_record_bytes``, or None.

    The blanks and line ends around it do not count.
    """
    limit = records.max_record_bytes
    if end - start <= limit or len(records.data[start:end].strip()) <= limit:
        return None
    return bad_record(records, start, end, "record_too_long", too_long_remedy(limit))


def read_each(
    records: RawRecords, extents: Iterable[tuple[int, int]], tally: Tally, read: Callable[[str, int, int], Outcome]
) -> Iterator[Outcome]:
    """Yield ``read(text, start, end)`` for each record of a batch, or an entry of the quarantine."""
    for start, end in extents:
        tally.records += 1
        text = too_long_record(records, start, end) or decode_record(records, start, end)
        yield text if isinstance(text, Quarantined) else read(text, start, end)


def _encoding_remedy(data: bytes, encoding: str, error: UnicodeDecodeError) -> str:
    for other in ("cp949", "utf-8"):
        if other != encoding:
            try:
                data.decode(other)
            except UnicodeDecodeError:
                continue
            name = other.upper()
            return f'the file looks like {name}: set encoding = "{other}"'
    return f"byte 0x{data[error.start]:02X} is not {encoding.upper()} ({error.reason}): repair the file or set its encoding"


def native_id(records: RawRecords, start: int) -> str:
    """Return file and byte position, the identifier of a record that has none."""
    return f"{records.file}@{records.byte + start}"


def document_of(
    spec: ExtractSpec, record: Mapping[str, Any], records: RawRecords, extent: tuple[int, int], tally: Tally
) -> Outcome:
    """Apply the field map of the spec to a record at ``extent`` of a batch."""
    start, end = extent
    fields = spec.field_map
    if not all(map(str.isascii, record)):
        record = {composed(name): value for name, value in record.items()}
    values: dict[str, str] = {}
    for role in ("title", "outlet", "category", "url", "published", "id"):
        name = getattr(fields, role)
        value = field_of(record, name) if name else None
        values[role], unread = _metadata(value, may_be_several=role in _SEVERAL)
        tally.missing_fields[role] += not values[role] and not unread and value != ""
        tally.unread_fields[role] += unread
    if values["published"]:
        values["published"] = iso_date(values["published"])
        tally.unread_dates += not values["published"]
    parts = [_text_of(field_of(record, name)) for name in fields.text]
    for role in fields.required:
        if role != "text" and not values.get(role):
            name = getattr(fields, role)
            remedy = f"fields.{role} of the spec names it as required"
            return bad_record(records, start, end, "missing_field", remedy, field=name)
    if parts[0] is None:
        tally.missing_fields["text"] += 1
        remedy = missing_text_remedy(fields.text[0], _names(record), records.context)
        return bad_record(records, start, end, "missing_field", remedy, field=fields.text[0])
    for name, part in zip(fields.text, parts):
        if part is not None and not isinstance(part, str):
            remedy = f"expected a text, found {type(part).__name__}"
            if isinstance(part, dict | list) and (inner := _names(part, f"{name}.")):
                remedy += f", which has the fields {', '.join(inner)[:300]}: set fields.text of the spec to one of them"
            return bad_record(records, start, end, "wrong_type", remedy, field=name)
    text = "\n\n".join(filter(None, (tidy(part) for part in parts if part)))
    document = Document(
        id=document_id(spec.source, values["id"] or native_id(records, start)),
        source=spec.source,
        text=text,
        title=values["title"],
        outlet=values["outlet"] or spec.outlet,
        category=values["category"] or category_of_folder(spec, records.file) or spec.category,
        url=values["url"],
        published=values["published"],
    )
    return document if text else Dropped(document, Drop("empty"))


def _metadata(value: object, *, may_be_several: bool) -> tuple[str, bool]:
    """Return a title or other metadata as text, that of a list separated by commas, and whether it is there but cannot be read:
    it is an object, or a list of objects, of several addresses, or of long texts."""
    each = [one for one in _flat([value]) if one != ""]
    texts = [one_line(str(one)) for one in each if not isinstance(one, dict)]
    is_listable = len(texts) < 2 or (may_be_several and sum(map(len, texts)) <= _MAX_LISTED_CHARACTERS)
    if len(texts) < len(each) or not is_listable:
        return "", True
    return ", ".join(texts), False


def missing_text_remedy(name: str, present: Iterable[str], header: str = "") -> str:
    """Return the remedy for a record or file that has the fields ``present``, but no text in the field ``name``.

    ``header`` is the first row of a table.
    """
    names = list(present)
    if not names:
        return NO_FIELDS_REMEDY
    have = f"the record has the fields {', '.join(names)[:300]}"
    if name in names:
        return f"it is null here; {have}: if another holds its text, move that into {name}"
    remedy = (
        f"{have}: set fields.text of the spec where all records have their text in another, and rename it {name} where some do"
    )
    if delimiter := next((mark for mark in ";\t|" if len(names) == 1 and mark in header.strip()), ""):
        return f"{remedy}, or delimiter = {json.dumps(delimiter)}"
    return f"{remedy}; if these are the first record of a file without a header, set columns" if header else remedy


def field_of(value: object, name: str) -> object:
    """Return the field ``name`` of a record, or what the dots of its name lead to: ``meta.title`` is ``title`` of ``meta``.

    In a list, that of each record, without what is missing.
    """
    if isinstance(value, list):
        each_field = [each for each in (field_of(each, name) for each in value) if not is_missing(each)]
        return each_field or None
    if not isinstance(value, dict):
        return None
    if name in value or "." not in name:
        return value.get(name)
    for dot in re.finditer(r"\.", name):
        inner = value.get(name[: dot.start()])
        if isinstance(inner, dict | list) and (found := field_of(inner, name[dot.end() :])) is not None:
            return found
    return None


def _text_of(value: object) -> Any:
    """Return None for a missing text, and the texts of a list as paragraphs."""
    if isinstance(value, list):
        items = list(_flat(value))
        if all(isinstance(item, str) for item in items):
            return "\n\n".join(items) if items else None
    return None if is_missing(value) else value


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        elif not is_missing(value):
            yield value


def _names(value: object, parent: str = "") -> list[str]:
    """Return the names of all fields, with those in the records that they hold."""
    if isinstance(value, list):
        return _names(next((each for each in value if isinstance(each, dict)), None), parent)
    if not isinstance(value, dict):
        return []
    return [name for key, inner in value.items() for name in _names(inner, f"{parent}{key}.") or [f"{parent}{key}"]]


def is_missing(value: object) -> bool:
    """Return whether a field is null, or NaN, which pandas writes for it."""
    return value is None or (isinstance(value, float) and isnan(value))


def category_of_folder(spec: ExtractSpec, file: str) -> str:
    """Return the category that ``category_by_folder`` gives to the folder of a file, or the folder itself."""
    if not spec.category_by_folder:
        return ""
    folders = file.replace("::", "/").split("/")[:-1]
    folder = composed(folders[-1]) if folders else ""
    return spec.category_by_folder.get(folder, folder)
