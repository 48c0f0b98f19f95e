"""Sinks send due payouts. Whatever the receiver does, each payout arrives at least once, and its id
shows repetitions. Payouts that were superseded before they were due are not sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laurels
from laurels.errors.service import Forbidden
from laurels.errors.sinks import InvalidMapping, SinkOvertaken
from laurels.flows.sinks.opening import DeliveryOptions, open_target, what_to_send
from laurels.flows.sinks.status import reset, statuses
from laurels.stores.local.recovery.backup import back_up, restore
from tests.http.test_moderation import key
from tests.serving import ADMIN_KEY, Served

from .paying import DAY, DAY_MS, HOUR_MS, NOON_MS, due_ids, paid, play_day, prized
from .sinking import rows, sent, sink_of
from .test_webhook import Receiver

ONLY: dict[str, Any] = {"what": "payouts"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


@asynccontextmanager
async def opened(
    *boards: laurels.Board, at: str = "memory:"
) -> AsyncIterator[tuple[laurels.AsyncLeaderboards, laurels.ManualClock]]:
    clock = laurels.ManualClock(NOON_MS)
    async with laurels.open_async(at, clock=clock) as lb:
        for board in boards or (prized(),):
            await lb.create(board)
        yield lb, clock


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def documents(receiver: Receiver) -> list[Any]:
    return [each for page in receiver.taken for each in page]


def lines(path: Path) -> list[Any]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("changes", ["", "7d"])
def test_payouts_are_sent_when_they_are_due(receiver: Receiver, changes: str) -> None:
    """Payouts are sent whether or not the board keeps changes."""

    async def play() -> None:
        async with opened(prized(changes=changes), prized("c")) as (lb, clock):
            await lb.submit_many("b", [("ann", 9), ("bob", 8)])
            await lb.submit("c", "eve", 1)
            clock.advance(DAY_MS)
            await lb.seal()
            await sent(lb, receiver.url, **ONLY)
            assert receiver.taken == []  # the payouts are not due yet
            clock.advance(HOUR_MS)
            await lb.seal()
            sink = await sent(lb, receiver.url, **ONLY)
            assert sink.metrics.payouts.delivered == 5
            found = documents(receiver)
            assert paid(found) == await due_ids(lb)
            first = found[0]
            assert (first["kind"], first["board"], first["member"]) == ("payout", "b", "ann")
            assert first["at_ms"] == first["data"]["due_ms"] == NOON_MS + DAY_MS + HOUR_MS
            assert b'"amount":5.00' in receiver.requests[0][1]
            await sent(lb, receiver.url)  # sends the changes, and no payout a second time
            kinds = [each["kind"] for each in documents(receiver)[5:]]
            assert ("event" in kinds, "payout" in kinds) == (changes == "7d", False)

    run(play)


def test_a_difference_is_a_payout_and_a_superseded_one_is_not_sent(receiver: Receiver) -> None:
    async def play() -> None:
        async with opened() as (lb, clock):
            await lb.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7), ("dot", 6)])
            clock.advance(DAY_MS)
            await lb.seal()
            await lb.disqualify("b", "ann", "a bot", window="day", period=DAY)
            clock.advance(HOUR_MS)
            await lb.seal()  # this also emits the payouts that are due
            await sent(lb, receiver.url, **ONLY)
            assert {each["member"] for each in documents(receiver)} == {"bob", "cid"}
            await lb.disqualify("b", "bob", "a bot", window="day", period=DAY)
            await sent(lb, receiver.url, **ONLY)
            clock.advance(HOUR_MS)
            await lb.seal()
            await sent(lb, receiver.url, **ONLY)
            later = documents(receiver)[3:]
            assert paid(documents(receiver)) == await due_ids(lb)
            assert {
                (each["member"], each["data"].get("amount"), each["data"].get("withdrawn", False))
                for each in later
            } == {("bob", -5, False), ("bob", None, True), ("cid", 5, False), ("dot", None, False)}
            assert all(each["data"]["corrects"] for each in later if each["member"] == "bob")

    run(play)


def test_a_disqualification_while_a_sink_is_sending(receiver: Receiver) -> None:
    """Between two pages, a period is corrected and a payout is confirmed. The sink still sends all
    payouts that were due."""

    async def play() -> None:
        async with opened() as (lb, clock):
            await play_day(lb, clock)
            sink = sink_of(lb, receiver.url, **ONLY)
            deliver = sink.target.deliver

            async def correcting(page: Any) -> None:
                if not receiver.taken:
                    await lb.disqualify("b", "ann", "a bot", window="day", period=DAY)
                    await lb.confirm("b", (await due_ids(lb))[2], "bank-1")
                    clock.advance(HOUR_MS)
                    await lb.seal()
                await deliver(page)

            sink.target.deliver = correcting  # type: ignore[method-assign]
            await sink.run()
            ids = await due_ids(lb)
            assert len(ids) == 7
            await sent(lb, receiver.url, **ONLY)
            assert paid(documents(receiver)) == ids

    run(play)


def test_of_two_runners_one_ends(receiver: Receiver) -> None:
    async def play() -> None:
        async with opened() as (lb, clock):
            await play_day(lb, clock)
            first, second = (sink_of(lb, receiver.url, **ONLY) for _ in range(2))
            deliver = first.target.deliver

            async def overtaken(page: Any) -> None:
                await deliver(page)
                await play_day(lb, clock)
                await second.run()

            first.target.deliver = overtaken  # type: ignore[method-assign]
            with pytest.raises(SinkOvertaken):
                await first.run()
            assert paid(documents(receiver)) == await due_ids(lb)
            await sent(lb, receiver.url, **ONLY)
            assert len(documents(receiver)) == 9

    run(play)


def test_a_store_from_a_backup_sends_all_payouts_again(tmp_path: Path) -> None:
    """The position in the target is ahead of the restored store."""
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    reports: list[str] = []

    async def before() -> None:
        async with opened(at=str(tmp_path / "data")) as (lb, clock):
            await play_day(lb, clock)
        back_up(tmp_path / "data", tmp_path / "backup")
        clock = laurels.ManualClock(NOON_MS + DAY_MS + HOUR_MS)
        async with laurels.open_async(tmp_path / "data", clock=clock) as lb:
            await play_day(lb, clock)
            await sent(lb, ledger, **ONLY)
            assert len(await due_ids(lb)) == 6

    async def after() -> None:
        restore(tmp_path / "backup", tmp_path / "again")
        clock = laurels.ManualClock(NOON_MS + DAY_MS + HOUR_MS)
        async with laurels.open_async(tmp_path / "again", clock=clock) as lb:
            await sent(lb, ledger, report=reports.append, **ONLY)
            assert "sending all payouts again" in reports[0]
            await lb.submit_many("b", [("zoe", 99)])
            clock.advance(DAY_MS + HOUR_MS)
            await lb.seal()
            clock.advance(HOUR_MS)
            await lb.seal()
            await sent(lb, ledger, **ONLY)
            stored = {id for (id,) in rows(ledger, "SELECT id FROM laurels_payouts")}
            assert stored.issuperset(await due_ids(lb))
            assert len(stored) == 8

    run(before)
    run(after)


def test_other_boards_are_another_position(receiver: Receiver) -> None:
    async def play() -> None:
        async with opened(prized("a"), prized("b")) as (lb, clock):
            await play_day(lb, clock, "a", "b")
            await sent(lb, receiver.url, boards=["a"], **ONLY)
            assert {each["board"] for each in documents(receiver)} == {"a"}
            await sent(lb, receiver.url, boards=["b", "a"], **ONLY)
            assert paid(documents(receiver)) == await due_ids(lb)
            assert len(await lb.payout_positions()) == 2

    run(play)


def test_a_ledger_has_each_payout_once(url: str) -> None:
    async def play() -> None:
        async with opened(prized(changes="7d")) as (lb, clock):
            await play_day(lb, clock)
            await sent(lb, url)
            await lb.disqualify("b", "ann", "a bot", window="day", period=DAY)
            clock.advance(HOUR_MS)
            await lb.seal()
            await sent(lb, url)
            prefix = url.partition("prefix=")[2] or "laurels_"
            stored = rows(
                url,
                f"SELECT id, member, amount, units, scale, period FROM {prefix}payouts",
            )
            assert sorted(row[0] for row in stored) == sorted(await due_ids(lb))
            [gold] = [row for row in stored if row[1] == "ann" and row[3] == 500]
            assert (float(gold[2]), gold[4:]) == (5.0, (2, DAY))
            assert [row[3] for row in stored if row[1] == "ann"].count(-500) == 1
            assert list(await lb.payout_positions()) == ["sink:sink"]

    run(play)


def test_fields_of_payouts_can_be_mapped(tmp_path: Path) -> None:
    mapping = "KeyPrefix=board,UserId=member,Coins=amount,What=data,Id=id,Back=withdrawn"

    async def play() -> None:
        async with opened(prized(changes="7d")) as (lb, clock):
            await play_day(lb, clock)
            path = tmp_path / "lines"
            await sent(lb, str(path), delivery=DeliveryOptions(payout_fields=mapping), **ONLY)
            first, second, _ = lines(path)
            assert {**first, "Id": 0} == {
                **{"KeyPrefix": "b", "UserId": "ann", "Coins": 5, "What": None, "Back": False},
                "Id": 0,
            }
            assert second["What"] == {"badge": 7}

    run(play)
    for wrong in ("Score=score", "x", "a=id,a=id"):
        with pytest.raises(InvalidMapping):
            open_target("-", "s", DeliveryOptions(payout_fields=wrong), Any, lambda: 0)  # type: ignore[arg-type]


def test_what_a_sink_sends_by_default() -> None:
    plain, fields = DeliveryOptions(), DeliveryOptions("A=board")
    both = DeliveryOptions("A=board", "A=id")
    assert [what_to_send(None, each) for each in (plain, fields, both)] == ["all", "changes", "all"]
    assert what_to_send("payouts", plain) == "payouts"
    for what, delivery in (("payouts", fields), ("changes", both)):
        with pytest.raises(InvalidMapping):
            what_to_send(what, delivery)  # type: ignore[arg-type]


def test_the_status_shows_payouts_that_wait(receiver: Receiver) -> None:
    async def play() -> None:
        async with opened(prized("a"), prized("b", changes="7d")) as (lb, clock):
            await play_day(lb, clock, "a")
            options = sink_of(lb, receiver.url).options

            async def shown() -> list[tuple[Any, ...]]:
                found = await statuses(lb, None, options, clock.now_ms() + 2_000)
                return [(s.board, s.state, s.lag_changes, s.lag_seconds) for s in found]

            assert ("a", "new_payouts", 3, 2.0) in await shown()
            await sent(lb, receiver.url)
            assert await shown() == [("b", "done", 0, 0.0)]
            await play_day(lb, clock, "a", "b")
            payouts = [each for each in await shown() if each[1] == "payouts"]
            assert payouts == [("a", "payouts", 3, 2.0), ("b", "payouts", 3, 2.0)]
            target = open_target(
                receiver.url, "sink", DeliveryOptions(allows_private=True), lb, clock.now_ms
            )
            await reset(lb, target, options, initial=False)
            assert await shown() == [("b", "done", 0, 0.0)]
            await reset(lb, target, options, initial=True)
            assert ("a", "new_payouts", 6, 2.0 + (DAY_MS + HOUR_MS) / 1_000) in await shown()

    run(play)


def test_a_key_that_may_not_read_payouts_still_sends_changes(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(url: str) -> None:
        async with laurels.open_async(url) as lb:
            reports: list[str] = []
            sink = await sent(lb, receiver.url, report=reports.append)
            assert (type(sink.payouts_error), len(reports)) == (Forbidden, 1)
            assert any(each["kind"] == "event" for each in documents(receiver))
            assert paid(documents(receiver)) == []
            with pytest.raises(Forbidden):
                await sent(lb, receiver.url, **ONLY)

    clock = laurels.ManualClock(NOON_MS)
    with Served(str(tmp_path / "data"), clock, admin_key=ADMIN_KEY) as served:
        monkeypatch.setenv("LAURELS_KEY", ADMIN_KEY)
        with laurels.open(served.url) as lb:
            lb.create(prized(changes="7d"))
            lb.submit("b", "ann", 1)
            clock.advance(DAY_MS)
            lb.seal()
            clock.advance(HOUR_MS)
            lb.seal()
        writer = key(served, "write")["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("LAURELS_KEY", writer)
        asyncio.run(play(served.url))
