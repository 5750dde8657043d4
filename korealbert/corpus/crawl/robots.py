"""Downloads that obey robots.txt (RFC 9309) and limit the number of requests to each host and the pause between them.

A robots.txt is requested once for each origin, however many threads wait for it, and again after a day, or for the next page
if it could not be read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from urllib.parse import urlsplit

from protego import Protego

from korealbert.corpus.crawl.client import Answer, Client, NoAnswer, PrivateAddress
from korealbert.corpus.crawl.source import Source, page_url
from korealbert.corpus.html.encoding import BodyError, decode_body, decode_page

_ROBOTS_NAME = "korealbert"
"""Name of the crawler in a robots.txt."""
_MAX_ROBOTS_BYTES = 8 << 20
"""Larger answers are refused."""
_MAX_RULES_BYTES = 512 << 10
"""Rules after this position are ignored; RFC 9309 requires at least 500 KiB."""
_MAX_ROBOTS_REDIRECTS = 5
_SECONDS_VALID = 24 * 3600.0
_TRIES = 3
_HEADERS = (
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "ko,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
)


class Refused(Exception):
    """robots.txt forbids a page."""


class RobotsUnreachable(Exception):
    """A robots.txt could not be read, so that no page of its origin may be requested now (RFC 9309, 2.3.1.4)."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one robots.txt."""

    parser: Protego | None
    """None if there is no robots.txt, so that every page may be requested."""
    status: int
    read_at: float

    def allow(self, url: str) -> bool:
        """Return whether a page may be requested."""
        return self.parser is None or bool(self.parser.can_fetch(url, _ROBOTS_NAME))

    @property
    def crawl_delay(self) -> float:
        """Seconds between two requests, 0 if the file does not state it."""
        return float((self.parser.crawl_delay(_ROBOTS_NAME) if self.parser else None) or 0.0)


class _Robots:
    """The rules of all origins of a source; thread-safe.

    ``read`` fetches a URL within a number of bytes; ``report`` receives each origin with its rules, or the error.
    """

    def __init__(
        self, source: Source, read: Callable[[str, int], Answer], report: Callable[[str, Rules | RobotsUnreachable], None]
    ) -> None:
        self._source, self._read_url, self._report = source, read, report
        self._lock = threading.Lock()
        self._rules: dict[str, Future[Rules]] = {}

    def check(self, url: str) -> None:
        """Raise Refused for a page that the rules forbid, RobotsUnreachable or PrivateAddress if they cannot be read."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        with self._lock:
            rules = self._rules.get(origin)
            outdated = rules is None or (rules.done() and _is_outdated(rules))
            if rules is None or outdated:
                rules = self._rules[origin] = Future()
        if outdated:
            self._resolve(rules, origin)
        if not rules.result().allow(url):
            raise Refused("robots")

    def _resolve(self, future: Future[Rules], origin: str) -> None:
        """Read the rules for all threads that wait for the future."""
        try:
            rules = self._read(origin)
        except (PrivateAddress, RobotsUnreachable) as error:
            self._report(origin, error if isinstance(error, RobotsUnreachable) else RobotsUnreachable(str(error)))
            future.set_exception(error)
        except BaseException as error:
            future.set_exception(error)
        else:
            self._report(origin, rules)
            future.set_result(rules)

    def _read(self, origin: str) -> Rules:
        url = f"{origin}/robots.txt"
        answer = self._answer(url)
        for _ in range(_MAX_ROBOTS_REDIRECTS):
            if not answer.location:
                break
            page = page_url(answer.location, self._source, base=url)
            if page is None or not self._source.allows(page.host):
                why = f"redirects to {answer.location}, which `hosts` of the source does not allow"
                raise RobotsUnreachable(why, answer.status)
            url = page.url
            answer = self._answer(url)
        if answer.status >= 500 or answer.status == 429:
            raise RobotsUnreachable(f"status {answer.status}", answer.status)
        if not 200 <= answer.status < 300:
            return Rules(None, answer.status, time.monotonic())
        try:
            body = decode_body(answer.body, answer.content_encoding, _MAX_ROBOTS_BYTES)
        except BodyError as error:
            raise RobotsUnreachable(str(error), answer.status) from None
        if len(body) > _MAX_RULES_BYTES:  # up to the last whole line; RFC 9309 has lines that end in CR alone, too
            body = body[: max(body.rfind(end, 0, _MAX_RULES_BYTES) for end in (b"\n", b"\r")) + 1]
        return Rules(Protego.parse(decode_page(body).text), answer.status, time.monotonic())

    def _answer(self, url: str) -> Answer:
        """Return the answer, after a few tries if the server has an error."""
        for attempt in range(1, _TRIES + 1):
            try:
                answer = self._read_url(url, _MAX_ROBOTS_BYTES)
                if attempt == _TRIES or (answer.status < 500 and answer.status != 429):
                    return answer
            except PrivateAddress:
                raise
            except NoAnswer as error:
                if attempt == _TRIES:
                    raise RobotsUnreachable(f"{error.reason}: {error}") from None
            time.sleep(self._source.backoff_seconds * 2 ** (attempt - 1))
        raise AssertionError("the last try returns or raises")


def _is_outdated(rules: Future[Rules]) -> bool:
    return rules.exception() is not None or time.monotonic() - rules.result().read_at > _SECONDS_VALID


class Downloads:
    """Requests to one source; thread-safe. ``report`` receives each origin with its rules, or the error."""

    def __init__(self, source: Source, user_agent: str, report: Callable[[str, Rules | RobotsUnreachable], None]) -> None:
        self._source, self._report = source, report
        self._client = Client(
            user_agent=user_agent,
            may_be_private=source.may_be_private,
            timeout_seconds=source.timeout_seconds,
            verify=source.verify_certificates,
        )
        self._robots = _Robots(source, self._get_in_turn, self._take_rules)
        self._turns: dict[str, _Turns] = {}

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def get(self, url: str, max_bytes: int) -> Answer:
        """Return an answer with its body. Raises Refused, RobotsUnreachable or NoAnswer."""
        if self._source.robots:
            self._robots.check(url)
        return self._get_in_turn(url, max_bytes)

    def _get_in_turn(self, url: str, max_bytes: int) -> Answer:
        turns = self._turns_of(url)
        with turns.slots:
            turns.wait()
            return self._client.read(url, _HEADERS, max_bytes, self._source.timeout_seconds)

    def _turns_of(self, url: str) -> _Turns:
        turns = _Turns(self._source.concurrency, self._source.delay_seconds)
        return self._turns.setdefault(urlsplit(url).hostname or "", turns)

    def _take_rules(self, origin: str, rules: Rules | RobotsUnreachable) -> None:
        if isinstance(rules, Rules):
            turns = self._turns_of(origin)
            turns.delay_seconds = max(turns.delay_seconds, rules.crawl_delay)
        self._report(origin, rules)


class _Turns:
    """Limits the requests to one host."""

    def __init__(self, concurrency: int, delay_seconds: float) -> None:
        self.slots = threading.BoundedSemaphore(concurrency)
        self.delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        """Sleep until the pause of the host is over, and begin the next one."""
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            self._next = begin + self.delay_seconds
        time.sleep(begin - now)
