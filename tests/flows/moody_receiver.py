"""A receiver of webhooks that misbehaves on request."""

from __future__ import annotations

import socket
import threading
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import msgspec

Mood = Literal["refuses", "takes and refuses", "hangs", "takes and hangs", "answers twice", "cuts"]
MOODS: tuple[Mood, ...] = (
    "refuses",
    "takes and refuses",
    "hangs",
    "takes and hangs",
    "answers twice",
    "cuts",
)


class MoodyReceiver:
    """A receiver of webhooks on one port, which may be down for a while.

    Each request takes the first item of `moods` and is handled accordingly; without an item it is
    handled normally. A request that `hangs` gets no answer: the receiver waits until the sender
    closes the connection.
    """

    def __init__(self) -> None:
        self.moods: deque[Mood] = deque()
        self.taken: list[dict[str, Any]] = []
        self.requests = 0
        self._server = self._started(0)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/payouts"

    def _started(self, port: int) -> ThreadingHTTPServer:
        receiver = self

        class Handler(_Handler):
            owner = receiver

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def go_down(self) -> None:
        """Refuse connections."""
        self._server.shutdown()
        self._server.server_close()

    def come_back(self) -> None:
        self._server = self._started(self.port)

    def __enter__(self) -> MoodyReceiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_down()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: MoodyReceiver

    def do_POST(self) -> None:
        owner = self.owner
        body = self.rfile.read(int(self.headers["content-length"]))
        mood = owner.moods.popleft() if owner.moods else None
        if mood not in ("refuses", "hangs"):
            owner.taken.extend(msgspec.json.decode(body))
        owner.requests += 1
        if mood in ("hangs", "takes and hangs"):
            with suppress(OSError):
                while self.connection.recv(1):
                    pass
        if mood in ("hangs", "takes and hangs", "cuts"):
            self.close_connection = True
            return
        status = 500 if mood in ("refuses", "takes and refuses") else 200
        answer = f"HTTP/1.1 {status} Answer\r\nContent-Length: 0\r\n\r\n".encode()
        with suppress(OSError):
            self.connection.sendall(answer * (2 if mood == "answers twice" else 1))

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
