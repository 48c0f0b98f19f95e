"""The files of sealed periods in a backup: the segments of the archive, and the payouts.

Segments never change, so their bytes are copied. The folder is listed twice: before the log is
opened, and after that. In between, another process may replace a segment by a new one with the same
periods. Then either the old segment is already open, or the second listing finds the new one. So a
backup has every period that its log calls sealed. The database of payouts is read in one
transaction.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from laurels.errors import SnapshotDamaged, StorageFailed
from laurels.stores.local.archive.folder import NAME as SEGMENT_NAME
from laurels.stores.local.files.private_files import make_folder, written_file
from laurels.stores.local.snapshot.files import sync_folder

ARCHIVE = b"A"
ARCHIVE_FOLDER = "archive"
PAYOUTS_NAME = "payouts.db"
_PIECE = 1 << 20
_OWN = re.compile(rf"{ARCHIVE_FOLDER}/{SEGMENT_NAME.pattern}|{re.escape(PAYOUTS_NAME)}")

_encode = msgspec.msgpack.Encoder().encode
_pieces = msgspec.msgpack.Decoder(tuple[str, bytes])


class SegmentFiles:
    """The segments of a folder that were found. Their files stay open until `stack` is closed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._files: dict[str, BinaryIO] = {}

    def find(self) -> None:
        """Open all segments that are in the folder now and were not found before."""
        with suppress(FileNotFoundError):
            for path in sorted((self._folder / ARCHIVE_FOLDER).iterdir()):
                if SEGMENT_NAME.fullmatch(path.name) and path.name not in self._files:
                    with suppress(FileNotFoundError):
                        file = self._stack.enter_context(path.open("rb"))
                        self._files[path.name] = file

    @property
    def nbytes(self) -> int:
        """The size of all segments."""
        return sum([os.fstat(file.fileno()).st_size for file in self._files.values()])

    def sections(self) -> Iterator[bytes]:
        """Yield the bodies of the sections that have the segments."""
        for name, file in sorted(self._files.items()):
            while piece := file.read(_PIECE):
                yield _encode((f"{ARCHIVE_FOLDER}/{name}", piece))


def payouts_sections(folder: Path) -> Iterator[bytes]:
    """Yield the bodies of the sections that have the payouts of a folder, if it has any."""
    path = folder / PAYOUTS_NAME
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path)) as database:
            content = database.serialize()
    except sqlite3.Error as error:
        raise StorageFailed(f"{path} could not be read ({error})") from error
    for at in range(0, len(content), _PIECE):
        yield _encode((PAYOUTS_NAME, content[at : at + _PIECE]))


class SealedFileWriter:
    """Writes the files of sealed periods to a new folder, from the sections of a backup."""

    def __init__(self, folder: Path, backup: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._backup = backup
        self._stack = stack
        self._name = ""
        self._file: BinaryIO | None = None

    def add(self, body: bytes) -> None:
        """Write the content of a section."""
        try:
            name, piece = _pieces.decode(body)
        except msgspec.MsgspecError as error:
            raise SnapshotDamaged(f"a section of {self._backup} cannot be read") from error
        if not _OWN.fullmatch(name):
            raise SnapshotDamaged(f"{self._backup} has a file of the unknown name {name!r}")
        if name != self._name or self._file is None:
            self.finish()
            path = self._folder / name
            make_folder(path.parent)
            self._file = self._stack.enter_context(written_file(path))
            self._name = name
        self._file.write(piece)

    def finish(self) -> None:
        """Make the files durable that were written so far."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            sync_folder((self._folder / self._name).parent)
