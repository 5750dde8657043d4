"""No request into private networks: names are resolved here, and only public addresses are passed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.interfaces import IHostnameResolver
from zope.interface import implementer

from korealbert.corpus.crawl.context import SETTING, Snapshot
from korealbert.corpus.crawl.public_addresses import is_public


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

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[Any] | None = None,
        transportSemantics: str = "TCP",
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

    def addressResolved(self, address: Any) -> None:
        """For Twisted."""
        if is_public(address.host):
            self._refused.pop(self._host, None)
            self._receiver.addressResolved(address)
        else:
            self._refused[self._host] = address.host
