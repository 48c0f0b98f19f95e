"""The rejects file: messages that were not counted, one JSON line for each, with the reason.

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
    """A line of the rejects file."""

    source: str
    stream: str
    position: str
    board: str | None
    code: str
    message: str
    text: str


class Rejects(Protocol):
    """Storage for messages that were not counted."""

    def write(self, rejects: list[RejectedMessage]) -> None: ...


class NoRejects:
    """Implementation of `Rejects` that stores nothing."""

    def write(self, rejects: list[RejectedMessage]) -> None:
        """Do nothing."""


class JsonRejects:
    """Writes rejects to a file, which is created with the first one. The caller has to close it.
    Methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._written: set[tuple[str, str, str]] = set()

    def write(self, rejects: list[RejectedMessage]) -> None:
        """Append the rejects that are not in the file yet, and flush them to the operating
        system."""
        if not rejects:
            return
        if self._file is None:
            self._written = _stored_keys(self._path)
            self._file = os.fdopen(open_output(self._path, APPEND), "ab")
        new = [each for each in rejects if _key(each) not in self._written]
        self._file.write(b"".join([msgspec.json.encode(each) + b"\n" for each in new]))
        self._file.flush()

    def close(self) -> None:
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
