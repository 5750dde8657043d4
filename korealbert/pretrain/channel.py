"""JSON lines over one TCP connection between two machines of a run, who prove to each other that they know its secret."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import secrets
import socket
import struct
import threading
from typing import Any

HANDSHAKE_SECONDS = 10.0
"""How long the other side may take to prove itself."""

MAX_LINE = 1 << 22
"""Bytes of one message at most."""

KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 15_000}
"""A machine that vanishes without a word (power, network) is noticed within some 11 seconds."""

SIOCGIFADDR = 0x8915
"""Linux: the IPv4 address of an interface."""


class ChannelClosed(ConnectionError):
    """The other side has gone, or is not whom it should be."""


class Channel:
    """One connection. ``send`` may be called from any thread, ``receive`` from one."""

    def __init__(self, connection: socket.socket, secret: str, *, leader: bool) -> None:
        """Shake hands. Raises ChannelClosed where the other side does not know the secret, or stays silent."""
        self._socket = connection
        self._lock = threading.Lock()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connection.settimeout(HANDSHAKE_SECONDS)
        self._reader = connection.makefile("rb")
        try:
            self._shake_hands(secret, leader=leader)
        except ChannelClosed:
            self.close()
            raise
        connection.settimeout(None)

    def _shake_hands(self, secret: str, *, leader: bool) -> None:
        own = secrets.token_hex(16)
        self.send({"nonce": own})
        theirs = str(self.receive().get("nonce", ""))
        roles = ("leader", "member") if leader else ("member", "leader")
        self.send({"proof": _proof(secret, roles[0], theirs)})
        if not hmac.compare_digest(str(self.receive().get("proof", "")), _proof(secret, roles[1], own)):
            raise ChannelClosed("the other side does not know the secret of this run")

    def send(self, message: dict[str, Any]) -> None:
        """Raises ChannelClosed where nobody listens any more."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._lock:
                self._socket.sendall(line)
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self) -> dict[str, Any]:
        """The next message. Raises ChannelClosed at the end, and for anything that is no message."""
        try:
            line = self._reader.readline(MAX_LINE)
            message = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError) as error:
            raise ChannelClosed(str(error)) from None
        if not isinstance(message, dict):
            raise ChannelClosed("the connection has ended")
        return message

    def close(self) -> None:
        """End the connection; a thread in ``receive`` hears of it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._reader.close()
        self._socket.close()

    @property
    def interface(self) -> str | None:
        """The network interface that this side of the connection uses, for gloo and NCCL; None where it cannot be told."""
        return interface_of(str(self._socket.getsockname()[0]))


def interface_of(address: str) -> str | None:
    """The interface with this IPv4 address, or None."""
    if address.startswith("127."):
        return "lo"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return None


def _proof(secret: str, role: str, nonce: str) -> str:
    return hmac.digest(secret.encode(), f"{role} {nonce}".encode(), "sha256").hex()
