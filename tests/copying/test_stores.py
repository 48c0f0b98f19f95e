"""After a copy between any two kinds of stores, the target gives the same answers as the source,
even after more time has passed. If an event that was counted before the copy is sent to the target
again, it is a duplicate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import laurels
from laurels import Board, Leaderboards, ManualClock
from laurels.core.contents import Origin, Piece, RankingRows
from laurels.errors import CursorDiverged
from laurels.errors.copies import BoardChanging, CopyRefused, NameTaken
from laurels.flows.copying.copying import CopiedBoard, copy_board
from laurels.stores.board_copies import BoardCopies
from tests.conftest import Scaled
from tests.contract.deployments import Deployment
from tests.counts import some
from tests.internals import copies_of

from .boards import BOARDS, HALF_DAY_MS, START_MS, answers, events_of, play
from .pairs import opened_pair

PAIRS = [
    ("memory", "folder"),
    ("folder", "redis"),
    ("redis", "http"),
    ("http", "cluster-shards"),
    ("cluster-shards", "folder"),
    ("cluster", "redis"),
    ("cluster-shards", "cluster-shards"),
    ("folder", "folder"),
    ("redis", "redis"),
    ("redis", "folder"),
    ("redis", "cluster-shards"),
    ("folder", "cluster-shards"),
    ("folder", "http"),
    ("http", "folder"),
]


def pairs(count: int) -> list[object]:
    """Return all pairs of a source and a target, of which `make test` runs the first `count`. The
    first 4 pairs have every kind of target, and the first 6 also have every kind of source. Further
    pairs find little more, because a target depends on its source only through the pieces that it
    gets."""
    return some(count, [pytest.param(pair, id=f"{pair[0]}-to-{pair[1]}") for pair in PAIRS])


into_each_target = pytest.mark.parametrize("pair", pairs(3), indirect=True)
"""Run a test once for a folder, an index server and a service as the target, because the result
does not depend on the source."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture(params=pairs(6))
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[tuple[Deployment, Deployment]]:
    with opened_pair(request.param, tmp_path, clock) as sides:
        yield sides


@pytest.fixture
def boards(pair: tuple[Deployment, Deployment], scaled: Scaled) -> list[Board]:
    """Return the boards to copy. In `make test`, a cluster is the target of every second board and
    the source of the others. All other stores are the target and the source of every board."""
    names = [each.kind.name for each in pair]
    in_cluster = [name.startswith("cluster") for name in names]
    return BOARDS[int(in_cluster[0]) :: scaled(2, 1)] if any(in_cluster) else BOARDS


def copied(source: Leaderboards, target: Leaderboards, board: str) -> CopiedBoard:
    return copy_board(copies_of(source), copies_of(target), board)


def test_a_copy_gives_the_same_answers_as_its_source(
    pair: tuple[Deployment, Deployment], clock: ManualClock, boards: list[Board], scaled: Scaled
) -> None:
    source, target = (each.lb for each in pair)
    play(source, clock, boards)
    for board in boards:
        done = copied(source, target, board.name)
        assert done.copied
        assert done.compared.differences == []
        assert done.compared.not_compared == []
        assert done.compared.entries > 0
        assert answers(target, board) == answers(source, board)
    target.check()
    random = Random(5)
    for day in range(8):  # steps and periods end, and both boards count new events
        clock.advance(HALF_DAY_MS)
        for board in boards:
            events = events_of(board, random, 10, 100 + day)
            for lb in (source, target):
                lb.submit_many(board.name, events)
            is_compared = day % scaled(8, 2) == scaled(7, 1)
            if is_compared and pair[0].refreshes == pair[1].refreshes:
                assert answers(target, board) == answers(source, board)
    target.check()


def test_an_event_that_is_sent_again_after_the_move_counts_once(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    source.create(Board("gifts", windows=["all", "7d=rolling:7d/1d"], dedupe="1h"))
    source.submit("gifts", "alice", 5, id="order-1")
    copied(source, target, "gifts")
    again = target.submit("gifts", "alice", 5, id="order-1")
    assert (again.status, again.score) == ("duplicate", 5)
    clock.advance(3_600_000)
    assert target.submit("gifts", "alice", 5, id="order-1").score == 10


@into_each_target
def test_a_copy_survives_a_restart(
    pair: tuple[Deployment, Deployment], clock: ManualClock, boards: list[Board]
) -> None:
    source, target = pair
    play(source.lb, clock, boards, days=3)
    for board in boards:
        copied(source.lb, target.lb, board.name)
    lb = target.reopen()
    lb.check()
    for board in boards:
        assert answers(lb, board) == answers(source.lb, board)


@into_each_target
def test_a_board_is_copied_once_and_compared_again(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    play(source, clock, BOARDS[:1], days=2)
    copied(source, target, "sums")
    again = copied(source, target, "sums")
    assert not again.copied
    assert again.compared.differences == []
    target.submit("sums", "m1", 1, labels={"room": "1", "sex": "f"})
    differences = copied(source, target, "sums").compared.differences
    assert any("ranking of all" in each for each in differences), differences
    assert answers(source, BOARDS[0]) != answers(target, BOARDS[0])


def test_the_changes_of_a_copy_continue_those_of_the_source(
    pair: tuple[Deployment, Deployment],
) -> None:
    source, target = (each.lb for each in pair)
    source.create(Board("gifts", changes="1d"))
    source.submit("gifts", "alice", 5)
    end = source.changes("gifts").cursor
    copied(source, target, "gifts")
    ends = [len(copies_of(lb).origin("gifts").ends) for lb in (source, target)]
    if ends[0] != ends[1]:
        # a position in three shards differs from one in a single shard
        with pytest.raises(CursorDiverged):
            target.changes("gifts", after=end)
        return
    assert list(target.changes("gifts", after=end).changes) == []
    target.submit("gifts", "bob", 7)
    (change,) = target.changes("gifts", after=end).changes
    assert (change.member, change.delta) == ("bob", 7)


def test_another_board_with_the_same_name_is_left_alone(
    pair: tuple[Deployment, Deployment],
) -> None:
    source, target = (each.lb for each in pair)
    for lb in (source, target):
        lb.create(Board("gifts"))
    target.submit("gifts", "alice", 5)
    with pytest.raises(NameTaken):
        copied(source, target, "gifts")
    assert answers_of(target) == [("alice", 5)]


class Written:
    """A source whose board gets a write after each piece that is read."""

    def __init__(self, lb: Leaderboards, times: int) -> None:
        self._lb = lb
        self._copies = copies_of(lb)
        self._times = times

    def settle(self, board: str) -> None:
        self._copies.settle(board)

    def origin(self, board: str) -> Origin:
        return self._copies.origin(board)

    def pieces(self, board: str) -> Iterator[Piece]:
        yield from self._copies.pieces(board)
        if self._times:
            self._times -= 1
            self._lb.submit(board, "late", 1)


@pytest.mark.parametrize("times", [1, 5])
def test_a_board_that_is_written_meanwhile_is_copied_again(
    pair: tuple[Deployment, Deployment], times: int
) -> None:
    source, target = (each.lb for each in pair)
    source.create(Board("gifts"))
    source.submit("gifts", "alice", 5)
    if times > 3:
        with pytest.raises(BoardChanging):
            _copy_written(source, target, times)
        assert [each.name for each in target.boards()] == []
        times = 0
    done = _copy_written(source, target, times)
    assert done.compared.differences == []
    assert answers_of(target) == answers_of(source)


def _copy_written(source: Leaderboards, target: Leaderboards, times: int) -> CopiedBoard:
    written = Written(source, times)
    return copy_board(written, copies_of(target), "gifts")


def answers_of(lb: Leaderboards) -> list[tuple[str, object]]:
    return [(each.member, each.score) for each in lb.top("gifts").entries]


@into_each_target
def test_an_unfinished_copy_is_invisible_and_starts_over(
    pair: tuple[Deployment, Deployment], clock: ManualClock, boards: list[Board]
) -> None:
    source, target = pair
    play(source.lb, clock, boards, days=2)
    for board in boards:
        _begin(copies_of(source.lb), copies_of(target.lb), board.name)
    assert target.lb.boards() == []
    target.lb.check()
    lb = target.reopen()
    lb.check()
    for board in boards:
        assert copies_of(lb).unfinished(board.name) is not None
        assert copied(source.lb, lb, board.name).compared.differences == []
        assert answers(lb, board) == answers(source.lb, board)
    lb.check()


def _begin(source: BoardCopies, target: BoardCopies, board: str) -> None:
    """Copy about half of a board's pieces."""
    pieces = list(source.pieces(board))
    target.begin(source.origin(board))
    for piece in pieces[: len(pieces) // 2 + 1]:
        target.put(board, [piece])


@into_each_target
def test_pieces_may_be_written_twice(
    pair: tuple[Deployment, Deployment], clock: ManualClock, boards: list[Board]
) -> None:
    source, target = (each.lb for each in pair)
    play(source, clock, boards, days=6)
    for board in boards:
        copies = copies_of(target)
        copies.begin(copies_of(source).origin(board.name))
        for piece in copies_of(source).pieces(board.name):
            copies.put(board.name, [piece])
            copies.put(board.name, [piece])
        copies.finish(board.name)
        assert copied(source, target, board.name).compared.differences == []
    target.check()


def test_the_kinds_of_clock_have_to_be_the_same() -> None:
    with laurels.open("memory:", clock="event") as source, laurels.open("memory:") as target:
        source.create(Board("gifts"))
        with pytest.raises(CopyRefused, match="event time"):
            copied(source, target, "gifts")


def test_a_large_board_is_copied_in_several_pieces(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    board = Board("gifts", windows=["all", "7d=rolling:7d/1d"])
    source.create(board)
    for _ in range(2):
        source.submit_many("gifts", [(f"m{i}", i % 97, None, f"{i}") for i in range(5_000)])
        clock.advance(HALF_DAY_MS * 2)
    rows = [each for each in copies_of(source).pieces("gifts") if isinstance(each, RankingRows)]
    assert max(each.size for each in rows) < 5_000
    assert copied(source, target, "gifts").compared.differences == []
    assert answers(target, board) == answers(source, board)
