"""The delays that the machine itself causes, measured in two other processes.

`python -m bench.rolling.hiccups` sleeps for half a millisecond again and again until its input
ends, and then prints its longest delays in waking up. With a file name, it writes a little to that
file and flushes it every two milliseconds, and prints its longest writes. Neither uses a lock or
the interpreter of laurels, so a similar wait in laurels is caused by the machine or its disk.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

_PAUSE_SECONDS = 0.0005
_BETWEEN_FLUSHES = 0.002
_WRITTEN = bytes(8_192)
"""About as many bytes as the log writes for a batch of 100 events."""


class Hiccups:
    """The longest delays during `watching`, in seconds: of a process that sleeps, and of one that
    flushes a file in the folder."""

    sleeping = flushing = 0.0

    def __init__(self, folder: Path) -> None:
        self._file = folder / "flushed"

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            children = [stack.enter_context(_child(*args)) for args in ((), (str(self._file),))]
            for child in children:
                assert child.stdout is not None
                child.stdout.readline()
            try:
                yield
            finally:
                self.sleeping, self.flushing = (float(child.communicate()[0]) for child in children)
                self._file.unlink()


def _child(*args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", __name__, *args],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _overslept() -> float:
    began = time.perf_counter()
    time.sleep(_PAUSE_SECONDS)
    return time.perf_counter() - began - _PAUSE_SECONDS


def _flushed(file: int) -> float:
    time.sleep(_BETWEEN_FLUSHES)
    began = time.perf_counter()
    os.pwrite(file, _WRITTEN, 0)
    os.fdatasync(file)
    return time.perf_counter() - began


def main(path: str | None = None) -> None:
    ended = Thread(target=sys.stdin.read)
    ended.start()
    task: Callable[[], float] = _overslept
    if path is not None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        task = partial(_flushed, file)
        task()
    print("begun", flush=True)
    longest = 0.0
    last = False
    while not last:
        last = not ended.is_alive()
        longest = max(longest, task())
    print(longest)


if __name__ == "__main__":
    main(*sys.argv[1:])
