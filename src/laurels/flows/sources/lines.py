"""Lines of JSON as a source: from a file, which may grow, or from a pipe such as standard input.

A line becomes a message when its line break has arrived. The last line of a pipe needs no line
break. The last line of a file needs none if it is a complete JSON document and `read` does not
wait. The position of a message is the number of bytes up to the end of its line.
"""

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from laurels.errors.sources import SourceDiverged, SourceUnreadable
from laurels.flows.retries import Sleep

from .reader import MESSAGE_LIMIT, ZERO, Message, StoredPosition, StreamPosition, StreamState

POLL_SECONDS = 0.2
"""The time between two checks of a file without new lines."""
_POLLS = 5
"""The number of checks without new lines after which `read` returns an empty list."""
_CHUNK = 1 << 18
_HEAD = 1_024
"""The number of bytes at the beginning of a file that identify it."""
_BOM = b"\xef\xbb\xbf"


class LineBuffer:
    """Received bytes, divided into lines. `offset` is the number of bytes before the next line.

    A line that exceeds MESSAGE_LIMIT is cut to one byte more than the limit, so that it is still
    refused as too long.
    """

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self._bytes = b""
        self._dropped = 0

    @property
    def end(self) -> int:
        """The number of bytes from the beginning of the file or pipe to the end of what was
        received."""
        return self.offset + len(self._bytes) + self._dropped

    def feed(self, chunk: bytes) -> None:
        self._bytes += chunk
        if len(self._bytes) > MESSAGE_LIMIT and b"\n" not in self._bytes:
            self._dropped += len(self._bytes) - MESSAGE_LIMIT - 1
            self._bytes = self._bytes[: MESSAGE_LIMIT + 1]

    def take(self, limit: int) -> list[Message]:
        """Return up to `limit` complete lines, without blank ones."""
        complete: list[Message] = []
        while not complete and b"\n" in self._bytes:
            *lines, self._bytes = self._bytes.split(b"\n", limit)
            messages = [self._message(line, 1) for line in lines]
            complete = [message for message in messages if message is not None]
        return complete

    def take_rest(self) -> list[Message]:
        """Return the last, unterminated line, if it is not blank."""
        rest, self._bytes = self._bytes, b""
        message = self._message(rest, 0)
        return [] if message is None else [message]

    def has_complete_rest(self) -> bool:
        """Return whether the last, unterminated line is a complete JSON document."""
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            msgspec.json.decode(self._bytes)
            return True
        return False

    def _message(self, line: bytes, end: int) -> Message | None:
        first = not self.offset
        self.offset += len(line) + self._dropped + end
        self._dropped = 0
        if first:
            line = line.removeprefix(_BOM)
        return Message(StreamPosition(self.offset), line) if line.strip() else None


class FileReader:
    """A file of JSON lines, followed as it grows. It is identified by device, inode and its first
    bytes."""

    resumes = True
    ended = False

    def __init__(self, path: Path, sleep: Sleep) -> None:
        self.name = str(path)
        self._path = path
        self._sleep = sleep
        self._descriptor = -1
        self._identity = ""
        self._size = 0
        self._lines = LineBuffer()

    async def open(self) -> StreamState:
        await self.close()
        try:
            self._descriptor = await asyncio.to_thread(os.open, self._path, os.O_RDONLY)
            info = os.fstat(self._descriptor)
        except OSError as error:
            raise SourceUnreadable(f"{self.name}: {error.strerror or error}") from error
        self._identity, self._size = _identity(info), info.st_size
        return StreamState(self._identity, ZERO, StreamPosition(self._last_line_end()))

    def stored_position(self, position: StreamPosition) -> StoredPosition:
        return StoredPosition(self._identity, str(position), self._head_hash(position.major))

    def mismatch(self, stored: StoredPosition) -> str | None:
        if stored.stream != self._identity:
            return "its device and inode are not those of the file that was read before"
        if stored.position.major > self._size:
            return f"it has {self._size:,} bytes, and {stored.position.major:,} were read before"
        if stored.check_value != self._head_hash(stored.position.major):
            return "its first bytes are not those that were read before"
        return None

    def is_expired(self, stored: StoredPosition) -> bool:
        return False

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        if self._lines.offset != after.major:
            self._lines = LineBuffer(after.major)
        for _ in range(_POLLS):
            while True:
                if messages := self._lines.take(limit):
                    return messages
                chunk = await asyncio.to_thread(self._read_chunk)
                if not chunk:
                    break
                self._lines.feed(chunk)
            self._ensure_same()
            if not wait:
                return self._lines.take_rest() if self._lines.has_complete_rest() else []
            await self._sleep(POLL_SECONDS)
        return []

    async def time_ms(self) -> int | None:
        return None

    async def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read_chunk(self) -> bytes:
        try:
            return os.pread(self._descriptor, _CHUNK, self._lines.end)
        except OSError as error:
            raise SourceUnreadable(f"{self.name}: {error.strerror or error}") from error

    def _ensure_same(self) -> None:
        """Raise SourceDiverged if the file was truncated, or if its path now leads to another
        file."""
        if os.fstat(self._descriptor).st_size < self._lines.end:
            raise SourceDiverged(f"{self.name} was truncated while it was read")
        with suppress(OSError):
            if _identity(self._path.stat()) != self._identity:
                raise SourceDiverged(f"{self.name} was replaced by another file while it was read")

    def _head_hash(self, offset: int) -> str:
        head = os.pread(self._descriptor, min(_HEAD, offset), 0)
        return blake2b(head, digest_size=8).hexdigest()

    def _last_line_end(self) -> int:
        end = self._size
        while end:
            start = max(0, end - _CHUNK)
            index = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if index >= 0:
                return start + index + 1
            end = start
        return 0


class PipeReader:
    """Lines from a pipe, which cannot be read again.

    The argument `read` is a function that waits for bytes and returns up to a given number of them.
    It is called in a thread of its own, and only when the bytes it returned before have been
    consumed. The argument `run` is a text that identifies this run.
    """

    resumes = False

    def __init__(self, name: str, read: Callable[[int], bytes], run: str) -> None:
        self.name = name
        self.ended = False
        self._read = read
        self._identity = f"pipe:{run}"
        self._lines = LineBuffer()
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._requested = threading.Semaphore(0)
        self._pending: list[Message] = []
        self._begun = False

    async def open(self) -> StreamState:
        if not self._begun:
            self._begun = True
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._read_chunks, args=(loop,), daemon=True).start()
        return StreamState(self._identity, ZERO, ZERO)

    def stored_position(self, position: StreamPosition) -> StoredPosition:
        return StoredPosition(self._identity, str(position))

    def mismatch(self, stored: StoredPosition) -> str | None:
        return None if stored.stream == self._identity else "the position is from another run"

    def is_expired(self, stored: StoredPosition) -> bool:
        return False

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        self._pending = [message for message in self._pending if message.position > after]
        while not self._pending and not self.ended:
            self._pending = self._lines.take(limit)
            if self._pending:
                break
            self._requested.release()
            chunk = await self._chunks.get()
            if isinstance(chunk, OSError):
                raise SourceUnreadable(f"{self.name}: {chunk.strerror or chunk}") from chunk
            self._lines.feed(chunk)
            if not chunk:
                self.ended = True
                self._pending = self._lines.take_rest()
        return self._pending[:limit]

    async def time_ms(self) -> int | None:
        return None

    async def close(self) -> None:
        pass

    def _read_chunks(self, loop: asyncio.AbstractEventLoop) -> None:
        chunk: bytes | OSError = b"\n"
        while chunk and not isinstance(chunk, OSError):
            self._requested.acquire()
            try:
                chunk = self._read(_CHUNK)
            except OSError as error:
                chunk = error
            with suppress(RuntimeError):  # the event loop may be closed already
                loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)


def is_pipe(path: Path) -> bool:
    """Return whether a path names something that can be read only once. Raises SourceUnreadable."""
    try:
        kind = path.stat().st_mode
    except OSError as error:
        raise SourceUnreadable(f"{path}: {error.strerror or error}") from error
    if stat.S_ISDIR(kind):
        raise SourceUnreadable(f"expected a file or a pipe, got the folder {path}")
    return not stat.S_ISREG(kind)


def _identity(info: os.stat_result) -> str:
    return f"file:{info.st_dev}:{info.st_ino}"
