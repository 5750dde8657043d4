"""Downloads pages politely: robots.txt is read first, and each host gets few requests at a time and a pause between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from korealbert.corpus.crawl.client import Answer, Client
from korealbert.corpus.crawl.robots import Robots, RobotsUnreachable, Rules
from korealbert.corpus.crawl.source import Source

_HEADERS = (
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "ko,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
)


class Downloads:
    """Requests to one source; for use from several threads, each of which waits for its turn.

    ``tell`` gets each origin with its rules, or with why there are none.
    """

    def __init__(self, source: Source, user_agent: str, tell: Callable[[str, Rules | RobotsUnreachable], None]) -> None:
        self._source, self._tell = source, tell
        self._client = Client(
            user_agent=user_agent,
            may_be_private=source.may_be_private,
            timeout_seconds=source.timeout_seconds,
            verify=source.verify_certificates,
        )
        self._robots = Robots(source, self._in_turn, self._learnt)
        self._turns: dict[str, _Turns] = {}

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def get(self, url: str, max_bytes: int) -> Answer:
        """The whole answer to a request. Raises Refused, RobotsUnreachable or NoAnswer."""
        if self._source.robots:
            self._robots.check(url)
        return self._in_turn(url, max_bytes)

    def _in_turn(self, url: str, max_bytes: int) -> Answer:
        turns = self._turns_of(url)
        with turns.places:
            turns.wait()
            return self._client.read(url, _HEADERS, max_bytes, self._source.timeout_seconds)

    def _turns_of(self, url: str) -> _Turns:
        turns = _Turns(self._source.concurrency, self._source.delay_seconds)
        return self._turns.setdefault(urlsplit(url).hostname or "", turns)

    def _learnt(self, origin: str, rules: Rules | RobotsUnreachable) -> None:
        if isinstance(rules, Rules):
            turns = self._turns_of(origin)
            turns.delay_seconds = max(turns.delay_seconds, rules.crawl_delay)
        self._tell(origin, rules)


class _Turns:
    """When a host may be asked next."""

    def __init__(self, concurrency: int, delay_seconds: float) -> None:
        self.places = threading.BoundedSemaphore(concurrency)
        self.delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        """Sleep until the host's pause is over, and begin the next one."""
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            self._next = begin + self.delay_seconds
        time.sleep(begin - now)
