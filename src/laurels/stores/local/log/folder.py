"""The folder of a store in a process; only one process can use it at a time."""

import errno
import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path

from laurels.errors import FolderMissing, Locked, StorageFailed
from laurels.stores.local.files.private_files import (
    create_file,
    make_folder,
    tighten_folder,
    written_file,
)

LOG_NAME = "log.db"
_LOCK_NAME = "lock"
_ADDRESS_NAME = "served-at"


class Folder:
    """A folder that this process has locked until `close`. The lock file has the pid of this
    process.

    The lock is a lock of the kernel (flock), so it always ends with the process. A forked child
    inherits the lock, and closes its copy at once, so that the lock ends with the parent.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        try:
            if not create and not (path / LOG_NAME).exists():
                raise FolderMissing(f"there are no boards at {path}")
            make_folder(path)
            self._lock = create_file(path / _LOCK_NAME)
        except OSError as error:
            raise StorageFailed(f"{path} cannot be used as a folder: {error}") from error
        # The lock also ends when this object is garbage-collected, for instance in a notebook that
        # opens the folder again.
        self.close_lock = weakref.finalize(self, os.close, self._lock)
        self._acquire_lock()
        _open_folders.add(self)
        tighten_folder(path)

    @property
    def log_path(self) -> Path:
        return self.path / LOG_NAME

    def _acquire_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._lock, 20, 0).decode(errors="replace").strip()
            self.close_lock()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise StorageFailed(f"{self.path} cannot be locked: {error}") from error
            pid = int(holder) if holder.isdigit() else None
            raise self._locked_error(pid) from error
        with suppress(OSError):  # the lock is held already; the pid is only for error messages
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def _locked_error(self, pid: int | None) -> Locked:
        text = f"{self.path} is in use by process {pid or '?'}"
        with suppress(OSError):
            holder, _, address = (self.path / _ADDRESS_NAME).read_text().strip().partition(" ")
            if holder == str(pid):
                return Locked(f"{text}, which serves it at {address}: use --at {address}", pid=pid)
        return Locked(text, pid=pid)

    def close(self) -> None:
        _open_folders.discard(self)
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.close_lock()


def announce(path: Path, address: str | None) -> None:
    """Write the address at which this process serves the folder to a file in the folder. If another
    process then fails to lock the folder, its error names this address. None removes the file."""
    with suppress(OSError):
        if address is None:
            (path / _ADDRESS_NAME).unlink(missing_ok=True)
        else:
            with written_file(path / _ADDRESS_NAME) as file:
                file.write(f"{os.getpid()} {address}\n".encode())


_open_folders: weakref.WeakSet[Folder] = weakref.WeakSet()


def _close_in_child() -> None:
    for folder in list(_open_folders):
        folder.close_lock()
    _open_folders.clear()


os.register_at_fork(after_in_child=_close_in_child)
