"""The Scrapy spider of a snapshot: takes URLs from the frontier, and tells it what became of each.

Scrapy brings connections, TLS, delays, concurrency and size limits. Retries, redirects, deduplication and the queue are here
and in the frontier, because each answer must be one durable transaction, and because Scrapy's own let start requests follow
redirects to hosts that are not allowed.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import string
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from hashlib import sha256
from html import unescape
from time import time
from typing import Any
from urllib.parse import quote

from scrapy import Request, Spider
from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError, ResponseDataLossError

from korealbert.corpus.crawl.context import Snapshot
from korealbert.corpus.crawl.discovery import Discovery
from korealbert.corpus.crawl.frontier import Known
from korealbert.corpus.crawl.listing import UnreadableListing
from korealbert.corpus.crawl.robots import Refused, RobotsUnreachable
from korealbert.corpus.crawl.urls import article_url, page_url
from korealbert.corpus.html.http_body import BodyError, decode_body, gunzip_if_gzip

RETRIED_STATUSES = frozenset({408, 425, 429})
MAX_WAIT_SECONDS = 600.0
SECONDS_BETWEEN_CHECKPOINTS = 30.0
DETAIL_CHARS = 300
HEAD_BYTES = 64 << 10
"""How far into a page ``rel=canonical`` is looked for."""

_LINK = re.compile(rb"<link\b[^>]{0,2000}>", re.IGNORECASE)
_CANONICAL = re.compile(rb"""\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_HREF = re.compile(rb"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.IGNORECASE)


class SnapshotSpider(Spider):  # type: ignore[misc]
    """Crawls until nothing waits."""

    name = "korealbert"

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._spec, self._source, self._frontier = snapshot.spec, snapshot.source, snapshot.frontier
        self._files, self._private = snapshot.files, snapshot.private
        self._discovery = Discovery(snapshot)
        self._fault: Exception | None = None
        self._wake = asyncio.Event()
        self._checked = time()
        self._paused_until = 0.0
        self._most_in_flight = self._source.concurrency * min(len(self._source.hosts), 16)

    async def start(self) -> AsyncIterator[Any]:
        """For Scrapy: one request at a time, as soon as there is room for it."""
        self._discovery.seed()
        while self._fault is None and (self._frontier.in_flight or self._frontier.waiting):
            self._wake.clear()
            known = self._next()
            if known is not None:
                yield self._request(known)
            elif not self._frontier.in_flight and self._at_page_limit():
                self._frontier.refuse_waiting("max_pages")
            else:
                await self._news()
        self._snapshot.complete = self._fault is None

    async def _news(self) -> None:
        """Wait for an answer, or for a retry to be due."""
        due = self._frontier.seconds_until_due()
        try:
            await asyncio.wait_for(self._wake.wait(), 1.0 if due is None else min(1.0, max(due, 0.005)))
        except TimeoutError:
            return

    # --- what to ask for ----------------------------------------------------------------------------------------------

    def _at_page_limit(self) -> bool:
        return self._spec.max_pages is not None and self._frontier.count("stored") >= self._spec.max_pages

    def _next(self) -> Known | None:
        """The next URL that is worth a request."""
        while self._frontier.in_flight < self._most_in_flight and time() >= self._paused_until:
            if self._spec.max_pages is not None:
                room = self._spec.max_pages - self._frontier.count("stored") - self._frontier.in_flight
                if room <= 0:
                    return None
            known = self._frontier.take()
            if known is None:
                return None
            owner = self._frontier.claimant((known.key,)) if known.kind == "article" else None
            if owner is not None:
                with self._frontier.transaction():
                    self._frontier.finish(known, "duplicate", "same_address", other=owner)
                self._frontier.landed()
                continue
            return known
        return None

    def _request(self, known: Known) -> Request:
        limit = self._source.max_page_bytes if known.kind == "article" else self._source.max_listing_bytes
        return Request(
            known.url,
            callback=self._answered,
            errback=self._failed,
            dont_filter=True,
            headers={"Accept-Encoding": "gzip, deflate"},
            meta={"known": known, "handle_httpstatus_all": True, "download_maxsize": limit, "download_warnsize": 0},
        )

    # --- what came back -----------------------------------------------------------------------------------------------

    def _answered(self, response: Any) -> None:
        known: Known = response.meta["known"]
        self._settle(known, lambda: self._take_in(known, response))

    def _failed(self, failure: Any) -> None:
        known: Known = failure.request.meta["known"]
        self._settle(known, lambda: self._take_error(known, failure.value))

    def _settle(self, known: Known, outcome: Any) -> None:
        """The URL gets its one outcome, whatever that is, and the next one its turn."""
        try:
            if self._fault is None:
                with self._frontier.transaction():
                    outcome()
        except (OSError, sqlite3.Error) as error:  # a full disk, say: the next run cuts off what was half written
            self._fault = error
            self.logger.error("%s; the crawl stops here", error)
        except Exception as error:
            self.logger.exception("no outcome for %s", known.url)
            with self._frontier.transaction():
                self._frontier.finish(known, "failed", "internal_error", detail=repr(error)[:DETAIL_CHARS])
        finally:
            self._frontier.landed()
            self._wake.set()
        if time() - self._checked > SECONDS_BETWEEN_CHECKPOINTS:
            self._checked = time()
            self._files.sync()
            self._frontier.checkpoint()

    def _take_in(self, known: Known, response: Any) -> None:
        status = int(response.status)
        if 300 <= status < 400 and response.headers.get("Location"):
            self._redirected(known, location_of(response), status)
        elif status in RETRIED_STATUSES or status >= 500:
            reason = "too_many_requests" if status == 429 else "server_error"
            asked = _retry_after(response.headers.get("Retry-After"))
            if asked and status in (429, 503):
                self._paused_until = time() + asked  # the hosts of a source are one publisher's
            self._retry(known, reason, f"status {status}", status, asked)
        elif status != 200:
            self._frontier.finish(known, "failed", f"status_{status}", status=status)
        else:
            self._take_page(known, response)

    def _take_page(self, known: Known, response: Any) -> None:
        encoding = b",".join(response.headers.getlist("Content-Encoding")).decode("latin-1")
        limit = self._source.max_page_bytes if known.kind == "article" else self._source.max_listing_bytes
        try:
            body = decode_body(response.body, encoding, limit)
            if known.kind != "article":
                self._read_listing(known, gunzip_if_gzip(body, limit), response)
            elif not body.strip():
                self._frontier.finish(known, "failed", "empty", status=200)
            elif not _is_html(response.headers.get("Content-Type"), body):
                self._frontier.finish(known, "refused", "not_html", status=200)
            else:
                self._store(known, response, body)
        except BodyError as error:
            if error.reason == "truncated":
                self._retry(known, "truncated", error.detail, 200)
            else:
                self._frontier.finish(known, "failed", error.reason, detail=error.detail, status=200)

    def _take_error(self, known: Known, error: Exception) -> None:
        detail = f"{type(error).__name__}: {error}"[:DETAIL_CHARS]
        host = _host(known.url)
        if isinstance(error, Refused):
            self._frontier.finish(known, "refused", str(error))
        elif host in self._private:
            self._frontier.finish(known, "refused", "private_address", detail=self._private[host])
        elif isinstance(error, RobotsUnreachable):
            self._frontier.finish(known, "failed", "robots_unreachable", detail=detail)
        elif isinstance(error, DownloadTimeoutError):
            self._retry(known, "timeout", detail, None)
        elif isinstance(error, DownloadCancelledError):
            self._frontier.finish(known, "failed", "too_large", detail=detail)
        else:
            self._retry(known, "truncated" if isinstance(error, ResponseDataLossError) else "unreachable", detail, None)

    def _retry(self, known: Known, reason: str, detail: str, status: int | None, asked_seconds: float = 0.0) -> None:
        if known.attempts >= self._source.retries:
            self._frontier.finish(known, "failed", reason, detail=detail, status=status)
            return
        wait = min(MAX_WAIT_SECONDS, max(asked_seconds, self._source.backoff_seconds * 2**known.attempts))
        self._frontier.retry(known, wait, reason, detail, status)

    def _redirected(self, known: Known, location: str, status: int) -> None:
        page = page_url(location, self._source, base=known.url)
        if page is None:
            self._frontier.finish(known, "failed", "bad_redirect", detail=location[:DETAIL_CHARS], status=status)
        elif not self._source.allows(page.host):
            self._frontier.finish(known, "refused", "offsite_redirect", detail=page.url[:DETAIL_CHARS], status=status)
        elif page.url == known.url:
            self._frontier.finish(known, "failed", "redirect_loop", status=status)
        elif known.hops >= self._source.max_redirects:
            self._frontier.finish(known, "failed", "too_many_redirects", detail=page.url[:DETAIL_CHARS], status=status)
        elif known.kind != "article" or page.key == known.key:
            self._frontier.move(known, page.url)
        elif self._frontier.leads_to(page.key, known.id):
            self._frontier.finish(known, "failed", "redirect_loop", detail=page.url[:DETAIL_CHARS], status=status)
        else:
            self._frontier.finish(known, "redirected", status=status, other=self._discovery.redirected(known, page))

    # --- articles -----------------------------------------------------------------------------------------------------

    def _store(self, known: Known, response: Any, body: bytes) -> None:
        digest = sha256(body).hexdigest()
        claims = tuple(dict.fromkeys([self._canonical_key(known, body) or known.key, known.key, f"sha256 {digest}"]))
        owner = self._frontier.claimant(claims)
        if owner is not None:
            self._frontier.finish(known, "duplicate", "same_page", status=200, other=owner, sha256=digest)
            return
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, values in response.headers.items()
            for value in values
            if name.lower() not in (b"transfer-encoding", b"content-length", b"connection")
        ]
        headers.append(("Content-Length", str(len(response.body))))
        hints = {"X-Section": known.section, "X-Published": known.published}
        extra = {name: quote(value) for name, value in hints.items() if value}
        if response.ip_address is not None:
            extra["WARC-IP-Address"] = str(response.ip_address)
        place = self._files.append(known.url, 200, "OK", headers, response.body, extra)
        self._frontier.store(known, place, digest, 200, claims)

    def _canonical_key(self, known: Known, body: bytes) -> str | None:
        """The key of the address that a page declares as its own, if that is an article of the site."""
        if not self._source.trust_canonical:
            return None
        end = body.find(b"</head", 0, HEAD_BYTES)
        for link in _LINK.finditer(body, 0, end if end >= 0 else HEAD_BYTES):
            href = _HREF.search(link[0])
            if href and _CANONICAL.search(link[0]):
                value = unescape((href[1] or href[2] or href[3] or b"").decode("utf-8", "replace"))
                page = page_url(value, self._source, base=known.url)
                if page and self._source.allows(page.host) and article_url(page.url, self._source):
                    return page.key
        return None

    def _read_listing(self, known: Known, body: bytes, response: Any) -> None:
        content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
        try:
            named = self._discovery.read(known, body, content_type)
        except UnreadableListing as error:
            self._frontier.finish(known, "failed", "unreadable_listing", detail=str(error)[:DETAIL_CHARS], status=200)
        else:
            self._frontier.finish(known, "listed", status=200, detail=f"{sum(named)} new of {len(named)}")


def location_of(response: Any) -> str:
    """Where a redirect leads. Bytes beyond ASCII are sent back as they came, as browsers do."""
    return quote(response.headers["Location"], safe=string.punctuation + " ")


def _host(url: str) -> str:
    page = url.partition("://")[2].partition("/")[0]
    return page.partition("]")[0].lstrip("[") if page.startswith("[") else page.partition(":")[0]


def _is_html(content_type: bytes | None, body: bytes) -> bool:
    """By the header, or by the bytes where it says nothing or something general."""
    kind = (content_type or b"").partition(b";")[0].strip().lower()
    if kind in (b"text/html", b"application/xhtml+xml"):
        return True
    return kind in (b"", b"text/plain", b"application/octet-stream") and b"<html" in body[:2048].lower()


def _retry_after(value: bytes | None) -> float:
    """Seconds that a server asks to wait; 0 if it does not say."""
    text = (value or b"").decode("latin-1").strip()
    if text.isdecimal():
        return float(min(int(text), MAX_WAIT_SECONDS))
    try:
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - time(), MAX_WAIT_SECONDS)) if text else 0.0
    except (ValueError, TypeError, IndexError):
        return 0.0
