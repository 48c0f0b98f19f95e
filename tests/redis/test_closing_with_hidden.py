"""Closing on an index server. Members that were hidden when a period became final are left out of
it, even if the process that closes it has not read the board since the hiding, or never before. A
board that cannot be archived is refused or tried again, without delaying other boards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import laurels
from laurels.errors.index_server import NotOnIndexServer
from tests.internals import remote
from tests.redis.test_closing import (
    HOUR,
    AnyClock,
    Open,
    clock,
    create,
    scores,
)

__all__ = ["clock"]

CLOSERS: dict[str, Callable[[laurels.Leaderboards], Any]] = {
    "work": lambda lb: remote(lb).work(100),
    "seal": lambda lb: lb.seal(),
    "submit": lambda lb: lb.submit("b", "dan", 1),
}


@pytest.mark.parametrize("board", ["b", None])
@pytest.mark.parametrize("closer", CLOSERS)
def test_a_process_closes_with_those_whom_another_one_has_hidden(
    opened: Open, clock: AnyClock, closer: str, board: str | None
) -> None:
    one, other = opened(), opened()
    create(one)
    other.submit_many("b", [("ann", 3), ("ben", 5)])
    one.hide(board, "ann", "a bot")
    clock.advance(3 * HOUR)
    CLOSERS[closer](other)
    one.seal()
    assert scores(one) == scores(other) == {"ben": 5}


def test_a_process_closes_without_those_whom_another_one_has_shown(
    opened: Open, clock: AnyClock
) -> None:
    one, other = opened(), opened()
    create(one)
    one.submit_many("b", [("ann", 3), ("ben", 5)])
    one.hide("b", "ann", "a bot")
    assert [entry.member for entry in other.top("b")] == ["ben"]
    one.show("b", "ann")
    clock.advance(3 * HOUR)
    remote(other).work(100)
    one.seal()
    assert scores(one) == {"ann": 3, "ben": 5}


@pytest.mark.parametrize("board", ["b", None])
def test_a_board_past_its_time_with_a_hidden_member_stops_nobody(
    opened: Open, clock: AnyClock, board: str | None
) -> None:
    one = opened()
    ends_ms = clock.now_ms() + 2 * HOUR
    create(one, ends=ends_ms, retain="1h")
    one.create(laurels.Board("other"))
    one.submit_many("b", [("ann", 3), ("ben", 5)])
    one.hide(board, "ann", "a bot")
    clock.advance(30 * HOUR)
    fresh = opened()
    assert fresh.submit("other", "cid", 1).score == 1
    remote(fresh).work(100)
    fresh.create(laurels.Board("new"))
    assert [each.name for each in fresh.boards()] == ["new", "other"]
    # by now the periods of the old board are sealed, so its name is free
    fresh.create(laurels.Board("b"))


def test_a_board_without_a_ranking_of_all_events_has_no_archive(opened: Open) -> None:
    with pytest.raises(NotOnIndexServer, match="no ranking of all events"):
        create(opened(), scopes=[["room"]])
