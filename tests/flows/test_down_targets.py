"""Targets that are down for an hour: all changes wait, and no change is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import laurels
from laurels.flows.retries import MAX_SECONDS

from .databases import Nats, Postgres
from .sinking import NOW_MS, create_stream, ledger, messages, rankings, sink_of
from .test_webhook import OPEN, Receiver

BOARD = laurels.Board("b", windows=["all"], changes="7d")


@pytest.mark.parametrize("kind", ["webhook", "nats", "postgres"])
def test_a_target_down_for_an_hour_gets_all_changes_later(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """The hour passes on the sink's clock. Between its attempts, the sink waits for at most half a
    minute."""
    clock = laurels.ManualClock(NOW_MS)
    waits: list[float] = []

    async def play(url: str, stop: Callable[[], object], start: Callable[[], object]) -> list[str]:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(BOARD)
            await sink_of(lb, url, delivery=OPEN).run()

            async def sleep(seconds: float) -> None:
                waits.append(seconds)
                clock.advance(round(seconds * 1_000))
                if len(waits) % 20 == 0:
                    await lb.submit("b", f"m{len(waits)}", 1)
                if sum(waits) >= 3_600 and not started:
                    started.append(True)
                    await asyncio.to_thread(start)

            started: list[bool] = []
            reports: list[str] = []
            await asyncio.to_thread(stop)
            await lb.submit("b", "first", 1)
            sink = sink_of(lb, url, delivery=OPEN, sleep=sleep, report=reports.append)
            await sink.run()
            assert not sink.failed
            assert len(reports) == 1, "one failure is reported once"
            await sink_of(lb, url, delivery=OPEN).run()  # the sink sends the changes of the hour
            if kind == "postgres":
                assert ledger(url, BOARD, "hour_") == rankings(lb.sync, BOARD)
            page = await lb.changes("b", limit=10_000)
            return [change.id for change in page if change.kind != "position"]

    if kind == "webhook":
        receiver = Receiver()
        others: list[Receiver] = []

        try:
            address = receiver.server_address[1]
            ids = asyncio.run(
                play(receiver.url, receiver.close, lambda: others.append(Receiver(int(address))))
            )
            assert receiver.ids + others[0].ids == ids
        finally:
            for other in others:
                other.close()
    elif kind == "nats":
        with Nats() as broker:
            asyncio.run(create_stream(broker.url))
            ids = asyncio.run(play(f"{broker.url}/changes.{{member}}", broker.kill, broker.start))
            delivered = [message["id"] for message in asyncio.run(messages(broker.url))]
            assert sorted(delivered) == sorted(ids)
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        asyncio.run(play(f"{postgres.url}?prefix=hour_", postgres.kill, postgres.start))
    assert sum(waits) >= 3_600
    assert max(waits) <= MAX_SECONDS
    assert len(waits) < 3_600 / (MAX_SECONDS / 2) + 20
