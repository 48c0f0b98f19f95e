"""Requests as raw bytes, which no client library would send."""

from __future__ import annotations

import socket
from http.client import HTTPResponse
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

WITHIN_SECONDS = 60


class Answered(NamedTuple):
    """An answer of a server, parsed."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """Return the code of the problem document."""
        assert self.headers["content-type"] == "application/problem+json"
        return str(msgspec.json.decode(self.body)["code"])


class Wire:
    """A connection to a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._socket = socket.create_connection((parts.hostname, parts.port), WITHIN_SECONDS)

    def send(self, raw: bytes) -> Self:
        self._socket.sendall(raw)
        return self

    def answer(self, method: str = "GET") -> Answered:
        """Return the next answer. Raise ConnectionError if the server closes the connection without
        one."""
        answer = HTTPResponse(self._socket, method=method)
        answer.begin()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answered(answer.status, headers, answer.read())

    def rest(self) -> bytes:
        """Return all bytes until the server closes the connection."""
        parts = []
        try:
            while part := self._socket.recv(65_536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def request(method: str, target: bytes, body: bytes | None = None, headers: bytes = b"") -> bytes:
    """Return the bytes of a request. `headers` are complete lines with their line ends."""
    if body is not None:
        headers += b"Content-Length: %d\r\n" % len(body)
    return b"%b %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n%b" % (
        method.encode(),
        target,
        headers,
        body or b"",
    )


def answer_of(
    url: str, method: str, target: bytes, body: bytes | None = None, headers: bytes = b""
) -> Answered:
    """Send one request on a new connection. Return the answer."""
    with Wire(url) as wire:
        return wire.send(request(method, target, body, headers)).answer(method)
