"""Taking a snapshot while serving, and opening one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from laurels.errors import LogDamaged, SnapshotDamaged, StorageFailed
from laurels.fold import Fold
from laurels.index.base import Index, Section

from .files import SnapshotFile, SnapshotFiles
from .form import read_sections
from .state import HEAD, Head, encode, head

LEAST_LOG_BYTES = 64 << 20


def is_due(log_bytes: int, snapshot_bytes: int) -> bool:
    """Whether the log has grown by so many bytes since a snapshot of so many that another pays:
    reading it would take longer than reading a snapshot."""
    return log_bytes > max(LEAST_LOG_BYTES, snapshot_bytes)


def take(
    files: SnapshotFiles,
    fold: Fold,
    still: Callable[[], AbstractContextManager[object]],
    rest: Callable[[], None],
) -> SnapshotFile:
    """Writes a snapshot of a fold while it goes on folding.

    `still` keeps commits out; it is entered for one piece of the copy at a time, and what was
    copied is written in between. `rest` is called after each piece: it lets other threads run.
    Raises StorageFailed where the disk refuses; nothing is changed then.
    """
    heads: list[Head] = []
    with still():
        copy = fold.index.copy()

    def sections() -> Iterator[Section]:
        while True:
            with still():
                piece = copy.step(fold.describe)
                if piece is None:
                    piece = copy.finish(fold.describe)
                    heads.append(fold.head())
                    fold.index.end_copy()
            rest()
            yield from piece
            if heads:
                yield HEAD, encode(heads[0])
                return

    try:
        return files.write(sections(), lambda: heads[0].offset)
    finally:
        with still():
            fold.index.end_copy()


def opened(path: Path, index: Index) -> Fold:
    """The fold a snapshot holds, in a fresh index. Raises SnapshotDamaged, FormatTooNew."""
    fold = Fold(index)
    loading = index.load()
    try:
        found = _first_pass(path, loading.see)
        fold.restore(found, loading.described())
        loading.open()
        for kind, body in _sections(path):
            loading.take(kind, body)
        loading.finish()
    except (msgspec.MsgspecError, LogDamaged, ValueError, IndexError, KeyError) as error:
        raise SnapshotDamaged(f"{path} does not hold together: {error}") from error
    fold.resume_passes()
    return fold


def _first_pass(path: Path, see: Callable[[bytes, bytes], None]) -> Head:
    found: Head | None = None
    for kind, body in _sections(path):
        if kind == HEAD:
            found = head(body)
        else:
            see(kind, body)
    if found is None:
        raise SnapshotDamaged(f"{path} does not say of which moment it is")
    return found


def _sections(path: Path) -> Iterator[Section]:
    try:
        with path.open("rb") as file:
            yield from read_sections(file, str(path))
    except OSError as error:
        raise StorageFailed(f"{path} could not be read ({error})") from error
