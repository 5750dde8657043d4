"""Describes a site in a file of ``data_specs/sources/``: its hosts, listings, addresses of articles, and limits of requests.

No code is specific to a newspaper. The address of a page has a form that is requested, and a key that is the same for all
addresses of the page.
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
from korealbert.corpus.patterns import refuse_ruinous
from korealbert.documents.schema import Category

_DROPPED_PARAMETERS = ("utm_*", "fbclid", "gclid", "igshid", "ref", "mc_cid", "mc_eid", "_ga")
"""Query parameters that state where a reader came from."""

MAX_URL_CHARS = 2000
_PORTS = {"http": 80, "https": 443}
_SAFE_PATH = "/!$&'()*+,;=:@-._~%"
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(rb"[A-Za-z0-9._~-]")
_CONTROL_CHARS = re.compile(r"[\x00-\x20\x7f]+")


def _check_pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    refuse_ruinous(value, "pattern")
    return value


def _check_host(value: str) -> str:
    if value != value.lower() or not re.fullmatch(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[?[0-9a-f:.]+\]?", value):
        raise ValueError("expected a lower-case host name without scheme, port or path, or .example.org for all hosts below it")
    return value.strip("[]")


_Pattern = Annotated[str, AfterValidator(_check_pattern)]
_Host = Annotated[str, AfterValidator(_check_host)]


class _Listing(Spec):
    """A sitemap, feed or archive in which a site lists its articles."""

    kind: Literal["sitemap", "rss", "archive"]
    """sitemap: XML, plain text or an index of further sitemaps, gzipped or not. rss: RSS or Atom. archive: HTML pages."""
    url: str = Field(pattern=r"^https?://")
    """
    An address. In that of an archive, ``{day:%Y%m%d}`` is replaced by each day (or month) of the window, ``{section}`` by each
    key of ``sections``, and ``{page}`` by 1, 2, 3 … until a page lists no new article.
    """
    step: Literal["day", "month"] = "day"
    """Unit of ``{day}``."""
    sections: dict[str, str] = Field(default_factory=dict)
    """Value of ``{section}`` in the address → name of the section of the articles listed there."""
    page_step: int = Field(default=1, ge=1)
    """Step of ``{page}``: 20 if a site counts articles (1, 21, 41 …)."""
    max_pages: int = Field(default=200, ge=1)
    """Largest number of pages for one day and section."""
    follow: _Pattern = ""
    """sitemap: pattern that is searched in the addresses of an index; only matching ones are followed. Default: all."""

    @model_validator(mode="after")
    def _check_url(self) -> _Listing:
        if self.placeholders and self.kind != "archive":
            raise ValueError(f"url: {self.kind} listings have no {{{sorted(self.placeholders)[0]}}}")
        if unknown := sorted(self.placeholders - {"day", "section", "page"}):
            raise ValueError(f"url: unknown {{{unknown[0]}}}; known are {{day}}, {{section}} and {{page}}")
        if ("section" in self.placeholders) != bool(self.sections):
            raise ValueError("url and sections: {section} needs a table sections, and the other way round")
        return self

    @property
    def placeholders(self) -> set[str]:
        """Names in braces in the address."""
        return {name for _, name, _, _ in Formatter().parse(self.url) if name is not None}

    def days(self, first: date, last: date) -> list[date | None]:
        """Return the days or months of a window, or ``[None]`` if the address has no ``{day}``."""
        if "day" not in self.placeholders:
            return [None]
        if self.step == "day":
            return [first + timedelta(days=passed) for passed in range((last - first).days + 1)]
        months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
        return [date(month // 12, month % 12 + 1, 1) for month in months]

    def address(self, *, day: date | None, section: str, page: int) -> str:
        """Return the address of one page of the listing."""
        values: dict[str, Any] = {"day": day, "section": section, "page": 1 + (page - 1) * self.page_step}
        return self.url.format(**values) if self.kind == "archive" else self.url


class Example(Spec):
    """The address of an article, and the date and section that the patterns must find in it."""

    url: str
    published: str = ""
    section: str = ""


class Source(Spec):
    """A site that articles are taken from."""

    outlet: str = Field(min_length=1)
    """The outlet of the documents."""
    tested: bool = False
    """Whether the listings and patterns were tried on the live site."""
    note: str = ""
    """What one should know before using the source."""
    hosts: tuple[_Host, ...] = Field(min_length=1)
    """The only hosts that receive requests, also after redirects. ``.example.org`` allows all hosts below it."""
    private_hosts: Annotated[tuple[_Host, ...], PRIVATE_HOSTS] = ()
    """Hosts that may have a private address (loopback, a local network); all others must have public ones."""
    article: _Pattern
    """
    Matches the whole address of an article. Its named groups ``date`` (20190131 or 2019-01-31), or ``year``, ``month`` and
    ``day``, are the date; ``section`` is looked up in ``sections``.
    """
    sections: dict[str, str] = Field(default_factory=dict)
    """Value of the group ``section`` of ``article`` → name of the section."""
    categories: dict[Category, tuple[str, ...]] = Field(default_factory=dict)
    """Category → names of its sections. For other sections, their name is the category."""
    listing: tuple[_Listing, ...] = Field(min_length=1)
    """Where the articles are listed."""
    drop_parameters: tuple[str, ...] = _DROPPED_PARAMETERS
    """Query parameters that do not distinguish pages; a trailing ``*`` matches any ending."""
    trust_canonical: bool = True
    """Treat pages that declare the same ``rel=canonical`` address as one page."""
    examples: tuple[Example, ...] = ()
    """Addresses that ``article`` must match; a test checks every source."""
    counterexamples: tuple[str, ...] = ()
    """Addresses of the site that ``article`` must not match."""
    robots: bool = True
    """Obey robots.txt. Turn it off only for your own site."""
    verify_certificates: bool = True
    """Require a valid TLS certificate. Some sites have a broken chain of certificates."""
    delay_seconds: float = Field(default=1.0, ge=0)
    """Time between two requests to a host, or the ``Crawl-delay`` of its robots.txt if that is longer."""
    concurrency: int = Field(default=2, ge=1, le=64)
    """Simultaneous requests to a host."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """Time limit of one answer."""
    retries: int = Field(default=4, ge=0)
    """Retries after a lost connection, a timeout, a truncated body, or status 408, 425, 429 or 5xx."""
    backoff_seconds: float = Field(default=5.0, ge=0)
    """Wait before the first retry; it doubles with each further one, up to ten minutes, or is the ``Retry-After`` of the server
    if that is longer."""
    max_redirects: int = Field(default=5, ge=0)
    """Largest number of redirects in a row."""
    max_page_bytes: int = Field(default=8 << 20, ge=1024)
    """Largest page, before and after decompression."""
    max_listing_bytes: int = Field(default=64 << 20, ge=1024)
    """Largest listing, before and after decompression. The sitemap protocol allows 50 MiB."""

    @model_validator(mode="after")
    def _check_categories(self) -> Source:
        seen: dict[str, str] = {}
        for category, names in self.categories.items():
            for name in names:
                if seen.setdefault(name, category) != category:
                    raise ValueError(f"categories: section {name!r} is listed under {seen[name]} and {category}; keep one")
        return self

    def allows(self, host: str) -> bool:
        """Return whether a host may receive requests."""
        return _listed(host, self.hosts)

    def may_be_private(self, host: str) -> bool:
        """Return whether a host may have a private address."""
        return _listed(host, self.private_hosts)


def _listed(host: str, hosts: tuple[str, ...]) -> bool:
    return any(host == allowed or (allowed.startswith(".") and host.endswith(allowed)) for allowed in hosts)


def load_source(path: Path, *, within: Path | None = None) -> Source:
    """Read a source file, which may name no private hosts if it is ``within`` the directory of another user.

    Raises ValueError naming file and field.
    """
    return read_toml(path, Source, "a source file", within=within)


@dataclass(frozen=True, slots=True)
class PageUrl:
    """One page of a site."""

    url: str
    """The address that is requested, without fragment and tracking parameters."""
    key: str
    """The address without scheme and with sorted query, the same for all addresses of the page."""
    host: str


def page_url(reference: str, source: Source, base: str = "") -> PageUrl | None:
    """Return the page of a link, or None if it is not a web address (``javascript:``, ``mailto:``, a malformed host)."""
    try:
        parts = urlsplit(_CONTROL_CHARS.sub("", urljoin(base, reference.strip())))
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").rstrip("."), parts.port
        host = host.encode("idna").decode("ascii") if not host.isascii() else host
    except (ValueError, UnicodeError):
        return None
    if scheme not in _PORTS or not host or parts.username is not None or parts.password is not None:
        return None
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in (None, _PORTS[scheme]) else f"{shown}:{port}"
    path = _clean_path(parts.path)
    kept = [pair for pair in parts.query.split("&") if pair and not _is_dropped(pair, source.drop_parameters)]
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
    """Normalise percent-encoding: upper-case, and only where it is needed."""

    def one_form(found: re.Match[str]) -> str:
        byte = unquote_to_bytes(found[0])
        return byte.decode("ascii") if _UNRESERVED.match(byte) else found[0].upper()

    return quote(_ESCAPE.sub(one_form, text), safe=_SAFE_PATH + "?[]")


def _is_dropped(pair: str, dropped: tuple[str, ...]) -> bool:
    name = pair.partition("=")[0]
    return any(name == wanted or (wanted.endswith("*") and name.startswith(wanted[:-1])) for wanted in dropped)


@dataclass(frozen=True, slots=True)
class ArticleUrl:
    """What the address of an article states."""

    published: str
    """ISO date, or empty."""
    section: str
    """Name of the section, or empty."""


def article_url(url: str, source: Source) -> ArticleUrl | None:
    """Return what an address states, or None if it is not that of an article."""
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
    """Convert 2019, 201901 and 20190131 to ISO 8601, and anything else to an empty string."""
    try:
        day = date(int(digits[:4]), int(digits[4:6] or 1), int(digits[6:8] or 1)).isoformat()
    except ValueError:
        return ""
    return {4: day[:4], 6: day[:7], 8: day}.get(len(digits), "")


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
