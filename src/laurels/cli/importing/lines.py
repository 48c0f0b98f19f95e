"""Reads the lines of one source, with the current position and a digest of everything before it.

A source is read once, from its first byte, whether it is a file, a compressed file or standard
input. A digest covers every consumed line. After an interruption, the digest shows whether the
source still begins with the part that was imported. If so, this part is skipped and the lines after
it are imported; otherwise an error is raised.
"""

import gzip
import io
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from laurels.cli.errors import SourceChanged
from laurels.errors.sources import SourceUnreadable

from .file_kinds import HEAD_BYTES, ensure_text

LINE_LIMIT = 1 << 20
"""The maximum length in bytes of a line that is read whole."""
_CHUNK = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_FAILURES = (OSError, EOFError, zlib.error)


class Lines:
    """Reads a binary stream line by line. The current position is `line`, the number of lines
    consumed, and `offset`, the number of bytes.

    Reading stops at the offset `end`, or at the end of the stream if `end` is None.
    """

    def __init__(self, stream: "gzip.GzipFile | io.BufferedReader[Any]") -> None:
        self.line = 0
        self.offset = 0
        self.end: int | None = None
        self._stream = stream
        self._digest = blake2b(digest_size=16)
        self._ahead: deque[bytes] = deque()

    def take(self) -> bytes:
        """Return the next line with its line end, or b"" after the last line.

        If a line is longer than `LINE_LIMIT`, only its first `LINE_LIMIT + 1` bytes are returned,
        and its rest is skipped.
        """
        if self.end is not None and self.offset >= self.end:
            return b""
        raw = self._ahead.popleft() if self._ahead else self._read_line()
        if raw:
            self.line += 1
            self._count(raw)
            if too_long(raw):
                self._skip_rest()
        return raw

    def look_ahead(self, place: int) -> bytes:
        """Return a later line without consuming it, or b"" if there is none. With `place` 0 this is
        the line that `take` returns next, with 1 the line after that, and so on.

        If a line is over the limit, the result for all lines after it is b"".
        """
        if self.end is not None and self._start_of(place) >= self.end:
            return b""
        while len(self._ahead) <= place:
            raw = b"" if self._ahead and too_long(self._ahead[-1]) else self._read_line()
            if not raw:
                return b""
            self._ahead.append(raw)
        return self._ahead[place]

    def _start_of(self, place: int) -> int:
        """Return the offset, in bytes, of the beginning of the line `look_ahead(place)`."""
        return self.offset + sum(len(raw) for raw in islice(self._ahead, place))

    def digest(self) -> str:
        """Return a digest of everything consumed so far."""
        return self._digest.hexdigest()

    def skip_to(self, offset: int, line: int) -> None:
        """Skip everything before `offset`, which was the end of line number `line`. Raise
        SourceChanged if the source ends before `offset`, or if the line goes on after it."""
        last = b"\n"
        while self.offset < offset:
            chunk = self._next_chunk(offset - self.offset)
            if not chunk:
                raise SourceChanged(
                    f"{offset:,} bytes were imported before, but the source has only "
                    f"{self.offset:,} now"
                )
            self._count(chunk)
            last = chunk[-1:]
        self.line = line
        if last != b"\n" and self.look_ahead(0):
            raise SourceChanged(f"line {line} was imported before, and has become longer since")

    def _next_chunk(self, size: int) -> bytes:
        return self._ahead.popleft() if self._ahead else self._read(min(_CHUNK, size))

    def _count(self, raw: bytes) -> None:
        self.offset += len(raw)
        self._digest.update(raw)

    def _skip_rest(self) -> None:
        while (part := self._read_line()) and not part.endswith(b"\n"):
            self._count(part)
        self._count(part)

    def _read_line(self) -> bytes:
        try:
            return self._stream.readline(LINE_LIMIT + 1)
        except _FAILURES as error:
            raise _unreadable(error) from error

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except _FAILURES as error:
            raise _unreadable(error) from error


def too_long(raw: bytes) -> bool:
    """Return whether a line was cut at the limit."""
    return len(raw) > LINE_LIMIT and not raw.endswith(b"\n")


class Source:
    """An open source: its lines, and how much of the file has been read, for a progress bar."""

    def __init__(self, raw: "io.BufferedReader[Any]", size: int | None) -> None:
        self.size = size
        self._raw = raw
        stream = _unpacked(raw)
        ensure_text(stream.peek(HEAD_BYTES)[:HEAD_BYTES])
        self.lines = Lines(stream)

    def consumed(self) -> int:
        """Return how many bytes of the file have been read.

        For a compressed file these are compressed bytes.
        """
        return self._raw.tell() if self.size is not None else self.lines.offset


def _unpacked(raw: "io.BufferedReader[Any]") -> "gzip.GzipFile | io.BufferedReader[Any]":
    """Return the bytes of a file, decompressed if it is in gzip format."""
    is_packed = raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
    return gzip.GzipFile(fileobj=raw) if is_packed else raw


@contextmanager
def opened_source(path: Path | None) -> Iterator[Source]:
    """Open a file for import, compressed by gzip or not; None is standard input."""
    with ExitStack() as stack:
        try:
            source = _opened(path, stack)
        except _FAILURES as error:
            raise _unreadable(error) from error
        yield source


def standard_input() -> BinaryIO:
    """Return the stream of standard input. Raises SourceUnreadable if it is closed."""
    if sys.stdin is None:
        raise SourceUnreadable("standard input is closed")
    return sys.stdin.buffer


def _opened(path: Path | None, stack: ExitStack) -> Source:
    if path is None:
        return Source(cast(io.BufferedReader, standard_input()), None)
    raw = stack.enter_context(io.BufferedReader(io.FileIO(path), _CHUNK))
    return Source(raw, path.stat().st_size if path.is_file() else None)


def _unreadable(error: Exception) -> SourceUnreadable:
    return SourceUnreadable(getattr(error, "strerror", None) or str(error))
