"""A board whose rolling window is archived at boundaries is copied with what the window showed."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels
from laurels.flows.copying.copying import copy_board
from tests.internals import copies_of

from .pairs import opened_pair

DAY = 86_400_000
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
FIRST = "2026-11-20T23:00Z"
BOARD = laurels.Board(
    "b",
    windows=["7d=rolling:7d/1h,archive=forever,archive_every=1d"],
    scopes=[[], ["room"]],
    ledger="main",
)


PAIRS = [
    ("memory", "folder"),
    ("folder", "redis"),
    ("cluster-shards", "folder"),
    ("redis", "cluster-shards"),
]


@pytest.mark.parametrize("names", PAIRS, ids="-to-".join)
def test_a_copy_archives_later_boundaries_as_the_board_does(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with opened_pair(names, tmp_path, clock) as sides:
        source, target = (each.lb for each in sides)
        source.create(BOARD)
        rooms = [{"room": "1"}, {"room": "2"}]
        for member, labels in zip(("ann", "ben"), rooms, strict=True):
            source.submit("b", member, 3, labels=labels)
        copy_board(copies_of(source), copies_of(target), "b")
        clock.advance(DAY)
        target.seal()  # no event is counted between the copy and the boundary
        for lb in (source, target):
            lb.submit("b", "cid", 1, labels={"room": "1"})
            lb.seal()
            assert [each.entries for each in lb.archived("b")] == [4]
            assert [entry.member for entry in lb.top("b", period=FIRST, labels=rooms[0])] == ["ann"]
            lb.check()


def test_a_boundary_that_is_not_sealed_yet_is_sealed_before_the_copy() -> None:
    clock = laurels.ManualClock(NOW_MS)
    with (
        laurels.open("memory:", clock=clock) as source,
        laurels.open("memory:", clock=clock) as target,
    ):
        source.create(BOARD)
        source.submit("b", "ann", 3, labels={"room": "1"})
        clock.advance(DAY)
        assert copy_board(copies_of(source), copies_of(target), "b").compared.sealed == 1
        assert target.archived("b") == source.archived("b")
        assert [each.member for each in target.top("b", period=FIRST)] == ["ann"]
