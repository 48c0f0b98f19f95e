"""Ctrl-C during an import: it interrupts reading at once, but a commit is completed first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Turns SIGINT into `KeyboardInterrupt`.

    Within a `deferred` block, the exception is raised at the end of the block.
    """

    def __init__(self) -> None:
        self._deferring = False
        self._pending = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handle SIGINT within the block; Python delivers signals to the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
        if self._pending:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._pending = True
        if not self._deferring:
            raise KeyboardInterrupt
