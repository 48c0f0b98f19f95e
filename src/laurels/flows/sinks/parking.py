"""Parked changes: those that a target refused permanently, kept in a file until an operator sends
them again."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec
from msgspec import Struct

from laurels.core.changes.answers import Change
from laurels.errors.sinks import InvalidTarget, TargetRefused
from laurels.model.exact_json import exact

from .target import SinkPage, SinkTarget


class Parking(Protocol):
    """Storage for changes that a target refuses permanently."""

    async def park(self, page: SinkPage, error: TargetRefused) -> None:
        """Store the changes of a page; they are on disk when this returns."""


class ParkedPage(Struct, frozen=True):
    """A refused page, stored as one line of the file: its changes, and why it was refused."""

    sink: str
    board: str
    at_ms: int
    error: str
    changes: list[Change]


_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder(ParkedPage, float_hook=exact)


class ParkingFile:
    """A file of refused pages, one page per line. Every access holds a lock, so that a sink can
    park pages while others are sent again."""

    def __init__(self, path: Path, sink: str = "") -> None:
        self.path = path
        self._sink = sink

    async def park(self, page: SinkPage, error: TargetRefused) -> None:
        """Append a page to the file, and sync the file to disk."""
        at_ms = max([change.at_ms for change in page.changes])
        parked = ParkedPage(self._sink, page.board, at_ms, error.what, list(page.changes))
        await asyncio.to_thread(self._add, parked)

    def read(self) -> list[ParkedPage]:
        """Return the parked pages, oldest first; none if there is no file."""
        if not self.path.exists():
            return []
        with self._locked() as file:
            return _read(file)

    async def resend(self, target: SinkTarget) -> int:
        """Send the parked pages, in order, and remove them from the file; return the number of
        changes sent. If the target fails, raise its error: the pages sent before are removed, the
        others stay."""
        sent = 0
        while pages := await asyncio.to_thread(self.read):
            first = pages[0]
            await target.deliver(SinkPage(first.board, first.changes, None, ""))
            await asyncio.to_thread(self._drop_first)
            sent += len(first.changes)
        return sent

    def _add(self, parked: ParkedPage) -> None:
        with self._locked() as file:
            complete = file.read().rpartition(b"\n")
            # A kill may have cut off the last line: remove it.
            file.truncate(len(complete[0]) + len(complete[1]))
            file.write(_encoder.encode(parked) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _drop_first(self) -> None:
        """Remove the first line, by replacing the file with a new one, so that a kill loses no
        other line."""
        with self._locked() as file:
            file.readline()
            rest = file.read()
            path = self.path.with_name(self.path.name + ".new")
            with open(path, "wb", opener=_private) as new_file:
                new_file.write(rest)
                new_file.flush()
                os.fsync(new_file.fileno())
            path.replace(self.path)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        try:
            path = self.path.with_name(self.path.name + ".lock")
            with open(path, "ab", opener=_private) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                with open(self.path, "a+b", opener=_private) as file:
                    file.seek(0)
                    yield file
        except OSError as error:
            raise InvalidTarget(f"{self.path} cannot be written: {error.strerror}") from error


def _private(path: str, flags: int) -> int:
    """Open a file; if it is created, only its owner can read it."""
    return os.open(path, flags, 0o600)


def _read(file: BinaryIO) -> list[ParkedPage]:
    pages = []
    for line in file:
        try:
            pages.append(_decoder.decode(line))
        except msgspec.MsgspecError:
            if line.endswith(b"\n"):
                raise InvalidTarget("a line of the file of parked changes is damaged") from None
    return pages
