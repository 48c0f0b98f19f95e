"""Questions that come while others are under way go together, and each has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import laurels
from laurels.index.asking import Ask, Found, Span, Start
from laurels.index.redis.reads import UNDER_WAY, WEIGHT_MOST, Reads
from laurels.index.remote import Opened, Reading, Stale
from laurels.plan import RankingKey

RULES = laurels.Board("b").rules()
BOARD = Opened(1, 1, RULES)


class Held:
    """An index that answers when it is let; each found ranking has as many members as its key's
    instance says."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.nows: list[int] = []
        self.letting = asyncio.Semaphore(0)
        self.fails_on: int | None = None

    async def read(
        self, board: Opened, asks: Sequence[Ask], *, now_ms: int, due_ms: int
    ) -> Reading:
        asked = [ask.key.instance for ask in asks]
        self.calls.append(asked)
        self.nows.append(now_ms)
        await self.letting.acquire()
        if self.fails_on in asked:
            raise Stale
        return Reading([Found(each, [], [], None, None) for each in asked], len(self.calls))


def ask(number: int, length: int = 0) -> Ask:
    spans = (Span(0, 0, length),) if length else ()
    return Ask(RankingKey(1, "all", number), (Start(),), spans)


def asking(reads: Reads, *asks: Ask, board: Opened = BOARD, now_ms: int = 5) -> asyncio.Task[Any]:
    return asyncio.create_task(reads.read(board, asks, now_ms=now_ms, due_ms=9))


async def told(task: asyncio.Task[Any]) -> list[int]:
    return [found.total for found in (await task).found]


def made() -> tuple[Held, Reads]:
    held = Held()
    return held, Reads(held.read)


def test_a_lone_question_goes_at_once_and_what_comes_meanwhile_goes_together() -> None:
    async def main() -> None:
        held, reads = made()
        first = [asking(reads, ask(i)) for i in range(UNDER_WAY)]
        await asyncio.sleep(0)
        assert held.calls == [[i] for i in range(UNDER_WAY)]
        later = [asking(reads, ask(10 * i), ask(10 * i + 1), now_ms=i) for i in range(1, 5)]
        await asyncio.sleep(0)
        assert len(held.calls) == UNDER_WAY
        for _ in range(UNDER_WAY + 1):
            held.letting.release()
        assert [await told(task) for task in first] == [[i] for i in range(UNDER_WAY)]
        assert [await told(task) for task in later] == [[10 * i, 10 * i + 1] for i in range(1, 5)]
        assert held.calls[UNDER_WAY:] == [[10, 11, 20, 21, 30, 31, 40, 41]]
        assert held.nows[-1] == 4
        assert not reads._lines

    asyncio.run(main())


def test_what_is_for_many_entries_or_of_another_time_goes_alone() -> None:
    async def main() -> None:
        held, reads = made()
        first = [asking(reads, ask(i)) for i in range(UNDER_WAY)]
        await asyncio.sleep(0)
        later = [
            asking(reads, ask(10, WEIGHT_MOST)),
            asking(reads, ask(11, WEIGHT_MOST)),
            asking(reads, ask(12)),
            asking(reads, ask(13), board=Opened(1, 2, RULES)),
        ]
        other = asking(reads, ask(20), board=Opened(2, 1, RULES))
        await asyncio.sleep(0)
        for _ in range(10):
            held.letting.release()
        await asyncio.gather(*first, *later, other)
        assert sorted(held.calls) == [[0], [1], [10], [11], [12], [13], [20]]

    asyncio.run(main())


def test_a_refusal_is_told_to_all_that_went_together_and_to_nobody_else() -> None:
    async def main() -> None:
        held, reads = made()
        first = [asking(reads, ask(i)) for i in range(UNDER_WAY)]
        await asyncio.sleep(0)
        held.fails_on = 11
        together = [asking(reads, ask(10)), asking(reads, ask(11))]
        gone = asking(reads, ask(12))
        await asyncio.sleep(0)
        gone.cancel()
        for _ in range(10):
            held.letting.release()
        await asyncio.gather(*first)
        for task in together:
            with pytest.raises(Stale):
                await task
        after = asking(reads, ask(13))
        assert await told(after) == [13]
        assert not reads._lines

    asyncio.run(main())
