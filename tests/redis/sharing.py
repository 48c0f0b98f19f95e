"""A Redis or Valkey server for tests that only need a server, and do not stop, pause or fill it.

`LAURELS_TEST_REDIS` names a running server, whose database may have keys of others. Without the
variable, a server is started. In both cases, all keys of the tests have a prefix of their own, and
the tests delete only these keys.
"""

from __future__ import annotations

import os
from secrets import token_hex
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import redis

from .servers import WITHIN_SECONDS, Server

RUNNING = "LAURELS_TEST_REDIS"
"""The variable with the URL of a server that already runs: `redis://HOST:PORT/DATABASE`."""


class SharedServer:
    """A server, and the prefix of the keys that the tests of this process create there."""

    def __init__(self) -> None:
        running = os.environ.get(RUNNING)
        self._server: Server | None = None
        if running is None:
            self._server = Server()
            running = self._server.url
        self.url = running
        self.prefix = f"laurels-test-{token_hex(8)}:"
        self._client = redis.Redis.from_url(self.url, socket_timeout=WITHIN_SECONDS, protocol=2)
        self._client.response_callbacks.clear()

    def call(self, *parts: str | bytes | int) -> Any:
        """Send one command to the server, and return its answer without conversion."""
        return self._client.execute_command(*parts)  # type: ignore[no-untyped-call]

    def key(self, name: str) -> str:
        """Return the key with this name among the keys of the tests."""
        return self.prefix + name

    def address(self, key: str) -> str:
        """Return the address of a stream, as a source or a sink takes it."""
        at = urlsplit(self.url)
        return f"redis://{at.netloc}/{at.path.strip('/') or '0'}/{quote(key, safe='')}"

    def close(self) -> None:
        """Delete the keys of the tests. If the server was started here, end it instead."""
        if self._server is None:
            self._delete_keys()
        self._client.close()
        if self._server is not None:
            self._server.close()

    def _delete_keys(self) -> None:
        """Delete all keys that contain the prefix. In the keys of a sink's positions, the prefix is
        in the middle."""
        cursor = b"0"
        while True:
            cursor, keys = self.call("SCAN", cursor, "MATCH", f"*{self.prefix}*", "COUNT", 1_000)
            if keys:
                self.call("UNLINK", *keys)
            if cursor == b"0":
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
