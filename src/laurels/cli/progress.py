"""Progress bars for imports and other long work, drawn only on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laurels.cli.importing.lines import Source

from .texts import escaped

if TYPE_CHECKING:
    from rich.progress import Progress


class SourceProgress:
    """The progress of one source: in bytes while it is read, and in events while they are replayed
    in time order.
    """

    def __init__(self, progress: "Progress | None", name: str, source: Source) -> None:
        self._progress = progress
        self._source = source
        self._replaying = False
        if progress is not None:
            self._task = progress.add_task(escaped(name), total=source.size, count=0, unit="lines")

    def read(self, lines: int) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=self._source.consumed(), count=lines)

    def replayed(self, events: int, of: int) -> None:
        if self._progress is None:
            return
        if not self._replaying:
            self._replaying = True
            self._progress.reset(self._task, total=of, count=0, unit="events")
        self._progress.update(self._task, completed=events, count=events)


class ScanProgress:
    """The progress of scans of a sorted set with about `size` members."""

    def __init__(self, progress: "Progress | None", name: str, size: int) -> None:
        self._progress = progress
        self._size = size
        if progress is not None:
            self._task = progress.add_task(escaped(name), total=size, count=0, unit="members")

    def restart(self, name: str) -> None:
        """Start the bar again for the next scan."""
        if self._progress is not None:
            description = escaped(name)
            self._progress.reset(
                self._task, total=self._size, description=description, count=0, unit="members"
            )

    def report(self, done: int) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=done, count=done)


@contextmanager
def progress_bar(enabled: bool) -> Iterator["Progress | None"]:
    """Yield a progress bar on standard error, or None if that is not a terminal or `enabled` is
    false."""
    if not enabled:
        yield None
        return
    from .bar import bar  # noqa: PLC0415 (drawing takes long to import)

    drawn = bar()
    if drawn is None:
        yield None
        return
    with drawn as progress:
        yield progress


def _ignore_bytes(done: int, of: int) -> None:
    pass


def _ignore_count(done: int) -> None:
    pass


@contextmanager
def bytes_bar(enabled: bool, name: str) -> Iterator[Callable[[int, int], None]]:
    """Draw a progress bar in bytes. Yield a function to be called with the number of bytes done and
    the total."""
    with progress_bar(enabled) as progress:
        if progress is None:
            yield _ignore_bytes
            return
        task = progress.add_task(escaped(name), total=None, count=0, unit="bytes")

        def report(done: int, of: int) -> None:
            progress.update(task, completed=done, total=of, count=done)

        yield report


@contextmanager
def count_bar(enabled: bool, name: str, of: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar of `of` units in total. Yield a function to be called with the number of
    units done."""
    with progress_bar(enabled) as progress:
        if progress is None:
            yield _ignore_count
            return
        task = progress.add_task(escaped(name), total=of, count=0, unit=unit)

        def report(done: int) -> None:
            progress.update(task, completed=done, count=done)

        yield report
