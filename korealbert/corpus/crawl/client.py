"""The HTTP client of crawl and fetch: connects only to checked addresses, and limits the size and time of every answer.

httpcore keeps the connections and reads HTTP/1.1. Names are resolved here, once for each connection, which then goes to the
checked address; certificate, SNI and Host header are those of the name. Proxies of the environment are not used, because they
would resolve names without the check.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import ssl
import string
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpcore

_KEEP_ALIVE_SECONDS = 4.0
"""Idle connections are closed earlier than by most servers: Apache's default is five seconds."""
_MAX_CONNECT_SECONDS = 10.0
"""A server that is up accepts a connection sooner, even if its answers take long."""
_OPENING_TIMEOUTS = 4
"""Connecting and reading the headers may take so many timeouts in all, in case a server sends them byte by byte."""
_OP_LEGACY_SERVER_CONNECT = 0x4
"""OpenSSL's option for servers without secure renegotiation; Python names it from 3.12 on."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)
"""Time on the monotonic clock at which the request of this thread must have ended."""


class NoAnswer(ConnectionError):
    """A request without a whole answer.

    ``reason`` is ``unreachable``, ``timeout``, ``truncated``, ``too_large``, ``bad_certificate`` or ``private_address``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class PrivateAddress(NoAnswer):
    """A host without a public address; raised before connecting, so that it reveals nothing about the host's ports."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__("private_address", f"{host} lies at the private address {address}")
        self.address = address


@dataclass
class Answer:
    """Status, headers and body of an answer."""

    status: int
    headers: list[tuple[str, str]]
    """In the spelling and order of the server; bytes beyond ASCII as Latin-1."""
    address: str
    """IP address of the server."""
    blocks: Iterator[bytes]
    """The body as it arrives, with its Content-Encoding. Raises NoAnswer when it breaks off."""
    body: bytes = b""
    """What ``Client.read`` has read of the body."""

    def header(self, name: str) -> str:
        """Return the last value of a header, or an empty string."""
        return next((value for key, value in reversed(self.headers) if key.lower() == name.lower()), "").strip()

    @property
    def content_encoding(self) -> str:
        """All compressions of the body, in the order in which they were applied."""
        return ",".join(value for key, value in self.headers if key.lower() == "content-encoding")

    @property
    def location(self) -> str:
        """The target of a redirect, or an empty string. Bytes beyond ASCII are kept, as in browsers."""
        value = self.header("Location") if 300 <= self.status < 400 else ""
        return quote(value.encode("latin-1"), safe=string.punctuation + " ")


class Client:
    """Connections to web servers; thread-safe.

    ``may_be_private`` returns whether a host may have a private address. ``timeout_seconds`` is the longest time without a
    byte.
    """

    def __init__(
        self, *, user_agent: str, may_be_private: Callable[[str], bool], timeout_seconds: float, verify: bool = True
    ) -> None:
        self._headers = [("User-Agent", user_agent)]
        self._timeout = dict.fromkeys(("read", "write", "pool"), timeout_seconds)
        self._timeout["connect"] = min(_MAX_CONNECT_SECONDS, timeout_seconds)
        self._pool = httpcore.ConnectionPool(
            ssl_context=_tls(verify),
            max_connections=None,
            keepalive_expiry=_KEEP_ALIVE_SECONDS,
            network_backend=_CheckedBackend(may_be_private),
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    @contextmanager
    def get(self, url: str, headers: Iterable[tuple[str, str]] = (), within_seconds: float = math.inf) -> Iterator[Answer]:
        """Request an ASCII URL (see ``ascii_url``) without following redirects. Raises NoAnswer."""
        sent = [("Host", urlsplit(url).netloc.rpartition("@")[2]), *self._headers, *headers]
        begin = time.monotonic()
        token = _deadline.set(begin + min(within_seconds, _OPENING_TIMEOUTS * self._timeout["read"]))
        try:
            with ExitStack() as stack:
                with _raising("unreachable"):
                    request = self._pool.stream("GET", url, headers=sent, extensions={"timeout": self._timeout})
                    response = stack.enter_context(request)
                _deadline.set(begin + within_seconds)
                peer = response.extensions["network_stream"].get_extra_info("peer")
                received = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers]
                yield Answer(response.status, received, peer, _blocks(response))
        finally:
            _deadline.reset(token)

    def read(self, url: str, headers: Iterable[tuple[str, str]], max_bytes: int, within_seconds: float) -> Answer:
        """Return an answer with its body. Raises NoAnswer; an answer of another status than 2xx may lack its body."""
        with self.get(url, headers, within_seconds) as answer:
            if 200 <= answer.status < 300:
                answer.body = _limited(answer, max_bytes)
            else:
                with suppress(NoAnswer):  # read so that the connection can be used again
                    _limited(answer, max_bytes)
            return answer


def ascii_url(url: str) -> str:
    """Encode the host in IDNA, and all else beyond ASCII with percent signs. Raises ValueError."""
    parts = urlsplit(url)
    if not parts.hostname or parts.port == 0:  # reading an invalid port raises ValueError
        raise ValueError(f"{url} names no host and port")
    netloc = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode("ascii")
    return urlunsplit((parts.scheme, netloc, *(quote(part, safe=string.punctuation) for part in (parts.path, parts.query)), ""))


def _limited(answer: Answer, max_bytes: int) -> bytes:
    announced = answer.header("Content-Length")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise NoAnswer("too_large", f"{int(announced):,} bytes announced, more than {max_bytes:,}")
    parts: list[bytes] = []
    size = 0
    for block in answer.blocks:
        size += len(block)
        if size > max_bytes:
            raise NoAnswer("too_large", f"more than {max_bytes:,} bytes")
        parts.append(block)
    return b"".join(parts)


def _blocks(response: httpcore.Response) -> Iterator[bytes]:
    with _raising("truncated"):
        yield from response.iter_stream()


@contextmanager
def _raising(default_reason: str) -> Iterator[None]:
    """Translate httpcore's errors into NoAnswer."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise NoAnswer("timeout", str(error) or "no answer in time") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
        bad = error.args and isinstance(error.args[0], ssl.SSLCertVerificationError)
        raise NoAnswer("bad_certificate" if bad else default_reason, str(error) or type(error).__name__) from None


def _tls(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.options |= _OP_LEGACY_SERVER_CONNECT
    return context


def _addresses(host: str, port: int, may_be_private: bool) -> list[str]:
    """Return the allowed addresses of a host. Raises NoAnswer."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NoAnswer("unreachable", str(error)) from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    allowed = [address for address in addresses if may_be_private or is_public(address)]
    if not allowed:
        raise PrivateAddress(host, addresses[0])
    return allowed


def _time_left(timeout: float | None) -> float:
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the answer took too long")
    return left if timeout is None else min(timeout, left)


class _CheckedBackend(httpcore.SyncBackend):
    def __init__(self, may_be_private: Callable[[str], bool]) -> None:
        self._may_be_private = may_be_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _addresses(host, port, self._may_be_private(host))
        for untried in range(len(addresses), 0, -1):  # each gets a share of the time, because the first may never answer
            address, share = addresses[-untried], _time_left(timeout) / untried
            try:
                return _Stream(super().connect_tcp(address, port, share, local_address, socket_options), address)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if untried == 1:
                    raise
        raise AssertionError("a host has an address")


class _Stream(httpcore.NetworkStream):
    """A connection on which nothing takes longer than the deadline of the request."""

    def __init__(self, inner: httpcore.NetworkStream, address: str) -> None:
        self._inner, self._address = inner, address

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _time_left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _time_left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _time_left(timeout)), self._address)

    def get_extra_info(self, info: str) -> Any:
        return self._address if info == "peer" else self._inner.get_extra_info(info)


def is_public(address: str) -> bool:
    """Return whether an IP address is public, also for an IPv4 address within an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(inner.is_global and not inner.is_multicast and not inner.is_reserved for inner in _unwrapped(parsed)) and not (
        isinstance(parsed, ipaddress.IPv6Address) and parsed.is_site_local
    )


def _unwrapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    if isinstance(address, ipaddress.IPv6Address):
        if inner := address.ipv4_mapped or address.sixtofour:
            return [inner]
        if address.teredo is not None:
            return list(address.teredo)
        if address in _NAT64:
            return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address]
