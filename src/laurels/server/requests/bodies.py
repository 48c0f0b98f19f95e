"""Read the body of a request, within limits on the body's size, on its time, and on the bytes of
all bodies.

A small body is read in one go. A larger body is read in parts, and only the bytes that have arrived
are counted. So a client that announces a large body and sends little of it does not use up the
limit. Every body has some seconds to arrive; a large body gets another second for each `LEAST_RATE`
bytes that have arrived.
"""

import asyncio

from granian.rsgi import HTTPProtocol, ProtocolClosed  # type: ignore[attr-defined]

from laurels.errors.service import BodyTimedOut, InvalidBody, Overloaded
from laurels.model.validation import quoted
from laurels.wire import requests

from .deadlines import Deadlines

SMALL = 64 << 10
"""The greatest size, in bytes, of a body that is read in one go and decoded on the event loop."""
LEAST_RATE = 64 << 10
"""The average rate, in bytes a second, at which a large body has to arrive."""


class Bodies:
    """The bodies that are being read or processed. All of them together may have `most` bytes, and
    the bodies of one caller half as many."""

    def __init__(self, most: int, seconds: float, deadlines: Deadlines) -> None:
        self._most = most
        self._seconds = seconds
        self._deadlines = deadlines
        self._each: dict[str, int] = {}
        self.nbytes = 0

    async def read(
        self, caller: str, length: str | None, protocol: HTTPProtocol, most: int
    ) -> bytes:
        """Return the body of a request, which may have `most` bytes; `length` is the request's
        Content-Length. The body counts towards the limits of `Bodies` until `release` is called.

        Raises BodyTooLarge for a body of more than `most` bytes, BodyTimedOut, Overloaded if a
        limit of `Bodies` would be exceeded, and InvalidBody if the client disconnects before the
        end of the body.
        """
        task = asyncio.current_task()
        assert task is not None
        self._deadlines.set(task, self._seconds)
        try:
            if length is not None and length.isdigit():
                size = int(length)
                requests.ensure_size(size, most)
                if size <= SMALL:
                    return await self._read_small(caller, size, protocol)
            return await self._read_parts(caller, task, protocol, most)
        except ProtocolClosed as error:
            raise InvalidBody("the client disconnected before the end of the body") from error
        except asyncio.CancelledError:
            if not self._deadlines.has_expired(task):
                raise
            raise BodyTimedOut("the body did not arrive in time") from None
        finally:
            self._deadlines.remove(task)

    def release(self, caller: str, nbytes: int) -> None:
        """Stop counting the bytes of a body that has been processed."""
        if not nbytes:
            return
        self.nbytes -= nbytes
        left = self._each[caller] - nbytes
        if left:
            self._each[caller] = left
        else:
            del self._each[caller]

    def _take(self, caller: str, nbytes: int) -> None:
        mine = self._each.get(caller, 0)
        if self.nbytes + nbytes > self._most or mine + nbytes > self._most // 2:
            raise Overloaded(
                f"the bodies in progress have {self.nbytes:,} bytes, {mine:,} of them of "
                f"{quoted(caller)}"
            )
        self.nbytes += nbytes
        self._each[caller] = mine + nbytes

    async def _read_small(self, caller: str, size: int, protocol: HTTPProtocol) -> bytes:
        self._take(caller, size)
        try:
            return await protocol()
        except BaseException:
            self.release(caller, size)
            raise

    async def _read_parts(
        self, caller: str, task: asyncio.Task[object], protocol: HTTPProtocol, most: int
    ) -> bytes:
        parts, is_whole = bytearray(), True
        taken = 0
        try:
            async for part in protocol:
                # An empty part is the last one, unless the client has disconnected before the end.
                if not is_whole:
                    raise InvalidBody("the client disconnected before the end of the body")
                is_whole = bool(part)
                requests.ensure_size(taken + len(part), most)
                self._take(caller, len(part))
                taken += len(part)
                parts += part
                self._deadlines.extend(task, len(part) / LEAST_RATE)
        except BaseException:
            self.release(caller, taken)
            raise
        return bytes(parts)
