"""Running a source over the boards at a URL, until its end or Ctrl-C."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import laurels
from laurels.cli.errors import OutputFailed, one_line
from laurels.cli.show import complain
from laurels.errors import LaurelsError, ShardsDiffer
from laurels.errors.sources import SourceUnreadable
from laurels.flows.retries import FlowRetryPolicy
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.reader import StreamReader
from laurels.flows.sources.rejects import Rejects
from laurels.flows.sources.runner import SourceRunner

PROGRESS_SECONDS = 10.0


async def run_source(
    at: str, reader: StreamReader, rejects: Rejects, make: Callable[..., SourceRunner]
) -> tuple[SourceMetrics, bool]:
    """Run a source over the boards at a URL. Return its counts, and whether Ctrl-C ended it."""
    interrupted = False
    opening = asyncio.ensure_future(
        FlowRetryPolicy(asyncio.sleep, complain_of_waiting).call(
            partial(laurels.open_async, at, create=False)
        )
    )
    stop: Callable[[], object] = opening.cancel

    def interrupt(number: int) -> None:
        nonlocal interrupted
        interrupted = number == signal.SIGINT
        stop()

    with _signals(interrupt):
        try:
            lb = await opening
        except asyncio.CancelledError:
            return SourceMetrics(), interrupted
        try:
            runner = make(lb)
            stop = runner.stop
            complain(f"reading {reader.name}")
            await runner.run()
        finally:
            try:
                await rejects.close()
            finally:
                await reader.close()
                await lb.close()
    return runner.metrics, interrupted


@contextmanager
def _signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` for SIGINT and SIGTERM within the block. Do nothing outside of the main
    thread."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    with suppress(ValueError, RuntimeError):
        for number in numbers:
            loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in numbers:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)


def standard_input(address: str) -> Callable[[int], bytes]:
    """Return a function that reads up to `size` bytes of standard input, as soon as any arrive.
    Raise SourceUnreadable if `address` is `-` and standard input is closed."""

    def read(size: int) -> bytes:
        if sys.stdin is None:
            raise OSError("standard input is closed")
        try:
            return os.read(sys.stdin.fileno(), size)
        except io.UnsupportedOperation:
            return sys.stdin.buffer.read(size)

    if address == "-" and sys.stdin is None:
        raise SourceUnreadable("standard input is closed")
    return read


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise OutputFailed if the rejects file cannot be written within the block."""
    try:
        yield
    except OSError as error:
        if error.filename is None or Path(os.fsdecode(error.filename)) != path:
            raise
        raise OutputFailed(
            f"the rejects file {path} cannot be written: {error.strerror}: choose another with "
            "--rejects"
        ) from error


class StreamProgress:
    """Prints the progress of a source, at most every ten seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()

    def __call__(self, metrics: SourceMetrics) -> None:
        if self._clock() - self._last >= PROGRESS_SECONDS:
            self._last = self._clock()
            complain(f"{metrics.read:,} messages read, at position {metrics.position}")


def complain_of_waiting(error: LaurelsError, seconds: float) -> None:
    """Print why a source waits, and for how long."""
    if isinstance(error, ShardsDiffer):
        complain(f"[{error.code}] {error.what}: counting the missing messages again")
        return
    complain(f"waiting {seconds:g} s [{error.code}]: {one_line(error)}")
