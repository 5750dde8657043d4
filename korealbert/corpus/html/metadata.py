"""Reads what a page states about itself in JSON-LD, OpenGraph and meta tags, and in bylines and date lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import unescape
from typing import Any

from korealbert.corpus.readers.dates import iso_date
from korealbert.corpus.readers.records import one_line

_ARTICLE_TYPES = (
    *("article", "newsarticle", "reportagenewsarticle", "opinionnewsarticle", "analysisnewsarticle", "backgroundnewsarticle"),
    *("reviewnewsarticle", "blogposting", "liveblogposting"),
)
_TITLES = ("headline", "og:title", "twitter:title", "title", "dable:title")
_SECTIONS = ("article:section", "content_category", "section", "og:article:section", "dable:section", "category")
_PUBLISHED = (
    *("article:published_time", "og:article:published_time", "article:published", "datepublished", "pubdate", "publish-date"),
    *("publishdate", "dc.date.issued", "dc.date", "date", "regdate", "parsely-pub-date", "sailthru.date"),
)
_AUTHORS = ("author", "dable:author", "byl", "article:author", "og:article:author", "twitter:creator", "dc.creator")
_DATE_LINE = re.compile(
    r"(?:기사 ?)?(?:최초 ?)?(?:입력|등록|승인|작성|게재|발행|송고|게시) ?(?:일시|일자|시간|일)? ?[:：|]? ?"
    r"(\d{4}) ?[-./년] ?(\d{1,2}) ?[-./월] ?(\d{1,2}) ?(?:일|\.)? ?"
    r"(?:\([^)\d]{1,3}\) ?)?(?:(오전|오후|AM|PM)? ?(\d{1,2}):(\d{2}))?",
    re.IGNORECASE,
)
_SITE_SEPARATOR = re.compile(r"\s*(?:[|ㅣ│:]|\s[-–—]|-(?=[가-힣A-Za-z·/]{1,12}[|ㅣ│]))\s*")
_LEADING_BRACKETS = re.compile(r"[\[(<【]\s*(?P<name>[^\])>】]{1,20}?)\s*[\])>】]\s*(?=\S)")


@dataclass(slots=True)
class Article:
    """An article and what its page states about it; empty strings for what the page does not state."""

    title: str
    outlet: str
    section: str
    published: str
    """ISO 8601, as precise as the page is."""
    authors: tuple[str, ...]
    url: str
    """The address that the page declares as its own."""
    body: str
    """The text in its JSON-LD."""
    declared: bool
    """Whether the page declares itself an article or a book."""
    is_book: bool
    """Whether it declares itself a book, so that ``body`` is the blurb."""
    text: str = ""
    """Paragraphs, separated by blank lines."""


def read_metadata(tree: Any, outlet: str = "") -> Article:
    """Read what a page (an lxml tree) states; ``outlet`` is the name of the site, if known. Never raises."""
    tags = _tags(tree)
    objects = list(_json_ld_objects(tree))
    nodes = {item["@id"]: item for item in objects if isinstance(item.get("@id"), str) and len(item) > 1}
    article = next((item for item in objects if _is_a(item, _ARTICLE_TYPES)), {})
    book = next((item for item in objects if _is_a(item, ("book",))), {})
    site = _text(tags, ("og:site_name", "application-name"))
    outlet = _name_of(_resolved(article.get("publisher"), nodes)) or site or outlet
    heading = one_line(next((node.text_content() for node in tree.xpath("//h1") if node.text_content().strip()), ""))
    title = _string_of(article.get("headline")) or _string_of(book.get("name")) or _text(tags, _TITLES[:1])
    shown_title = _text(tags, _TITLES[1:]) or one_line(next((node.text_content() for node in tree.iter("title")), ""))
    return Article(
        title=title or _without_site(shown_title, {outlet, site}, heading) or heading,
        outlet=outlet,
        section=_text(tags, _SECTIONS)
        or _string_of(article.get("articleSection"))
        or _breadcrumb_section(objects, nodes, {outlet, site, heading, title}),
        published=_published(tree, tags, article),
        authors=_authors(tags, article, nodes, {outlet, site}),
        url=_address(tree, tags),
        body=_string_of(article.get("articleBody"), lines=True) or _string_of(book.get("description"), lines=True),
        declared=bool(article or book) or _text(tags, ("og:type",)).lower() == "article",
        is_book=bool(book) and not article,
    )


def date_line(text: str) -> str:
    """Return the date after 입력, 등록 or a similar word, as in older pages, or an empty string."""
    found = _DATE_LINE.search(text)
    if found is None:
        return ""
    year, month, day, half, hour, minute = found.groups()
    clock = "" if hour is None else f" {(half or '').upper()} {hour}:{minute}"
    return iso_date(f"{year}-{month}-{day}{clock}")


def _tags(tree: Any) -> dict[str, list[str]]:
    """Return the contents of the meta tags by lower-case name, property or itemprop."""
    tags: dict[str, list[str]] = {}
    for node in tree.iter("meta"):
        content = node.get("content")
        if content and content.strip():
            for name in {(node.get(kind) or "").strip().lower() for kind in ("property", "name", "itemprop")} - {""}:
                tags.setdefault(name, []).append(content)
    return tags


def _text(tags: dict[str, list[str]], names: tuple[str, ...]) -> str:
    return next((_string_of(tags[name][0]) for name in names if name in tags and _string_of(tags[name][0])), "")


def _without_site(title: str, sites: set[str], heading: str) -> str:
    """Return a title without the names of the site and of a section after it."""
    if heading and title.startswith(heading):
        return heading
    names = {name.replace(" ", "") for name in sites if name}
    front = _LEADING_BRACKETS.match(title)
    if front and front["name"].replace(" ", "") in names:
        title = title[front.end() :]
    parts, marks = _SITE_SEPARATOR.split(title), list(_SITE_SEPARATOR.finditer(title))
    first = next((index for index, part in enumerate(parts) if index and part.replace(" ", "") in names), 0)
    if not first:
        return title
    if first >= 2 and " " not in parts[first - 1] and len(parts[first - 1]) <= 12:
        first -= 1  # a section between title and site
    return title[: marks[first - 1].start()].strip()


def _published(tree: Any, tags: dict[str, list[str]], article: dict[str, Any]) -> str:
    candidates = [_string_of(article.get("datePublished"))]
    candidates += [value for name in _PUBLISHED for value in tags.get(name, ())]
    candidates += tree.xpath("//time[@pubdate or @itemprop='datePublished']/@datetime")
    return next((day for value in candidates if (day := iso_date(one_line(value)))), "")


def _authors(
    tags: dict[str, list[str]], article: dict[str, Any], nodes: dict[str, dict[str, Any]], outlets: set[str]
) -> tuple[str, ...]:
    listed = _resolved(article.get("author"), nodes)
    named = [
        item.get("name") if isinstance(item, dict) else item for item in (listed if isinstance(listed, list) else [listed])
    ]
    found = _people([name for name in named if isinstance(name, str)], outlets)
    for name in _AUTHORS:
        found = found or _people(tags.get(name, []), outlets)
    return found


def _address(tree: Any, tags: dict[str, list[str]]) -> str:
    links = tree.xpath("//link[translate(@rel, 'CANOIL', 'canoil') = 'canonical']/@href")
    addresses = (one_line(link) for link in [*links, *tags.get("og:url", [])])
    return next((address for address in addresses if address.startswith(("http://", "https://"))), "")


_HOME_PAGES = frozenset(("홈", "home", "main", "메인", "처음", "뉴스", "news", "전체", "전체기사"))
_MAX_SECTION_CHARS = 20
"""A longer step of a breadcrumb is a title."""
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")


def _json_ld_objects(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a page's JSON-LD, including those of a graph and of ``mainEntity``; invalid JSON is skipped."""
    for node in tree.iter("script"):
        if "ld+json" in (node.get("type") or "").lower():
            yield from _objects(_lenient(node.text or ""))


def _lenient(text: str) -> Any:
    text = (
        text.strip()
        .removeprefix("<!--")
        .removesuffix("-->")
        .removeprefix("//<![CDATA[")
        .removesuffix("//]]>")
        .strip(" ;\n\r\t")
    )
    for attempt in (text, _TRAILING_COMMA.sub("", text)):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _objects(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > 4:
        return
    if isinstance(value, list):
        for item in value:
            yield from _objects(item, depth + 1)
    elif isinstance(value, dict):
        yield value
        for name in ("@graph", "mainEntity"):
            yield from _objects(value.get(name), depth + 1)


def _is_a(item: dict[str, Any], kinds: tuple[str, ...]) -> bool:
    """Return whether an object has one of the types, which are in lower case."""
    declared = item.get("@type")
    return any(
        isinstance(kind, str) and kind.lower() in kinds for kind in (declared if isinstance(declared, list) else [declared])
    )


def _resolved(value: Any, nodes: dict[str, dict[str, Any]]) -> Any:
    """Replace references (``{"@id": …}``) in a value of JSON-LD, or in a list of them, by the nodes of the page."""
    if isinstance(value, list):
        return [_resolved(item, nodes) if isinstance(item, dict) else item for item in value]
    is_reference = isinstance(value, dict) and set(value) <= {"@id", "@type"} and isinstance(value.get("@id"), str)
    return nodes.get(value["@id"], value) if is_reference else value


def _breadcrumb_section(objects: list[dict[str, Any]], nodes: dict[str, dict[str, Any]], excluded: set[str]) -> str:
    """Return the first step of the breadcrumb that is neither the home page nor the article."""
    for path in objects:
        steps = path.get("itemListElement") if _is_a(path, ("breadcrumblist",)) else None
        for step in steps if isinstance(steps, list) else []:
            item = step.get("item") if isinstance(step, dict) else None
            name = (_string_of(step.get("name")) or _name_of(_resolved(item, nodes))) if isinstance(step, dict) else ""
            if name and len(name) <= _MAX_SECTION_CHARS and name not in excluded and name.lower() not in _HOME_PAGES:
                return name
    return ""


def _string_of(value: Any, *, lines: bool = False) -> str:
    """Return a text, or the first one of a list, without entities; empty if there is none. On one line, unless ``lines``."""
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, str)), "")
    text = unescape(unescape(value)) if isinstance(value, str) else ""  # doubly escaped titles are common
    return text.strip() if lines else one_line(text)


def _name_of(value: Any) -> str:
    """Return the ``name`` of an object, or of the first one of a list."""
    if isinstance(value, list):
        value = value[0] if value else None
    return _string_of(value.get("name")) if isinstance(value, dict) else ""


_MAX_AUTHOR_CHARS = 30
_MAX_BYLINE_CHARS = 80
"""A longer line is a sentence that mentions a reporter."""
_MAX_TAG_CHARS = 400
"""Length of the beginning of a tag in which names are searched."""

_JOBS = r"(?:기자|특파원|논설위원|편집위원|칼럼니스트|객원기자|PD|앵커|에디터)"
_TRAILING_ROLE = re.compile(rf"(?:\s*[가-힣A-Za-z]*{_JOBS}(?:\s*외\s*\d+\s*명)?|\s*외\s*\d+\s*명)$")
_ADDRESS = re.compile(r"\S+@\S+|https?://\S+|@\w+")
_LEADING_MARKS = re.compile(r"^(?:By|글|기자)\s+|[=()\[\]<>]", re.IGNORECASE)
_NAME_SEPARATOR = re.compile(r"\s*(?:[,;·ㆍ・/|]|\band\b|&)\s*")
_BYLINE = re.compile(
    rf"[\[(<]?(?:[가-힣]{{2,4}}\s?=\s?)?(?P<names>[가-힣]{{2,4}}(?:\s?[·ㆍ・,]\s?[가-힣]{{2,4}})*)\s?[가-힣]{{0,3}}{_JOBS}[\])>]?"
    r"\s*[(\[<]?(?:\S+@\S+)?[)\]>]?\s*[=.]?"
)
_REPORTER_KINDS = (
    "본지 시민 사진 수습 선임 인턴 객원 전문 온라인 취재 편집 디지털 정치부 사회부 경제부 문화부 국제부 체육부 산업부"
)
_NOT_NAMES = frozenset(_REPORTER_KINDS.split(" "))
_BYLINE_PATHS = "|".join(
    f"//*[contains(@class, '{name}') or contains(@id, '{name}')]" for name in ("byline", "reporter", "writer", "journalist")
)


def clean_author(name: str) -> str:
    """Return a person's name without title, address and number of colleagues; empty if it is not a name."""
    name = one_line(_LEADING_MARKS.sub(" ", _ADDRESS.sub("", name)))
    while (shorter := _TRAILING_ROLE.sub("", name)) != name:
        name = shorter.strip()
    words = name.split()
    if len(words) > 1 and all(re.fullmatch("[가-힣]+", word) for word in words):
        name = words[-1]  # a place may come before the name
    return name if 1 < len(name) <= _MAX_AUTHOR_CHARS else ""


def _people(values: Iterable[str], outlets: set[str]) -> tuple[str, ...]:
    """Return the distinct names in tags that name authors, without the newspaper itself."""
    lines = (one_line(unescape(value[:_MAX_TAG_CHARS])) for value in values)
    names = [clean_author(part) for line in lines for part in _NAME_SEPARATOR.split(_ADDRESS.sub("", line))]
    return tuple(dict.fromkeys(name for name in names if name and name not in outlets))


def byline(tree: Any, paragraphs: list[str]) -> tuple[str, ...]:
    """Return the names in elements for bylines, or else in one of the first or last lines of the article that is a byline."""
    marked = (one_line(node.text_content()) for node in tree.xpath(_BYLINE_PATHS))
    for line in (*marked, *paragraphs[:2], *reversed(paragraphs[-3:])):
        found = _BYLINE.fullmatch(line) if len(line) <= _MAX_BYLINE_CHARS else None
        if found and not _NOT_NAMES & set(names := re.split(r"\s?[·ㆍ・,]\s?", found["names"])):
            return tuple(dict.fromkeys(names))
    return ()
