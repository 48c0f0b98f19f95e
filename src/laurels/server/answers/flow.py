"""Flow control of a stream: before a stream sends more, it asks the kernel how many bytes have not
arrived yet.

The HTTP server accepts all data of a stream, and keeps the data in memory until the client reads
it. So a stream waits here while too many bytes are in flight. A client that stops reading then
costs only one frame and the buffers of its connection.
"""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import suppress

from laurels.server.process.descriptors import borrowed

from .peers import PeerDescriptors, peer_of

MOST_BYTES = 64 * 1024
"""The most bytes in flight: enough for a connection over the internet, and few enough to bound
memory."""
CHECK_BYTES = 16 * 1024
"""The number of bytes sent between two checks."""
CHECK_SECONDS = 0.02
MOST_CHECK_SECONDS = 0.2
_TCP_INFO = getattr(socket, "TCP_INFO", -1)
_ACKED = slice(120, 128)
"""The bytes of Linux's `tcp_info` that hold `tcpi_bytes_acked`."""


class Flow:
    """The connection of a stream, identified by the address of its client (`ip:port`). The
    connection's descriptor is looked up when it is first needed: for a check, or to close the
    connection."""

    def __init__(self, client: str, descriptors: PeerDescriptors) -> None:
        host, _, port = client.rpartition(":")
        self._peer = host.strip("[]"), int(port) if port.isdigit() else 0
        self._descriptors = descriptors
        self._descriptor: int | None = None
        self._was_searched = False
        self._unchecked = 0

    @property
    def on_its_way(self) -> int:
        """The number of bytes that were sent and not acknowledged; 0 once the connection is
        gone."""
        if self._descriptor is None or peer_of(self._descriptor) != self._peer:
            return 0
        with suppress(OSError):
            answer = fcntl.ioctl(self._descriptor, termios.TIOCOUTQ, bytes(4))
            return int(struct.unpack("i", answer)[0])
        return 0

    @property
    def _taken(self) -> int:
        """The number of bytes that the client has acknowledged, counted from an arbitrary
        origin."""
        if self._descriptor is None or peer_of(self._descriptor) != self._peer:
            return 0
        with suppress(OSError), borrowed(self._descriptor) as connection:
            info = connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _ACKED.stop)
            if len(info) == _ACKED.stop:
                return int.from_bytes(info[_ACKED], sys.byteorder)
        return -self.on_its_way

    async def taken_after(self, nbytes: int) -> AsyncGenerator[None, None]:
        """Count `nbytes` more bytes as sent, and wait until more may be sent. Yield each time the
        client has acknowledged another `CHECK_BYTES` bytes."""
        self._unchecked += nbytes
        if self._unchecked < CHECK_BYTES:
            return
        self._unchecked = 0
        await self._search()
        wait_seconds = CHECK_SECONDS
        taken = self._taken
        while self.on_its_way > MOST_BYTES:
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, MOST_CHECK_SECONDS)
            if (now_taken := self._taken) - taken >= CHECK_BYTES:
                taken = now_taken
                yield

    async def cut(self) -> None:
        """Close the connection, even if the client has not read everything."""
        await self._search()
        if self._descriptor is not None and peer_of(self._descriptor) == self._peer:
            with suppress(OSError), borrowed(self._descriptor) as connection:
                connection.shutdown(socket.SHUT_RDWR)

    async def _search(self) -> None:
        if not self._was_searched:
            self._descriptor = await self._descriptors.find(self._peer)
            self._was_searched = True
