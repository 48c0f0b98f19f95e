"""What is done with the folder of a store: backing it up, restoring and rewinding it, and
announcing who serves it."""

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
    """Writes all that the deployment of a URL holds to one file, also while it is served.

    Raises NothingToBackUp for `memory:`, UnknownUrl, and as `backup.back_up`.
    """
    return back_up_folder(folder_with_files(url), file, overwrite=overwrite, progress=progress)


def restore(file: Path, url: str, *, progress: Progress) -> Backup:
    """Makes a deployment of a backup; raises as `back_up`, and as `backup.restore`."""
    return restore_folder(file, folder_with_files(url), progress=progress)


def rewind(url: str, until_ms: int | None, *, dry_run: bool) -> Rewound:
    """Bring the folder of a deployment, which nobody may use meanwhile, back to an instant, by
    default to now. Raises NothingToBackUp without a folder, Locked, and as `rewind.rewind`."""
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
    """Has whoever finds the folder of a deployment in use be told where it is served."""
    folder = folder_of(url)
    if folder is not None:
        announce(folder, address)
    try:
        yield
    finally:
        if folder is not None:
            announce(folder, None)
