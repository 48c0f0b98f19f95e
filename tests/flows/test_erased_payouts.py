"""Payouts of a member that is erased while a sink has a page of them: the sink sends none of them
after the erasure, whether it has sent them before or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.errors import StorageFailed
from laurels.errors.sinks import TargetUnavailable
from laurels.flows.sinks.parking import ParkingFile
from laurels.flows.sinks.runner import SinkRunner
from laurels.stores.local.payouts.table import PayoutTable

from .paying import NOON_MS, due_ids, paid, play_day, prized
from .sinking import rows, sent, sink_of
from .test_webhook import Receiver

ONLY: dict[str, Any] = {"what": "payouts"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


def played(test: Callable[[laurels.AsyncLeaderboards], Awaitable[None]], **fields: Any) -> None:
    """Call a test with a board whose day has ended. The payouts of ann, bob and ann are due."""

    async def play() -> None:
        clock = laurels.ManualClock(NOON_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(prized(**fields))
            await play_day(lb, clock)
            await test(lb)

    asyncio.run(play())


async def erase(lb: laurels.AsyncLeaderboards) -> None:
    """Erase ann, whose payouts are confirmed first."""
    for payout in await lb.payouts("b", member="ann"):
        await lb.confirm("b", payout.id, "waived")
    await lb.erase("ann", "asked for it")


def before_delivery(sink: SinkRunner, act: Callable[[], Awaitable[object]]) -> None:
    """Let a sink call `act` once, after it has read a page of payouts and before it sends it."""
    boards, read = sink._context.boards, sink._context.boards.due_payouts
    has_acted = False

    class Reading:
        """The boards of the sink."""

        def __getattr__(self, name: str) -> Any:
            return getattr(boards, name)

        async def due_payouts(self, **arguments: Any) -> Any:
            nonlocal has_acted
            page = await read(**arguments)
            if page.payouts and not has_acted:
                has_acted = True
                await act()
            return page

    sink._context.boards = Reading()  # type: ignore[assignment]


@pytest.mark.parametrize("answers", [[], [(503, {})], [(400, {})] * 2])
def test_a_page_that_was_read_before_an_erasure_is_not_sent_after_it(
    receiver: Receiver, tmp_path: Path, answers: list[Any]
) -> None:
    """The member is erased right after the page was read, while the receiver is down, or before the
    sink parks what the receiver refuses."""

    async def test(lb: laurels.AsyncLeaderboards) -> None:
        receiver.answers = list(answers)
        requests: list[int] = []

        async def once(*_: object) -> None:
            if not requests:
                requests.append(len(receiver.requests))
                await erase(lb)

        parking = ParkingFile(tmp_path / "parked", "sink")
        sink = sink_of(lb, receiver.url, sleep=once, parking=parking, tries=2, **ONLY)
        if not answers:
            before_delivery(sink, once)
        await sink.run()
        assert requests == [min(1, len(answers))]
        later = receiver.requests[requests[0] :]
        assert b"ann" not in b"".join([body for _, body in later])
        if answers[:1] != [(400, {})]:
            assert paid([each for page in receiver.taken for each in page]) == await due_ids(lb)
        assert "ann" not in str(parking.read())
        assert sink.metrics.payouts.waiting == 0

    played(test)


def test_a_ledger_gets_no_payout_of_a_member_after_the_change_that_erases_it(url: str) -> None:
    async def test(lb: laurels.AsyncLeaderboards) -> None:
        async def erase_there() -> None:
            await erase(lb)
            await sent(lb, url, what="changes")

        await sent(lb, url, what="changes")
        sink = sink_of(lb, url, **ONLY)
        before_delivery(sink, erase_there)
        await sink.run()
        await sent(lb, url)
        prefix = url.partition("prefix=")[2] or "laurels_"
        members = {member for (member,) in rows(url, f"SELECT member FROM {prefix}payouts")}
        assert "bob" in members
        assert len(members) == 2, "bob and the token"
        assert "ann" not in str(rows(url, f"SELECT id, member FROM {prefix}payouts"))

    played(test, changes="60d")


def test_an_attempt_whose_answer_was_lost_moves_the_position(url: str) -> None:
    """The ledger has stored the page when the member is erased, and the sink does not know it."""

    class Forgetful:
        """A target whose first delivery arrives, but seems to have failed."""

        def __init__(self, target: Any, then: Callable[[], Awaitable[object]]) -> None:
            self._target, self._then = target, then
            self._failed = False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._target, name)

        async def deliver(self, page: Any) -> None:
            await self._target.deliver(page)
            if not self._failed:
                self._failed = True
                await self._then()
                raise TargetUnavailable("the answer was lost")

    async def test(lb: laurels.AsyncLeaderboards) -> None:
        await sent(lb, url, what="changes")
        sink = sink_of(lb, url, **ONLY)
        sink.target = sink._context.target = Forgetful(sink.target, lambda: erase(lb))
        await sink.run()
        await sent(lb, url)
        prefix = url.partition("prefix=")[2] or "laurels_"
        assert "ann" not in str(rows(url, f"SELECT id, member FROM {prefix}payouts"))

    played(test, changes="60d")


def test_no_payout_is_listed_of_a_member_whose_erasure_is_not_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk was full when the payouts were to be rewritten."""

    async def test(lb: laurels.AsyncLeaderboards) -> None:
        def full(*_: object) -> int:
            raise StorageFailed("no space left")

        monkeypatch.setattr(PayoutTable, "erase", full)
        with suppress(StorageFailed):
            await erase(lb)
        with pytest.raises(StorageFailed):
            await lb.due_payouts()
        monkeypatch.undo()
        assert [each.member for each in await lb.due_payouts()] == ["bob"]

    played(test)
