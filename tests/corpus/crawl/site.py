"""A web server on loopback in a thread, which sends any answer and counts requests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    content_type: str = HTML
    headers: tuple[tuple[str, str], ...] = ()
    delay_seconds: float = 0.0
    sent_bytes: int | None = None
    """Close the connection after so many bytes of the body."""
    verbatim: bytes | None = None
    """Send these bytes instead of an answer, and close the connection."""


def text(body: str, status: int = 200, **fields: object) -> Answer:
    return Answer(body.encode(), status, **fields)  # type: ignore[arg-type]


def redirect(to: str, status: int = 302) -> Answer:
    return Answer(b"moved", status, headers=(("Location", to),))


Page = Answer | Callable[["Asked"], Answer]


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    times: int
    """Number of requests for this path, including this one."""


@dataclass
class Site:
    """Pages by path and query; a page is an answer, or a function of the request."""

    pages: dict[str, Page] = field(default_factory=dict)
    hits: Counter[str] = field(default_factory=Counter)
    completed: Counter[str] = field(default_factory=Counter)
    """Answers that were sent completely."""
    agents: set[str] = field(default_factory=set)
    hosts: Counter[str] = field(default_factory=Counter)
    port: int = 0

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        async def serve() -> None:
            server = await asyncio.start_server(self._client, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            self._stop = asyncio.Event()
            started.set()
            await self._stop.wait()
            server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(serve(),), daemon=True)
        self._thread.start()
        assert started.wait(300)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(300)
        self._loop.close()

    def publish(self, *pages: Page) -> None:
        """Add articles ``/news/0``, ``/news/1``, … and a sitemap of them."""
        named = {f"/news/{number}": page for number, page in enumerate(pages)}
        self.pages |= {**named, "/sitemap.xml": sitemap(*(self.root + path for path in named))}

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.transport.abort() if writer.is_closing() else writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        self.hits[path] += 1
        self.agents.add(headers.get("user-agent", ""))
        self.hosts[headers.get("host", "")] += 1
        page = self.pages.get(path, text("없는 쪽", 404))
        answer = page(Asked(path, headers, self.hits[path])) if callable(page) else page
        if answer.delay_seconds:
            await asyncio.sleep(answer.delay_seconds)
        if answer.verbatim is not None:
            writer.write(answer.verbatim)
            await writer.drain()
            return False
        lines = [f"HTTP/1.1 {answer.status} X", f"Content-Length: {len(answer.body)}"]
        if answer.content_type:
            lines.append(f"Content-Type: {answer.content_type}")
        lines += [f"{name}: {value}" for name, value in answer.headers]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body[: answer.sent_bytes])
        await writer.drain()
        if answer.sent_bytes is not None:
            return False
        self.completed[path] += 1
        return True


@contextlib.contextmanager
def running(pages: dict[str, Page]) -> Iterator[Site]:
    with Site(pages) as site:
        yield site


def sitemap(*locations: str) -> Answer:
    urls = "".join(f"<url><loc>{location}</loc></url>" for location in locations)
    return text(f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>')


def article(title: str, body: str, *, head: str = "", charset: str = "utf-8", declared: str | None = None) -> bytes:
    meta = f'<meta charset="{declared or charset}">'
    whole = (
        f"<html><head>{meta}<title>{title}</title>{head}</head><body><article><h1>{title}</h1>{body}</article></body></html>"
    )
    return whole.encode(charset)


def news(number: int) -> Answer:
    body = f"<p>{number}번 기사. 지난밤 내린 비로 하천의 수위가 올랐다.</p>" * 20
    return Answer(article(f"기사 {number}", body), delay_seconds=0.02)
