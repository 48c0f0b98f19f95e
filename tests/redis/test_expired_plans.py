"""If the server carries out a call late, after the grace of a period has ended, the call counts
nothing in that period."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

import laurels

from .conftest import NOW
from .proxy import Proxy
from .servers import Server

SECOND_MS, MINUTE_MS = 1_000, 60_000
BEFORE = datetime.fromtimestamp((NOW - MINUTE_MS) / 1_000, UTC)
"""23:59 on the day before."""
IN_GRACE = NOW + 5 * MINUTE_MS - SECOND_MS
AFTER_GRACE = NOW + 6 * MINUTE_MS

COUNTING = b"late-comer\xa6atomic"
"""Bytes that occur only in the call that counts the event, and not in the calls that read the
event's member."""
DAY, ROLLING = "day=day:grace=5m,keep=3", "r=rolling:2d/1d:grace=5m"
BOARDS = {
    "one shard": laurels.Board("b", windows=[DAY]),
    "shards": laurels.Board("b", windows=[DAY], shards=3),
    "rolling": laurels.Board("b", windows=[ROLLING]),
    "scopes": laurels.Board("b", windows=[DAY], scopes=[[], ["room"]]),
}
boards = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
pytestmark = pytest.mark.usefixtures("emptied")


class JumpingClock:
    """A clock that a test sets when a call reaches a given stage."""

    def __init__(self, start_ms: int) -> None:
        self.at_ms = start_ms

    def now_ms(self) -> int:
        return self.at_ms


def event(board: laurels.Board, member: str) -> tuple[Any, ...]:
    return member, 1, BEFORE, None, {"room": "r"} if len(board.scopes) > 1 else None


def counted_yesterday(lb: laurels.Leaderboards, board: laurels.Board) -> set[str]:
    """Return the members that were counted in the previous day, which has ended."""
    if board is BOARDS["rolling"]:
        return {entry.member for entry in lb.top("b").entries}
    pages = [lb.top("b", window="day", period="2026-11-20")]
    if len(board.scopes) > 1:
        pages.append(lb.top("b", window="day", period="2026-11-20", labels={"room": "r"}))
    return {entry.member for page in pages for entry in page.entries}


@boards
def test_a_call_delayed_past_the_end_of_the_grace_is_planned_again(
    server: Server, board: laurels.Board
) -> None:
    early, late = laurels.ManualClock(IN_GRACE), laurels.ManualClock(AFTER_GRACE)
    statuses: list[str] = []

    with (
        Proxy(server) as proxy,
        laurels.open(proxy.url, clock=early) as slow,
        laurels.open(server.url, clock=late) as other,
    ):
        slow.create(board)
        slow.submit_many("b", [event(board, "in time")])

        def write() -> None:
            receipts = slow.submit_many("b", [event(board, "late-comer")])
            statuses.extend(receipt.status for receipt in receipts)

        proxy.hold(b"late-comer")
        writer = threading.Thread(target=write)
        writer.start()
        proxy.wait_until_held()
        other.submit_many("b", [(f"m{i}", 1) for i in range(100)])
        proxy.release()
        writer.join(60)
        assert statuses == ["refused"]
        assert "late-comer" not in counted_yesterday(other, board)
        assert "in time" in counted_yesterday(other, board)


@boards
def test_a_repeat_after_the_end_of_the_grace_is_planned_again(
    server: Server, board: laurels.Board
) -> None:
    """The proxy keeps the first request, and its repeat is planned after the end of the grace. Then
    the proxy delivers the first request."""
    clock = JumpingClock(IN_GRACE)
    with Proxy(server) as proxy, laurels.open(proxy.url, clock=clock) as lb:
        lb.create(board)
        lb.submit_many("b", [event(board, "in time")])
        proxy.keep_back(b"late-comer", lambda: setattr(clock, "at_ms", AFTER_GRACE))
        (receipt,) = lb.submit_many("b", [event(board, "late-comer")])
        assert (receipt.status, receipt.reason) == ("refused", "too_late")
        assert proxy.deliver_late()
        assert counted_yesterday(lb, board) == {"in time"}


@boards
def test_an_event_counted_in_time_is_acknowledged_despite_a_lost_answer(
    server: Server, board: laurels.Board
) -> None:
    clock = JumpingClock(IN_GRACE)
    with Proxy(server) as proxy, laurels.open(proxy.url, clock=clock) as lb:
        lb.create(board)
        proxy.notice(COUNTING, lambda: setattr(clock, "at_ms", AFTER_GRACE))
        proxy.cut_after(COUNTING)
        (receipt,) = lb.submit_many("b", [event(board, "late-comer")])
        assert (receipt.status, receipt.score) == ("applied", 1)
        assert counted_yesterday(lb, board) == {"late-comer"}


def test_each_call_of_a_batch_is_judged_at_its_own_time(
    server: Server,
) -> None:
    board = BOARDS["one shard"]
    clock = JumpingClock(IN_GRACE)
    with Proxy(server) as proxy, laurels.open(proxy.url, clock=clock) as lb:
        lb.create(board)
        proxy.notice(b"first", lambda: setattr(clock, "at_ms", AFTER_GRACE))
        events = [("first", 1, BEFORE, "0"), *((f"m{i}", 1, BEFORE, f"{i}") for i in range(2_500))]
        receipts = lb.submit_many("b", events)
        assert [receipt.status for receipt in receipts] == ["applied"] * 1_000 + ["refused"] * 1_501
        assert len(lb.top("b", period="2026-11-20", limit=5_000).entries) == 1_000


def test_an_event_counts_up_to_the_very_end_of_the_grace(
    server: Server, clock: laurels.ManualClock
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(BOARDS["one shard"])
        clock.set(NOW + 5 * MINUTE_MS)
        lb.submit("b", "ann", 1, at=BEFORE)
        clock.advance(1)
        with pytest.raises(laurels.errors.TooLate):
            lb.submit("b", "bob", 1, at=BEFORE)
