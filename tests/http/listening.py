"""A client of live feeds over the network, and the list that it builds from a feed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from laurels.model.exact_json import decode_json

WITHIN_SECONDS = 60


class Frame(NamedTuple):
    """One event of a feed."""

    kind: str
    number: str
    document: Any


class Feed:
    """An open feed of server-sent events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield the events of the stream until the server ends it."""
        fields: dict[str, str] = {}
        while line := await self._reader.readline():
            name, is_field, value = line.decode().rstrip("\r\n").partition(": ")
            if is_field:
                fields[name] = value
            elif "data" in fields:
                number = fields.get("id", "")
                yield Frame(fields["event"], number, decode_json(fields["data"].encode()))
                fields = {}

    async def next(self, within_seconds: float = WITHIN_SECONDS) -> Frame:
        """Return the next event."""
        async with asyncio.timeout(within_seconds):
            async for frame in self.frames():
                return frame
        raise EOFError("the feed has ended")

    async def rest(self) -> bytes:
        """Return all bytes until the end of the stream."""
        async with asyncio.timeout(WITHIN_SECONDS):
            return await self._reader.read()


@asynccontextmanager
async def feed(
    url: str, path: str, *, last: str = "", key: str = "", buffer: int | None = None
) -> AsyncIterator[Feed]:
    """Open a stream. `last` is the number of the last event that was received on an earlier stream.
    `buffer` is the maximum number of bytes that the operating system receives before the test reads
    them."""
    parts = urlsplit(url)
    opened = socket.socket()
    if buffer is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    opened.setblocking(False)
    await asyncio.get_running_loop().sock_connect(opened, (parts.hostname, parts.port))
    reader, writer = await asyncio.open_connection(sock=opened, limit=buffer or 1 << 20)
    keyed = f"Authorization: Bearer {key}\r\n" if key else ""
    resumes = f"Last-Event-ID: {last}\r\n" if last else ""
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
    writer.write(f"{head}{keyed}{resumes}\r\n".encode())
    try:
        begun = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WITHIN_SECONDS)
        assert begun.startswith(b"HTTP/1.1 200"), begun
        yield Feed(reader, writer)
    finally:
        writer.close()


class Known:
    """The list that a reader builds from the first frame and all later changes."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.as_of: dict[str, Any] = {}
        self.total = 0
        self.certain: object = None
        self._entries: dict[str, dict[str, Any]] = {}

    def take(self, frame: Frame) -> None:
        self.kinds.append(frame.kind)
        document = frame.document
        self.as_of, self.total = document["as_of"], document["total"]
        self.certain = document["certain"]
        if frame.kind == "top":
            self._entries = {entry["member"]: entry for entry in document["entries"]}
            return
        assert frame.kind == "change"
        for member in document["left"]:
            del self._entries[member]
        for entry in (*document["entered"], *document["moved"], *document["scored"]):
            row = {name: entry[name] for name in ("member", "rank", "score")}
            self._entries[entry["member"]] = row
        self._entries = {member: self._entries[member] for member in document["order"]}

    @property
    def page(self) -> dict[str, Any]:
        """Return the list in the form of an answer of `top`."""
        return {
            "entries": list(self._entries.values()),
            "total": self.total,
            "as_of": self.as_of,
            "certain": self.certain,
        }
