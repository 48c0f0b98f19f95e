"""Helpers of the source tests: they run a source in this process or as a command."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

import laurels
from laurels.errors import LaurelsError
from laurels.flows.sources.mapping import DEFAULT
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.opening import open_reader
from laurels.flows.sources.reader import Message, StreamPosition, StreamReader
from laurels.flows.sources.rejects import RejectedMessage, Rejects
from laurels.flows.sources.runner import SourceRunner
from laurels.flows.sources.settings import SourceSettings
from laurels.flows.sources.template import parse_mapping

T = TypeVar("T")
Boards = str | Path | Callable[[], AbstractAsyncContextManager[laurels.AsyncLeaderboards]]

FOUR_FIELDS = "board=KeyPrefix,member=UserId,value=DeltaScore"
"""A mapping in one line of configuration, for events with four fields."""


def four_fields(board: str, member: str, delta: object, score: object = 0) -> bytes:
    """Return an event as JSON with the four fields of `FOUR_FIELDS`."""
    fields = {"KeyPrefix": board, "UserId": member, "DeltaScore": delta, "Score": score}
    return msgspec.json.encode(fields)


class KeptRejects:
    """A rejects file in memory, which keeps the rejected messages."""

    def __init__(self) -> None:
        self.lines: list[RejectedMessage] = []

    def write(self, rejects: list[RejectedMessage]) -> None:
        self.lines += rejects

    async def deliver(self) -> None:
        """Do nothing: `write` has kept the rejects."""

    async def close(self) -> None:
        """Do nothing."""

    @property
    def codes(self) -> list[str]:
        return [line.code for line in self.lines]


@asynccontextmanager
async def open_boards(at: Boards) -> AsyncIterator[laurels.AsyncLeaderboards]:
    """Open boards from a URL, or by the function that a test gives."""
    async with laurels.open_async(at) if isinstance(at, (str, Path)) else at() as lb:
        yield lb


class Outcome(NamedTuple):
    """The result of a run."""

    metrics: SourceMetrics
    rejects: KeptRejects
    waits: list[str]


async def nothing(_seconds: float) -> None:
    """A sleep that returns almost at once."""
    await asyncio.sleep(0)


def no_input(_size: int) -> bytes:
    return b""


def reader_of(address: str | Path, stdin: Callable[[int], bytes] = no_input) -> StreamReader:
    return open_reader(str(address), sleep=nothing, stdin=stdin, run="this")


class RecordingReader:
    """Reads with another reader, and records the total length of the messages that each read
    returns."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self.lengths: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        messages = await self._reader.read(after, limit, wait=wait)
        self.lengths.append(sum(len(message.raw) for message in messages))
        return messages


def count(
    at: Boards,
    reader: StreamReader | str | Path,
    mapping: str = DEFAULT,
    /,
    *,
    now_ms: int = 1 << 50,
    on_progress: Callable[[SourceRunner, SourceMetrics], object] = lambda _runner, _metrics: None,
    on_wait: Callable[[], object] = lambda: None,
    storage: Rejects | None = None,
    **settings: Any,
) -> Outcome:
    """Run a source on the boards until it has counted all messages of its stream. `storage` takes
    the rejects; without it, the result has them."""
    rejects, waits = KeptRejects(), list[str]()
    used = reader_of(reader) if isinstance(reader, (str, Path)) else reader

    async def run() -> SourceMetrics:
        def counted(metrics: SourceMetrics) -> None:
            on_progress(runner, metrics)

        def waiting(error: LaurelsError, _seconds: float) -> None:
            waits.append(error.code)
            on_wait()

        async with open_boards(at) as lb:
            runner = SourceRunner(
                lb,
                used,
                parse_mapping(mapping),
                SourceSettings(**{"name": "source", "until_end": True, **settings}),
                rejects=storage or rejects,
                sleep=nothing,
                now_ms=lambda: now_ms,
                waiting=waiting,
                progress=counted,
            )
            try:
                await runner.run()
            finally:
                await used.close()
                if storage is not None:
                    await storage.close()
        return runner.metrics

    return Outcome(asyncio.run(run()), rejects, waits)


def scores(boards: str | Path, board: str, **where: Any) -> dict[str, Any]:
    """Return the scores of all members of a board."""
    with laurels.open(boards) as lb:
        return {entry.member: entry.score for entry in lb.export(board, **where)}


class SourceProcess:
    """A process of `laurels source run`, which is killed at the end of the `with` block."""

    def __init__(
        self, folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL, prelude: str = ""
    ) -> None:
        program = f"import sys\nfrom laurels.cli import main\n{prelude}\nsys.exit(main())"
        self.child = subprocess.Popen(
            [sys.executable, "-c", program, "source", "run", *arguments],
            cwd=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def wait_for_batches(self, count: int) -> None:
        """Wait until the process has counted this many more batches. The process has to print a
        line for each batch."""
        assert self.child.stderr is not None
        while count:
            line = self.child.stderr.readline()
            assert line, "the source has ended"
            count -= b"messages read" in line

    def ended(self) -> tuple[int, str, str]:
        """Wait until the process ends by itself. Return its exit code, its output and its error
        output."""
        out, err = self.child.communicate()
        return self.child.returncode, out.decode(), err.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.child.kill()
        self.child.communicate()


def written(path: Path, lines: Sequence[bytes | Mapping[str, object]]) -> Path:
    """Append these lines to a file; return its path."""
    with path.open("ab") as file:
        for line in lines:
            file.write((line if isinstance(line, bytes) else msgspec.json.encode(line)) + b"\n")
    return path
