"""Backups: one file with the content of a folder, taken while a process may be serving it.

A backup is the folder's newest valid snapshot and the log after it, read in one transaction, and
the archive of sealed periods with their payouts (`sealed_files.py`). All can be read during writes,
because snapshots and segments are never changed and SQLite gives a reader one consistent state. The
file has the format of snapshots (`snapshot/form.py`): a first section with the notes and a table of
contents, the snapshot in pieces, the files of sealed periods in pieces, the entries of the log. The
file gets its name only after it was flushed and read back.

Restoring first verifies the whole file. It builds a folder under a temporary name, and renames it
at the end, so the result is either a complete folder or no folder.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from laurels.core import record as records
from laurels.errors import (
    BackupExists,
    FolderMissing,
    FolderNotEmpty,
    LogDamaged,
    SnapshotDamaged,
    StorageFailed,
)
from laurels.stores.local.files.private_files import make_folder, written_file
from laurels.stores.local.log.folder import LOG_NAME
from laurels.stores.local.log.sqlite import LogView, write_log
from laurels.stores.local.snapshot.files import SnapshotFile, SnapshotFiles, sync_folder
from laurels.stores.local.snapshot.form import Section, read_sections, verify, write_sections

from .sealed_files import ARCHIVE, SealedFileWriter, SegmentFiles, payouts_sections

CONTENTS, SNAPSHOT, ENTRIES = b"C", b"S", b"L"
_PIECE = 1 << 20
_ATTEMPTS = 5

Progress = Callable[[int, int], None]
"""The type of a function that is called with the number of bytes processed, and the approximate
total."""


class Backup(Struct, frozen=True):
    """The table of contents of a backup. The backup has the snapshot at `snapshot_offset` (None: no
    snapshot), and the entries of the log from `log_from` to `offset`."""

    offset: int
    log_from: int
    snapshot_offset: int | None
    notes: dict[str, str]


_encode = msgspec.msgpack.Encoder().encode
_contents = msgspec.msgpack.Decoder(Backup)
_entries = msgspec.msgpack.Decoder(list[tuple[int, bytes]])


def _no_progress(done: int, of: int) -> None:
    pass


def back_up(
    folder: Path, file: Path, *, overwrite: bool = False, progress: Progress = _no_progress
) -> Backup:
    """Write the content of a folder to one file. Another process may serve the folder meanwhile.

    Raises BackupExists, FolderMissing, FormatTooNew, LogDamaged if the folder is damaged, and
    StorageFailed if the file cannot be written. After any of these errors, an existing file of that
    name is unchanged.
    """
    if not folder.is_dir():
        raise FolderMissing(f"there are no boards at {folder}")
    if file.exists() and not overwrite:
        raise BackupExists(f"{file} already exists")
    erased = False
    for _ in range(_ATTEMPTS):
        with ExitStack() as stack, suppress(_MembersErasedError):
            with closing(LogView(folder / LOG_NAME)) as log:
                began = log.last
            snapshot = _newest_good(folder, stack)
            segments = SegmentFiles(folder, stack)
            segments.find()
            log = stack.enter_context(closing(LogView(folder / LOG_NAME)))
            offset = 0 if snapshot is None else snapshot[0].offset
            if log.first > offset + 1:
                continue  # the log was meanwhile trimmed to a newer snapshot
            segments.find()
            complete = partial(_ensure_none_erased, folder, began)
            return _write(file, folder, log, snapshot, segments, progress, complete)
        erased = True
    if erased:
        raise StorageFailed(f"members were erased during each of {_ATTEMPTS} attempts")
    raise LogDamaged(f"the log in {folder} begins after its newest valid snapshot")


class _MembersErasedError(Exception):
    """A member was erased from the folder while it was read."""


def _ensure_none_erased(folder: Path, began: int) -> None:
    """Raise _MembersErasedError if an entry of the log after the entry `began` says that a member
    is erased, or that an erasure is complete. The backup, which was begun before that, may contain
    files with the member, and nothing would erase the member after a restore."""
    with closing(LogView(folder / LOG_NAME)) as log:
        if log.first > began + 1:
            raise _MembersErasedError
        for _, body in log.entries(began + 1):
            if b"erase" in body and any(
                isinstance(each, records.Erase | records.Erased) for each in records.decode(body)
            ):
                raise _MembersErasedError


def _newest_good(folder: Path, stack: ExitStack) -> tuple[SnapshotFile, BinaryIO] | None:
    """Return the newest valid snapshot with its open file, which can be read even if the snapshot
    is removed. Return None if no snapshot is valid."""
    for snapshot in SnapshotFiles(folder).newest_first():
        try:
            file = stack.enter_context(snapshot.path.open("rb"))
            for _ in read_sections(file, snapshot.path.name):
                pass
            file.seek(0)
        except (FileNotFoundError, SnapshotDamaged):
            continue
        except OSError as error:
            raise StorageFailed(f"{snapshot.path} could not be read ({error})") from error
        return snapshot, file
    return None


def _write(
    file: Path,
    folder: Path,
    log: LogView,
    snapshot: tuple[SnapshotFile, BinaryIO] | None,
    segments: SegmentFiles,
    progress: Progress,
    ensure_valid: Callable[[], None],
) -> Backup:
    """Write a backup to a temporary file, verify it and rename it. `ensure_valid` is called before
    it is renamed."""
    offset = None if snapshot is None else snapshot[0].offset
    start = max(log.first, offset or 1)
    if log.last < (offset or 0):
        raise LogDamaged(f"the log ends at entry {log.last}, before the snapshot of entry {offset}")
    contents = Backup(log.last, start, offset, log.notes())
    unfinished = file.with_name(f"{file.name}.unfinished")
    try:
        with written_file(unfinished, _PIECE) as written:
            write_sections(written, _sections(contents, folder, log, snapshot, segments, progress))
            written.flush()
            os.fsync(written.fileno())
        verify(unfinished)
        ensure_valid()
        unfinished.replace(file)
        sync_folder(file.parent)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StorageFailed(f"{file} could not be written ({error})") from error
        raise
    return contents


def _sections(
    contents: Backup,
    folder: Path,
    log: LogView,
    snapshot: tuple[SnapshotFile, BinaryIO] | None,
    segments: SegmentFiles,
    progress: Progress,
) -> Iterator[Section]:
    size = os.fstat(snapshot[1].fileno()).st_size if snapshot is not None else 0
    size += segments.nbytes
    entries = contents.offset - contents.log_from + 1
    done = 0
    yield CONTENTS, _encode(contents)
    while snapshot is not None and (piece := snapshot[1].read(_PIECE)):
        yield SNAPSHOT, piece
        done += len(piece)
        progress(done, size + entries)
    for body in chain(segments.sections(), payouts_sections(folder)):
        yield ARCHIVE, body
        done = min(size, done + len(body))
        progress(done, size + entries)
    part: list[tuple[int, bytes]] = []
    nbytes = 0
    for offset, body in log.entries(contents.log_from):
        part.append((offset, body))
        nbytes += len(body)
        if nbytes >= _PIECE:
            yield ENTRIES, _encode(part)
            part, nbytes = [], 0
            progress(size + offset - contents.log_from + 1, size + entries)
    yield ENTRIES, _encode(part)
    progress(size + entries, size + entries)


def restore(file: Path, folder: Path, *, progress: Progress = _no_progress) -> Backup:
    """Create a folder from a backup. The folder must be missing or empty.

    Raises FolderNotEmpty, SnapshotDamaged, FormatTooNew, StorageFailed. After an error, the folder
    is missing or empty, as it was before.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FolderNotEmpty(f"{folder} already exists and is not empty")
    whole = folder.absolute()
    beside = whole.with_name(f".{whole.name}.restoring")
    try:
        verify(file)
        shutil.rmtree(beside, ignore_errors=True)
        make_folder(beside)
        contents = _build(file, beside, progress)
        whole.parent.mkdir(parents=True, exist_ok=True)
        beside.replace(whole)
        sync_folder(whole.parent)
    except OSError as error:
        raise StorageFailed(f"{file} could not be restored to {folder} ({error})") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return contents


def _build(file: Path, folder: Path, progress: Progress) -> Backup:
    """Write the files of a folder from a backup."""
    size = file.stat().st_size
    with file.open("rb") as read, ExitStack() as stack:
        sections = read_sections(read, str(file))
        contents = _read_contents(sections, file)
        pending: list[Section] = []
        sealed = SealedFileWriter(folder, file, stack)

        def entries() -> Iterator[tuple[int, bytes]]:
            for kind, body in chain(pending, sections):
                if kind == ARCHIVE:
                    sealed.add(body)
                    continue
                if kind != ENTRIES:
                    raise SnapshotDamaged(f"{file} has a section of the unknown kind {kind!r}")
                yield from _entries.decode(body)
                progress(read.tell(), size)

        if contents.snapshot_offset is not None:
            path = folder / f"snapshot-{contents.snapshot_offset:020}.laurels"
            pending += _write_snapshot(path, sections)
            verify(path)
        write_log(folder / LOG_NAME, contents.notes, entries())
        sealed.finish()
    with closing(LogView(folder / LOG_NAME)) as log:
        if log.last != contents.offset:
            raise SnapshotDamaged(
                f"expected {file} to end at entry {contents.offset}, got {log.last}"
            )
    return contents


def _write_snapshot(path: Path, sections: Iterator[Section]) -> Iterable[Section]:
    """Write the snapshot that is in a backup. Return the sections that follow it."""
    with written_file(path) as snapshot:
        for kind, body in sections:
            if kind != SNAPSHOT:
                snapshot.flush()
                os.fsync(snapshot.fileno())
                return [(kind, body)]
            snapshot.write(body)
    return []


def _read_contents(sections: Iterator[Section], file: Path) -> Backup:
    kind, body = next(sections, (b"", b""))
    if kind != CONTENTS:
        raise SnapshotDamaged(f"expected a backup, got {file}")
    try:
        return _contents.decode(body)
    except msgspec.MsgspecError as error:
        raise SnapshotDamaged(f"the table of contents of {file} cannot be read: {error}") from error
