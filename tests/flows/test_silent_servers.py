"""A target server that is stopped but keeps its connections open is treated like a server that is
down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import laurels
from laurels.errors.sinks import TargetUnavailable
from laurels.flows import jetstream_publisher
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.target import SinkPage
from laurels.sql import postgresql
from laurels.sql.dialects import ANSWER_SECONDS

from .databases import MariaDB, Nats, Postgres, Program
from .sinking import NOW_MS, create_stream, ledger, messages

BOARD = laurels.Board("b", windows=["all"], changes="7d")
SHORT_SECONDS = 0.05


def delivered_after_a_stop(
    server: Program, url: str, shorten: Callable[[Any, pytest.MonkeyPatch], object]
) -> str:
    """Send a page to a stopped server, and send it again after the server has been resumed. Return
    the error of the first attempt. `shorten` gives the connected target a short timeout."""

    async def play() -> str:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(BOARD)
            await lb.submit_many("b", [(f"m{i}", i) for i in range(30)])
            read = await lb.changes("b")
            page = SinkPage("b", read.changes, None, read.cursor)
            target: Any = open_target(url, "s", DeliveryOptions(), lb, lambda: NOW_MS)
            await target.open()
            with pytest.MonkeyPatch.context() as patch:
                shorten(target, patch)
                server.pause()
                try:
                    with pytest.raises(TargetUnavailable) as caught:
                        await target.deliver(page)
                finally:
                    server.resume()
            await target.deliver(page)
            await target.close()
            return caught.value.what

    return asyncio.run(play())


def test_a_stopped_postgresql_times_out(postgres: Postgres) -> None:
    """The client has to measure the time, because a stopped server does not apply its statement
    timeout."""

    def shorten(_target: Any, patch: pytest.MonkeyPatch) -> None:
        assert postgresql.SILENT_SECONDS > ANSWER_SECONDS
        patch.setattr(postgresql, "SILENT_SECONDS", SHORT_SECONDS)

    url = f"{postgres.url}?prefix=silent_"
    assert "has not answered for 0.05 s" in delivered_after_a_stop(postgres, url, shorten)
    assert len(ledger(url, BOARD, "silent_")["all", "", ""]) == 30


def test_a_stopped_mariadb_times_out(mariadb: MariaDB) -> None:
    def shorten(target: Any, patch: pytest.MonkeyPatch) -> None:
        for name in ("_read_timeout", "_write_timeout"):
            assert getattr(target._connection, name) == ANSWER_SECONDS
            patch.setattr(target._connection, name, SHORT_SECONDS)

    url = f"{mariadb.url}?prefix=silent_"
    assert "timed out" in delivered_after_a_stop(mariadb, url, shorten)
    assert len(ledger(url, BOARD, "silent_")["all", "", ""]) == 30


def test_a_stopped_jetstream_times_out() -> None:
    def shorten(_target: Any, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(jetstream_publisher, "ANSWER_SECONDS", SHORT_SECONDS)

    with Nats() as broker:
        asyncio.run(create_stream(broker.url))
        delivered_after_a_stop(broker, f"{broker.url}/changes.{{member}}", shorten)
        delivered = asyncio.run(messages(broker.url))
        assert len(delivered) == len({message["id"] for message in delivered}) == 31


def test_a_stuck_jetstream_connection_does_not_block_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stuck:
        async def close(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(jetstream_publisher, "ANSWER_SECONDS", SHORT_SECONDS)
    publisher: Any = jetstream_publisher.JetStreamPublisher("nats://127.0.0.1")
    publisher._client = Stuck()
    asyncio.run(publisher.close())
