"""Erases a member, and kills itself before a line of the code that does so.

    python -m tests.crash.erasing_writer FOLDER NOW_MS MEMBER LINE

It counts the lines that all threads execute in the files of the erasure. Without a kill it prints
their number.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import laurels
from laurels.core import erasing_boards
from laurels.stores.local import erasing
from laurels.stores.local.archive import archive, folder
from laurels.stores.local.archive import erasing as archive_erasing
from laurels.stores.local.files import audit
from laurels.stores.local.log import sqlite
from laurels.stores.local.payouts import table

FILES = {
    module.__file__
    for module in (
        erasing,
        archive,
        archive_erasing,
        audit,
        erasing_boards,
        folder,
        sqlite,
        table,
    )
}


class Lines:
    """Counts the lines that are executed in the files of the erasure, and kills the process before
    the line with the number `last`."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self.begun = False
        self._last = last

    def call(self, frame: FrameType, _: str, __: Any) -> Callable[..., Any] | None:
        return self.line if self.begun and frame.f_code.co_filename in FILES else None

    def line(self, _: FrameType, event: str, __: Any) -> Callable[..., Any]:
        if event == "line":
            self.count += 1
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.line


def main(path: str, now_ms: int, member: str, last: int) -> None:
    """Erase a member, unless the process dies before."""
    lines = Lines(last)
    threading.settrace(lines.call)
    sys.settrace(lines.call)
    with laurels.open(path, clock=laurels.ManualClock(now_ms)) as lb:
        lines.begun = True
        lb.erase(member, "asked for it")
        lines.begun = False
        print(lines.count)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
