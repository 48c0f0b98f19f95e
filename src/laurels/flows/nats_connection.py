"""A connection to a NATS server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from laurels.flows.stream_url import nats_login

if TYPE_CHECKING:
    from nats.aio.client import Client


class NatsConnection:
    """A connection to a NATS server. If it is lost, it is not made again."""

    def __init__(self) -> None:
        self._lost = False
        self._waiting: set[asyncio.Timeout] = set()

    async def open(self, url: str, seconds: int) -> "Client":
        """Connect to a server, which has to answer within some seconds. Return the client of the
        library, which has to be closed; raise its errors, OSError or TimeoutError."""
        import nats  # noqa: PLC0415 (the package is optional)

        server, login = nats_login(url)
        return await nats.connect(
            servers=[server],
            **login,
            allow_reconnect=False,
            max_reconnect_attempts=1,  # otherwise a failure is reported only after two minutes
            reconnect_time_wait=0,
            connect_timeout=seconds,
            error_cb=_ignore,
            closed_cb=self._lose,
        )

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Raise ConnectionError in this context once the connection is lost. Without it, a call of
        the library would wait for its answer until its timeout."""
        try:
            async with asyncio.timeout_at(0 if self._lost else None) as timeout:
                self._waiting.add(timeout)
                try:
                    yield
                finally:
                    self._waiting.discard(timeout)
        except TimeoutError as error:
            if timeout.expired():
                raise ConnectionError("the connection was closed") from error
            raise

    async def _lose(self) -> None:
        self._lost = True
        for timeout in self._waiting:
            timeout.reschedule(0)


async def _ignore(_: Exception) -> None:
    """Ignore an error that the library reports here, since the failed call raises it as well."""
