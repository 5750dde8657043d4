"""A site as data: which hosts, where its articles are listed, which URLs are articles, and how gently it is asked.

The files are ``data_specs/sources/*.toml``; no code is about a particular newspaper. Addresses of pages have a form that is
requested and a key that is equal for all addresses of one page; what an address says about its article follows from the source.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, quote, unquote_to_bytes, urljoin, urlsplit, urlunsplit

from pydantic import AfterValidator, Field, model_validator

from korealbert.artifact import Spec
from korealbert.artifact.spec import PRIVATE_HOSTS, read_toml
from korealbert.documents.schema import Category

_DROPPED_PARAMETERS = ("utm_*", "fbclid", "gclid", "igshid", "ref", "mc_cid", "mc_eid", "_ga")
"""Query parameters that say where a reader came from, not which page it is."""

MAX_URL_CHARS = 2000
_PORTS = {"http": 80, "https": 443}
_SAFE_PATH = "/!$&'()*+,;=:@-._~%"
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(rb"[A-Za-z0-9._~-]")
_CONTROLS = re.compile(r"[\x00-\x20\x7f]+")


def _is_pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


def _is_host(value: str) -> str:
    if value != value.lower() or not re.fullmatch(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[?[0-9a-f:.]+\]?", value):
        raise ValueError("expected a lower-case host name without scheme, port or path, or .example.org for all hosts below it")
    return value.strip("[]")


_Pattern = Annotated[str, AfterValidator(_is_pattern)]
_Host = Annotated[str, AfterValidator(_is_host)]


class _Listing(Spec):
    """One place where a site names its articles."""

    kind: Literal["sitemap", "rss", "archive"]
    """sitemap: XML, plain text or an index of further sitemaps, gzipped or not. rss: RSS or Atom. archive: HTML pages."""
    url: str = Field(pattern=r"^https?://")
    """
    An address. In an archive, ``{day:%Y%m%d}`` is replaced by each day (or month) of the window, ``{section}`` for each key of
    ``sections`` and ``{page}`` for 1, 2, 3 … until a page names no new article.
    """
    step: Literal["day", "month"] = "day"
    """Unit that ``{day}`` counts in."""
    sections: dict[str, str] = Field(default_factory=dict)
    """Values of ``{section}`` in the address → the section's name, which the articles found there inherit."""
    page_step: int = Field(default=1, ge=1)
    """Step of ``{page}``: 20 where a site counts in articles (1, 21, 41 …)."""
    max_pages: int = Field(default=200, ge=1)
    """Pages of one day and section at most."""
    follow: _Pattern = ""
    """sitemap: which addresses of an index are followed, searched for anywhere in them; all by default."""

    @model_validator(mode="after")
    def _fields_of_address(self) -> _Listing:
        named = {name for _, name, _, _ in Formatter().parse(self.url) if name is not None}
        if named and self.kind != "archive":
            raise ValueError(f"url: {self.kind} listings have no {{{sorted(named)[0]}}}")
        unknown = named - {"day", "section", "page"}
        if unknown:
            raise ValueError(f"url: unknown {{{sorted(unknown)[0]}}}; known are {{day}}, {{section}} and {{page}}")
        if ("section" in named) != bool(self.sections):
            raise ValueError("url and sections: {section} needs a table sections, and the other way round")
        return self

    @property
    def paged(self) -> bool:
        """Whether the address names a page."""
        return any(name == "page" for _, name, _, _ in Formatter().parse(self.url))

    def days(self, first: date, last: date) -> list[date | None]:
        """The days or months of a window that the address is made for; one None for an address without ``{day}``."""
        if not any(name == "day" for _, name, _, _ in Formatter().parse(self.url)):
            return [None]
        if self.step == "day":
            return [first + timedelta(days=passed) for passed in range((last - first).days + 1)]
        months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
        return [date(month // 12, month % 12 + 1, 1) for month in months]

    def address(self, *, day: date | None, section: str, page: int) -> str:
        """The address of one page of the listing."""
        values: dict[str, Any] = {"day": day, "section": section, "page": 1 + (page - 1) * self.page_step}
        return self.url.format(**values) if self.kind == "archive" else self.url


class Example(Spec):
    """An address of an article, with the date and section that the source must read from it."""

    url: str
    published: str = ""
    section: str = ""


class Source(Spec):
    """A site that articles are taken from."""

    outlet: str = Field(min_length=1)
    """The name that documents have as their outlet."""
    tested: bool = False
    """Whether the listings and patterns were tried against the live site."""
    note: str = ""
    """Remark that a person should know before using it."""
    hosts: tuple[_Host, ...] = Field(min_length=1)
    """Allow-list: no other host is ever asked, not even by a redirect. ``.example.org`` allows all hosts below it."""
    private_hosts: Annotated[tuple[_Host, ...], PRIVATE_HOSTS] = ()
    """Hosts that may be at a private address (loopback, a local network); all others must resolve to public ones."""
    article: _Pattern
    """
    Matches the whole address of an article. Named groups: ``date`` (20190131 or 2019-01-31) or ``year``, ``month``, ``day``
    date it; ``section`` is looked up in ``sections``.
    """
    sections: dict[str, str] = Field(default_factory=dict)
    """Text that the article pattern captures as ``section`` → the name of the section."""
    categories: dict[Category, tuple[str, ...]] = Field(default_factory=dict)
    """Category → names of sections; a section not listed here keeps its name."""
    listing: tuple[_Listing, ...] = Field(min_length=1)
    """Pages on which the articles are listed."""
    drop_parameters: tuple[str, ...] = _DROPPED_PARAMETERS
    """Query parameters that do not distinguish pages; a trailing ``*`` matches any ending."""
    trust_canonical: bool = True
    """Take pages that declare the same ``rel=canonical`` address for one page."""
    examples: tuple[Example, ...] = ()
    """Addresses that the article pattern must match; a test holds every source to its own."""
    counterexamples: tuple[str, ...] = ()
    """Addresses of the site that it must not match."""
    robots: bool = True
    """Obey robots.txt. Turn it off only for a site of your own."""
    verify_certificates: bool = True
    """Ask only servers whose TLS certificate is valid. Sites with a broken chain of certificates exist."""
    delay_seconds: float = Field(default=1.0, ge=0)
    """Between two requests to one host; a longer ``Crawl-delay`` of its robots.txt wins."""
    concurrency: int = Field(default=2, ge=1, le=64)
    """Requests to one host at a time."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """Time for one answer."""
    retries: int = Field(default=4, ge=0)
    """Further tries after a lost connection, a timeout, a truncated body, or status 408, 425, 429 or 5xx."""
    backoff_seconds: float = Field(default=5.0, ge=0)
    """Wait before the first retry; it doubles with each, up to ten minutes. A longer ``Retry-After`` of the server wins."""
    max_redirects: int = Field(default=5, ge=0)
    """Redirects in a row that are followed."""
    max_page_bytes: int = Field(default=8 << 20, ge=1024)
    """Largest page, before and after decompression."""
    max_listing_bytes: int = Field(default=64 << 20, ge=1024)
    """Largest listing, before and after decompression. The sitemap protocol allows 50 MiB."""

    @model_validator(mode="after")
    def _categories_are_a_map(self) -> Source:
        seen: dict[str, str] = {}
        for category, names in self.categories.items():
            for name in names:
                if seen.setdefault(name, category) != category:
                    raise ValueError(f"categories: section {name!r} is listed under {seen[name]} and {category}; keep one")
        return self

    def allows(self, host: str) -> bool:
        """Whether a host may be asked."""
        return _listed(host, self.hosts)

    def may_be_private(self, host: str) -> bool:
        """Whether a host may be at a private address."""
        return _listed(host, self.private_hosts)


def _listed(host: str, hosts: tuple[str, ...]) -> bool:
    return any(host == allowed or (allowed.startswith(".") and host.endswith(allowed)) for allowed in hosts)


def load_source(path: Path, *, within: Path | None = None) -> Source:
    """Read a source file; with ``within``, the directory of a stranger, it may name no private hosts.

    Raises ValueError naming file and field.
    """
    return read_toml(path, Source, "a source file", within=within)


@dataclass(frozen=True, slots=True)
class PageUrl:
    """One page of a site."""

    url: str
    """The address that is requested: no fragment, no tracking parameters."""
    key: str
    """Equal for addresses of one page: no scheme, sorted query."""
    host: str


def page_url(reference: str, source: Source, base: str = "") -> PageUrl | None:
    """The page that a link means, or None where it is not a web address (``javascript:``, ``mailto:``, a broken host)."""
    try:
        parts = urlsplit(_CONTROLS.sub("", urljoin(base, reference.strip())))
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").rstrip("."), parts.port
        host = host.encode("idna").decode("ascii") if not host.isascii() else host
    except (ValueError, UnicodeError):
        return None
    if scheme not in _PORTS or not host or parts.username is not None or parts.password is not None:
        return None
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in (None, _PORTS[scheme]) else f"{shown}:{port}"
    path = _clean_path(parts.path)
    kept = [pair for pair in parts.query.split("&") if pair and not _dropped(pair, source.drop_parameters)]
    query = "&".join(_escaped(pair) for pair in kept)
    url = urlunsplit(SplitResult(scheme, netloc, path, query, ""))
    if len(url) > MAX_URL_CHARS:
        return None
    key = urlunsplit(SplitResult("", netloc, path, "&".join(sorted(query.split("&"))), ""))
    return PageUrl(url, key, host)


def _clean_path(path: str) -> str:
    escaped = _escaped(path)
    if "/." in escaped or "//" in escaped:
        tail = "/" if escaped.endswith(("/", "/.", "/..")) else ""
        escaped = posixpath.normpath(escaped).lstrip("/")
        escaped = f"/{'' if escaped == '.' else escaped}"
        escaped += tail if not escaped.endswith("/") else ""
    return escaped or "/"


def _escaped(text: str) -> str:
    """Percent-encoding in one form: upper-case, and only where it is needed."""

    def one_form(found: re.Match[str]) -> str:
        byte = unquote_to_bytes(found[0])
        return byte.decode("ascii") if _UNRESERVED.match(byte) else found[0].upper()

    return quote(_ESCAPE.sub(one_form, text), safe=_SAFE_PATH + "?[]")


def _dropped(pair: str, dropped: tuple[str, ...]) -> bool:
    name = pair.partition("=")[0]
    return any(name == wanted or (wanted.endswith("*") and name.startswith(wanted[:-1])) for wanted in dropped)


@dataclass(frozen=True, slots=True)
class ArticleUrl:
    """Facts in the address of an article."""

    published: str
    """ISO date, or empty."""
    section: str
    """Name of the section, or empty."""


def article_url(url: str, source: Source) -> ArticleUrl | None:
    """Return the facts in an address, or None for one that is no article's."""
    found = _compiled(source.article).fullmatch(url)
    if found is None:
        return None
    groups = found.groupdict()
    digits = re.sub(r"\D", "", groups.get("date") or "")
    if not digits and groups.get("year"):
        digits = f"{groups['year']}{groups.get('month') or ''}{groups.get('day') or ''}"
    section = groups.get("section") or ""
    return ArticleUrl(_iso(digits), source.sections.get(section, section))


def _iso(digits: str) -> str:
    """2019, 201901 and 20190131 as ISO 8601; empty for anything else."""
    try:
        day = date(int(digits[:4]), int(digits[4:6] or 1), int(digits[6:8] or 1)).isoformat()
    except ValueError:
        return ""
    return {4: day[:4], 6: day[:7], 8: day}.get(len(digits), "")


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
