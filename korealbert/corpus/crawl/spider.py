"""The process that crawls: ``python -m korealbert.corpus.crawl.spider SPEC DIRECTORY PARENT``.

It takes URLs from the frontier, downloads them in threads, and records each outcome in one transaction in the main thread. It
is a separate process, so that hostile pages share no memory with the flow, and the flow can end the crawl at once, whatever its
threads wait for.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import sha256
from html import unescape
from pathlib import Path
from queue import Empty, SimpleQueue
from time import time
from urllib.parse import quote

from korealbert.artifact.shards import die_with_parent
from korealbert.corpus.crawl.client import Answer, NoAnswer, PrivateAddress
from korealbert.corpus.crawl.discovery import Discovery, UnreadableListing
from korealbert.corpus.crawl.frontier import Frontier, KnownUrl, State
from korealbert.corpus.crawl.robots import Downloads, Refused, RobotsUnreachable, Rules
from korealbert.corpus.crawl.source import Source, article_url, load_source, page_url
from korealbert.corpus.crawl.stage import CrawlSpec
from korealbert.corpus.crawl.warc_files import WarcFiles, open_frontier
from korealbert.corpus.html.encoding import BodyError, decode_body, gunzip_if_gzip, is_html

_RETRIED_STATUSES = frozenset({408, 425, 429})
_MAX_WAIT_SECONDS = 600.0
_SECONDS_BETWEEN_CHECKPOINTS = 30.0
_SECONDS_BETWEEN_REPORTS = 1.0
_REPORTED: tuple[State, ...] = ("waiting", "stored", "failed")
_DETAIL_CHARS = 300
_HEAD_BYTES = 64 << 10
"""Length of the beginning of a page in which ``rel=canonical`` is searched."""

_LINK = re.compile(rb"<link\b[^>]{0,2000}>", re.IGNORECASE)
_CANONICAL = re.compile(rb"""\brel\s*=\s*["']?canonical\b""", re.IGNORECASE)
_HREF = re.compile(rb"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.IGNORECASE)


log = logging.getLogger(__name__)


class _Spider:
    """Crawls until no URL is waiting, and prints its progress as a line of JSON every second."""

    def __init__(self, spec: CrawlSpec, source: Source, frontier: Frontier, files: WarcFiles) -> None:
        self._spec, self._source, self._frontier, self._files = spec, source, frontier, files
        self._discovery = Discovery(spec, source, frontier)
        self._downloads = Downloads(
            source, spec.user_agent, lambda origin, rules: self._events.put(partial(self._record_robots, origin, rules))
        )
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._checkpointed_at = time()
        self._reported_at = 0.0
        self._paused_until = 0.0
        self._most_in_flight = source.concurrency * min(len(source.hosts), 16)

    def run(self) -> None:
        """Crawl. Raises OSError or sqlite3.Error if nothing more can be written; the next run removes partial records."""
        self._discovery.seed()
        threads = ThreadPoolExecutor(self._most_in_flight)
        try:
            while self._frontier.in_flight or self._frontier.count("waiting"):
                known = self._next_to_request()
                if known is not None:
                    threads.submit(self._download, known)
                elif not self._frontier.in_flight and self._pages_left() <= 0:
                    self._frontier.refuse_waiting("max_pages")
                else:
                    self._handle_event()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        self._downloads.close()

    def _download(self, known: KnownUrl) -> None:
        """Run in a thread, which must not use the frontier."""
        outcome: Callable[[], None]
        try:
            outcome = partial(self._handle_answer, known, self._downloads.get(known.url, self._max_bytes(known)))
        except Exception as error:
            outcome = partial(self._handle_error, known, error)
        self._events.put(partial(self._record, known, outcome))

    def _handle_event(self) -> None:
        """Wait for an answer, or for a retry to be due."""
        due = max(self._frontier.seconds_until_due(), 0.005)
        with suppress(Empty):
            self._events.get(timeout=min(_SECONDS_BETWEEN_REPORTS, due))()
        now = time()
        if now - self._reported_at > _SECONDS_BETWEEN_REPORTS:
            self._reported_at = now
            print(json.dumps({state: self._frontier.count(state) for state in _REPORTED}), flush=True)
        if now - self._checkpointed_at > _SECONDS_BETWEEN_CHECKPOINTS:
            self._checkpointed_at = now
            self._files.sync()
            self._frontier.checkpoint()

    def _record_robots(self, origin: str, rules: Rules | RobotsUnreachable) -> None:
        state: State = "listed"
        reason = ""
        if isinstance(rules, RobotsUnreachable):
            state, reason = "failed", "robots_unreachable"
        elif rules.parser is None:
            reason = "no_rules"
        self._frontier.note_robots(f"robots {origin}", f"{origin}/robots.txt", state, reason, rules.status)

    # --- what to ask for ----------------------------------------------------------------------------------------------

    def _pages_left(self) -> float:
        """Return how many more pages may be requested."""
        limit = math.inf if self._spec.max_pages is None else self._spec.max_pages
        return limit - self._frontier.count("stored") - self._frontier.in_flight

    def _next_to_request(self) -> KnownUrl | None:
        """Return the next URL to request, or None if there is none now."""
        while self._frontier.in_flight < self._most_in_flight and time() >= self._paused_until:
            known = self._frontier.take() if self._pages_left() > 0 else None
            if known is None:
                return None
            owner = self._frontier.owner_of((known.key,)) if known.kind == "article" else None
            if owner is not None:
                with self._frontier.transaction():
                    self._frontier.finish(known, "duplicate", "same_address", other=owner)
                self._frontier.release()
                continue
            return known
        return None

    def _max_bytes(self, known: KnownUrl) -> int:
        return self._source.max_page_bytes if known.kind == "article" else self._source.max_listing_bytes

    # --- what came back -----------------------------------------------------------------------------------------------

    def _record(self, known: KnownUrl, outcome: Callable[[], None]) -> None:
        """Record the outcome of a URL and release it."""
        try:
            with self._frontier.transaction():
                outcome()
        except (OSError, sqlite3.Error):  # a full disk, say
            raise
        except Exception as error:
            log.exception("no outcome for %s", known.url)
            with self._frontier.transaction():
                self._frontier.finish(known, "failed", "internal_error", detail=repr(error)[:_DETAIL_CHARS])
        finally:
            self._frontier.release()

    def _handle_answer(self, known: KnownUrl, answer: Answer) -> None:
        status = answer.status
        if answer.location:
            self._handle_redirect(known, answer.location, status)
        elif status in _RETRIED_STATUSES or status >= 500:
            reason = "too_many_requests" if status == 429 else "server_error"
            asked = _retry_after(answer.header("Retry-After"))
            if asked and status in (429, 503):
                self._paused_until = time() + asked  # for all hosts of the source, which belong to one publisher
            self._retry(known, reason, f"status {status}", status, asked)
        elif status != 200:
            self._frontier.finish(known, "failed", f"status_{status}", status=status)
        else:
            self._handle_page(known, answer)

    def _handle_page(self, known: KnownUrl, answer: Answer) -> None:
        limit = self._max_bytes(known)
        try:
            body = decode_body(answer.body, answer.content_encoding, limit)
            if known.kind != "article":
                self._read_listing(known, gunzip_if_gzip(body, limit), answer)
            elif not body.strip():
                self._frontier.finish(known, "failed", "empty", status=200)
            elif not is_html(body, answer.header("Content-Type")):
                self._frontier.finish(known, "refused", "not_html", status=200)
            else:
                self._store(known, answer, body)
        except BodyError as error:
            if error.reason == "truncated":
                self._retry(known, "truncated", error.detail, 200)
            else:
                self._frontier.finish(known, "failed", error.reason, detail=error.detail, status=200)

    def _handle_error(self, known: KnownUrl, error: Exception) -> None:
        detail = str(error)[:_DETAIL_CHARS]
        if isinstance(error, Refused):
            self._frontier.finish(known, "refused", str(error))
        elif isinstance(error, PrivateAddress):
            self._frontier.finish(known, "refused", error.reason, detail=error.address)
        elif isinstance(error, RobotsUnreachable):
            self._frontier.finish(known, "failed", "robots_unreachable", detail=detail)
        elif isinstance(error, NoAnswer) and error.reason in ("too_large", "bad_certificate"):
            self._frontier.finish(known, "failed", error.reason, detail=detail)
        elif isinstance(error, NoAnswer):
            self._retry(known, error.reason, detail, None)
        else:
            raise error

    def _retry(self, known: KnownUrl, reason: str, detail: str, status: int | None, asked_seconds: float = 0.0) -> None:
        if known.attempts >= self._source.retries:
            self._frontier.finish(known, "failed", reason, detail=detail, status=status)
            return
        wait = min(_MAX_WAIT_SECONDS, max(asked_seconds, self._source.backoff_seconds * 2**known.attempts))
        self._frontier.retry(known, wait, reason, detail, status)

    def _handle_redirect(self, known: KnownUrl, location: str, status: int) -> None:
        page = page_url(location, self._source, base=known.url)
        if page is None:
            self._frontier.finish(known, "failed", "bad_redirect", detail=location[:_DETAIL_CHARS], status=status)
        elif not self._source.allows(page.host):
            self._frontier.finish(known, "refused", "offsite_redirect", detail=page.url[:_DETAIL_CHARS], status=status)
        elif page.url == known.url:
            self._frontier.finish(known, "failed", "redirect_loop", status=status)
        elif known.hops >= self._source.max_redirects:
            self._frontier.finish(known, "failed", "too_many_redirects", detail=page.url[:_DETAIL_CHARS], status=status)
        elif known.kind != "article" or page.key == known.key:
            self._frontier.move(known, page.url)
        elif self._frontier.leads_to(page.key, known.id):
            self._frontier.finish(known, "failed", "redirect_loop", detail=page.url[:_DETAIL_CHARS], status=status)
        else:
            self._frontier.finish(known, "redirected", status=status, other=self._discovery.redirected(known, page))

    # --- articles -----------------------------------------------------------------------------------------------------

    def _store(self, known: KnownUrl, answer: Answer, body: bytes) -> None:
        digest = sha256(body).hexdigest()
        claims = tuple(dict.fromkeys([self._canonical_key(known, body) or known.key, known.key, f"sha256 {digest}"]))
        owner = self._frontier.owner_of(claims)
        if owner is not None:
            self._frontier.finish(known, "duplicate", "same_page", status=200, other=owner, sha256=digest)
            return
        unfit = ("transfer-encoding", "content-length", "connection")
        headers = [(name, value) for name, value in answer.headers if name.lower() not in unfit]
        headers.append(("Content-Length", str(len(answer.body))))
        hints = {"X-Section": known.section, "X-Published": known.published}
        extra = {name: quote(value) for name, value in hints.items() if value}
        extra["WARC-IP-Address"] = answer.address
        place = self._files.append(known.url, headers, answer.body, extra)
        self._frontier.store(known, place, digest, claims)

    def _canonical_key(self, known: KnownUrl, body: bytes) -> str | None:
        """Return the key of the address that a page declares as its own, if it is that of an article of the site."""
        if not self._source.trust_canonical:
            return None
        end = body.find(b"</head", 0, _HEAD_BYTES)
        for link in _LINK.finditer(body, 0, end if end >= 0 else _HEAD_BYTES):
            href = _HREF.search(link[0])
            if href and _CANONICAL.search(link[0]):
                value = unescape((href[1] or href[2] or href[3] or b"").decode("utf-8", "replace"))
                page = page_url(value, self._source, base=known.url)
                if page and self._source.allows(page.host) and article_url(page.url, self._source):
                    return page.key
        return None

    def _read_listing(self, known: KnownUrl, body: bytes, answer: Answer) -> None:
        try:
            named = self._discovery.read(known, body, answer.header("Content-Type"))
        except UnreadableListing as error:
            self._frontier.finish(known, "failed", "unreadable_listing", detail=str(error)[:_DETAIL_CHARS], status=200)
        else:
            self._frontier.finish(known, "listed", status=200, detail=f"{sum(named)} new of {len(named)}")


def _retry_after(text: str) -> float:
    """Return the seconds that a server asks to wait, or 0."""
    if text.isdecimal():
        return float(min(int(text), _MAX_WAIT_SECONDS))
    try:
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - time(), _MAX_WAIT_SECONDS)) if text else 0.0
    except (ValueError, TypeError, IndexError):
        return 0.0


def crawl(spec: CrawlSpec, out_dir: Path) -> None:
    """Crawl until no URL is waiting. Raises OSError or sqlite3.Error if nothing more can be written."""
    source = load_source(spec.source.path)
    frontier, ends = open_frontier(out_dir)
    about = {"software": "korealbert", "format": "WARC File Format 1.1", "robots": "obey" if source.robots else "ignore"}
    files = WarcFiles(out_dir, ends, spec.max_file_bytes, about)
    frontier.try_failed_again()
    _Spider(spec, source, frontier, files).run()
    files.close()
    frontier.close()


def main(spec_json: str, out_dir: str, parent: str) -> int:
    """Crawl as a child process; return the exit status."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a crawl may be killed at any time
    if os.getppid() != int(parent):
        return 1  # the parent died before it was watched
    try:
        crawl(CrawlSpec.model_validate_json(spec_json), Path(out_dir))
    except (OSError, sqlite3.Error) as error:
        print(f"ERROR: {error}; the crawl stops here", file=sys.stderr, flush=True)
        os._exit(1)  # requests in flight are not waited for
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
