"""Servers for tests of the client, made of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx

from laurels.api.leaderboards import Leaderboards
from laurels.stores.http.store import RemoteStore
from laurels.stores.http.transport import ServiceAddress, Wire

Answer = httpx.Response | Exception


class Script:
    """A server that gives the prepared answers in turn, and records the requests."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = iter(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def open(self, key: str | None = None) -> Leaderboards:
        """Return `Leaderboards` that send requests to this server. Pauses of the client take no
        time and are recorded in `slept`."""
        keys = numbered("key")
        address = ServiceAddress("http://boards", key)
        transport = httpx.MockTransport(self)
        return Leaderboards(RemoteStore(Wire(address, keys, self.slept.append, transport)))


def numbered(name: str) -> Callable[[], str]:
    """Return a function that returns name-0, name-1, and so on."""
    numbers: Iterator[int] = iter(range(1_000))
    return lambda: f"{name}-{next(numbers)}"


def refusal(status: int, code: str, what: str = "no", **headers: str) -> httpx.Response:
    """Return a problem document."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    document = {"status": status, "code": code, "what": what, "advice": "wait"}
    return httpx.Response(status, json=document, headers=names)
