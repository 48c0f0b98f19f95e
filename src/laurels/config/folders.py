"""Operations on the folder of a store: backing it up, restoring and rewinding it, and recording the
address at which it is served."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from laurels.stores.local.log.folder import Folder, announce
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.stores.local.recovery.backup import Backup, Progress
from laurels.stores.local.recovery.backup import back_up as back_up_folder
from laurels.stores.local.recovery.backup import restore as restore_folder
from laurels.stores.local.recovery.rewind import Rewound
from laurels.stores.local.recovery.rewind import rewind as rewind_folder
from laurels.timeline.clock import SystemClock

from .urls import folder_of, folder_with_files


def back_up(url: str, file: Path, *, overwrite: bool, progress: Progress) -> Backup:
    """Write all data of a deployment to one file, also while it is served.

    Raises NothingToBackUp for `memory:`, UnknownUrl, and the errors of `backup.back_up`.
    """
    return back_up_folder(folder_with_files(url), file, overwrite=overwrite, progress=progress)


def restore(file: Path, url: str, *, progress: Progress) -> Backup:
    """Create a deployment from a backup. Raises the errors of `back_up` and of `backup.restore`."""
    return restore_folder(file, folder_with_files(url), progress=progress)


def rewind(url: str, until_ms: int | None, *, dry_run: bool) -> Rewound:
    """Rewind the folder of a deployment to an instant, by default to now. No other process may use
    the folder at that time. Raises NothingToBackUp if the deployment has no folder, Locked, and the
    errors of `rewind.rewind`."""
    folder = Folder(folder_with_files(url), create=False)
    try:
        log = SqliteLog(folder.log_path)
        try:
            until_ms = SystemClock().now_ms() if until_ms is None else until_ms
            return rewind_folder(folder.path, log, until_ms, dry_run=dry_run)
        finally:
            log.close()
    finally:
        folder.close()


@contextmanager
def announced(url: str, address: str) -> Iterator[None]:
    """Return a context manager that records the address at which a folder is served. A process that
    finds the folder locked gives this address in its error message."""
    folder = folder_of(url)
    if folder is not None:
        announce(folder, address)
    try:
        yield
    finally:
        if folder is not None:
            announce(folder, None)
