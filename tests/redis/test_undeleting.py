"""Removed boards on an index server are restored from the state in their keys: by processes that
fail at any call, beside others with an outdated copy, and within bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.core.board_state import BoardState
from laurels.core.commands import DeleteBoard
from laurels.errors import BoardExists, LaurelsError, NotRestorable, UnknownBoard
from laurels.errors.copies import NameTaken
from laurels.flows.copying.copying import copy_board
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.deletions import ServerDeletions
from laurels.stores.redis.payouts import ServerPayouts
from laurels.stores.redis.remote import opened_as
from tests.changes import all_changes
from tests.conftest import Scaled
from tests.internals import copies_of, remote
from tests.redis.test_clearing import Failing

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 1]}]}
WINDOWS: list[Any] = [
    "all",
    {"type": "day", "prizes": PRIZES, "archive": "forever"},
    "7d=rolling:7d/1d",
    "30d=rolling:30d/1d,refresh=1h",
]
FIRST = "2026-11-20"
"""The day on which the tests begin."""
ROOMS = ["1", "2"]

Open = Callable[[], laurels.Leaderboards]


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


def create(lb: laurels.Leaderboards, name: str = "b", **fields: Any) -> None:
    more: dict[str, Any] = {"scopes": [[], ["room"]], "rank_by": ["room"], "changes": "90d"}
    lb.create(laurels.Board(name, **{"windows": WINDOWS, "ledger": "main", **more, **fields}))


def submit(lb: laurels.Leaderboards, name: str = "b", value: int = 1) -> None:
    lb.submit_many(
        name,
        [laurels.Event(f"m{i}", value + i, labels={"room": ROOMS[i % 2]}) for i in range(12)],
    )


def finish_day(lb: laurels.Leaderboards, clock: laurels.ManualClock, name: str = "b") -> None:
    clock.advance(DAY)
    lb.seal()
    for payout in lb.payouts(name, state="due"):
        lb.confirm(name, payout.id, "paid")


def play(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, name: str = "b", **fields: Any
) -> None:
    """Create a board, play a day, pay its prizes, and play on."""
    create(lb, name, **fields)
    submit(lb, name)
    finish_day(lb, clock, name)
    lb.hide(name, "mal", "a bot")
    lb.submit_many(name, [("eve", 1)], position=("stream", "7"))


def totals(lb: laurels.Leaderboards, name: str = "b") -> dict[str, int]:
    """Return the numbers of members in all running rankings of a board that are not refreshed."""
    rooms: list[dict[str, Any]] = [{}, *({"labels": {"room": room}} for room in ROOMS)]
    places = [*rooms, {"by": "room"}]
    windows = ("all", "day", "7d")
    return {
        f"{window} {place}": lb.top(name, window=window, **place).total
        for window in windows
        for place in places
    }


def day(lb: laurels.Leaderboards, name: str = "b") -> list[str]:
    return [entry.member for entry in lb.top(name, limit=100, window="day", period=FIRST)]


def kinds(lb: laurels.Leaderboards, name: str, after: str) -> list[str]:
    return [change.kind for change in all_changes(lb, name, after=after)]


@pytest.mark.parametrize("is_lost", [False, True], ids=["not sent", "answer lost"])
def test_a_process_that_fails_at_any_call_restores_the_board_or_nothing(
    opened: Open, clock: laurels.ManualClock, scaled: Scaled, *, is_lost: bool
) -> None:
    """In the short run, every second call fails: those with odd numbers before the answer, and the
    others before the call."""
    observer = opened()
    play(observer, clock)
    before, name = day(observer), "b"
    paid = [payout.id for payout in observer.payouts("b")]
    for nth in count(scaled(int(is_lost), 0), scaled(2, 1)):
        cursor = observer.changes(name, after="now").cursor
        observer.delete(name)
        name, earlier = f"b{nth}", name
        failing = Failing(nth, is_lost=is_lost)
        one = opened()
        with patch.object(Connection, "script", failing(Connection.script)), suppress(LaurelsError):
            one.undelete(earlier, name=name)
        fresh = opened()
        if fresh.boards() == []:
            assert [each.name for each in fresh.restorable_boards()] == [earlier]
            fresh.undelete(earlier, name=name)
        assert fresh.restorable_boards() == []
        assert not any(totals(fresh, name).values())
        assert day(fresh, name) == before
        assert [each.member for each in fresh.hidden(name)] == ["mal"]
        assert fresh.position(name, "stream") == "7"
        assert [each.id for each in fresh.payouts(name)] == paid
        assert {each.board for each in fresh.payouts(name)} == {name}
        restored = ["delete", "undelete", "hide", "position"]
        assert kinds(fresh, name, cursor) == restored
        submit(observer, name)
        assert all(totals(fresh, name).values())
        assert kinds(fresh, name, cursor)[:4] == restored
        if not failing.has_failed:
            break
    assert nth > 3
    observer.check()


@pytest.mark.parametrize("is_lost", [False, True], ids=["not sent", "answer lost"])
def test_a_process_that_fails_while_it_deletes_a_board_leaves_one_that_can_be_restored(
    opened: Open, clock: laurels.ManualClock, scaled: Scaled, *, is_lost: bool
) -> None:
    """In the short run, every second call fails: those with odd numbers before the answer, and the
    others before the call."""
    observer = opened()
    play(observer, clock)
    before = day(observer)
    for nth in count(scaled(int(is_lost), 0), scaled(2, 1)):
        cursor = observer.changes("b", after="now").cursor
        failing = Failing(nth, is_lost=is_lost)
        one = opened()
        with patch.object(Connection, "script", failing(Connection.script)), suppress(LaurelsError):
            one.delete("b")
        fresh = opened()
        if fresh.boards():
            fresh.delete("b")
        fresh.undelete("b")
        assert not any(totals(fresh).values())
        assert day(fresh) == before
        assert [each.member for each in fresh.hidden("b")] == ["mal"]
        assert kinds(fresh, "b", cursor) == ["delete", "undelete", "hide", "position"]
        submit(observer)
        if not failing.has_failed:
            break
    assert nth > 5
    observer.check()


def test_a_period_that_another_process_closes_during_the_deletion_is_archived(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    play(one, clock, windows=["all", "day:archive=forever"])
    second = two.periods("b", "day")[0]
    delete, store = ServerDeletions.delete, remote(two)
    closed = list[int]()

    async def overtaken(self: ServerDeletions, state: BoardState, *arguments: int) -> bool:
        if not closed:
            clock.set(second.end_ms + HOUR)
            close = store._catalog.retry_outdated("b", store._sealing.close)
            closed.append(await asyncio.to_thread(store.run, close))
        return await delete(self, state, *arguments)

    with patch.object(ServerDeletions, "delete", overtaken):
        one.delete("b")
    assert closed == [1]
    one.undelete("b")
    assert [each.period for each in one.archived("b")] == [second.label, FIRST]
    assert one.top("b", window="day", period=second.label).total == 1


def test_processes_with_an_outdated_copy_change_nothing(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two, three = opened(), opened(), opened()
    play(one, clock)
    store, last = remote(two), remote(three)
    assert two.top("b").total
    assert three.top("b").total
    outdated = store._catalog.boards.named("b")
    one.delete("b")
    # a call by its outdated copy is refused, and lets this process remove what is left of the board
    store.run(store._catalog.reload_board(outdated))
    deleted = [each for _, each in last.run(last._catalog.registry.deleted())]
    assert deleted == []
    kept, _ = last.run(last._catalog.removals.kept(outdated.uid))
    deletion = last.run(last._catalog.deletions.find("b", outdated.uid))
    one.undelete("b")
    submit(two, value=5)
    before = totals(one)
    assert all(before.values())
    for stale in (kept, opened_as(outdated)):
        last.run(last._catalog.index.end_changes(stale, deletion.block(), deletion.until_ms))
        last.run(last._catalog.index.close(stale))
        last.run(last._catalog.index.close(stale, forgotten=True))
        last.run(last._catalog.index.forget_changes(stale))
        last.run(last._catalog.index.open(stale))
    assert totals(one) == totals(three) == before
    assert len(day(three)) == 12
    assert kinds(one, "b", one.changes("b").cursor) == []
    one.delete("b")
    last.run(last._catalog.index.close(opened_as(outdated), forgotten=True))
    one.undelete("b")
    assert len(day(three)) == 12
    one.check()


def test_two_processes_restore_a_board_once(opened: Open, clock: laurels.ManualClock) -> None:
    one, two = opened(), opened()
    play(one, clock)
    one.delete("b")
    create(two)
    with pytest.raises(BoardExists):
        one.undelete("b")
    store = remote(one)
    stored = store._catalog.removals.stored
    restore = type(stored).restore

    async def restored_elsewhere(self: Any, *arguments: Any) -> bool:
        with patch.object(type(stored), "restore", restore):
            await asyncio.to_thread(two.undelete, "b", name="two")
        return await restore(self, *arguments)

    with patch.object(type(stored), "restore", restored_elsewhere), pytest.raises(NotRestorable):
        one.undelete("b", name="one")
    assert sorted(each.name for each in one.boards()) == ["b", "two"]
    assert len(day(one, "two")) == 12


def test_an_answer_from_memory_is_never_that_of_the_removed_board(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    play(one, clock, max_age="7d")
    assert one.top("b").total == two.top("b").total == 13
    one.delete("b")
    one.undelete("b")
    assert one.top("b").total == 0
    submit(two)
    assert two.top("b").total == 12


def test_payouts_get_the_name_from_whoever_asks_for_them(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one = opened()
    play(one, clock)
    paid = [payout.id for payout in one.payouts("b")]
    one.delete("b")
    killed = patch.object(ServerPayouts, "ensure_named", side_effect=RuntimeError)
    with killed, pytest.raises(RuntimeError):
        one.undelete("b", name="other")
    fresh = opened()
    assert [(each.id, each.board) for each in fresh.payouts("other")] == [
        (id, "other") for id in paid
    ]
    assert fresh.confirm("other", paid[0], "paid").state == "confirmed"
    submit(fresh, "other")
    finish_day(fresh, clock, "other")
    fresh.disqualify("other", "m11", "a bot", window="day", period=FIRST)
    assert {each.board for each in fresh.payouts("other")} == {"other"}


def test_the_states_that_are_kept_are_bounded(opened: Open, clock: laurels.ManualClock) -> None:
    one = opened()
    store = remote(one)
    store._catalog.removals._most = 2
    for name in ("a", "b", "c"):
        play(one, clock, name)
        one.delete(name)
    assert [each.name for each in one.restorable_boards()] == ["b", "c"]
    with pytest.raises(NotRestorable):
        one.undelete("a")
    sizes = store.run(store._catalog.removals.stored.removed_sizes())
    assert len(sizes) == 2
    assert min(sizes.values()) > 100
    store._catalog.removals._most_bytes = max(sizes.values())
    assert store.run(store._catalog.removals.trim())
    store.run(store._catalog.remove_deleted())
    assert [each.name for each in one.restorable_boards()] == ["c"]
    one.undelete("c")
    [sealed] = one.archived("c")
    assert one.top("c", window="day", period=sealed.period).total == 12


def test_an_erasure_that_begins_meanwhile_is_waited_for(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    play(one, clock)
    one.delete("b")
    store = remote(one)
    stored = store._catalog.removals.stored
    restore = type(stored).restore
    erased: list[laurels.Erasure] = []

    async def restored_later(self: Any, *arguments: Any) -> bool:
        if not erased:
            erased.append(await asyncio.to_thread(two.erase, "mal", "asked for it"))
            assert not await restore(self, *arguments)
            return False
        return await restore(self, *arguments)

    with patch.object(type(stored), "restore", restored_later):
        one.undelete("b")
    assert one.hidden("b") == two.hidden("b") == []


def test_a_copy_and_a_restored_board_exclude_each_other(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one = opened()
    with laurels.open("memory:", clock=clock) as source:
        play(one, clock)
        copy_board(copies_of(one), copies_of(source), "b")
        one.delete("b")
        copies, origin = copies_of(one), copies_of(source).origin("b")
        copies.begin(origin)
        for name in ("b", "other"):
            with pytest.raises(BoardExists, match=f"unfinished copy has the name .{name}.,"):
                one.undelete("b", name=name)
        copies.give_up("b")
        one.undelete("b", name="other")
        with pytest.raises(NameTaken, match="other"):
            copies.begin(origin)
        one.delete("other")
        copy_board(copies_of(source), copies_of(one), "b")
        assert one.restorable_boards() == []  # the copy takes the place of the removed board
        assert len(day(one)) == 12


def test_a_board_that_was_moved_away_is_not_restored(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one = opened()
    play(one, clock)
    remote(one).write(DeleteBoard("b", is_moved=True))
    assert one.restorable_boards() == []
    with pytest.raises(NotRestorable):
        one.undelete("b")
    with pytest.raises(UnknownBoard):
        one.top("b")


def test_a_member_is_erased_from_the_periods_that_a_moved_board_leaves_in_the_ledger(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one = opened()
    play(one, clock)
    with laurels.open("memory:", clock=clock) as target:
        copy_board(copies_of(one), copies_of(target), "b")
        remote(one).write(DeleteBoard("b", is_moved=True))
        assert one.erase("m1", "asked for it").periods == 1


def test_members_hidden_on_all_boards_are_hidden_on_the_restored_board(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    play(one, clock)
    one.hide(None, "m3", "a bot")
    cursor = one.changes("b", after="now").cursor
    one.delete("b")
    two.show(None, "m3")
    two.hide(None, "m4", "a bot")
    two.undelete("b")
    assert [each.member for each in one.hidden("b")] == ["m4", "mal"]
    changes = [(each.kind, each.member) for each in all_changes(two, "b", after=cursor)]
    assert changes[:3] == [("delete", None), ("undelete", None), ("hide", "mal")]
    assert sorted(changes[3:], key=str) == [("hide", "m4"), ("position", None)]
