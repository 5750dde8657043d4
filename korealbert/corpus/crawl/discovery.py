"""How a crawl gets to know URLs: the listings of its source, what they name, and where redirects lead."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from korealbert.corpus.crawl import listing as listings
from korealbert.corpus.crawl.frontier import Frontier, Kind, Known
from korealbert.corpus.crawl.listing import Entry
from korealbert.corpus.crawl.source import Source
from korealbert.corpus.crawl.spec import CrawlSpec
from korealbert.corpus.crawl.urls import MAX_URL_CHARS, PageUrl, article_url, page_url


class Discovery:
    """Adds URLs to the frontier, refused at once where host, pattern or date say so."""

    def __init__(self, spec: CrawlSpec, source: Source, frontier: Frontier) -> None:
        self._spec, self._source, self._frontier = spec, source, frontier

    def seed(self) -> None:
        """Every listing of the source, for every day and section of the window."""
        first, last = date.fromisoformat(self._spec.first_day), date.fromisoformat(self._spec.last_day)
        with self._frontier.transaction():
            for number, listing in enumerate(self._source.listing):
                for day in listing.days(first, last):
                    for section in listing.sections or [""]:
                        self._add_listing(number, day, section, 1, None)

    def read(self, known: Known, body: bytes, content_type: str) -> list[bool]:
        """Take in a listing; for each page that it names, whether it is news. Raises UnreadableListing."""
        if known.kind == "sitemap":
            return self._read_sitemap(known, body)
        if known.kind == "rss":
            return [self._named(known, entry) for entry in listings.feed_entries(body)]
        return self._read_archive(known, body, content_type)

    def redirected(self, known: Known, page: PageUrl) -> int | None:
        """The id of the article that a redirect leads to."""
        entry = Entry(page.url, published=known.published, section=known.section)
        return self._article(page, entry, known, hops=known.hops + 1) or self._frontier.id_of(page.key)

    def _add_listing(self, number: int, day: date | None, section_key: str, page_number: int, parent: int | None) -> None:
        listing = self._source.listing[number]
        page = page_url(listing.address(day=day, section=section_key, page=page_number), self._source)
        if page is not None:
            facts = {"listing": number, "page": page_number, "day": day.isoformat() if day else ""}
            section = listing.sections.get(section_key, "")
            self._learn(page, listing.kind, parent, section_key=section_key, section=section, **facts)

    def _read_sitemap(self, known: Known, body: bytes) -> list[bool]:
        listing = self._source.listing[known.listing or 0]
        named = []
        for entry in listings.sitemap_entries(body):
            if not entry.index:
                named.append(self._named(known, entry))
                continue
            page = page_url(entry.url, self._source, base=known.url)
            if page is None:
                named.append(self._unusable(entry.url, "sitemap", known))
                continue
            facts: dict[str, Any] = {"listing": known.listing}
            if not re.search(listing.follow, entry.url):
                facts |= {"state": "refused", "reason": "not_followed"}
            elif self._spec.outside_window(modified=entry.modified):
                facts |= {"state": "refused", "reason": "outside_window"}
            named.append(self._learn(page, "sitemap", known.id, **facts) is not None)
        return named

    def _read_archive(self, known: Known, body: bytes, content_type: str) -> list[bool]:
        named = []
        for link in dict.fromkeys(listings.page_links(body, content_type, known.url)):
            page = page_url(link, self._source)
            if page is not None and article_url(page.url, self._source) is not None:
                named.append(self._article(page, Entry(link, section=known.section), known) is not None)
        listing = self._source.listing[known.listing or 0]
        if any(named) and listing.paged and known.page < listing.max_pages:
            day = date.fromisoformat(known.day) if known.day else None
            self._add_listing(known.listing or 0, day, known.section_key, known.page + 1, known.id)
        return named

    def _named(self, known: Known, entry: Entry) -> bool:
        page = page_url(entry.url, self._source, base=known.url)
        return self._unusable(entry.url, "article", known) if page is None else self._article(page, entry, known) is not None

    def _unusable(self, reference: str, kind: Kind, parent: Known) -> bool:
        """Log what is no web address (``mailto:``, a broken host, thousands of characters)."""
        shown = reference[:MAX_URL_CHARS]
        return (
            self._frontier.add(f"no address {shown}", shown, kind, parent=parent.id, state="refused", reason="no_address")
            is not None
        )

    def _article(self, page: PageUrl, entry: Entry, parent: Known, hops: int = 0) -> int | None:
        """Get to know an article; its id if it is news."""
        facts: dict[str, Any] = {"section": entry.section or parent.section, "published": entry.published, "hops": hops}
        told = article_url(page.url, self._source)
        if told is None:
            facts |= {"state": "refused", "reason": "no_article"}
        else:
            facts |= {"section": facts["section"] or told.section, "published": facts["published"] or told.published}
            if self._spec.outside_window(facts["published"], entry.modified):
                facts |= {"state": "refused", "reason": "outside_window"}
        return self._learn(page, "article", parent.id, **facts)

    def _learn(self, address: PageUrl, kind: Kind, parent: int | None, **facts: Any) -> int | None:
        if not self._source.allows(address.host):
            facts |= {"state": "refused", "reason": "host_not_allowed"}
        key = address.key if kind == "article" else f"{kind} {address.key}"
        return self._frontier.add(key, address.url, kind, parent=parent, **facts)
