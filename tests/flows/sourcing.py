"""Helpers of the source tests: they run a source in this process or as a command."""

from __future__ import annotations

import asyncio
import atexit
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
import nats
import nats.errors
from nats.aio.client import Client

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
from tests.redis.programs import on_path, skip_or_fail
from tests.redis.servers import WITHIN_SECONDS, free_port, until

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


class NatsServer:
    """A NATS server with JetStream on a free port. It keeps its port and its folder when it is
    restarted."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="laurels-nats-")
        self._child: subprocess.Popen[bytes] | None = None
        self._program = on_path("nats-server") or skip_or_fail(
            "nats-server is not installed: apt-get install -y nats-server"
        )
        self.port = 0
        atexit.register(self.close)
        for _ in range(20):
            self.port = free_port()
            if self.start():
                return
        raise OSError("nats-server did not start")

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> bool:
        """Start the server. Return False if another program has taken its port meanwhile, otherwise
        True."""
        child = subprocess.Popen(
            [
                self._program,
                "-js",
                "-a",
                "127.0.0.1",
                "-p",
                str(self.port),
                "-sd",
                self._folder.name,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: child.poll() is not None or self._answers(), "the server answers or ends")
        self._child = child
        return child.poll() is None

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait(60)
            self._child = None

    def restart(self) -> None:
        self.kill()
        assert self.start(), "the server did not start again"

    def call(self, verb: str, body: object = None) -> Any:
        """Call the JetStream API; return the decoded answer."""
        return _apart(self._call(f"$JS.API.{verb}", msgspec.json.encode(body or {})))

    def create(self, stream: str, *subjects: str, **config: object) -> None:
        """Create a stream."""
        answer = self.call(
            f"STREAM.CREATE.{stream}",
            {"name": stream, "subjects": subjects, "num_replicas": 1, **config},
        )
        assert "error" not in answer, answer

    def publish(self, subject: str, messages: Sequence[bytes]) -> None:
        """Publish messages in order. Return when the server has stored all of them."""
        _apart(self._publish(subject, messages))

    def close(self) -> None:
        atexit.unregister(self.close)
        self.kill()
        self._folder.cleanup()

    def _answers(self) -> bool:
        try:
            return "error" not in self.call("INFO")
        except (OSError, nats.errors.Error):
            return False

    async def _call(self, subject: str, body: bytes) -> Any:
        client = await self._connected()
        try:
            answer = await client.request(subject, body, timeout=WITHIN_SECONDS)
            return msgspec.json.decode(answer.data)
        finally:
            await client.close()

    async def _publish(self, subject: str, messages: Sequence[bytes]) -> None:
        client = await self._connected()
        try:
            for message in messages[:-1]:
                await client.publish(subject, message)
            await client.request(subject, messages[-1], timeout=WITHIN_SECONDS)
        finally:
            await client.close()

    async def _connected(self) -> Client:
        """Connect. Without a running server, raise an error after two attempts; the client library
        would go on for two minutes."""
        return await nats.connect(
            self.url,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            error_cb=_ignored,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _apart(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread and return its result. This thread may already have a
    running event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()


async def _ignored(_error: Exception) -> None:
    """Ignore an error of a connection, because the call that uses the connection raises it, too."""


def written(path: Path, lines: Sequence[bytes | Mapping[str, object]]) -> Path:
    """Append these lines to a file; return its path."""
    with path.open("ab") as file:
        for line in lines:
            file.write((line if isinstance(line, bytes) else msgspec.json.encode(line)) + b"\n")
    return path
