"""Polite downloads: robots.txt is obeyed (RFC 9309), and each host gets few requests at a time with a pause between them.

A robots.txt is requested once per origin, however many threads wait for it, and again after a day.
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

_AGENT = "korealbert"
"""The name that rules of a robots.txt are looked up under."""
_MAX_ROBOTS_BYTES = 8 << 20
"""A larger answer is no robots.txt."""
_READ_ROBOTS_BYTES = 512 << 10
"""Rules after so many bytes do not count; RFC 9309 requires at least 500 KiB."""
_MAX_ROBOTS_REDIRECTS = 5
_SECONDS_VALID = 24 * 3600.0
_TRIES = 3
_HEADERS = (
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "ko,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
)


class Refused(Exception):
    """A page that robots.txt forbids."""


class RobotsUnreachable(Exception):
    """The rules of an origin could not be read, so none of its pages may be requested now (RFC 9309, 2.3.1.4)."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one robots.txt."""

    parser: Protego | None
    """None where there is no robots.txt, so that everything may be requested."""
    status: int
    read_at: float

    def allow(self, url: str) -> bool:
        """Whether a page may be requested."""
        return self.parser is None or bool(self.parser.can_fetch(url, _AGENT))

    @property
    def crawl_delay(self) -> float:
        """Seconds between two requests that the file demands; 0 if it does not say."""
        return float((self.parser.crawl_delay(_AGENT) if self.parser else None) or 0.0)


class _Robots:
    """The rules of all origins of a source; for use from several threads.

    ``read`` fetches a URL within a number of bytes; ``report`` receives each origin with its rules, or with why there are none.
    """

    def __init__(
        self, source: Source, read: Callable[[str, int], Answer], report: Callable[[str, Rules | RobotsUnreachable], None]
    ) -> None:
        self._source, self._read_url, self._report = source, read, report
        self._lock = threading.Lock()
        self._rules: dict[str, Future[Rules]] = {}

    def check(self, url: str) -> None:
        """Raises Refused for addresses that the rules forbid, RobotsUnreachable or PrivateAddress when they cannot be read."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        with self._lock:
            rules = self._rules.get(origin)
            outdated = rules is None or (rules.done() and _is_outdated(rules))
            if rules is None or outdated:
                rules = self._rules[origin] = Future()
        if outdated:
            self._fulfil(rules, origin)
        if not rules.result().allow(url):
            raise Refused("robots")

    def _fulfil(self, promise: Future[Rules], origin: str) -> None:
        """Read the rules for all threads that wait for them."""
        try:
            rules = self._read(origin)
        except (PrivateAddress, RobotsUnreachable) as error:
            self._report(origin, error if isinstance(error, RobotsUnreachable) else RobotsUnreachable(str(error)))
            promise.set_exception(error)
        except BaseException as error:
            promise.set_exception(error)
        else:
            self._report(origin, rules)
            promise.set_result(rules)

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
        read = body if len(body) <= _READ_ROBOTS_BYTES else body[: body.rfind(b"\n", 0, _READ_ROBOTS_BYTES)]
        return Rules(Protego.parse(decode_page(read).text), answer.status, time.monotonic())

    def _answer(self, url: str) -> Answer:
        """The answer, after a few tries if the server has an error."""
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
    """Requests to one source; for use from several threads, each of which waits for its turn.

    ``report`` receives each origin with its rules, or with why there are none.
    """

    def __init__(self, source: Source, user_agent: str, report: Callable[[str, Rules | RobotsUnreachable], None]) -> None:
        self._source, self._report = source, report
        self._client = Client(
            user_agent=user_agent,
            may_be_private=source.may_be_private,
            timeout_seconds=source.timeout_seconds,
            verify=source.verify_certificates,
        )
        self._robots = _Robots(source, self._in_turn, self._keep_delay)
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

    def _keep_delay(self, origin: str, rules: Rules | RobotsUnreachable) -> None:
        if isinstance(rules, Rules):
            turns = self._turns_of(origin)
            turns.delay_seconds = max(turns.delay_seconds, rules.crawl_delay)
        self._report(origin, rules)


class _Turns:
    """The times at which hosts may be asked next."""

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
