"""Clearing a board on an index server: by processes that fail at any call, and beside others that
write, read, follow and close periods."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors import LaurelsError
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis.clearing import ServerClearings
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.remote import opened_as
from tests.conftest import Scaled
from tests.internals import remote

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
WINDOWS = ["all", "day:archive=forever", "7d=rolling:7d/1d", "30d=rolling:30d/1d,refresh=1h"]
ROOMS = ["1", "2"]

Open = Callable[[], laurels.Leaderboards]


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


def create(lb: laurels.Leaderboards, name: str = "b", **fields: Any) -> None:
    more: dict[str, Any] = {"windows": WINDOWS, "scopes": [[], ["room"]], "rank_by": ["room"]}
    lb.create(laurels.Board(name, **{**more, "changes": "1d", "ledger": "main", **fields}))


def submit(lb: laurels.Leaderboards, name: str = "b", value: int = 1) -> None:
    lb.submit_many(
        name,
        [laurels.Event(f"m{i}", value, labels={"room": ROOMS[i % 2]}) for i in range(12)],
    )


def rankings(lb: laurels.Leaderboards, name: str = "b") -> dict[str, dict[str, Any]]:
    """Return the scores in all rankings of a board that are not refreshed."""
    found = {}
    rooms: list[dict[str, Any]] = [{}, *({"labels": {"room": room}} for room in ROOMS)]
    for window in ("all", "day", "7d"):
        for place in [*rooms, {"by": "room"}]:
            page = lb.top(name, limit=100, window=window, **place)
            found[f"{window} {place}"] = {entry.member: entry.score for entry in page}
    return found


class Replayed:
    """The scores that a follower has after all changes of a board so far, and how many of these
    changes were clearings."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.clearings = 0
        self._cursor: str | None = None

    def follow(self, lb: laurels.Leaderboards, limit: int = 7) -> None:
        while True:
            page = lb.changes("b", after=self._cursor, limit=limit)
            for change in page:
                if change.kind == "clear":
                    self.totals.clear()
                    self.clearings += 1
                elif change.kind == "event":
                    assert change.member is not None
                    assert isinstance(change.delta, int)
                    before = self.totals.get(change.member, 0)
                    self.totals[change.member] = before + change.delta
            if not page.changes:
                return
            self._cursor = page.cursor


class Failing:
    """Makes one of the next calls of scripts fail, before or after the server has carried it
    out."""

    def __init__(self, nth: int, *, is_lost: bool) -> None:
        self._left = nth
        self._is_lost = is_lost
        self.has_failed = False

    def __call__(self, script: Callable[..., Any]) -> Callable[..., Any]:
        async def call(connection: Connection, *arguments: Any) -> Any:
            self._left -= 1
            if self._left >= 0:
                return await script(connection, *arguments)
            self.has_failed = True
            if self._is_lost and self._left == -1:
                await script(connection, *arguments)
            raise IndexUnavailable("the test ends this process")

        return call


@pytest.mark.parametrize("is_lost", [False, True], ids=["not sent", "answer lost"])
def test_a_process_that_fails_at_any_call_leaves_all_members_or_none(
    opened: Open, scaled: Scaled, *, is_lost: bool
) -> None:
    """In the short run, every second call fails: those with odd numbers before the answer, and the
    others before the call."""
    observer = opened()
    create(observer)
    replayed = Replayed()
    for nth in count(scaled(int(is_lost), 0), scaled(2, 1)):
        submit(observer)
        replayed.follow(observer)
        full, clearings = rankings(observer), replayed.clearings
        failing = Failing(nth, is_lost=is_lost)
        one = opened()
        with patch.object(Connection, "script", failing(Connection.script)), suppress(LaurelsError):
            one.clear("b")
        # this process may learn of the clearing between two of these answers
        assert all(each in ({}, full[ranking]) for ranking, each in rankings(observer).items())
        found = rankings(opened())
        is_cleared = not any(found.values())
        assert is_cleared or found == full
        assert rankings(observer) == found
        replayed.follow(observer)
        assert replayed.totals == found["all {}"]
        assert replayed.clearings == clearings + is_cleared
        if not failing.has_failed:
            break
        submit(observer, value=3)
        observer.clear("b")
        assert not any(rankings(opened()).values())
    assert nth > 3
    assert is_cleared
    observer.check()


def test_a_follower_has_what_the_board_has_while_others_write_and_clear(opened: Open) -> None:
    one, two, three = opened(), opened(), opened()
    create(one)
    ended = threading.Event()

    def write(lb: laurels.Leaderboards) -> None:
        while not ended.is_set():
            submit(lb)

    writers = [threading.Thread(target=write, args=[lb]) for lb in (two, three)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(10):
            one.clear("b")
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    found = rankings(opened())
    replayed = Replayed()
    replayed.follow(one, 100)
    assert replayed.totals == found["all {}"]
    assert replayed.clearings == 10
    by_room = found["all {'by': 'room'}"]
    assert by_room == {
        room: sum(
            value for member, value in replayed.totals.items() if ROOMS[int(member[1:]) % 2] == room
        )
        for room in by_room
    }
    one.check()


def test_boards_with_a_head_and_refreshed_windows(opened: Open, clock: laurels.ManualClock) -> None:
    one, two = opened(), opened()
    create(one, "head", head=100, windows=["all", "day"], scopes=[[]], rank_by=[], ledger="")
    one.submit_many("head", [(f"m{i}", i % 50) for i in range(400)])
    create(one)
    submit(one)
    clock.advance(2 * HOUR)
    remote(two).work(1_000)
    assert two.top("b", window="30d").total == 12
    assert two.top("head").total == 400
    for name in ("head", "b"):
        one.clear(name)
        for lb in (two, one, opened()):
            assert [lb.top(name, window=window).total for window in ("all", "day")] == [0, 0]
    assert two.top("b", window="30d").total == 0
    two.submit_many("head", [(f"m{i}", 1) for i in range(5)])
    assert one.top("head").total == 5
    submit(two)
    clock.advance(2 * HOUR)
    remote(two).work(1_000)
    assert two.top("b", window="30d").total == 12
    one.check()
    one.rebuild()
    assert one.top("head").total == 5


def test_a_period_that_ends_during_the_clearing_is_archived_first(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    create(one)
    submit(one)
    day = two.periods("b", "day")[0]
    fence, fenced = ServerClearings.fence, list[bool]()

    async def overtaken(self: ServerClearings, state: Any, now_ms: int) -> bool:
        done = await fence(self, state, now_ms)
        if not fenced:
            fenced.append(done)
            clock.set(day.end_ms + HOUR)
            await store._catalog.retry_outdated("b", store._sealing.close)
        return done

    store = remote(one)
    other = threading.Thread(target=lambda: two.submit("b", "late", 1))
    with patch.object(ServerClearings, "fence", overtaken):
        one.clear("b")
    other.start()
    other.join()
    assert fenced == [True]
    assert [entry.score for entry in two.top("b", window="day", period=day.label)] == [1] * 10
    assert one.verify("b", window="day", period=day.label).verified
    assert rankings(two)["all {}"] == {"late": 1}


def test_afence_whose_process_has_ended_keeps_no_period_open(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    create(one)
    submit(one)
    store = remote(one)

    async def fence() -> bool:
        state = await store._catalog.find_board("b")
        await store._catalog.closings.load(state)
        done: bool = await store._catalog.index.fence(opened_as(state))
        return done

    assert store.run(fence())
    clock.advance(2 * DAY)
    two.seal()
    assert [each.entries for each in two.archived("b")] == [26]
