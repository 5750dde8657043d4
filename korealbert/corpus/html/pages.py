"""HTML pages → documents: files of one page each, and WARC records of answered requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from korealbert.corpus.html.article import Article, UnreadablePage, read_article
from korealbert.corpus.html.encoding import is_html
from korealbert.corpus.html.http_body import BodyError, decode_body
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.records import Dropped, Outcome, Tally, bad_record, category_of_folder, iso_date
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.corpus.readers.warc import Response, read_response
from korealbert.documents.schema import Document, Drop, document_id


@dataclass(frozen=True, slots=True)
class _Site:
    """What a crawl knows of its source."""

    outlet: str = ""
    category_of: tuple[tuple[str, str], ...] = ()
    first_day: str = ""
    last_day: str = ""

    def category(self, section: str) -> str:
        """The category of a section, or the section itself."""
        return next((category for name, category in self.category_of if name == section), section)

    def outside_window(self, published: str) -> bool:
        """Whether a date, as precise as it is known, lies outside the window of the crawl."""
        day = published[:10]
        return bool(day and self.first_day) and not self.first_day[: len(day)] <= day <= self.last_day[: len(day)]


@lru_cache(maxsize=8)
def _site_of(context: str) -> _Site:
    """The ``snapshot.json`` of a crawl, which batches of its WARC files carry as their context."""
    if not context:
        return _Site()
    facts = json.loads(context)
    pairs = tuple((name, category) for category, names in sorted(facts["categories"].items()) for name in names)
    return _Site(facts["outlet"], pairs, facts["first_day"], facts["last_day"])


def parse_html(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """One document per file."""
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
    yield _document(
        spec, records, (0, len(records.data)), article, _Site(spec.outlet), (records.file, article.url, section, ""), tally
    )


def parse_warc(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """One document per response record."""
    site = _site_of(records.context)
    for start, end in records.cuts:
        tally.records += 1
        response = read_response(records.data[start:end])
        if response is None:
            remedy = "it is no HTTP response: fetch the file again, the records around it were read"
            yield bad_record(records, start, end, "malformed_record", remedy)
        else:
            yield _page(spec, records, (start, end), response, site, tally)


def _page(
    spec: ExtractSpec, records: RawRecords, extent: tuple[int, int], response: Response, site: _Site, tally: Tally
) -> Outcome:
    if response.status != 200 or not is_html(response.body, response.content_type):
        identity = document_id(spec.source, f"{response.url} {records.file}@{records.byte + extent[0]}")
        rule = f"status {response.status}" if response.status != 200 else response.content_type
        drop = Drop("not_a_page" if response.status != 200 else "not_html", rule)
        return Dropped(Document(identity, spec.source, "", url=response.url), drop)
    try:
        body = decode_body(response.body, response.content_encoding, spec.limits.max_record_bytes)
        article = read_article(body, response.content_type, site.outlet or spec.outlet)
    except BodyError as fault:
        return bad_record(records, *extent, f"{fault.reason}_body", f"{response.url}: {fault.detail}; fetch it again")
    except UnreadablePage as fault:
        return bad_record(records, *extent, fault.reason, f"{response.url}: {fault}")
    section = unquote(response.headers.get("x-section", "")) or article.section
    facts = (response.url, response.url, section, iso_date(unquote(response.headers.get("x-published", ""))))
    return _document(spec, records, extent, article, site, facts, tally)


def _document(
    spec: ExtractSpec,
    records: RawRecords,
    extent: tuple[int, int],
    article: Article,
    site: _Site,
    facts: tuple[str, str, str, str],
    tally: Tally,
) -> Outcome:
    native_id, url, section, listed_day = facts
    published = article.published or listed_day
    document = Document(
        id=document_id(spec.source, native_id),
        source=spec.source,
        text=article.text,
        title=article.title,
        outlet=site.outlet or article.outlet or spec.outlet,
        category=site.category(section) or spec.category,
        url=url,
        published=published,
        authors=", ".join(article.authors),
    )
    for role in ("title", "outlet", "category", "url", "published"):
        if not getattr(document, role):
            tally.missing_fields[role] += 1
    if article.text:
        return Dropped(document, Drop("outside_window", published)) if site.outside_window(published) else document
    if not article.declared:
        return Dropped(document, Drop("empty"))
    remedy = f"{url or records.file}: it declares itself an article, but no main text was found; look at the page"
    return bad_record(records, *extent, "no_main_text", remedy)
