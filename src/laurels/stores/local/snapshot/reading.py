"""Reads the sections of a snapshot in any order, in several threads."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread

from laurels.errors import StorageFailed

from .form import FilePosition, find_sections, read_at

THREADS = 2
"""The number of threads. More of them would only compete for memory bandwidth, and few snapshots
have more than two large structures."""


class Sections:
    """The sections of a snapshot in their order, each of which is verified when it is read.

    Raises SnapshotDamaged if a byte is wrong or missing, FormatTooNew, StorageFailed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._failed(error) from error
        try:
            self.places = find_sections(self._file, str(path))
        except OSError as error:
            self.close()
            raise self._failed(error) from error
        except BaseException:
            self.close()
            raise

    def body(self, place: FilePosition) -> bytes:
        """Return the body of a section. Several threads may call this concurrently."""
        try:
            return read_at(self._file, place, str(self.path))
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        os.close(self._file)

    def _failed(self, error: OSError) -> StorageFailed:
        return StorageFailed(f"{self.path} could not be read ({error})")


def side_by_side(tasks: Sequence[Iterator[None]]) -> None:
    """Run iterators to their ends in `THREADS` threads, in the order in which they are given.

    If one iterator raises an error, the others stop at their next items, and the error is raised
    here.
    """
    waiting = iter(tasks)
    raised: list[BaseException] = []

    def work() -> None:
        try:
            for task in waiting:
                for _ in task:
                    if raised:
                        return
        except BaseException as error:
            raised.append(error)

    helpers = [Thread(target=work, daemon=True) for _ in tasks[1:THREADS]]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        try:
            helper.join()
        except BaseException as error:  # also after an interrupt: the caller then closes the file
            raised.append(error)
            helper.join()
    if raised:
        raise raised[0]
