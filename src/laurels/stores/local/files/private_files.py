"""Files and folders that only their owner may read.

The modes are explicit (files 0600, folders 0700), so the umask of the process can only remove
rights. SQLite gives its write-ahead file the mode of the database. A folder written by an earlier
version, or copied by other means, gets these modes when it is opened.
"""

import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OTHER_USERS = 0o077
_OWN_NAMES = re.compile(
    r"(log\.db|log\.mark|lock|served-at|keys\.json|clock|audit|snapshot|changes\.db|archive|payouts\.db)([-.].*)?"
)
_log = logging.getLogger("laurels")


def create_file(path: Path, flags: int = os.O_RDWR) -> int:
    """Open a file, and create it if it is missing. Return its descriptor."""
    file = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    _tighten_file(file)
    return file


APPEND = os.O_APPEND
NEW = os.O_EXCL


def open_output(path: Path, flags: int) -> int:
    """Open an output file that does not belong to a store, and return its descriptor. `flags` is
    `APPEND`, or `NEW` if the file must not exist yet. Only the owner can read a new file. An
    existing file keeps its mode, since its owner may have chosen the mode."""
    return os.open(path, flags | os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)


@contextmanager
def written_file(path: Path, buffering: int = -1) -> Iterator[BinaryIO]:
    """Open a file for writing, and truncate it. Raises OSError if the path is a symbolic link."""
    flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(create_file(path, flags), "wb", buffering) as file:
        yield file


def make_folder(path: Path) -> None:
    """Create a folder if it is missing. Missing parents are created with the modes of the umask."""
    path.mkdir(FOLDER_MODE, parents=True, exist_ok=True)


def tighten_folder(folder: Path) -> None:
    """Remove the rights of other users from a store's folder and its files, and log what changed.

    Files of other owners are not changed. The folder's mode is not changed if it also has files of
    other programs, which may need that mode.
    """
    with suppress(OSError):
        entries = list(folder.iterdir())
        own = [path for path in entries if _OWN_NAMES.fullmatch(path.name)]
        shared = len(own) < len(entries)
        folders = [path for path in own if path.is_dir() and not path.is_symlink()]
        inside = [path for each in folders for path in each.iterdir()]
        changed = [path.name for path in own + inside if _tighten(path)]
        if not shared and _tighten(folder):
            changed.insert(0, "the folder")
        if changed:
            _log.info(
                "%s: other users could read %s; these rights were removed",
                folder,
                ", ".join(changed),
            )


def _tighten_file(file: int) -> None:
    """Remove the rights of other users from an open file. On a file system without modes, do
    nothing."""
    info = os.fstat(file)
    if info.st_uid == os.geteuid() and info.st_mode & _OTHER_USERS:
        with suppress(OSError):
            os.fchmod(file, FILE_MODE)


def _tighten(path: Path) -> bool:
    """Remove the rights of other users from a path that this user owns. Return whether they had any
    rights."""
    with suppress(OSError):
        info = path.lstat()
        regular = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
        if regular and info.st_uid == os.geteuid() and info.st_mode & _OTHER_USERS:
            mode = FOLDER_MODE if stat.S_ISDIR(info.st_mode) else FILE_MODE
            path.chmod(stat.S_IMODE(info.st_mode) & mode)
            return True
    return False
