"""Messages that were not counted, each with the reason: in a file of JSON lines, or elsewhere.

A line has the source, the stream, the position, the board if it is known, the code and text of the
error, and the message itself. A message that is read again after a kill is not written again.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec
from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.stores.local.files.private_files import APPEND, open_output

from .reader import MESSAGE_LIMIT, Message


class RejectedMessage(Struct, frozen=True):
    """A line of the file. Source, stream and position identify the message."""

    source: str
    stream: str
    position: str
    board: str | None
    code: str
    message: str
    text: str


class Rejects(Protocol):
    """Storage for messages that were not counted."""

    def write(self, rejects: list[RejectedMessage]) -> None:
        """Store rejects, or keep them until the next call of `deliver`."""

    async def deliver(self) -> None:
        """Return when all rejects are stored. Raises RejectsUnavailable, RejectsRefused, and may
        be called again."""

    async def close(self) -> None:
        """Release files and connections."""


class NoRejects:
    """Implementation of `Rejects` that stores nothing."""

    def write(self, rejects: list[RejectedMessage]) -> None:
        """Do nothing."""

    async def deliver(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class JsonRejects:
    """Writes rejects to a file, which is created with the first one. The caller has to close it.
    Methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._written: set[tuple[str, str, str]] = set()

    def write(self, rejects: list[RejectedMessage]) -> None:
        """Append the rejects that are not in the file yet, and flush them to the operating
        system."""
        if not rejects:
            return
        if self._file is None:
            self._written = _stored_keys(self.path)
            self._file = os.fdopen(open_output(self.path, APPEND), "ab")
        new = [each for each in rejects if _key(each) not in self._written]
        self._file.write(b"".join([msgspec.json.encode(each) + b"\n" for each in new]))
        self._file.flush()

    @property
    def address(self) -> str:
        """The path for messages to the user."""
        return str(self.path)

    async def deliver(self) -> None:
        """Do nothing: `write` has stored the rejects."""

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def rejected_message(
    source: str, stream: str, message: Message, board: str | None, code: str, error_text: str
) -> RejectedMessage:
    """Return the line for a message; a long message is cut to its first MiB."""
    text = message.raw[:MESSAGE_LIMIT].decode(errors="backslashreplace")
    return RejectedMessage(source, stream, str(message.position), board, code, error_text, text)


def code_and_text(error: LaurelsError) -> tuple[str, str]:
    """Return the code of an error, and its text in one line."""
    return error.code, " ".join(str(error).split())


def _stored_keys(path: Path) -> set[tuple[str, str, str]]:
    """Return the keys of the lines in the file; add a line break if a kill has cut off the last
    line."""
    keys: set[tuple[str, str, str]] = set()
    if not path.is_file():
        return keys
    with path.open("r+b") as file:
        last = b"\n"
        for last in file:
            with suppress(msgspec.MsgspecError):
                keys.add(_key(msgspec.json.decode(last, type=RejectedMessage)))
        if not last.endswith(b"\n"):
            file.write(b"\n")
    return keys


def _key(each: RejectedMessage) -> tuple[str, str, str]:
    return each.source, each.stream, each.position
