"""A board with an archive and prizes. Its history has every kind of data that a copy has to keep.
Also reads all answers of a board about its seasons, and copies it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from laurels import Board, Leaderboards, ManualClock
from laurels.core.archive_pieces import SealedPage
from laurels.flows.copying.copying import CopiedBoard, copy_board
from tests.internals import copies_of

DAY = 86_400_000
START_MS = 1_795_215_600_000
PRIZES: dict[str, Any] = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "two/é", "ranks": [1, 2], "data": {"badge": 7}},
    ],
    "scopes": [[], ["room"]],
    "pay_after": "1h",
}
SEASONS = Board(
    "seasons",
    windows=["all", "hour:keep=1,archive=40", {"type": "day", "keep": 1, "prizes": PRIZES}],
    scopes=[[], ["room"]],
    rank_by=["room"],
    tie="member",
    grace="0s",
    changes="30d",
    ledger="main",
)
MEMBERS = [*(f"m{i}" for i in range(9)), "é ∑", "a/b", "q\"u'o", "x" * 128, "\x1f:\n"]


ARCHIVED = Board(
    "seasons",
    windows=["all", "hour:keep=1,archive=40", "day:keep=1,archive=forever"],
    scopes=[[], ["room"]],
    rank_by=["room"],
    tie="member",
    grace="0s",
    changes="30d",
    ledger="main",
)
"""A board that can be on an index server as well."""


def _play_day(lb: Leaderboards, clock: ManualClock, board: Board, random: Random, day: int) -> None:
    """Submit the events of a day, hide a member on the second day, and seal what is due at the
    end."""
    events = [
        (member, random.randrange(30), None, None, {"room": str(random.randrange(3))})
        for member in MEMBERS
    ]
    lb.submit_many(board.name, events, position=("feed", str(day)))
    if day == 1:
        lb.hide(board.name, "m3", "a bot")
    clock.advance(DAY)
    lb.seal()


def play_archive(lb: Leaderboards, clock: ManualClock, board: Board = ARCHIVED) -> None:
    """Create the board, and submit the events of four days; hide and remove members."""
    random = Random(9)
    lb.create(board)
    for day in range(4):
        _play_day(lb, clock, board, random, day)
        lb.remove(board.name, f"m{day}")


def play_seasons(lb: Leaderboards, clock: ManualClock, board: Board = SEASONS) -> None:
    """Create the board, and submit the events of six days; hide, disqualify and erase members, and
    confirm some payouts."""
    random = Random(7)
    lb.create(board)
    for day in range(6):
        _play_day(lb, clock, board, random, day)
    days = list(lb.archived(board.name, window="day"))
    first = lb.top(board.name, window="day", period=days[-1].period)[0].member
    lb.disqualify(board.name, first, "cheated", window="day", period=days[-1].period)
    second = lb.top(board.name, window="day", period=days[-1].period)[0].member
    lb.disqualify(board.name, second, "too", window="day", period=days[-1].period)
    third = lb.top(board.name, window="day", period=days[0].period)[0].member
    lb.disqualify(board.name, third, "pending", window="day", period=days[0].period)
    clock.advance(3_600_000)
    due = [each for each in payouts(lb, board.name) if each.state == "due"]
    for payout in due[::2]:
        lb.confirm(board.name, payout.id, f"bank {payout.position}")
    fourth = lb.top(board.name, window="day", period=days[1].period)[0].member
    lb.disqualify(board.name, fourth, "after the payment", window="day", period=days[1].period)


def payouts(lb: Leaderboards, board: str) -> list[Any]:
    """Return all payouts of a board."""
    found: list[Any] = []
    after: str | None = None
    while True:
        page = lb.payouts(board, after=after, limit=7)
        found += page.payouts
        if (after := page.next) is None:
            return found


def pieces(lb: Leaderboards, board: str, window: str, period: str, revision: int) -> Iterator[Any]:
    """Yield the pages of a revision of a sealed period."""
    after: str | None = None
    while True:
        page: SealedPage = lb.archive_pieces(
            board, window, period, revision=revision, after=after, limit=1_000
        )
        yield page.pieces
        if (after := page.next) is None:
            return


def seasons(lb: Leaderboards, board: str) -> dict[Any, Any]:
    """Return everything that a board answers about its sealed periods and payouts."""
    answered = archive(lb, board) | {"payouts": payouts(lb, board)}
    answered["settled"] = {
        info.period: lb.settle(board, window="day", period=info.period).awards
        for info in lb.archived(board, window="day")
    }
    return answered


def archive(lb: Leaderboards, board: str) -> dict[Any, Any]:
    """Return everything that a board answers about its sealed periods."""
    answered: dict[Any, Any] = {"archived": lb.archived(board)}
    for info in lb.archived(board):
        key = info.window, info.period
        answered[key, "digest"] = lb.verify(board, window=info.window, period=info.period).archive
        assert answered[key, "digest"] == info.digest
        for revision in range(info.revision + 1):
            answered[key, revision] = [
                (entry.rank, entry.member, entry.score)
                for scope in ({}, {"labels": {"room": "1"}}, {"by": "room"})
                for entry in lb.top(
                    board,
                    window=info.window,
                    period=info.period,
                    revision=revision,
                    limit=100,
                    **scope,
                )
            ]
            answered[key, revision, "salts"] = list(pieces(lb, board, *key, revision))
    return answered


def copied(source: Leaderboards, target: Leaderboards) -> CopiedBoard:
    """Copy the board with seasons."""
    return copy_board(copies_of(source), copies_of(target), "seasons")
