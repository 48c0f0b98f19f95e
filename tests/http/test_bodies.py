"""The time and the size of each request body are bounded, and so is the size of all bodies
together, even if clients send them slowly or break off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import httpx
import pytest

from laurels.errors import LaurelsError
from laurels.errors.service import BodyTimedOut, BodyTooLarge, Overloaded
from laurels.server.requests.bodies import LEAST_RATE, SMALL, Bodies
from laurels.server.requests.deadlines import Deadlines
from tests.http.wire import Wire, request
from tests.serving import Served

MOST = 1 << 20
SECONDS = 10


class Sender:
    """Replaces the server's protocol object. It yields the chunks of a request body that a test has
    sent with `send`."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, part: bytes) -> None:
        self._parts.put_nowait(part)

    async def __call__(self) -> bytes:
        return await self._parts.get()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while part := await self._parts.get():
            yield part


class Reading:
    """A reader of request bodies, with a clock that the test sets."""

    def __init__(self, most: int = 4 * MOST) -> None:
        self.now = 0.0
        self.deadlines = Deadlines(lambda: self.now)
        self.bodies = Bodies(most, SECONDS, self.deadlines)

    def start(
        self, length: int | None, caller: str = "a", most: int = MOST
    ) -> tuple[Sender, asyncio.Task[bytes]]:
        sender: Any = Sender()
        header = None if length is None else str(length)
        reading: Coroutine[Any, Any, bytes] = self.bodies.read(caller, header, sender, most)
        return sender, asyncio.ensure_future(reading)

    async def pass_time(self, seconds: float) -> None:
        self.now += seconds
        await settle()
        self.deadlines.cancel_expired()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def refusal(task: asyncio.Task[bytes]) -> type[BaseException]:
    error = task.exception()
    assert isinstance(error, LaurelsError)
    return type(error)


@pytest.mark.parametrize("length", [100, SMALL, SMALL + 1, None])
def test_a_body_that_does_not_arrive_is_refused(length: int | None) -> None:
    async def main() -> None:
        reading = Reading()
        _, task = reading.start(length)
        await settle()
        await reading.pass_time(SECONDS - 0.1)
        assert not task.done()
        await reading.pass_time(0.2)
        assert refusal(task) is BodyTimedOut
        assert reading.bodies.nbytes == 0

    asyncio.run(main())


def test_a_large_body_gets_more_time_as_it_arrives() -> None:
    async def main() -> None:
        reading = Reading()
        sender, task = reading.start(MOST)
        part = b"x" * LEAST_RATE
        for _ in range(4):
            sender.send(part)
            await settle()
            await reading.pass_time(1)
        await reading.pass_time(SECONDS - 0.1)
        assert not task.done()
        await reading.pass_time(0.2)
        assert refusal(task) is BodyTimedOut
        assert reading.bodies.nbytes == 0

    asyncio.run(main())


def test_single_bytes_do_not_extend_the_deadline() -> None:
    async def main() -> None:
        reading = Reading()
        sender, task = reading.start(MOST)
        for _ in range(SECONDS + 3):
            sender.send(b"x")
            await reading.pass_time(1)
        assert refusal(task) is BodyTimedOut

    asyncio.run(main())


def test_a_cancelled_request_stays_cancelled() -> None:
    async def main() -> None:
        reading = Reading()
        _, task = reading.start(100)
        await settle()
        task.cancel()
        await settle()
        assert task.cancelled()
        assert reading.bodies.nbytes == 0

    asyncio.run(main())


def test_only_received_bytes_count_towards_the_body_memory() -> None:
    async def main() -> None:
        reading = Reading(4 * MOST)
        silent = [reading.start(MOST, caller=f"silent {i}")[1] for i in range(100)]
        bodies = []
        for i in range(4):
            sender, task = reading.start(MOST, caller=f"caller {i}")
            bodies.append(task)
            sender.send(b"x" * MOST)
            sender.send(b"")
        await settle()
        assert [len(task.result()) for task in bodies] == [MOST] * 4
        sender, late = reading.start(100, caller="late")
        await settle()
        assert refusal(late) is Overloaded
        reading.bodies.release("caller 0", MOST)
        sender, task = reading.start(100, caller="late")
        sender.send(b"x" * 100)
        assert await task == b"x" * 100
        for each in silent:
            each.cancel()

    asyncio.run(main())


def test_one_caller_gets_at_most_half_of_the_body_memory() -> None:
    async def main() -> None:
        reading = Reading(4 * MOST)
        tasks = []
        for _ in range(3):
            sender, task = reading.start(MOST, caller="greedy")
            tasks.append(task)
            sender.send(b"x" * MOST)
            sender.send(b"")
            await settle()
        assert refusal(tasks[2]) is Overloaded
        sender, other = reading.start(MOST, caller="other")
        sender.send(b"x" * MOST)
        sender.send(b"")
        assert len(await other) == MOST

    asyncio.run(main())


def test_a_body_in_parts_is_refused_when_it_passes_its_limit() -> None:
    async def main() -> None:
        reading = Reading()
        sender, task = reading.start(None, most=1_000)
        sender.send(b"x" * 1_001)
        await settle()
        assert refusal(task) is BodyTooLarge
        assert reading.bodies.nbytes == 0

    asyncio.run(main())


@pytest.mark.parametrize("length", [100, 100_000])
def test_a_half_sent_body_is_answered_and_its_connection_closed(tmp_path: Any, length: int) -> None:
    with Served(tmp_path, body_seconds=1) as server:
        httpx.put(f"{server.url}/v1/boards/b", json={}).raise_for_status()
        with Wire(server.url) as wire:
            json = b"Content-Type: application/json\r\n"
            head = request("POST", b"/v1/boards/b/scores", b"x" * length, json)
            wire.send(head[: -length + 3])
            answer = wire.answer("POST")
            assert (answer.status, answer.code) == (408, "body_timed_out")
            assert wire.rest() == b""


@pytest.mark.parametrize(
    "half", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"]
)
def test_a_connection_without_a_request_is_closed(tmp_path: Any, half: bytes) -> None:
    with Served(tmp_path, idle_seconds=1) as server, Wire(server.url) as wire:
        wire.send(half)
        assert wire.rest() == b""
