"""A progress bar for opening a store, drawn on a terminal if it takes longer than a second."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from laurels.stores.local.recovery.progress import reporting

from .progress import bytes_bar

AFTER_SECONDS = 1.0


class _OpeningBar:
    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._phase = ""
        self._began = 0.0
        self._drawn = ExitStack()
        self._draw: Callable[[int, int], None] | None = None

    def report(self, phase: str, done: int, total: int) -> None:
        if phase != self._phase:
            self.close()
            self._phase, self._began = phase, self._seconds()
        if done >= total:
            self.close()
        elif self._draw is not None:
            self._draw(done, total)
        elif self._seconds() - self._began >= AFTER_SECONDS:
            self._draw = self._drawn.enter_context(bytes_bar(True, phase))

    def close(self) -> None:
        self._phase, self._draw = "", None
        self._drawn.close()


@contextmanager
def opening_bar(seconds: Callable[[], float]) -> Iterator[None]:
    """Draw the progress of a slow opening within the block; `seconds` is a monotonic clock."""
    bar = _OpeningBar(seconds)
    try:
        with reporting(bar.report):
            yield
    finally:
        bar.close()
