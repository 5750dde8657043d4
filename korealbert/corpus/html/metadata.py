"""What a page says about itself: JSON-LD, OpenGraph and meta tags, and for older pages the date line in its text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from korealbert.corpus.html.bylines import people
from korealbert.corpus.html.linked_data import breadcrumb_section, is_a, linked_objects, name_of, referred, string_of
from korealbert.corpus.readers.records import iso_date, one_line

_ARTICLE_TYPES = (
    *("article", "newsarticle", "reportagenewsarticle", "opinionnewsarticle", "analysisnewsarticle", "backgroundnewsarticle"),
    *("reviewnewsarticle", "blogposting", "liveblogposting"),
)
_TITLES = ("headline", "og:title", "twitter:title", "title", "dable:title")
_SECTIONS = ("article:section", "content_category", "section", "og:article:section", "dable:section", "category")
_PUBLISHED = (
    "article:published_time",
    "og:article:published_time",
    "article:published",
    "datepublished",
    "pubdate",
    "publish-date",
    "publishdate",
    "dc.date.issued",
    "dc.date",
    "date",
    "regdate",
    "parsely-pub-date",
    "sailthru.date",
)
_AUTHORS = ("author", "dable:author", "byl", "article:author", "og:article:author", "twitter:creator", "dc.creator")
_DATE_LINE = re.compile(
    r"(?:기사 ?)?(?:최초 ?)?(?:입력|등록|승인|작성|게재|발행|송고|게시) ?(?:일시|일자|시간|일)? ?[:：|]? ?"
    r"(\d{4}) ?[-./년] ?(\d{1,2}) ?[-./월] ?(\d{1,2}) ?(?:일|\.)? ?"
    r"(?:\([^)\d]{1,3}\) ?)?(?:(오전|오후|AM|PM)? ?(\d{1,2}):(\d{2}))?",
    re.IGNORECASE,
)
_SUFFIX = re.compile(r"\s*(?:[|ㅣ│:]|\s[-–—]|-(?=[가-힣A-Za-z·/]{1,12}[|ㅣ│]))\s*")
_FRONT = re.compile(r"[\[(<【]\s*(?P<name>[^\])>】]{1,20}?)\s*[\])>】]\s*(?=\S)")


@dataclass(slots=True)
class Facts:
    """What a page says about itself; empty where it says nothing."""

    title: str = ""
    outlet: str = ""
    section: str = ""
    published: str = ""
    """ISO 8601, as precise as the page is."""
    authors: tuple[str, ...] = ()
    url: str = ""
    """The address that it calls its own."""
    body: str = ""
    """The text that its JSON-LD holds."""
    article: bool = False
    """Whether it declares itself an article."""
    book: bool = False
    """Whether it declares itself the page of a book, whose ``body`` is the blurb."""
    tags: dict[str, list[str]] = field(default_factory=dict, repr=False)


def read_facts(tree: Any, outlet: str = "") -> Facts:
    """Read a parsed page (an lxml tree); ``outlet`` is the site's name where it is known. Never raises on what pages hold."""
    tags = _tags(tree)
    linked = list(linked_objects(tree))
    nodes = {item["@id"]: item for item in linked if isinstance(item.get("@id"), str) and len(item) > 1}
    article = next((item for item in linked if is_a(item, _ARTICLE_TYPES)), {})
    book = next((item for item in linked if is_a(item, ("book",))), {})
    site = _text(tags, ("og:site_name", "application-name"))
    outlet = name_of(referred(article.get("publisher"), nodes)) or site or outlet
    heading = one_line(next((node.text_content() for node in tree.xpath("//h1") if node.text_content().strip()), ""))
    title = string_of(article.get("headline")) or string_of(book.get("name")) or _text(tags, _TITLES[:1])
    facts = Facts(
        title=title or _without_site(_text(tags, _TITLES[1:]) or _document_title(tree), {outlet, site}, heading) or heading,
        outlet=outlet,
        section=_section(tags, article) or breadcrumb_section(linked, nodes, {outlet, site, heading, title}),
        published=_published(tree, tags, article),
        authors=_authors(tags, article, nodes, {outlet, site}),
        url=_address(tree, tags),
        body=string_of(article.get("articleBody"), lines=True) or string_of(book.get("description"), lines=True),
        article=bool(article) or _text(tags, ("og:type",)).lower() == "article",
        book=bool(book) and not article,
        tags=tags,
    )
    return facts


def date_line(text: str) -> str:
    """The date that stands behind 입력, 등록 or the like on a line, as older pages have it; empty if there is none."""
    found = _DATE_LINE.search(text)
    if found is None:
        return ""
    year, month, day, half, hour, minute = found.groups()
    clock = ""
    if hour is not None:
        hours = int(hour) % 12 + 12 if half and half.upper() in ("오후", "PM") else int(hour)
        clock = f" {hours}:{minute}"
    return iso_date(f"{year}-{month}-{day}{clock}")


def _tags(tree: Any) -> dict[str, list[str]]:
    """Contents of the meta tags by lower-case name, property or itemprop."""
    tags: dict[str, list[str]] = {}
    for node in tree.iter("meta"):
        content = node.get("content")
        if content and content.strip():
            for name in {(node.get(kind) or "").strip().lower() for kind in ("property", "name", "itemprop")} - {""}:
                tags.setdefault(name, []).append(content)
    return tags


def _text(tags: dict[str, list[str]], names: tuple[str, ...]) -> str:
    return next((string_of(tags[name][0]) for name in names if name in tags and string_of(tags[name][0])), "")


def _document_title(tree: Any) -> str:
    node = next(tree.iter("title"), None)
    return "" if node is None else one_line(node.text_content())


def _without_site(title: str, sites: set[str], heading: str) -> str:
    """A title without the name of the site, and of a section, behind it."""
    if heading and title.startswith(heading):
        return heading
    parts = _SUFFIX.split(title)
    names = {name.replace(" ", "") for name in sites if name}
    front = _FRONT.match(title)
    if front and front["name"].replace(" ", "") in names:
        title = title[front.end() :]
        parts = _SUFFIX.split(title)
    if len(parts) > 1 and any(part.replace(" ", "") in names for part in parts[1:]):
        first = next(index for index, part in enumerate(parts) if index and part.replace(" ", "") in names)
        kept, position = parts[0], 0
        ends = list(_SUFFIX.finditer(title))
        position = ends[first - 1].start()
        kept = title[:position]
        if first >= 2 and title[ends[first - 2].end() : position].count(" ") == 0 and len(parts[first - 1]) <= 12:
            kept = title[: ends[first - 2].start()]  # a section between title and site
        return kept.strip()
    return title


def _section(tags: dict[str, list[str]], article: dict[str, Any]) -> str:
    return _text(tags, _SECTIONS) or string_of(article.get("articleSection"))


def _published(tree: Any, tags: dict[str, list[str]], article: dict[str, Any]) -> str:
    candidates = [string_of(article.get("datePublished"))]
    candidates += [value for name in _PUBLISHED for value in tags.get(name, ())]
    candidates += [
        node.get("datetime") or "" for node in tree.xpath("//time[@datetime][@pubdate or @itemprop='datePublished']")
    ]
    return next((day for value in candidates if (day := iso_date(one_line(value)))), "")


def _authors(
    tags: dict[str, list[str]], article: dict[str, Any], nodes: dict[str, dict[str, Any]], outlets: set[str]
) -> tuple[str, ...]:
    listed = referred(article.get("author"), nodes)
    named = [
        item.get("name") if isinstance(item, dict) else item for item in (listed if isinstance(listed, list) else [listed])
    ]
    found = people([name for name in named if isinstance(name, str)], outlets)
    for name in _AUTHORS:
        found = found or people(tags.get(name, []), outlets)
    return found


def _address(tree: Any, tags: dict[str, list[str]]) -> str:
    links = tree.xpath("//link[translate(@rel, 'CANOIL', 'canoil') = 'canonical']/@href")
    addresses = (one_line(link) for link in [*links, *tags.get("og:url", [])])
    return next((address for address in addresses if address.startswith(("http://", "https://"))), "")
