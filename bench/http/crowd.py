"""Writers at a steady pace and the readers of a live feed, in one process of their own.

`python -m bench.http.crowd` reads its task from the standard input (`CrowdTask`, a line of JSON),
and prints `ready` when all streams have their list. After the next line of input it writes at a
steady pace, until its time is over or its input ends. Then it prints the result (`Heard`).

Every crowd has a new member, the *marker*, at the top of the board. The marker gets a point with
every batch, so its score tells the number of the batch. The delay of a batch at a stream is the
time from sending the POST to the arrival of the first change in which the marker's score is that of
this batch or of a later one. The same process sends, receives and reads the clock, so no delay
includes a switch between two interpreters.
"""

import asyncio
import re
import resource
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Self, cast

import msgspec

from bench.http.process import HOST
from bench.http.traffic import written
from bench.workload import Population, in_batches

_OPENED_AT_ONCE = 50
_OPEN_SECONDS = 30
_LAST_SECONDS = 5
_POLL_SECONDS = 0.005
_FILES = 8_192
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class CrowdTask(msgspec.Struct, frozen=True):
    """The task of a crowd. `streams` streams read the feed at the path `live`. With streams there
    is only one writer, so that batches are applied in the order of sending."""

    port: int
    path: str
    members: int
    events_a_second: int
    batch: int
    seconds: float
    streams: int = 0
    live: str = ""
    writers: int = 1


class Heard(msgspec.Struct, frozen=True):
    """The measurements of a crowd of streams."""

    batches: int
    """The number of batches that were sent and answered with success."""
    seconds: float
    frames: int
    p50_ms: float
    p99_ms: float
    """Percentiles of the delays of all batches at all streams; 0 without streams."""


class _Scored(msgspec.Struct, frozen=True):
    member: str
    score: int


class _Frame(msgspec.Struct, frozen=True):
    """A frame of the feed. In a frame `top`, the marker is in `entries`; in a frame `change`, it is
    in `entered` or `scored`."""

    entries: list[_Scored] = []
    entered: list[_Scored] = []
    scored: list[_Scored] = []

    def score_of(self, member: str) -> int | None:
        entries = chain(self.entries, self.entered, self.scored)
        return next((entry.score for entry in entries if entry.member == member), None)


_read_frame = msgspec.json.Decoder(_Frame).decode


class Marker(NamedTuple):
    """A member and its first score. The score is above those of all other members, including the
    markers of earlier crowds."""

    name: str
    score: int

    @classmethod
    def of_now(cls) -> Self:
        """Return a marker whose score is the current time in µs since 1970, so that later markers
        are higher."""
        score = time.time_ns() // 1_000
        return cls(f"marker-{score}", score)


class Stream(asyncio.Protocol):
    """One reader of the feed. All readers add their delays to the same `waits`."""

    def __init__(
        self, task: CrowdTask, marker: Marker, sent: "array[float]", waits: "array[float]"
    ) -> None:
        self._task = task
        self._marker = marker
        self._sent = sent
        self._waits = waits
        self._buffer = b""
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the marker is at the top of the list."""
        self.received = 0
        """The number of the newest batch that this stream has received."""
        self.frames = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        request = f"GET {self._task.live} HTTP/1.1\r\nHost: {HOST}\r\n\r\n"
        cast(asyncio.WriteTransport, transport).write(request.encode())

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        # Each frame is a chunk. The line with its length comes before `event:` and is skipped.
        *frames, self._buffer = (self._buffer + data).split(b"\n\n")
        for frame in frames:
            _, separator, document = frame.partition(b"\ndata: ")
            if separator:
                self._take(_read_frame(document), now)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.first.done():
            self.first.set_exception(exc or ConnectionError("the feed ended before it began"))

    def _take(self, frame: _Frame, now: float) -> None:
        self.frames += 1
        score = frame.score_of(self._marker.name)
        if score is None:
            return
        if not self.first.done():
            self.first.set_result(None)
        received = score - self._marker.score
        for batch in range(self.received, received):
            self._waits.append(now - self._sent[batch])
        self.received = received


class Writer(asyncio.Protocol):
    """One connection, which sends a body after the previous one is answered."""

    def __init__(self, task: CrowdTask) -> None:
        self._head = f"POST {task.path} HTTP/1.1\r\nHost: {HOST}\r\n"
        self._head += "Content-Type: application/json\r\nContent-Length: "
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    async def send(self, body: bytes) -> None:
        """Send a body, and wait for the answer."""
        self._answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
        await self._answered

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, ended, body = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not ended or (length is not None and len(body) < int(length[1])):
            return
        self._buffer = b""
        if b" 200 " in head.partition(b"\r\n")[0]:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(ConnectionError((head + body).decode()))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("the writer was cut off"))


class Crowd:
    """All writers and streams."""

    def __init__(self, task: CrowdTask) -> None:
        self._task = task
        self._sent = array("d")
        self._waits = array("d")
        self._streams: list[Stream] = []
        self._writers: list[Writer] = []
        self._marker = Marker.of_now()
        self._bodies = _bodies(task, self._marker)

    async def gather(self) -> None:
        """Open the writers, submit the marker, and open the streams. Return when each stream has
        its list."""
        loop, task = asyncio.get_running_loop(), self._task
        for _ in range(task.writers):
            _, writer = await loop.create_connection(lambda: Writer(task), HOST, task.port)
            self._writers.append(writer)
        if not task.streams:
            return
        await self._writers[0].send(msgspec.json.encode(written([self._marker])))
        async with asyncio.timeout(_OPEN_SECONDS):
            while len(self._streams) < task.streams:
                missing = min(_OPENED_AT_ONCE, task.streams - len(self._streams))
                opened = [await self._open(loop) for _ in range(missing)]
                await asyncio.gather(*(stream.first for stream in opened))
                self._streams += opened

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Stream:
        task = self._task
        _, stream = await loop.create_connection(
            lambda: Stream(task, self._marker, self._sent, self._waits), HOST, task.port
        )
        return stream

    async def write(self, over: asyncio.Event) -> Heard:
        """Send the batches when they are due. Return when every stream has received the last
        batch."""
        began = time.perf_counter()
        due = self._due(began)
        await asyncio.gather(*(self._share(writer, due, over) for writer in self._writers))
        elapsed = time.perf_counter() - began
        await self._all_received()
        return Heard(
            len(self._sent),
            elapsed,
            sum(stream.frames for stream in self._streams),
            percentile_ms(self._waits, 50),
            percentile_ms(self._waits, 99),
        )

    def _due(self, began: float) -> Iterator[tuple[float, bytes]]:
        pause = self._task.batch / self._task.events_a_second
        for number, body in enumerate(self._bodies):
            yield began + number * pause, body

    async def _share(
        self, writer: Writer, due: Iterator[tuple[float, bytes]], over: asyncio.Event
    ) -> None:
        """Send batches from the shared queue until it is empty."""
        for moment, body in due:
            await _until(moment, over)
            if over.is_set():
                return
            self._sent.append(time.perf_counter())
            await writer.send(body)

    async def _all_received(self) -> None:
        deadline = time.perf_counter() + _LAST_SECONDS
        while any(stream.received < len(self._sent) for stream in self._streams):
            if time.perf_counter() > deadline:
                raise TimeoutError("not every stream has received the last batch")
            await asyncio.sleep(_POLL_SECONDS)


def percentile_ms(waits: Sequence[float], percent: int) -> float:
    """Return a percentile of delays in ms (nearest rank), 0 if there are none."""
    if not waits:
        return 0.0
    return 1e3 * sorted(waits)[-(-len(waits) * percent // 100) - 1]


def _bodies(task: CrowdTask, marker: Marker) -> list[bytes]:
    """Return the encoded batches for the whole time. With streams, each batch has an event of the
    marker."""
    count = int(task.seconds * task.events_a_second / task.batch)
    point = [(marker.name, 1)] if task.streams else []
    traffic = Population(task.members, 0).traffic("zipf", count * (task.batch - len(point)))
    batches = in_batches(traffic, task.batch - len(point))
    return [msgspec.json.encode(written([*batch, *point])) for batch in batches]


async def _until(due: float, over: asyncio.Event) -> None:
    """Wait until an instant or, if it is earlier, the end of the run."""
    left = due - time.perf_counter()
    if left > 0 and not over.is_set():
        try:
            await asyncio.wait_for(over.wait(), left)
        except TimeoutError:
            return


async def _run(task: CrowdTask) -> None:
    crowd, over = Crowd(task), asyncio.Event()
    await crowd.gather()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    if await loop.run_in_executor(None, sys.stdin.readline):
        loop.add_reader(sys.stdin.fileno(), _end, loop, over)
        heard = await crowd.write(over)
        print(msgspec.json.encode(heard).decode(), flush=True)


def _end(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    loop.remove_reader(sys.stdin.fileno())
    over.set()


if __name__ == "__main__":
    import uvloop

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, allowed), allowed))
    uvloop.run(_run(msgspec.json.decode(sys.stdin.readline(), type=CrowdTask)))
