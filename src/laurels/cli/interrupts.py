"""Ctrl-C during an import: at once while reading, after the commit while committing."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Turn SIGINT into `KeyboardInterrupt`, but finish `held` blocks first."""

    def __init__(self) -> None:
        self._held = False
        self._asked = False

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
    def held(self) -> Iterator[None]:
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        if not self._held:
            raise KeyboardInterrupt
