"""Connections to a stream that break before an answer or in the middle of it: every event counts
once, and the source continues by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import laurels
from tests.redis.proxy import Proxy
from tests.redis.servers import Server

from .nats_servers import NatsServer
from .sourcing import FOUR_FIELDS, count, four_fields, scores

EVENTS = [four_fields("gifts", f"m{i % 7}", 1 << i % 20) for i in range(1_000)]
LENGTHS = [0, 10, 5_000, 20_001]
"""How many bytes of an answer arrive before the connection is cut. An answer with a batch of 250
events is longer than each of these numbers."""


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def broker() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("gifts"))
    return tmp_path / "boards"


def totals() -> dict[str, int]:
    """Return the scores of a board that has counted every event once."""
    return {f"m{k}": sum(1 << i % 20 for i in range(k, 1_000, 7)) for k in range(7)}


def assert_counted_once(boards: Path, address: str, proxy: Proxy, cuts: int) -> None:
    """Count the stream while its connections are cut this many times."""
    done = count(boards, address, FOUR_FIELDS, batch=250)
    assert proxy.cut == cuts
    assert done.waits.count("source_unavailable") == len(done.waits) > 0
    assert done.metrics.applied == 1_000
    assert done.rejects.lines == []
    assert scores(boards, "gifts") == totals()
    assert count(boards, address, FOUR_FIELDS).metrics.applied == 0


@pytest.mark.parametrize(("length", "cuts"), [(0, 3), (10, 3), (5_000, 2), (20_001, 2)])
def test_a_redis_stream_is_counted_once_after_cut_answers(
    redis: Server, boards: Path, length: int, cuts: int
) -> None:
    """The connection is cut after `length` bytes of each answer. The answer to the first read has
    only a few entries and less than 5,000 bytes, so a cut after 5,000 bytes or more does not
    concern it."""
    redis.call("FLUSHALL")
    for event in EVENTS:
        redis.call("XADD", "events", "*", "event", event)
    with Proxy(redis) as proxy:
        proxy.cut_within(b"XREAD", length, times=3)
        assert_counted_once(boards, f"{proxy.url}/0/events", proxy, cuts)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_jetstream_is_counted_once_after_cut_answers(
    broker: NatsServer, boards: Path, length: int
) -> None:
    broker.call("STREAM.DELETE.EVENTS")
    broker.create("EVENTS", "events.*")
    broker.publish("events.a", EVENTS)
    with Proxy(broker) as proxy:
        proxy.cut_within(b"CONSUMER.MSG.NEXT", length, times=3)
        assert_counted_once(boards, f"nats://127.0.0.1:{proxy.port}/EVENTS", proxy, 3)


@pytest.mark.parametrize("request_part", [b"STREAM.INFO", b"CONSUMER.CREATE"])
def test_a_jetstream_is_counted_once_after_other_cut_requests(
    broker: NatsServer, boards: Path, request_part: bytes
) -> None:
    broker.call("STREAM.DELETE.EVENTS")
    broker.create("EVENTS", "events.*")
    broker.publish("events.a", EVENTS)
    with Proxy(broker) as proxy:
        proxy.cut_within(request_part, 10, times=3)
        assert_counted_once(boards, f"nats://127.0.0.1:{proxy.port}/EVENTS", proxy, 3)
