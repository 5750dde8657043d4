"""Finds the URLs of a crawl in sitemaps, feeds, archive pages and redirects, with their dates and sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from typing import Any

from lxml import etree
from lxml import html as lxml_html

from korealbert.corpus.crawl.frontier import Frontier, Kind, KnownUrl
from korealbert.corpus.crawl.source import MAX_URL_CHARS, PageUrl, Source, article_url, page_url
from korealbert.corpus.crawl.stage import CrawlSpec
from korealbert.corpus.html.encoding import decode_page
from korealbert.corpus.readers.dates import iso_date
from korealbert.corpus.readers.records import one_line

_PREFIX = re.compile(r"(?:\{[^}]*\})?(?:[^:]*:)?")
"""Matches ``{namespace}`` or ``prefix:`` before the name of an element, or nothing."""
_BARE_AMPERSAND = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|&(?!#\d+;|#[xX][0-9A-Fa-f]+;|[A-Za-z]\w*;)", re.DOTALL
)
"""Matches ``&`` that begins no reference, and whole sections in which ``&`` is allowed."""


class UnreadableListing(ValueError):
    """A listing of another format than its source states."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One address of a listing."""

    url: str
    published: str = ""
    """ISO date of publication, if the listing states it."""
    modified: str = ""
    """ISO date of the last change; the page is not newer."""
    section: str = ""
    index: bool = False
    """Whether it is a further sitemap, not a page."""


def sitemap_entries(data: bytes) -> Iterator[Entry]:
    """Yield the entries of a sitemap, of a sitemap index, or of a plain list of addresses."""
    text = decode_page(data).text.lstrip()
    if not text.startswith("<"):
        lines = text.split()
        if not all(line.startswith(("http://", "https://")) for line in lines):
            raise UnreadableListing("neither XML nor a list of addresses")
        yield from (Entry(line) for line in lines)
        return
    for element in _elements(data, "sitemap", ("urlset", "sitemapindex"), ("url", "sitemap")):
        values: dict[str, str] = {}
        for parent in (element, *(child for child in _children(element) if _name(child) == "news")):
            values |= {_name(child): (child.text or "").strip() for child in _children(parent)}
        if values.get("loc"):
            published = iso_date(values.get("publication_date", ""))[:10]
            yield Entry(values["loc"], published, iso_date(values.get("lastmod", ""))[:10], index=_name(element) == "sitemap")


def feed_entries(data: bytes) -> Iterator[Entry]:
    """Yield the entries of an RSS or Atom feed."""
    for element in _elements(data, "feed", ("rss", "RDF", "feed"), ("item", "entry")):
        values: dict[str, str] = {}
        for child in _children(element):
            text = (child.text or "").strip() or (child.get("href") or child.get("term") or "")
            if not (_name(child) == "link" and child.get("rel", "alternate") != "alternate"):
                values.setdefault(_name(child), text)
        link = values.get("link") or values.get("guid", "")
        if link:
            published = iso_date(values.get("pubDate") or values.get("date") or values.get("published", ""))[:10]
            yield Entry(link, published, iso_date(values.get("updated", ""))[:10], one_line(values.get("category", "")))


def page_links(data: bytes, content_type: str, url: str) -> list[str]:
    """Return all links of an HTML page as absolute URLs, in document order."""
    text = decode_page(data, content_type).text
    try:
        tree = lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=lxml_html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, etree.XMLSyntaxError):
        return []
    bases = tree.xpath("//base/@href")
    tree.make_links_absolute(bases[0] if bases else url, handle_failures="discard")
    return [str(link) for link in tree.xpath("//a/@href | //area/@href")]


def _elements(data: bytes, what: str, roots: tuple[str, ...], wanted: tuple[str, ...]) -> Iterator[Any]:
    """Yield the wanted elements of an XML file, which may be damaged, without resolving entities or using the network."""
    source, root, found = BytesIO(_as_utf8(data)), "", False
    options: dict[str, Any] = {"recover": True, "resolve_entities": False, "no_network": True, "load_dtd": False}
    try:
        for event, element in etree.iterparse(source, events=("start", "end"), **options):
            name = _name(element) if isinstance(element.tag, str) else ""
            root = root or name
            if event == "end" and name in wanted:
                found = True
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        if root not in roots:
            raise UnreadableListing(f"not XML ({error})") from None
    if not found and root not in roots:
        raise UnreadableListing(f"no {what}")


def _as_utf8(data: bytes) -> bytes:
    """Convert to UTF-8, remove the declaration, which may be wrong, and escape ``&`` where the site did not."""
    text = decode_page(data).text.lstrip()
    if text.startswith("<?xml"):
        text = text.partition("?>")[2]
    text = _BARE_AMPERSAND.sub(lambda found: "&amp;" if found[0] == "&" else found[0], text)
    return text.encode("utf-8", "replace")


def _children(element: Any) -> list[Any]:
    """Return the child elements, those of the element's own namespace first: ``<link>`` before ``<media:link>``."""
    children = [child for child in element if isinstance(child.tag, str)]
    return sorted(children, key=lambda child: _prefix(child) != _prefix(element))


def _name(element: Any) -> str:
    """Return the name without namespace or undeclared prefix."""
    return str(element.tag).removeprefix(_prefix(element))


def _prefix(element: Any) -> str:
    return _PREFIX.match(element.tag)[0]  # type: ignore[index]  # matches everything


class Discovery:
    """Adds URLs to the frontier, as refused if their host, pattern or date is not allowed."""

    def __init__(self, spec: CrawlSpec, source: Source, frontier: Frontier) -> None:
        self._spec, self._source, self._frontier = spec, source, frontier

    def seed(self) -> None:
        """Add every listing of the source, for every day and section of the window."""
        first, last = date.fromisoformat(self._spec.first_day), date.fromisoformat(self._spec.last_day)
        with self._frontier.transaction():
            for number, listing in enumerate(self._source.listing):
                for day in listing.days(first, last):
                    for section in listing.sections or [""]:
                        self._add_listing(number, day, section, 1, None)

    def read(self, known: KnownUrl, body: bytes, content_type: str) -> list[bool]:
        """Add the URLs of a listing; return for each whether it is new. Raises UnreadableListing."""
        if known.kind == "sitemap":
            return self._read_sitemap(known, body)
        if known.kind == "rss":
            return [self._add_page(known, entry) for entry in feed_entries(body)]
        return self._read_archive(known, body, content_type)

    def redirected(self, known: KnownUrl, page: PageUrl) -> int | None:
        """Add the article to which a redirect leads, and return its id."""
        entry = Entry(page.url, published=known.published, section=known.section)
        return self._article(page, entry, known, hops=known.hops + 1) or self._frontier.id_of(page.key)

    def _add_listing(self, number: int, day: date | None, section_key: str, page_number: int, parent: int | None) -> None:
        listing = self._source.listing[number]
        page = page_url(listing.address(day=day, section=section_key, page=page_number), self._source)
        if page is not None:
            facts = {"listing": number, "page": page_number, "day": day.isoformat() if day else ""}
            section = listing.sections.get(section_key, "")
            self._add(page, listing.kind, parent, section_key=section_key, section=section, **facts)

    def _read_sitemap(self, known: KnownUrl, body: bytes) -> list[bool]:
        listing = self._source.listing[known.listing or 0]
        named = []
        for entry in sitemap_entries(body):
            if not entry.index:
                named.append(self._add_page(known, entry))
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
            named.append(self._add(page, "sitemap", known.id, **facts) is not None)
        return named

    def _read_archive(self, known: KnownUrl, body: bytes, content_type: str) -> list[bool]:
        named = []
        for link in dict.fromkeys(page_links(body, content_type, known.url)):
            page = page_url(link, self._source)
            if page is not None and article_url(page.url, self._source) is not None:
                named.append(self._article(page, Entry(link, section=known.section), known) is not None)
        listing = self._source.listing[known.listing or 0]
        if any(named) and "page" in listing.placeholders and known.page < listing.max_pages:
            day = date.fromisoformat(known.day) if known.day else None
            self._add_listing(known.listing or 0, day, known.section_key, known.page + 1, known.id)
        return named

    def _add_page(self, known: KnownUrl, entry: Entry) -> bool:
        page = page_url(entry.url, self._source, base=known.url)
        return self._unusable(entry.url, "article", known) if page is None else self._article(page, entry, known) is not None

    def _unusable(self, reference: str, kind: Kind, parent: KnownUrl) -> bool:
        """Record something that is not a web address (``mailto:``, a malformed host, thousands of characters)."""
        shown, facts = reference[:MAX_URL_CHARS], {"parent": parent.id, "state": "refused", "reason": "no_address"}
        return self._frontier.add(f"no address {shown}", shown, kind, **facts) is not None

    def _article(self, page: PageUrl, entry: Entry, parent: KnownUrl, hops: int = 0) -> int | None:
        """Add an article; return its id if it is new."""
        facts: dict[str, Any] = {"section": entry.section or parent.section, "published": entry.published, "hops": hops}
        stated = article_url(page.url, self._source)
        if stated is None:
            facts |= {"state": "refused", "reason": "no_article"}
        else:
            facts |= {"section": facts["section"] or stated.section, "published": facts["published"] or stated.published}
            if self._spec.outside_window(facts["published"], entry.modified):
                facts |= {"state": "refused", "reason": "outside_window"}
        return self._add(page, "article", parent.id, **facts)

    def _add(self, address: PageUrl, kind: Kind, parent: int | None, **facts: Any) -> int | None:
        if not self._source.allows(address.host):
            facts |= {"state": "refused", "reason": "host_not_allowed"}
        key = address.key if kind == "article" else f"{kind} {address.key}"
        return self._frontier.add(key, address.url, kind, parent=parent, **facts)
