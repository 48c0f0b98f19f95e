"""Where segments are: files of a folder, or bytes in memory.

A file is written beside the others, synced and renamed, and then the folder is synced. So after a
kill or a power cut a segment is whole or absent.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from io import BufferedWriter, BytesIO, FileIO
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, BinaryIO, Protocol

from laurels.errors import ArchiveDamaged, StorageFailed
from laurels.stores.local.files.private_files import create_file, make_folder, written_file
from laurels.stores.local.snapshot.files import sync_folder

from .segment import SegmentBytes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

NAME = re.compile(r"sealed-([0-9]{12})\.laurels")
_UNFINISHED = "sealed.unfinished"
_SCRATCH = "sealed.scratch"
SYNCED_BYTES = 1 << 20
"""The number of bytes of a segment that are written between two syncs."""
_BUFFER = 1 << 18
_SCRATCH_BUFFER = 1 << 14


class Segments(Protocol):
    """A place for segments. A segment is named by a number, and newer ones have greater numbers."""

    def numbers(self) -> list[int]:
        """Return the numbers of all segments, in ascending order."""

    def open(self, number: int) -> SegmentBytes:
        """Return a segment. It can be read until it is no longer referenced, even if it is removed
        meanwhile. Raises StorageFailed."""

    def write(self, number: int, write: Callable[[BinaryIO], None]) -> None:
        """Add a segment, whole or not at all, durably. `write` writes its bytes to a file. Raises
        StorageFailed."""

    def scratch(self) -> BinaryIO:
        """Return an empty temporary file, for use while a segment is written. It has no name, so it
        disappears when it is closed."""

    def spool(self) -> BinaryIO:
        """Return an empty file that no name refers to. Raises StorageFailed."""

    def remove(self, number: int) -> None:
        """Remove a segment. One that cannot be removed is removed the next time."""

    def remove_durably(self, number: int) -> None:
        """Remove a segment so that a power cut cannot bring it back. Raises StorageFailed."""


class FileSegment:
    """A segment in a file, which stays open until this object is freed."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._file = -1
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.nbytes = os.fstat(self._file).st_size

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes. Raises ArchiveDamaged if the file ends before them, StorageFailed
        if the disk refuses to read them."""
        ensure_inside(self, start, length)
        try:
            read = os.pread(self._file, length, start)
            while len(read) < length:
                if not (more := os.pread(self._file, length - len(read), start + len(read))):
                    raise ArchiveDamaged(f"{self.name} ends before its foot")
                read += more
        except OSError as error:
            raise StorageFailed(f"{self.name} could not be read ({error})") from error
        return read


class _SteadyFile(FileIO):
    """A file that is synced after every `SYNCED_BYTES`. So a sync at the end of a large segment
    writes little, and the log does not have to wait for a long sync."""

    def __init__(self, file: int) -> None:
        super().__init__(file, "w", closefd=False)
        self._written = 0

    def write(self, content: "ReadableBuffer") -> int:
        """Write bytes. Return the number of bytes that were written."""
        written = super().write(content)
        self._written += written
        if self._written >= SYNCED_BYTES:
            self._written = 0
            os.fdatasync(self.fileno())
        return written


class FolderSegments:
    """The segments in a folder, which is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def numbers(self) -> list[int]:
        """Return the numbers of all segments, in ascending order. Files that a crash has left
        incomplete are removed."""
        if not self._folder.is_dir():
            return []
        with suppress(OSError):
            (self._folder / _UNFINISHED).unlink(missing_ok=True)
            (self._folder / _SCRATCH).unlink(missing_ok=True)
        matches = [NAME.fullmatch(path.name) for path in self._folder.iterdir()]
        return sorted([int(match[1]) for match in matches if match])

    def open(self, number: int) -> FileSegment:
        """Return a segment. Raises StorageFailed."""
        try:
            return FileSegment(self._path(number))
        except OSError as error:
            raise StorageFailed(f"{self._path(number)} could not be opened ({error})") from error

    def write(self, number: int, write: Callable[[BinaryIO], None]) -> None:
        """Add a segment; see `Segments.write`."""
        unfinished = self._folder / _UNFINISHED
        try:
            self._make_folder()
            with written_file(unfinished) as opened, _SteadyFile(opened.fileno()) as raw:
                file = BufferedWriter(raw, _BUFFER)
                write(file)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._path(number))
            sync_folder(self._folder)
        except BaseException as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise StorageFailed(f"the archive could not be written ({error})") from error
            raise

    def scratch(self) -> BinaryIO:
        """Return a temporary file; see `Segments.scratch`."""
        path = self._folder / _SCRATCH
        file = create_file(path, os.O_RDWR | os.O_TRUNC | os.O_NOFOLLOW)
        path.unlink()
        return os.fdopen(file, "w+b", _SCRATCH_BUFFER)

    def spool(self) -> BinaryIO:
        """Return an empty file in the folder that no name refers to. Raises StorageFailed."""
        try:
            self._make_folder()
            file, path = mkstemp(dir=self._folder)
            Path(path).unlink()
            return os.fdopen(file, "w+b")
        except OSError as error:
            raise StorageFailed(f"the archive could not be written ({error})") from error

    def _make_folder(self) -> None:
        if not self._folder.is_dir():
            make_folder(self._folder)
            sync_folder(self._folder.parent)

    def remove(self, number: int) -> None:
        """Remove a segment."""
        with suppress(OSError):
            self._path(number).unlink(missing_ok=True)

    def remove_durably(self, number: int) -> None:
        """Remove a segment durably. Raises StorageFailed."""
        try:
            self._path(number).unlink(missing_ok=True)
            sync_folder(self._folder)
        except OSError as error:
            raise StorageFailed(f"{self._path(number)} could not be removed ({error})") from error

    def _path(self, number: int) -> Path:
        return self._folder / f"sealed-{number:012}.laurels"


class MemorySegment:
    """A segment in memory."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.nbytes = len(content)
        self._content = content

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes."""
        ensure_inside(self, start, length)
        return self._content[start : start + length]


class MemorySegments:
    """Segments in memory, for a store without a folder."""

    def __init__(self) -> None:
        self._segments: dict[int, MemorySegment] = {}

    def numbers(self) -> list[int]:
        """Return the numbers of all segments, in ascending order."""
        return sorted(self._segments)

    def open(self, number: int) -> MemorySegment:
        """Return a segment. Raises StorageFailed if it was removed."""
        if (segment := self._segments.get(number)) is None:
            raise StorageFailed(f"there is no segment {number}")
        return segment

    def write(self, number: int, write: Callable[[BinaryIO], None]) -> None:
        """Add a segment."""
        file = BytesIO()
        write(file)
        self._segments[number] = MemorySegment(f"segment {number}", file.getvalue())

    def scratch(self) -> BinaryIO:
        """Return a temporary file in memory."""
        return BytesIO()

    def spool(self) -> BytesIO:
        """Return an empty file in memory."""
        return BytesIO()

    def remove(self, number: int) -> None:
        """Remove a segment."""
        self._segments.pop(number, None)

    remove_durably = remove


def ensure_inside(segment: SegmentBytes, start: int, length: int) -> None:
    """Raise ArchiveDamaged if a part is not inside a segment."""
    if start < 0 or start + length > segment.nbytes:
        raise ArchiveDamaged(f"{segment.name} is not a whole segment")
