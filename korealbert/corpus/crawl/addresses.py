"""No request into private networks: names are resolved here, and only public addresses are passed on."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from twisted.internet.interfaces import IHostnameResolver
from zope.interface import implementer

from korealbert.corpus.crawl.context import SETTING, Snapshot

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, also when it hides in an IPv6 form of an IPv4 address."""
    try:
        parsed: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(inner.is_global and not inner.is_multicast and not inner.is_reserved for inner in _unwrapped(parsed))


def _unwrapped(address: Address) -> list[Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address]


@implementer(IHostnameResolver)
class PublicResolver:
    """Passes every connection's name resolution through the rule above.

    It works on the addresses that are then connected to, so a name that changes its address between check and use gains
    nothing; literal addresses come here as well.
    """

    def __init__(self, reactor: Any, snapshot: Snapshot) -> None:
        self._reactor, self._inner, self._snapshot = reactor, reactor.nameResolver, snapshot

    @classmethod
    def from_crawler(cls, crawler: Any, reactor: Any) -> PublicResolver:
        """For Scrapy."""
        return cls(reactor, crawler.settings[SETTING])

    def install_on_reactor(self) -> None:
        """For Scrapy."""
        self._reactor.installNameResolver(self)

    def resolveHostName(  # noqa: N802
        self,
        resolutionReceiver: Any,  # noqa: N803
        hostName: str,  # noqa: N803
        portNumber: int = 0,  # noqa: N803
        addressTypes: Sequence[Any] | None = None,  # noqa: N803
        transportSemantics: str = "TCP",  # noqa: N803
    ) -> Any:
        """For Twisted."""
        receiver = resolutionReceiver
        if not self._snapshot.source.may_be_private(hostName):
            receiver = _PublicOnly(resolutionReceiver, hostName, self._snapshot.private)
        return self._inner.resolveHostName(receiver, hostName, portNumber, addressTypes, transportSemantics)


class _PublicOnly:
    """Receives addresses and passes the public ones on."""

    def __init__(self, receiver: Any, host: str, refused: dict[str, str]) -> None:
        self._receiver, self._host, self._refused = receiver, host, refused
        self.resolutionBegan = receiver.resolutionBegan
        self.resolutionComplete = receiver.resolutionComplete

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        """For Twisted."""
        if is_public(address.host):
            self._refused.pop(self._host, None)
            self._receiver.addressResolved(address)
        else:
            self._refused[self._host] = address.host
