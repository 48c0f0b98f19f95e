"""Targets that are down for an hour of the sink's clock. All changes wait and count as lag. Then
the target gets each change once, and the changes of each member in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import glide
import msgspec
import pytest

import laurels
from laurels.core.changes.answers import ChangePage
from laurels.flows.retries import MAX_SECONDS
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.status import SinkBoardStatus, statuses
from laurels.stores.redis.connection import wire
from tests.redis.servers import Server

from .databases import MariaDB, Nats, Postgres
from .sinking import NOW_MS, create_stream, ledger, messages, rankings, sink_of
from .test_webhook import OPEN, Receiver

BOARD = laurels.Board(
    "b",
    columns=[laurels.Column("score"), laurels.Column("newest", op="last")],
    windows=["all"],
    changes="7d",
)
"""The second column shows which change of a member a ledger got last."""
MEMBERS = 3
HOUR_SECONDS = 3_600
ATTEMPTS_AN_EVENT = 20
"""The number of attempts of the sink from one event to the next."""


@dataclass
class Target:
    """The target of a sink, which a test stops and starts again."""

    url: str
    stop: Callable[[], object]
    start: Callable[[], object]
    changes: Callable[[], list[Any]] | None = None
    """Returns the changes in the target, in the order of their arrival; None for a ledger."""
    keeps_order: bool = True
    """Whether that is the order of all changes; otherwise only that of each member's."""


@contextmanager
def database(kind: str, request: pytest.FixtureRequest) -> Iterator[Target]:
    server: Postgres | MariaDB = request.getfixturevalue(kind)
    yield Target(f"{server.url}?prefix=hour_", server.kill, server.start)


@contextmanager
def jetstream() -> Iterator[Target]:
    with Nats() as broker:
        asyncio.run(create_stream(broker.url))
        yield Target(
            f"{broker.url}/changes.{{member}}",
            broker.kill,
            broker.start,
            lambda: asyncio.run(messages(broker.url)),
            keeps_order=False,
        )


@contextmanager
def redis_stream() -> Iterator[Target]:
    """Run a server that has each entry on disk before it answers."""
    with Server("--appendfsync", "always") as server:

        def changes() -> list[Any]:
            entries = server.call("XRANGE", "changes", "-", "+")
            return [msgspec.json.decode(fields[3]) for _, fields in entries]

        yield Target(f"{server.url}/0/changes", server.kill, server.start, changes)


@contextmanager
def webhook() -> Iterator[Target]:
    receivers = [Receiver()]
    port = int(receivers[0].server_address[1])

    def changes() -> list[Any]:
        return [change for each in receivers for page in each.taken for change in page]

    try:
        yield Target(
            receivers[0].url,
            receivers[0].close,
            lambda: receivers.append(Receiver(port)),
            changes,
        )
    finally:
        receivers[-1].close()


@pytest.fixture(params=["postgres", "mariadb", "redis", "nats", "webhook"])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """Run a target. The Redis client makes only one attempt to connect, since the sink itself tries
    again."""
    monkeypatch.setattr(wire, "_AGAIN", glide.BackoffStrategy(1, 1, 1))
    others = {"redis": redis_stream, "nats": jetstream, "webhook": webhook}
    if request.param in others:
        opened = others[request.param]()
    else:
        opened = database(request.param, request)
    with opened as running:
        yield running


class Outage:
    """A board whose sink waits for its target. The waits take no time, but move the clock, and a
    member gets an event every few waits. After an hour, the target is started."""

    def __init__(
        self, lb: laurels.AsyncLeaderboards, clock: laurels.ManualClock, target: Target
    ) -> None:
        self.lb, self.clock, self.target = lb, clock, target
        self._read = lb.changes
        self._is_stopped = False
        self.waits: list[float] = []
        self.reports: list[str] = []
        self.sink = self._sink(sleep=self._wait, report=self.reports.append)

    def _sink(self, **options: Any) -> SinkRunner:
        """Return a sink that sends only changes. With payouts, two readers would wait at the same
        time."""
        return sink_of(
            self.lb,
            self.target.url,
            delivery=OPEN,
            now_ms=self.clock.now_ms,
            what="changes",
            **options,
        )

    async def play(self) -> None:
        await self._sink().run()
        assert (await self.status()).state == "done"
        await self._submit()
        with patch.object(self.lb, "changes", self._stop_and_read):
            await self.sink.run()
        assert not self.sink.failed
        await self._sink().run()  # this run sends the changes of the last hour

    async def status(self) -> SinkBoardStatus:
        """Return the status that is known while the target is down."""
        (status,) = await statuses(self.lb, None, SinkOptions("sink"), self.clock.now_ms())
        return status

    async def assert_delivered(self) -> None:
        """Assert that the target has got each change once, in order. If the target does not keep
        the order of all changes, the changes of each member must be in order. Of a ledger, compare
        the rankings instead."""
        if self.target.changes is None:
            assert ledger(self.target.url, BOARD, "hour_") == rankings(self.lb.sync, BOARD)
            return
        page = await self.lb.changes("b", limit=10_000)
        wanted = [(str(each.member), each.id) for each in page if each.kind != "position"]
        arrived = [
            (str(c["member"]), c["id"]) for c in await asyncio.to_thread(self.target.changes)
        ]
        if not self.target.keeps_order:
            for changes in (wanted, arrived):
                changes.sort(key=lambda change: change[0])
        assert arrived == wanted

    async def _stop_and_read(self, *args: Any, **options: Any) -> ChangePage:
        """Read changes. Before the first read, stop the target, to which the sink is connected by
        then."""
        if not self._is_stopped:
            self._is_stopped = True
            await asyncio.to_thread(self.target.stop)
        return await self._read(*args, **options)

    async def _wait(self, seconds: float) -> None:
        is_before = sum(self.waits) < HOUR_SECONDS
        self.waits.append(seconds)
        self.clock.advance(round(seconds * 1_000))
        if len(self.waits) % ATTEMPTS_AN_EVENT == 0:
            await self._submit()
        if is_before and sum(self.waits) >= HOUR_SECONDS:
            await self._assert_lag()
            await asyncio.to_thread(self.target.start)

    async def _submit(self) -> None:
        count = len(self.waits)
        await self.lb.submit("b", f"m{count // ATTEMPTS_AN_EVENT % MEMBERS}", (1, count))

    async def _assert_lag(self) -> None:
        now_ms = self.clock.now_ms()
        seconds = (now_ms - NOW_MS) / 1_000
        status = await self.status()
        submitted = 1 + len(self.waits) // ATTEMPTS_AN_EVENT
        assert (status.state, status.lag_changes, status.lag_seconds) == (
            *("waiting", submitted, seconds),
        )
        metrics = self.sink.metrics
        assert metrics.lag_seconds(now_ms) == metrics.failing_seconds(now_ms) == seconds
        assert metrics.waiting == 1, "the change that the sink has read"


def test_a_target_down_for_an_hour_gets_all_changes_later(target: Target) -> None:
    """Between its attempts, the sink waits for at most half a minute."""
    clock = laurels.ManualClock(NOW_MS)

    async def play() -> Outage:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(BOARD)
            outage = Outage(lb, clock, target)
            await outage.play()
            await outage.assert_delivered()
            status, metrics = await outage.status(), outage.sink.metrics
            assert (status.state, status.lag_changes, status.lag_seconds) == ("done", 0, 0.0)
            assert (metrics.waiting, metrics.lag_seconds(clock.now_ms())) == (0, 0.0)
            return outage

    outage = asyncio.run(play())
    assert len(outage.reports) == 1, "one failure is reported once"
    assert sum(outage.waits) >= HOUR_SECONDS
    assert max(outage.waits) <= MAX_SECONDS
    assert len(outage.waits) < HOUR_SECONDS / (MAX_SECONDS / 2) + 20
