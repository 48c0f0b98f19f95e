"""Queries that arrive while calls are in progress are sent together, and each gets its own
answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import laurels
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest, ReadResult, Span, Start
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis.connection.deadline import ends_in, seconds_left
from laurels.stores.redis.index.reads import MAX_CALLS, MAX_WEIGHT, MIN_READS, Reads
from laurels.stores.redis.outdated import DefinitionOutdated
from laurels.stores.redis.remote import Opened, Reading

RULES = laurels.Board("b").rules()
BOARD = Opened(1, 1, RULES)


class PausedIndex:
    """An index that answers only when the test releases the answer. The size of each ranking is the
    instance number in its key."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.nows: list[int] = []
        self.letting = asyncio.Semaphore(0)
        self.fails_on: int | None = None

    async def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Reading:
        instances = [ask.key.instance for ask in requests]
        self.calls.append(instances)
        self.nows.append(now_ms)
        await self.letting.acquire()
        if self.fails_on in instances:
            raise DefinitionOutdated
        return Reading(
            [ReadResult(each, [], [], None, None) for each in instances], len(self.calls)
        )


def ask(number: int, length: int = 0) -> ReadRequest:
    spans = (Span(0, 0, length),) if length else ()
    return ReadRequest(RankingKey(1, "all", number), (Start(),), spans)


def asking(
    reads: Reads, *asks: ReadRequest, board: Opened = BOARD, now_ms: int = 5
) -> asyncio.Future[Reading]:
    return reads.read(board, asks, now_ms=now_ms, due_ms=9)


async def totals(reading: asyncio.Future[Reading]) -> list[int]:
    return [result.total for result in (await reading).results]


async def turns() -> None:
    """Let the event loop run until all queries are sent and all released answers are delivered."""
    for _ in range(5):
        await asyncio.sleep(0)


async def occupied(reads: Reads) -> list[asyncio.Future[Reading]]:
    """Send single queries, numbered from 0, until no more calls may be in progress."""
    first = []
    for i in range(MAX_CALLS):
        first.append(asking(reads, ask(i)))
        await turns()
    return first


def made() -> tuple[PausedIndex, Reads]:
    index = PausedIndex()
    return index, Reads(index.read)


def test_a_single_query_is_sent_at_once_and_later_ones_together() -> None:
    async def main() -> None:
        index, reads = made()
        first = await occupied(reads)
        assert index.calls == [[i] for i in range(MAX_CALLS)]
        later = [asking(reads, ask(10 * i), ask(10 * i + 1), now_ms=i) for i in range(1, 5)]
        await turns()
        assert len(index.calls) == MAX_CALLS
        for _ in range(MAX_CALLS + 1):
            index.letting.release()
        assert [await totals(each) for each in first] == [[i] for i in range(MAX_CALLS)]
        assert [await totals(each) for each in later] == [[10 * i, 10 * i + 1] for i in range(1, 5)]
        assert index.calls[MAX_CALLS:] == [[10, 11, 20, 21, 30, 31, 40, 41]]
        assert index.nows[-1] == 4
        await turns()
        assert not reads._queues

    asyncio.run(main())


@pytest.mark.parametrize(
    ("questions", "sizes"),
    [
        (MIN_READS, [MIN_READS]),
        (2 * MIN_READS + 1, [MIN_READS, MIN_READS, 1]),
        (MAX_CALLS * MIN_READS * 2, [2 * MIN_READS] * MAX_CALLS),
    ],
)
def test_concurrent_reads_are_divided_over_the_calls(questions: int, sizes: list[int]) -> None:
    async def main() -> None:
        index, reads = made()
        pending = [asking(reads, ask(i)) for i in range(questions)]
        await turns()
        assert [len(call) for call in index.calls] == sizes
        for _ in sizes:
            index.letting.release()
        assert [await totals(each) for each in pending] == [[i] for i in range(questions)]

    asyncio.run(main())


def test_equal_reads_are_sent_once() -> None:
    async def main() -> None:
        index, reads = made()
        pending = [
            asking(reads, ask(1, MAX_WEIGHT), ask(2)),
            asking(reads, ask(2)),
            asking(reads, ask(2), ask(1, MAX_WEIGHT)),
        ]
        await turns()
        index.letting.release()
        assert [await totals(each) for each in pending] == [[1, 2], [2], [2, 1]]
        assert index.calls == [[1, 2]]

    asyncio.run(main())


def test_large_queries_and_queries_of_another_time_are_sent_alone() -> None:
    async def main() -> None:
        index, reads = made()
        first = await occupied(reads)
        later = [
            asking(reads, ask(10, MAX_WEIGHT)),
            asking(reads, ask(11, MAX_WEIGHT)),
            asking(reads, ask(12)),
            asking(reads, ask(13), board=Opened(1, 2, RULES)),
        ]
        other = asking(reads, ask(20), board=Opened(2, 1, RULES))
        await asyncio.sleep(0)
        for _ in range(10):
            index.letting.release()
        await asyncio.gather(*first, *later, other)
        alone = [*range(MAX_CALLS), 10, 11, 12, 13, 20]
        assert sorted(index.calls) == [[i] for i in alone]

    asyncio.run(main())


def test_an_error_is_raised_for_exactly_the_reads_of_its_call() -> None:
    async def main() -> None:
        index, reads = made()
        first = await occupied(reads)
        index.fails_on = 11
        together = [asking(reads, ask(10)), asking(reads, ask(11))]
        gone = asking(reads, ask(12))
        await asyncio.sleep(0)
        gone.cancel()
        for _ in range(10):
            index.letting.release()
        await asyncio.gather(*first)
        for task in together:
            with pytest.raises(DefinitionOutdated):
                await task
        after = asking(reads, ask(13))
        assert await totals(after) == [13]
        await turns()
        assert not reads._queues

    asyncio.run(main())


def test_an_interrupted_call_is_repeated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laurels.stores.redis.index.reads.PAUSE_SECONDS", 0)

    async def main(cuts: int, *, sent: bool) -> int:
        calls = 0

        async def read(*_: object, **_now: object) -> Reading:
            nonlocal calls
            calls += 1
            if calls <= cuts:
                raise IndexUnavailable("cut", may_have_applied=sent)
            return Reading([ReadResult(7, [], [], None, None)], 1)

        assert await totals(asking(Reads(read), ask(1))) == [7]
        return calls

    assert asyncio.run(main(1, sent=True)) == 2
    with pytest.raises(IndexUnavailable):
        asyncio.run(main(2, sent=True))
    with pytest.raises(
        IndexUnavailable
    ):  # not repeated: the connection itself repeats calls that it could not send
        asyncio.run(main(1, sent=False))


def test_a_call_has_the_latest_deadline_of_its_queries() -> None:
    limits: list[float] = []

    async def read(*_: object, **__: object) -> Reading:
        limits.append(seconds_left(1_000.0))
        return Reading([ReadResult(7, [], [], None, None)], 1)

    async def read_all(reads: Reads, seconds: float) -> None:
        with ends_in(seconds):
            await totals(asking(reads, ask(1)))

    async def main() -> None:
        for order in ((300.0, 100.0), (100.0, 300.0)):
            reads = Reads(read)
            await asyncio.gather(*(read_all(reads, seconds) for seconds in order))

    asyncio.run(main())
    assert limits == [pytest.approx(300, abs=50)] * 2


def test_a_query_has_its_own_deadline_and_not_that_of_the_query_before() -> None:
    """Queries that follow one another without a pause would otherwise all end at the deadline of
    the first one."""
    limits: list[float] = []

    async def read(*_: object, **__: object) -> Reading:
        limits.append(seconds_left(1_000.0))
        await asyncio.sleep(0)
        return Reading([ReadResult(7, [], [], None, None)], 1)

    async def main() -> None:
        reads = Reads(read)
        for seconds in (100.0, 200.0, 300.0):
            with ends_in(seconds):
                await totals(asking(reads, ask(1)))
        await totals(asking(reads, ask(1)))

    asyncio.run(main())
    assert limits == [pytest.approx(each, abs=50) for each in (100, 200, 300, 1_000)]
