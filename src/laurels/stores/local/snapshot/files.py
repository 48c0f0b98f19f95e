"""The snapshot files of a folder: written under a temporary name, verified, renamed; two are kept.

A snapshot of the log up to offset 17 is `snapshot-00000000000000000017.laurels`. It gets that name
only after it was flushed and read back. So every file with such a name was complete at that time,
and a crash at any moment leaves older snapshots unchanged.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from laurels.errors import LaurelsError, StorageFailed
from laurels.stores.local.files.private_files import written_file

from .form import PLAIN, Section, verify, write_sections

KEPT = 2
_NAME = re.compile(r"snapshot-([0-9]{20})\.laurels")
_SET_ASIDE = re.compile(r"snapshot-[0-9]{20}\.(ahead|damaged)")
_UNFINISHED = "snapshot.unfinished"
_BUFFER = 1 << 20
_FLUSH = 256 << 10
_STEP_BYTES = 8 << 20


class SnapshotFile(Struct, frozen=True):
    """A snapshot on the disk and the offset of the log it reflects."""

    path: Path
    offset: int

    @property
    def nbytes(self) -> int:
        return self.path.stat().st_size

    def set_aside(self) -> None:
        """Rename the damaged file, so that it is kept but never used. If that fails, the next
        recovery skips it again."""
        with suppress(OSError):
            self.path.replace(self.path.with_suffix(".damaged"))


class SnapshotFiles:
    """The snapshots in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest_first(self) -> list[SnapshotFile]:
        """Return all snapshots, valid or not, newest first."""
        snapshots = [
            SnapshotFile(path, int(named[1]))
            for path in self._folder.iterdir()
            if (named := _NAME.fullmatch(path.name))
        ]
        return sorted(snapshots, key=lambda snapshot: snapshot.offset, reverse=True)

    def set_aside(self) -> list[str]:
        """Return the names of the snapshots that were set aside, since they were damaged or ahead
        of a log that was rewound. They are never removed."""
        return sorted(
            path.name for path in self._folder.iterdir() if _SET_ASIDE.fullmatch(path.name)
        )

    def clear_unfinished(self) -> None:
        """Remove files that a crash has left incomplete. A file that cannot be removed is
        overwritten later."""
        with suppress(OSError):
            (self._folder / _UNFINISHED).unlink(missing_ok=True)

    def write(
        self,
        sections: Iterable[Section],
        offset: Callable[[], int],
        format: Callable[[], int] = lambda: PLAIN,
    ) -> SnapshotFile:
        """Write a snapshot, verify it and rename it. If this fails, change nothing and raise
        StorageFailed. `offset` returns the snapshot's offset, and `format` its format; they are
        called after all sections are written."""
        unfinished = self._folder / _UNFINISHED
        try:
            with written_file(unfinished, _BUFFER) as file:
                write_sections(file, _flushed(sections, file), format)
                file.flush()
                os.fsync(file.fileno())
            verify(unfinished)
            path = self._folder / f"snapshot-{offset():020}.laurels"
            unfinished.replace(path)
            sync_folder(self._folder)
        except (OSError, LaurelsError) as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise StorageFailed(f"the snapshot could not be written ({error})") from error
            raise
        return SnapshotFile(path, offset())

    def prune(self) -> None:
        """Remove all but the newest two snapshots; one that cannot be removed is removed the next
        time.

        Each file is durably renamed before its content is removed. Otherwise, since the log is
        trimmed next, a power cut could leave a snapshot under its old name although the log after
        it is gone.
        """
        for snapshot in self.newest_first()[KEPT:]:
            with suppress(OSError):
                leaving = snapshot.path.replace(self._folder / _UNFINISHED)
                sync_folder(self._folder)
                _shrink(leaving)
                leaving.unlink()


def _flushed(sections: Iterable[Section], file: BinaryIO) -> Iterator[Section]:
    """Yield the sections, and flush the file in small parts while they are written. One large flush
    at the end would block the commits of the log."""
    written = 0
    for kind, body in sections:
        yield kind, body
        written += len(body)
        if written >= _FLUSH:
            file.flush()
            os.fdatasync(file.fileno())
            written = 0


def _shrink(path: Path) -> None:
    """Free a file's disk blocks in small parts. If all of them were freed at once, the next flush
    of the log would have to wait for the file system."""
    with path.open("r+b", buffering=0) as file:
        for left in range(path.stat().st_size - _STEP_BYTES, 0, -_STEP_BYTES):
            file.truncate(left)
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names that were created or removed in a folder durable."""
    locked = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(locked)
    finally:
        os.close(locked)
