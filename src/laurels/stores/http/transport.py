"""Sends calls to a service, from threads and from event loops."""

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from laurels.core.board_version import BoardVersion
from laurels.errors import Closed, Forked

from .call import Call
from .retries import RetryPolicy, unreachable
from .seen import HEADER, SeenVersions

T = TypeVar("T")
_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 60.0
_TIMEOUT = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
_NO_TIMEOUT = httpx.Timeout(None, connect=_CONNECT_SECONDS)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=100)
_AT_ONCE = 16
"""The maximum number of requests of one event loop that are in progress at a time. More would need
more connections, and each connection makes all requests more expensive."""
_BROKEN = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL)


@dataclass(frozen=True)
class ServiceAddress:
    """The address of a service: its URL without a final slash, and the key for requests."""

    base: str
    key: str | None = None

    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    @property
    def is_secure(self) -> bool:
        return self.base.startswith("https:")


class _OpenState:
    """Checks before each call that a wire is open, and that this process opened it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.closed = False

    def ensure(self) -> None:
        """Raise Closed if the wire was closed, and Forked in a child of the process that opened
        it."""
        if self._pid != os.getpid():
            raise Forked(f"the store was opened by process {self._pid}")
        if self.closed:
            raise Closed("the store is closed")


class Wire:
    """Sends calls from threads. `sleep` waits between attempts, `new_key` makes an
    Idempotency-Key."""

    def __init__(
        self,
        address: ServiceAddress,
        new_key: Callable[[], str],
        sleep: Callable[[float], object],
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.address = address
        self.seen = SeenVersions()
        self._new_key = new_key
        self._sleep = sleep
        self._open_state = _OpenState()
        self._http = httpx.Client(
            headers=address.headers(),
            timeout=_TIMEOUT,
            limits=_LIMITS,
            verify=address.is_secure,
            transport=transport,
        )

    def answer(self, call: Call[T]) -> T:
        """Send a call and return the verb's result."""
        response = self._send(call)
        return call.answer(response.status_code, response.content)

    def lines(self, call: Call[Any]) -> Iterator[bytes]:
        """Send a call, and return an iterator over the lines of its streamed answer as soon as the
        status and the headers have arrived."""
        response = self._send(call, stream=True)
        if not response.is_success:
            call.answer(response.status_code, response.read())
        return _Lines(response, self.address)

    def close(self) -> None:
        self._open_state.closed = True
        self._http.close()

    def _send(self, call: Call[Any], *, stream: bool = False) -> httpx.Response:
        self._open_state.ensure()
        retries = RetryPolicy(call, self.address.base)
        version = self.seen.newest(call.board)
        request = _request(self._http, self.address, call, self._new_key, version)
        while True:
            try:
                response = self._http.send(request, stream=True)
                if stream and response.is_success:
                    return response
                response.read()
            except _BROKEN as error:
                seconds: float | None = retries.after_break(error, was_sent=_was_sent(error))
            else:
                seconds = retries.after_answer(
                    response.status_code, response.headers, response.content
                )
                if seconds is None:
                    self.seen.note(call.board, version, response.headers.get(HEADER))
                    return response
            self._sleep(seconds or 0)


class AsyncWire:
    """Sends calls from tasks of an event loop."""

    def __init__(
        self,
        address: ServiceAddress,
        new_key: Callable[[], str],
        sleep: Callable[[float], Awaitable[object]],
        transport: httpx.AsyncBaseTransport | None = None,
        seen: SeenVersions | None = None,
    ) -> None:
        self.address = address
        self.seen = SeenVersions() if seen is None else seen
        self._new_key = new_key
        self._sleep = sleep
        self._semaphore = asyncio.Semaphore(_AT_ONCE)
        self._open_state = _OpenState()
        self._http = httpx.AsyncClient(
            headers=address.headers(),
            timeout=_TIMEOUT,
            limits=_LIMITS,
            verify=address.is_secure,
            transport=transport,
        )

    async def answer(self, call: Call[T]) -> T:
        response = await self._send(call)
        return call.answer(response.status_code, response.content)

    async def close(self) -> None:
        self._open_state.closed = True
        await self._http.aclose()

    async def _send(self, call: Call[Any]) -> httpx.Response:
        self._open_state.ensure()
        retries = RetryPolicy(call, self.address.base)
        version = self.seen.newest(call.board)
        request = _request(self._http, self.address, call, self._new_key, version)
        while True:
            try:
                async with self._semaphore:
                    response = await self._http.send(request)
            except _BROKEN as error:
                seconds: float | None = retries.after_break(error, was_sent=_was_sent(error))
            else:
                seconds = retries.after_answer(
                    response.status_code, response.headers, response.content
                )
                if seconds is None:
                    self.seen.note(call.board, version, response.headers.get(HEADER))
                    return response
            await self._sleep(seconds or 0)


class _Lines:
    """The lines of a streamed answer. When this object is garbage-collected, the connection is
    released."""

    def __init__(self, response: httpx.Response, address: ServiceAddress) -> None:
        self._lines = _split(response, address)
        weakref.finalize(self, response.close)

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> bytes:
        return next(self._lines)


def _split(response: httpx.Response, address: ServiceAddress) -> Iterator[bytes]:
    rest = b""
    try:
        for chunk in response.iter_bytes():
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
    except _BROKEN as error:
        raise unreachable(address.base, error) from error


def _request(
    http: "httpx.Client | httpx.AsyncClient",
    address: ServiceAddress,
    call: Call[Any],
    new_key: Callable[[], str],
    version: BoardVersion | None,
) -> httpx.Request:
    headers = call.headers(new_key)
    if version is not None:
        headers[HEADER] = version.text()
    return http.build_request(
        call.method,
        address.base + call.target,
        content=call.body,
        headers=headers,
        timeout=_NO_TIMEOUT if call.no_timeout else _TIMEOUT,
    )


def _was_sent(error: Exception) -> bool:
    return not isinstance(error, _NOT_SENT)
