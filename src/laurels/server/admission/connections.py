"""Limit connections, both in total and for each client address.

The HTTP server accepts connections in native code, and an idle connection never becomes a request.
So connections are counted by examining the descriptors of this process, which takes some
microseconds for each descriptor. A thread examines a few hundred descriptors at a time. Nothing is
examined while the whole process has no more descriptors than the number of connections that one
address may have.
"""

import asyncio
import os
import resource
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

from laurels.server.process.descriptors import borrowed, open_descriptors

from .client_address import address_block

CHECK_SECONDS = 1.0
_RESERVED = 256
"""The number of descriptors reserved for other things than connections: files, the log, an index
server."""
_AT_ONCE = 512

Connection: TypeAlias = tuple[int, str, int]
"""The descriptor of a connection, and the client's address and port."""


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard limit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS reports a hard limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allowed_connections(wanted: int, descriptors: int) -> int:
    """Return how many of the `wanted` connections a process may have if it can open at most
    `descriptors` descriptors."""
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return max(16, min(wanted, descriptors - _RESERVED))


class ConnectionGuard:
    """Closes the connections of a client address beyond `most_each`. An address for which `exempt`
    is true may have any number of connections; these are the addresses of trusted proxies. `closed`
    is called with an address and the number of its connections that were closed."""

    def __init__(
        self,
        port: int,
        most_each: int,
        exempt: Callable[[str], bool],
        closed: Callable[[str, int], object],
    ) -> None:
        self._port = port
        self._most_each = most_each
        self._exempt = exempt
        self._closed = closed

    async def watch(self) -> None:
        """Check the connections periodically, until the task is cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Close the connections of each address beyond its limit. O(descriptors), in threads."""
        descriptors = await asyncio.to_thread(open_descriptors)
        if len(descriptors) <= self._most_each:
            return
        by_address: dict[str, list[Connection]] = {}
        for start in range(0, len(descriptors), _AT_ONCE):
            some = descriptors[start : start + _AT_ONCE]
            for connection in await asyncio.to_thread(_connections, some, self._port):
                by_address.setdefault(connection[1], []).append(connection)
        by_block: dict[str, list[Connection]] = {}
        for address, connections in by_address.items():
            if not self._exempt(address):
                by_block.setdefault(address_block(address), []).extend(connections)
        for block, connections in by_block.items():
            if excess := connections[self._most_each :]:
                await asyncio.to_thread(_close_all, excess)
                self._closed(block, len(excess))


def _connections(descriptors: Iterable[int], port: int) -> list[Connection]:
    """Return the descriptors that are connections to a port."""
    connections = []
    for descriptor in descriptors:
        with suppress(OSError), borrowed(descriptor) as connection:
            own = connection.getsockname()
            if isinstance(own, tuple) and len(own) > 1 and own[1] == port:
                address, client_port = connection.getpeername()[:2]
                connections.append((descriptor, address, client_port))
    return connections


def _close_all(connections: Iterable[Connection]) -> None:
    """Shut connections down. Each descriptor is duplicated first, and the client of the duplicate
    compared with the expected one, since the number of the descriptor may have been reused."""
    for descriptor, address, port in connections:
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as pinned:
            if pinned.getpeername()[:2] == (address, port):
                pinned.shutdown(socket.SHUT_RDWR)
