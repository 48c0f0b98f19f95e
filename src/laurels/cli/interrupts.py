"""Ctrl-C ends an import at once while it reads; during a commit, only after the commit."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Raises `KeyboardInterrupt` for SIGINT, at once or after the end of a `deferred` block."""

    def __init__(self) -> None:
        self._deferring = False
        self._pending = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handle SIGINT within the block. Do nothing in other threads than the main one, since only
        the main thread can receive signals."""
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
        """Raise `KeyboardInterrupt` for a SIGINT within the block only after the block."""
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
