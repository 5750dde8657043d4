"""Addresses of pages: the form that is requested, the key that makes two addresses one page, and what an address says."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from urllib.parse import SplitResult, quote, unquote_to_bytes, urljoin, urlsplit, urlunsplit

from korealbert.corpus.crawl.source import Source

MAX_URL_CHARS = 2000
_PORTS = {"http": 80, "https": 443}
_SAFE_PATH = "/!$&'()*+,;=:@-._~%"
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(rb"[A-Za-z0-9._~-]")
_CONTROLS = re.compile(r"[\x00-\x20\x7f]+")


@dataclass(frozen=True, slots=True)
class PageUrl:
    """One page of a site."""

    url: str
    """The address that is requested: no fragment, no tracking parameters."""
    key: str
    """Equal for addresses of one page: no scheme, sorted query."""
    host: str


def page_url(reference: str, source: Source, base: str = "") -> PageUrl | None:
    """The page that a link means, or None for what is no web address (``javascript:``, ``mailto:``, a broken host)."""
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
    """What the address of an article says about it."""

    published: str
    """ISO date, or empty."""
    section: str
    """Name of the section, or empty."""


def article_url(url: str, source: Source) -> ArticleUrl | None:
    """What an address says, or None for one that is no article's."""
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
