"""The longest waits of readers and writers during a long operation."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bench.timing import Task

_PAUSE_SECONDS = 0.0005
_SETTLE_SECONDS = 0.1


class Waits:
    """The longest read and the longest write, in seconds, of two threads: one reads all the time,
    the other writes.

    Every wait counts, whatever its cause: a lock, the interpreter, the disk, or other programs. For
    comparison, `calm` measures the same threads without other work. `apart` returns the seconds so
    far of some part of all writes, such as the append to the log. `write_itself` is the time of the
    longest write when this part is subtracted from each write.
    """

    def __init__(self, read: Task, write: Task, apart: Callable[[], float] = lambda: 0.0) -> None:
        self._read, self._write, self._apart = read, write, apart
        self.read = self.write = self.write_itself = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Return a context manager during which the threads read and write."""
        ended = threading.Event()
        failures: list[BaseException] = []
        threads = [
            threading.Thread(target=self._repeat, args=(once, ended, failures))
            for once in (self._read_once, self._write_once)
        ]
        for thread in threads:
            thread.start()
        time.sleep(_SETTLE_SECONDS)
        self.read = self.write = self.write_itself = 0.0
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]

    def calm(self, spent: float) -> None:
        """Read and write for a number of seconds, without other work."""
        with self.watching():
            time.sleep(spent)

    def _read_once(self) -> None:
        self.read = max(self.read, waited(self._read))

    def _write_once(self) -> None:
        before = self._apart()
        spent = waited(self._write)
        self.write = max(self.write, spent)
        self.write_itself = max(self.write_itself, spent - (self._apart() - before))

    def _repeat(self, once: Task, ended: threading.Event, failures: list[BaseException]) -> None:
        try:
            # Call once more after the end, because a very short operation may have been over before
            # any call.
            while True:
                last = ended.is_set()
                once()
                if last:
                    break
                time.sleep(_PAUSE_SECONDS)
        except Exception as error:
            failures.append(error)


def waited(task: Task) -> float:
    """Return the seconds that one call takes."""
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def in_turn(tasks: Sequence[Task]) -> Task:
    """Return a task that calls the tasks in turn, one at each call."""
    at = -1

    def next_one() -> None:
        nonlocal at
        at = (at + 1) % len(tasks)
        tasks[at]()

    return next_one
