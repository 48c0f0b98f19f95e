"""NATS servers with JetStream: one that a test starts, and one that tests share."""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import nats
import nats.errors
from nats.aio.client import Client

from tests.redis.programs import on_path, skip_or_fail
from tests.redis.servers import WITHIN_SECONDS, free_port, until

T = TypeVar("T")
RUNNING = "LAURELS_TEST_NATS"
"""The variable with the URL of a server that already runs: `nats://HOST:PORT`."""


class JetStream(ABC):
    """Calls of a NATS server."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Return the URL of the server."""

    @abstractmethod
    def close(self) -> None:
        """Remove what the tests have made."""

    def call(self, verb: str, body: object = None) -> Any:
        """Call the JetStream API; return the decoded answer."""
        return _apart(self._call(f"$JS.API.{verb}", msgspec.json.encode(body or {})))

    def create(self, stream: str, *subjects: str, **config: object) -> None:
        """Create a stream."""
        answer = self.call(
            f"STREAM.CREATE.{stream}",
            {"name": stream, "subjects": subjects, "num_replicas": 1, **config},
        )
        assert "error" not in answer, answer

    def publish(self, subject: str, messages: Sequence[bytes]) -> None:
        """Publish messages in order. Return when the server has stored all of them."""
        _apart(self._publish(subject, messages))

    async def _call(self, subject: str, body: bytes) -> Any:
        client = await self._connected()
        try:
            answer = await client.request(subject, body, timeout=WITHIN_SECONDS)
            return msgspec.json.decode(answer.data)
        finally:
            await client.close()

    async def _publish(self, subject: str, messages: Sequence[bytes]) -> None:
        client = await self._connected()
        try:
            for message in messages[:-1]:
                await client.publish(subject, message)
            await client.request(subject, messages[-1], timeout=WITHIN_SECONDS)
        finally:
            await client.close()

    async def _connected(self) -> Client:
        """Connect. Without a running server, raise an error after two attempts; the client library
        would go on for two minutes."""
        return await nats.connect(
            self.url,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            error_cb=_ignored,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class NatsServer(JetStream):
    """A NATS server with JetStream on a free port. It keeps its port and its folder when it is
    restarted."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="laurels-nats-")
        self._child: subprocess.Popen[bytes] | None = None
        self._program = on_path("nats-server") or skip_or_fail(
            "nats-server is not installed: apt-get install -y nats-server"
        )
        self.port = 0
        atexit.register(self.close)
        for _ in range(20):
            self.port = free_port()
            if self.start():
                return
        raise OSError("nats-server did not start")

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> bool:
        """Start the server. Return False if another program has taken its port meanwhile, otherwise
        True."""
        child = subprocess.Popen(
            [
                self._program,
                "-js",
                "-a",
                "127.0.0.1",
                "-p",
                str(self.port),
                "-sd",
                self._folder.name,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: child.poll() is not None or self._answers(), "the server answers or ends")
        self._child = child
        return child.poll() is None

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait(60)
            self._child = None

    def restart(self) -> None:
        self.kill()
        assert self.start(), "the server did not start again"

    def close(self) -> None:
        atexit.unregister(self.close)
        self.kill()
        self._folder.cleanup()

    def _answers(self) -> bool:
        try:
            return "error" not in self.call("INFO")
        except (OSError, nats.errors.Error):
            return False


class SharedNats(JetStream):
    """A server for tests that only need one, and do not stop it or limit what it stores: the server
    that `LAURELS_TEST_NATS` names, or one that is started here. The names of all streams and
    subjects of the tests begin with a random prefix, and `close` deletes only the streams whose
    names have this prefix."""

    def __init__(self) -> None:
        running = os.environ.get(RUNNING)
        self._server: NatsServer | None = None
        if running is None:
            self._server = NatsServer()
            running = self._server.url
        self._url = running
        self._own = f"laurels-test-{token_hex(8)}-"

    @property
    def url(self) -> str:
        return self._url

    def name(self, name: str) -> str:
        """Return the name with the prefix of the tests, for a stream or for the first part of a
        subject."""
        return self._own + name

    def close(self) -> None:
        """Delete the streams of the tests. If the server was started here, end it instead."""
        if self._server is not None:
            self._server.close()
            return
        offset, total = 0, 1
        names: list[str] = []
        while offset < total:
            page = self.call("STREAM.NAMES", {"offset": offset})
            names += page["streams"] or []
            offset, total = offset + page["limit"], page["total"]
        for name in names:
            if name.startswith(self._own):
                self.call(f"STREAM.DELETE.{name}")


def _apart(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread and return its result. This thread may already have a
    running event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()


async def _ignored(_error: Exception) -> None:
    """Ignore an error of a connection, because the call that uses the connection raises it, too."""
