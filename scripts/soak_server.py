"""The server of a soak test: `laurels serve` in a separate process, and connections to it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

HOST = "127.0.0.1"
START_SECONDS = 60
END_SECONDS = 120
ANSWER_SECONDS = 60
IDLE_SECONDS = 5
"""A connection that was unused for longer is replaced, since the server may have closed it."""
TICKS = os.sysconf("SC_CLK_TCK")


class UnexpectedError(Exception):
    """The server sent an unexpected answer."""


FAILURES = (OSError, UnexpectedError, asyncio.IncompleteReadError, TimeoutError)
"""The exceptions of a request that count as a failure of the server."""


class Server:
    """`laurels serve` on a folder, and the resource use of its process."""

    def __init__(self, folder: Path, log: TextIO) -> None:
        self.folder = folder
        self.key = secrets.token_urlsafe(24)
        self.port = _free_port()
        command = ["-m", "laurels.cli", "serve", "--data", str(folder), "--port", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LAURELS_ADMIN_KEY": self.key},
        )

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def rss(self) -> int:
        """Return the resident memory in bytes."""
        return self._status("VmRSS") * 1024

    def peak_rss(self) -> int:
        """Return the peak of the resident memory in bytes."""
        return self._status("VmHWM") * 1024

    def threads(self) -> int:
        return self._status("Threads")

    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())

    def cpu_seconds(self) -> float:
        """Return the processor time of the process so far, in seconds."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / TICKS

    def end(self) -> int:
        """Stop the server by SIGTERM, and return its exit code, which is negative if it had to be
        killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def kill(self) -> None:
        if self.runs:
            self._process.kill()
        self._process.wait()

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise UnexpectedError(f"/proc has no {name} of the server")


class Connection:
    """A persistent connection: one request at a time, JSON in both directions."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    async def ask(
        self, method: str, path: str, body: Any = None, seconds: float = ANSWER_SECONDS
    ) -> tuple[int, Any]:
        """Send a request; return the status and the parsed body of the response. Raises
        TimeoutError."""
        if time.monotonic() - self._used > IDLE_SECONDS:
            self.close()
        async with asyncio.timeout(seconds):
            if self._streams is None:
                self._streams = await asyncio.open_connection(HOST, self._server.port)
            reader, writer = self._streams
            try:
                writer.write(request(self._server, method, path, body))
                status, length = await head(reader)
                document = await reader.readexactly(length)
            except BaseException:
                self.close()
                raise
        self._used = time.monotonic()
        return status, json.loads(document) if document[:1] in b"[{" and document else None

    async def expect(
        self, method: str, path: str, body: Any = None, seconds: float = ANSWER_SECONDS
    ) -> Any:
        """Send a request that must succeed; return the parsed body of the response."""
        status, document = await self.ask(method, path, body, seconds)
        if status >= 300:
            raise UnexpectedError(
                f"{method} {path.partition('?')[0]}: {status} {code_of(document)}"
            )
        return document

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def code_of(document: Any) -> str:
    """Return the error code in the body of a failed response."""
    return str(document.get("code", document)) if isinstance(document, dict) else "no document"


def request(server: Server, method: str, path: str, body: Any = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n"
        f"Authorization: Bearer {server.key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def head(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Return the status and the content length of a response."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(lines[0].split()[1]), int(headers.get("content-length", 0))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


async def until_ready(server: Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            connection = Connection(server)
            await connection.expect("GET", "/readyz")
            connection.close()
            return
        except FAILURES:
            if not server.runs or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
