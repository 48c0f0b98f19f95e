"""A proxy between a process and its server. It makes requests or answers disappear.

It forwards bytes in both directions until it meets a request that contains certain bytes. Then it
does one of three things, as the test has chosen:

- It forwards the request and waits for the answer. It forwards nothing or only a part of this
  answer, and then cuts the connection.
- It keeps the request, cuts the connection at once, and forwards the request much later.
- It holds the request, and everything after it on this connection, until the test releases it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

_CHUNK = 1 << 16


class Listening(Protocol):
    """A server that listens on a port of this machine."""

    port: int


class Proxy:
    """A proxy that listens on a port of its own and forwards to one server."""

    def __init__(self, server: Listening) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._doomed: bytes | None = None
        self._times = 0
        self._refusing = False
        self._refuse_then = False
        self._forwarded = 0
        self._kept: bytes | None = None
        self._late: list[bytes] = []
        self._noticed: bytes | None = None
        self._then: Callable[[], None] = lambda: None
        self._withheld: bytes | None = None
        self._has_held = threading.Event()
        self._released = threading.Event()
        self.cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def cut_after(self, part: bytes, times: int = 1, *, refuse: bool = False) -> None:
        """For the next `times` requests that contain these bytes, cut the connection before the
        answer is forwarded. With `refuse`, accept no more connections afterwards."""
        self.cut_within(part, 0, times)
        self._refuse_then = refuse

    def cut_within(self, part: bytes, length: int, times: int = 1) -> None:
        """For the next `times` requests that contain these bytes, cut the connection when this many
        bytes of the answer are forwarded."""
        self._doomed, self._times, self._refusing = part, times, False
        self._forwarded, self._refuse_then = length, False

    def keep_back(self, part: bytes, then: Callable[[], None] = lambda: None) -> None:
        """Keep the next request that contains these bytes, call `then`, and cut the connection."""
        self._kept, self._then = part, then

    def notice(self, part: bytes, then: Callable[[], None]) -> None:
        """Call `then` before forwarding the next request that contains these bytes."""
        self._noticed, self._then = part, then

    def hold(self, part: bytes) -> None:
        """Hold the next request that contains these bytes until `release` is called."""
        self._has_held.clear()
        self._released.clear()
        self._withheld = part

    def wait_until_held(self, seconds: float = 60) -> None:
        assert self._has_held.wait(seconds), "no request was held"

    def release(self) -> None:
        """Forward the request that is being held."""
        self._released.set()

    def deliver_late(self) -> list[bytes]:
        """Forward the requests that were kept back. Return the server's answer to each."""
        answers = []
        for data in self._late:
            with socket.create_connection(("127.0.0.1", self._server.port)) as far:
                far.sendall(data)
                answers.append(far.recv(_CHUNK))
        return answers

    def accept_again(self) -> None:
        self._refusing = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._refusing:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._server.port))
            self._open += [near, far]
            link = _Link(near, far)
            threading.Thread(target=self._forth, args=(link,), daemon=True).start()
            threading.Thread(target=self._back, args=(link,), daemon=True).start()

    def _forth(self, link: _Link) -> None:
        with suppress(OSError):
            while data := link.near.recv(_CHUNK):
                if self._kept is not None and self._kept in data:
                    self._late.append(data)
                    self._kept = None
                    self._then()
                    break
                if self._noticed is not None and self._noticed in data:
                    self._noticed = None
                    self._then()
                if self._withheld is not None and self._withheld in data:
                    self._withheld = None
                    self._has_held.set()
                    self._released.wait(60)
                if self._doomed is not None and self._doomed in data and self._times > 0:
                    self._times -= 1
                    link.left = self._forwarded
                link.far.sendall(data)
        link.close()

    def _back(self, link: _Link) -> None:
        with suppress(OSError):
            while data := link.far.recv(_CHUNK):
                if link.left is not None and link.left < len(data):
                    link.near.sendall(data[: link.left])
                    self.cut += 1
                    self._refusing = self._refuse_then and not self._times
                    break
                if link.left is not None:
                    link.left -= len(data)
                link.near.sendall(data)
        link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        for each in self._open:
            each.close()


class _Link:
    """The connection of a client to the proxy, and the proxy's connection to the server for the
    requests of this client."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near, self.far = near, far
        self.left: int | None = None
        """The number of bytes from the server that are still forwarded before the connection is
        cut."""

    def close(self) -> None:
        for each in (self.near, self.far):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
