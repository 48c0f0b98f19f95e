"""Find the descriptors of clients' connections, by one search for all waiting streams.

A request does not have the descriptor of its connection, so all open descriptors are searched for
the one with the client's address. That takes some microseconds per descriptor. If a thousand new
streams each made a search of their own, a million descriptors would be read. So all waiting streams
share one search, and the next search begins only after a pause.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeAlias

from laurels.server.process.descriptors import borrowed, open_descriptors

PAUSE_SECONDS = 0.1
"""The pause between two searches, in seconds."""
_AT_ONCE = 256
"""How many descriptors are read before other tasks of the loop run."""

Peer: TypeAlias = tuple[str, int]
"""The address and the port of a client."""


class PeerDescriptors:
    """The descriptors of the connections of one server, by the client's address and port."""

    def __init__(self) -> None:
        self._descriptors: dict[Peer, int] = {}
        self._next: asyncio.Future[None] | None = None
        self._searching: asyncio.Task[None] | None = None

    async def find(self, peer: Peer) -> int | None:
        """Return the descriptor of the connection to a peer, or None if there is none."""
        descriptor = self._descriptors.get(peer)
        if descriptor is None or peer_of(descriptor) != peer:
            await self._next_search()
            descriptor = self._descriptors.get(peer)
        return descriptor

    def _next_search(self) -> "asyncio.Future[None]":
        """Return a future that is done after the next search. A search that has already begun does
        not count."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if self._searching is None or self._searching.done():
            self._searching = asyncio.create_task(self._search())
        return asyncio.shield(self._next)

    async def _search(self) -> None:
        """Search repeatedly, while streams wait for a search."""
        while (waited_for := self._next) is not None:
            self._next = None
            by_peer: dict[Peer, int] = {}
            descriptors = open_descriptors()
            for start in range(0, len(descriptors), _AT_ONCE):
                by_peer.update(_by_peer(descriptors[start : start + _AT_ONCE]))
                await asyncio.sleep(0)
            self._descriptors = by_peer
            waited_for.set_result(None)
            await asyncio.sleep(PAUSE_SECONDS)


def peer_of(descriptor: int) -> Peer | None:
    """Return the peer of a descriptor, or None if the descriptor is not a connection."""
    with suppress(OSError), borrowed(descriptor) as connection:
        peer = connection.getpeername()
        if isinstance(peer, tuple) and len(peer) > 1:
            return peer[0], peer[1]
    return None


def _by_peer(descriptors: Iterable[int]) -> dict[Peer, int]:
    peers = ((peer_of(descriptor), descriptor) for descriptor in descriptors)
    return {peer: descriptor for peer, descriptor in peers if peer is not None}
