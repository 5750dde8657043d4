"""NamuWiki dumps: JSON records of namespace, title, text → documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from korealbert.corpus.markup.names import other_namespace
from korealbert.corpus.markup.namumark import extract_namumark
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.json import json_records
from korealbert.corpus.readers.records import UNREAD_SOURCE_CHARS, Dropped, Outcome, Tally, bad_record, one_line, tidy, writable
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document, Drop, Quarantined, document_id


def parse_namuwiki(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """One document per record; namespaces may be numbers or strings."""
    for start, end, record in json_records(records, tally):
        yield record if isinstance(record, Quarantined) else _outcome(spec, records, record, (start, end), tally)


def _outcome(spec: ExtractSpec, records: RawRecords, record: dict[str, Any], extent: tuple[int, int], tally: Tally) -> Outcome:
    for name in ("namespace", "title", "text"):
        value = record.get(name)
        if value is None:
            remedy = f"the record has the fields {', '.join(record)[:300]}: is this a NamuWiki dump?"
            return bad_record(records, *extent, "missing_field", remedy, field=name)
        if not isinstance(value, str) and not (name == "namespace" and isinstance(value, int)):
            remedy = f"expected a text, found {type(value).__name__}"
            return bad_record(records, *extent, "wrong_type", remedy, field=name)
    namespace, title, source = str(record["namespace"]), one_line(record["title"]), record["text"]
    tally.namespaces[writable(namespace)] += 1

    def document(text: str) -> Document:
        identity = document_id(spec.source, f"{namespace}:{title}")
        return Document(identity, spec.source, text, title, spec.outlet, spec.category)

    def dropped(drop: Drop) -> Dropped:
        tally.left_out(source)
        return Dropped(document(tidy(source[:UNREAD_SOURCE_CHARS])), drop)

    if namespace not in spec.article_namespaces:
        return dropped(Drop("namespace", f"namespace = {namespace!r}"))
    if unread := other_namespace(title):
        return dropped(unread)
    extracted = extract_namumark(source, spec.wiki)
    if extracted.redirect or not extracted.text:
        return dropped(Drop("redirect", "#redirect") if extracted.redirect else Drop("empty"))
    tally.extracted(source, extracted.text, extracted.lost)
    return document(extracted.text)
