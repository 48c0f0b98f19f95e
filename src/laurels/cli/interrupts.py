"""Ctrl-C during an import: at once while reading, after the commit while committing."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Turn SIGINT into `KeyboardInterrupt`, but finish `deferred` blocks first."""

    def __init__(self) -> None:
        self._deferring = False
        self._pending = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handle SIGINT within the block; signals reach the main thread alone."""
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
