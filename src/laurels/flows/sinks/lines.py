"""Lines of JSON as the target of a sink: written to standard output, or appended to a file."""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from laurels.errors.sinks import InvalidTarget, TargetUnavailable
from laurels.stores.local.files.private_files import APPEND, open_output

from .mapping import FieldMapping
from .target import SinkPage

LIMIT = 1_000


class LinesTarget:
    """Appends each change as a line. A file is synced to disk before the position moves."""

    keeps_positions = False
    holds_state = False
    limit = LIMIT

    def __init__(self, path: Path | None, mapping: FieldMapping) -> None:
        self._path = path
        self._mapping = mapping
        self._file: BinaryIO | None = None

    async def open(self) -> None:
        if self._path is None:
            self._file = sys.stdout.buffer
            return
        try:
            self._file = os.fdopen(open_output(self._path, APPEND), "ab", buffering=0)
            if self._path.is_file() and _ends_in_half_line(self._path):
                # A kill has cut off the last line; its change is sent again, in a new line.
                self._file.write(b"\n")
        except OSError as error:
            raise InvalidTarget(f"{self._path} cannot be written: {error.strerror}") from error

    async def position(self, board: str) -> str | None:
        return None

    async def deliver(self, page: SinkPage) -> None:
        lines = [line + b"\n" for change in page.changes if (line := self._mapping.encode(change))]
        await asyncio.to_thread(self._write, lines)

    async def reset(self, board: str, position: str | None) -> None:
        """Do nothing: the position is in the store."""

    async def close(self) -> None:
        if self._path is not None and self._file is not None:
            self._file.close()

    def _write(self, lines: Sequence[bytes]) -> None:
        file = self._file
        assert file is not None
        rest = memoryview(b"".join(lines))
        if self._path is None:
            file.write(rest)  # an error, such as a closed pipe, ends the program
            file.flush()
            return
        end = file.seek(0, os.SEEK_END) if file.seekable() else 0
        try:
            while rest:
                rest = rest[file.write(rest) :]
            if file.seekable():
                os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):  # remove all lines of the page, which is sent again
                file.truncate(end)
            raise TargetUnavailable(f"{self._path} cannot be written: {error.strerror}") from error


def _ends_in_half_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
