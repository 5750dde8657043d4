"""Which user's process listens on a port of this machine. Any user may listen on a free port, and would receive the
password."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

_LISTENS = "0A"
"""Code of the listening state in Linux's socket tables."""
_SOCKET_TABLES = Path("/proc/net")
"""Where Linux has its socket tables, ``tcp`` and ``tcp6``."""


def other_owner(url: str) -> str | None:
    """Return which user's process listens at a URL of this machine, if it is neither this user nor root.

    Returns None if nobody listens, for hosts other than loopback, and on systems without ``/proc/net/tcp`` (Linux has it).
    """
    try:
        address = urlsplit(url)
        port = address.port or {"http": 80, "https": 443}[address.scheme]
        found = socket.getaddrinfo(address.hostname, port, type=socket.SOCK_STREAM)
        listening = list(_listening(port))
    except (OSError, ValueError, KeyError):
        return None
    for target in {_plain(ip_address(str(place[0]).partition("%")[0])) for *_, place in found}:
        if not (target.is_loopback or target.is_unspecified):
            continue
        # The kernel prefers a socket on exactly this address to one on all addresses.
        owners = [uid for at, uid in listening if at == target] or [uid for at, uid in listening if at.is_unspecified]
        strangers = [uid for uid in owners if uid not in (0, os.geteuid())]
        if strangers:
            return f"a process of another user, {_name(strangers[0])} (uid {strangers[0]}), listens there"
    return None


def _listening(port: int) -> Iterator[tuple[IPv4Address | IPv6Address, int]]:
    """Yield address and user of each socket that listens on a port."""
    for table in _SOCKET_TABLES.glob("tcp*"):  # A kernel without IPv6 has no tcp6.
        for line in table.read_text("ascii").splitlines()[1:]:
            _, local, _, state, _, _, _, uid, *_ = line.split()
            address, _, number = local.partition(":")
            if state == _LISTENS and int(number, 16) == port:
                words = [bytes.fromhex(address[at : at + 8]) for at in range(0, len(address), 8)]  # in the machine's byte order
                yield _plain(ip_address(b"".join(word[:: -1 if sys.byteorder == "little" else 1] for word in words))), int(uid)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return getattr(address, "ipv4_mapped", None) or address


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "without a name"
