"""robots.txt by RFC 9309: asked for once per origin however many requests wait for it, and again after a day.

Scrapy's own middleware lets waiters through: they share one Deferred, and all but the first get None from it, which means
allowed (13 of 40 forbidden start requests were fetched). Here they share one asyncio task, which gives every waiter its result.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from protego import Protego
from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from korealbert.corpus.crawl.context import SETTING, Snapshot
from korealbert.corpus.html.encoding import decode_page
from korealbert.corpus.html.http_body import BodyError, decode_body

AGENT = "korealbert"
"""The name that rules of a robots.txt are looked up under."""
MAX_ROBOTS_BYTES = 8 << 20
"""A larger answer is no robots.txt."""
READ_ROBOTS_BYTES = 512 << 10
"""Rules behind so many bytes do not count; RFC 9309 asks for at least 500 KiB."""
MAX_ROBOTS_REDIRECTS = 5
SECONDS_VALID = 24 * 3600.0
TRIES = 3


class Refused(IgnoreRequest):  # type: ignore[misc]
    """A request that is not made; the argument is the reason."""


class RobotsUnreachable(IgnoreRequest):  # type: ignore[misc]
    """The rules of a host could not be read, so none of its pages may be asked for now."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one robots.txt says."""

    parser: Any
    read_at: float

    def allow(self, url: str) -> bool:
        """Whether a page may be asked for."""
        return bool(self.parser is None or self.parser.can_fetch(url, AGENT))


class RobotsMiddleware:
    """Downloader middleware: nothing is asked of an origin before its rules are known."""

    def __init__(self, crawler: Any, snapshot: Snapshot) -> None:
        self._crawler, self._source, self._frontier = crawler, snapshot.source, snapshot.frontier
        self._rules: dict[str, asyncio.Task[Rules]] = {}

    @classmethod
    def from_crawler(cls, crawler: Any) -> RobotsMiddleware:
        """For Scrapy."""
        return cls(crawler, crawler.settings[SETTING])

    async def process_request(self, request: Any) -> None:
        """Raises Refused for what the rules forbid, RobotsUnreachable when they cannot be read (RFC 9309, 2.3.1.4)."""
        if request.meta.get("robots") or not self._source.robots:
            return
        parts = urlsplit(request.url)
        rules = await self._rules_of(f"{parts.scheme}://{parts.netloc}", parts.hostname or "")
        if not rules.allow(request.url):
            raise Refused("robots")

    async def _rules_of(self, origin: str, host: str) -> Rules:
        task = self._rules.get(origin)
        if task is None or (task.done() and (task.exception() or time.monotonic() - task.result().read_at > SECONDS_VALID)):
            task = self._rules[origin] = asyncio.ensure_future(self._read(origin, host))
        return await asyncio.shield(task)

    async def _read(self, origin: str, host: str) -> Rules:
        url, status, fault = f"{origin}/robots.txt", None, ""
        for hop in range(MAX_ROBOTS_REDIRECTS + 1):
            response = None
            for attempt in range(TRIES):
                if attempt:
                    await asyncio.sleep(self._source.backoff_seconds * 2 ** (attempt - 1))
                try:
                    response = await self._crawler.engine.download_async(self._request(url))
                except Exception as error:  # whatever the download handlers raise
                    fault = f"{type(error).__name__}: {error}"
                    continue
                if response.status < 500 and response.status != 429:
                    break
            if response is None:
                return self._unreachable(origin, fault, None)
            status = response.status
            if not (300 <= status < 400 and hop < MAX_ROBOTS_REDIRECTS and response.headers.get("Location")):
                break
            url = urljoin(url, response.headers["Location"].decode("latin-1"))
            if not self._source.allows(urlsplit(url).hostname or ""):
                return self._unreachable(origin, f"redirects to {url}, which `hosts` of the source does not allow", status)
        assert response is not None
        if status is None or status >= 500 or status == 429:
            return self._unreachable(origin, f"status {status}", status)
        if not 200 <= status < 300:
            self._frontier.note_robots(f"robots {origin}", f"{origin}/robots.txt", "listed", "no_rules", status)
            return Rules(None, time.monotonic())
        try:
            body = decode_body(
                response.body, (response.headers.get("Content-Encoding") or b"").decode("latin-1"), MAX_ROBOTS_BYTES
            )
        except BodyError as error:
            return self._unreachable(origin, str(error), status)
        read = body if len(body) <= READ_ROBOTS_BYTES else body[: body.rfind(b"\n", 0, READ_ROBOTS_BYTES)]
        parser = Protego.parse(decode_page(read).text)
        self._slow_down(host, parser.crawl_delay(AGENT))
        self._frontier.note_robots(f"robots {origin}", f"{origin}/robots.txt", "listed", "", status)
        return Rules(parser, time.monotonic())

    def _request(self, url: str) -> Request:
        meta = {"robots": True, "handle_httpstatus_all": True, "download_maxsize": MAX_ROBOTS_BYTES}
        return Request(url, priority=1000, dont_filter=True, meta=meta, headers={"Accept-Encoding": "gzip, deflate"})

    def _unreachable(self, origin: str, why: str, status: int | None) -> Rules:
        self._frontier.note_robots(f"robots {origin}", f"{origin}/robots.txt", "failed", "robots_unreachable", status)
        raise RobotsUnreachable(why)

    def _slow_down(self, host: str, crawl_delay: float | None) -> None:
        if not crawl_delay or crawl_delay <= self._source.delay_seconds:
            return
        downloader = self._crawler.engine.downloader
        downloader.per_slot_settings[host] = {"delay": crawl_delay}  # for slots to come: Scrapy forgets one that is idle
        if host in downloader.slots:
            downloader.slots[host].delay = crawl_delay
