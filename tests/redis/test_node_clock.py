"""Processes follow the clock of the server's node. So they agree with each other, although their
own clocks differ."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis.index.node_clock import EVERY_SECONDS, NodeClock
from laurels.timeline.clock import Clock

from .asking import connected
from .cluster import Cluster
from .servers import Server

KEY = b"laurels:{boards}"
BOUND_MS = 5
MS = 1_000_000
SECOND = 1_000 * MS
APART = 3 * SECOND


class Node:
    """A node and the network to it. Time passes only while a call is on its way."""

    def __init__(self, seed: int, trip_ms: tuple[float, float] = (0.1, 2.0)) -> None:
        self.random = Random(seed)
        self.trip_ms = trip_ms
        self.true = 1_795_000_000 * SECOND
        self.set_by = 0
        self.broken = False
        self.calls = 0

    async def command(self, *parts: bytes, key: bytes | None) -> Any:
        assert (parts, key) == ((b"TIME",), KEY)
        self.calls += 1
        if self.broken:
            raise IndexUnavailable("the node is unreachable")
        self.travel()
        seconds, nanos = divmod(self.true + self.set_by, SECOND)
        self.travel()
        return [b"%d" % seconds, b"%d" % (nanos // 1_000)]

    def travel(self) -> None:
        self.pass_ms(self.random.uniform(*self.trip_ms))

    def pass_ms(self, ms: float) -> None:
        self.true += int(ms * MS)

    def local(self, ahead_ns: int, gains: float) -> Callable[[], int]:
        """Return the clock of a process, in ns. It is ahead of the node's clock, and runs faster by
        a factor of 1 + `gains`."""
        start = self.true
        return lambda: start + ahead_ns + int((self.true - start) * (1 + gains))

    def error_ms(self, clock: Clock) -> float:
        return clock.now_ms() - (self.true + self.set_by) / MS


def clock_of(node: Node, ahead_ns: int = 0, gains: float = 0.0) -> NodeClock:
    return NodeClock(node, KEY, node.local(ahead_ns, gains))


@pytest.mark.parametrize("seed", range(20))
def test_clocks_that_drift_apart_agree_for_an_hour(seed: int) -> None:
    async def check() -> None:
        node = Node(seed)
        clocks = [clock_of(node, APART, 1e-4), clock_of(node, -APART, -1e-4)]
        for _ in range(int(3_600 / EVERY_SECONDS)):
            for clock in clocks:
                await clock.sample()
            node.pass_ms(EVERY_SECONDS * 1_000)
            errors = [node.error_ms(clock) for clock in clocks]
            assert max(map(abs, errors)) < BOUND_MS
            assert max(errors) - min(errors) < BOUND_MS
            for error, clock in zip(errors, clocks, strict=True):
                assert abs(error) <= clock.doubt_ms + 1

    asyncio.run(check())


def test_slow_answers_do_not_spoil_the_clock() -> None:
    async def check() -> None:
        node = Node(1)
        clock = clock_of(node)
        await clock.sample()
        for slow in ((0.0, 400.0), (200.0, 400.0)):
            node.trip_ms = slow
            for _ in range(5):
                await clock.sample()
                assert abs(node.error_ms(clock)) < BOUND_MS

    asyncio.run(check())


def test_with_only_slow_answers_the_clock_reports_its_doubt() -> None:
    async def check() -> None:
        node = Node(2, (50.0, 400.0))
        clock = clock_of(node)
        await clock.sample()
        assert 50 <= clock.doubt_ms <= 400
        assert abs(node.error_ms(clock)) <= clock.doubt_ms + 1

    asyncio.run(check())


def test_a_clock_follows_its_node_but_never_backwards() -> None:
    async def check() -> None:
        node = Node(3)
        clock = clock_of(node)
        await clock.sample()
        node.set_by = 3 * SECOND
        await clock.sample()
        assert abs(node.error_ms(clock)) < BOUND_MS
        before = clock.now_ms()
        node.set_by = 0
        await clock.sample()
        readings = []
        while node.error_ms(clock) >= BOUND_MS:
            readings.append(clock.now_ms())
            node.pass_ms(10)
            assert len(readings) < 400
        assert set(readings) == {before}
        node.pass_ms(1_000)
        assert abs(node.error_ms(clock)) < BOUND_MS

    asyncio.run(check())


def test_a_node_that_does_not_answer_is_asked_again() -> None:
    async def check() -> None:
        node, rests = Node(4), asyncio.Queue[None]()

        async def rest(seconds: float) -> None:
            assert seconds == EVERY_SECONDS
            await rests.get()

        clock = NodeClock(node, KEY, node.local(0, 0.0), rest=rest)
        assert isinstance(clock, Clock)
        with pytest.raises(RuntimeError):
            clock.now_ms()
        assert clock.doubt_ms == float("inf")
        await clock.start()
        await clock.start()
        for broken in (True, True, False):
            node.broken, node.set_by, calls = broken, SECOND, node.calls
            rests.put_nowait(None)
            async with asyncio.timeout(60):
                while node.calls == calls:
                    await asyncio.sleep(0)
            followed = abs(node.error_ms(clock)) < BOUND_MS
            assert followed is not broken
        await clock.stop()
        await clock.stop()
        calls = node.calls
        rests.put_nowait(None)
        await asyncio.sleep(0)
        assert node.calls == calls

    asyncio.run(check())


def test_a_clock_does_not_start_without_its_node() -> None:
    node = Node(5)
    node.broken = True
    with pytest.raises(IndexUnavailable):
        asyncio.run(clock_of(node).start())


def processes(connection: Any) -> list[NodeClock]:
    """Return the clocks of three processes: one is right, one is 3 s ahead, and one is 3 s
    behind."""
    return [
        NodeClock(connection, KEY, lambda ahead=ahead: time.monotonic_ns() + ahead)  # type: ignore[misc]
        for ahead in (0, APART, -APART)
    ]


async def ensure_agreement(url: str, node: Server) -> None:
    async with connected(url) as connection:
        clocks = processes(connection)
        for clock in clocks:
            await clock.start()
        for _ in range(20):
            before = node_ms(node)
            readings = [clock.now_ms() for clock in clocks]
            after = node_ms(node)
            assert before - BOUND_MS <= min(readings)
            assert max(readings) <= after + BOUND_MS
            for clock in clocks:
                assert clock.doubt_ms < BOUND_MS
        for clock in clocks:
            await clock.stop()


def node_ms(node: Server) -> int:
    seconds, micros = node.call("TIME")
    return int(seconds) * 1_000 + int(micros) // 1_000


def test_processes_agree_with_a_server() -> None:
    with Server() as server:
        asyncio.run(ensure_agreement(server.url, server))


def test_processes_agree_with_the_node_that_owns_the_key() -> None:
    with Cluster() as cluster:
        asyncio.run(ensure_agreement(cluster.url, cluster.owner_of(KEY)))


def test_a_leap_of_the_node_is_not_followed_at_once() -> None:
    async def check() -> None:
        node = Node(11)
        clock = clock_of(node)
        await clock.sample()
        node.set_by += 3 * 24 * 3_600 * SECOND
        for _ in range(4 * 60):
            node.pass_ms(2_000)
            await clock.sample()
        true_ms = node.true / MS
        assert abs(clock.now_ms() - true_ms) < BOUND_MS * 100
        leap = clock.leap()
        assert leap is not None
        assert abs(leap.by_ms - 3 * 86_400_000) < 1_000
        assert clock.leaps == 1

        node.set_by += 2 * 24 * 3_600 * SECOND  # the second leap must also last for ten minutes
        for _ in range(4 * 60):
            node.pass_ms(2_000)
            await clock.sample()
        assert abs(clock.now_ms() - node.true / MS) < BOUND_MS * 100
        for _ in range(2 * 60):
            node.pass_ms(2_000)
            await clock.sample()
        assert abs(node.error_ms(clock)) < BOUND_MS
        assert clock.leap() is None

    asyncio.run(check())


def test_a_leap_of_the_node_is_accepted() -> None:
    async def check() -> None:
        node = Node(12)
        clock = clock_of(node)
        await clock.sample()
        node.set_by += 3 * 24 * 3_600 * SECOND
        await clock.sample()
        assert clock.leap() is not None
        clock.accept()
        assert abs(node.error_ms(clock)) < BOUND_MS
        await clock.sample()
        assert abs(node.error_ms(clock)) < BOUND_MS
        assert clock.leap() is None

    asyncio.run(check())


class SharedNotes:
    """A store of short notes, as the server keeps them beside the definitions."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def note(self, key: str) -> str | None:
        return self.kept.get(key)

    async def set_note(self, key: str, value: str) -> None:
        self.kept[key] = value


@pytest.mark.parametrize("days", [3, -3])
def test_a_leap_accepted_by_one_process_is_accepted_by_all(days: int) -> None:
    async def check() -> None:
        node, notes = Node(13), SharedNotes()
        clocks = [NodeClock(node, KEY, node.local(i * SECOND, 0.0), notes=notes) for i in range(3)]
        for clock in clocks:
            await clock.sample()
        for _ in range(2):  # accepting the first leap does not accept the second one
            node.set_by += days * 24 * 3_600 * SECOND
            node.pass_ms(60_000)
            for clock in clocks:
                await clock.sample()
            assert all(clock.leap() is not None for clock in clocks)
            fresh = NodeClock(node, KEY, node.local(0, 0.0), notes=notes)
            await fresh.sample()
            fresh.accept()
            await fresh.announce_acceptance()
            for clock in clocks:
                await clock.sample()
            assert all(clock.leap() is None for clock in clocks)
            assert all(abs(clock.source_ms() - fresh.source_ms()) < 1_000 for clock in clocks)
            node.pass_ms(60_000)

    asyncio.run(check())
