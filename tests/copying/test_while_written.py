"""A board is copied while it is written. Then the rows that were changed meanwhile are copied
again, until the copy has everything that the board has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from laurels import Board, Leaderboards, ManualClock
from laurels.errors.copies import BoardChanging, CopyLost
from laurels.errors.placement import BoardMoving
from laurels.flows.copying.comparing import compare
from laurels.stores.board_copies import MovableCopies, TrackedBoard
from laurels.stores.local.index import moving
from laurels.stores.redis.index import contents, tracking
from tests.conftest import Scaled
from tests.contract.deployments import Deployment
from tests.counts import covering, some
from tests.internals import movable_copies_of

from .boards import BOARDS, START_MS, answers, events_of, play
from .pairs import STORES, opened_pair

PAIRS = [
    ("memory", "redis"),
    ("cluster-shards", "folder"),
    ("redis", "cluster"),
    ("cluster-shards", "cluster-shards"),
    ("folder", "memory"),
    ("folder", "cluster-shards"),
    ("cluster", "redis"),
    ("redis", "redis"),
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture(
    params=some(4, [pytest.param(pair, id=f"{pair[0]}-to-{pair[1]}") for pair in PAIRS])
)
def pair(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Deployment, Deployment]]:
    """The source and the target. Pieces and shares are small, so that there are many of them."""
    for module in (moving, contents, tracking):
        monkeypatch.setattr(module, "PIECE_ROWS", 20)
    monkeypatch.setattr(contents, "_SCAN", 5)
    monkeypatch.setattr(tracking, "_TAKEN", 7)
    monkeypatch.setattr(tracking, "_CELLS", 60)
    with opened_pair(request.param, tmp_path, clock) as sides:
        yield sides


class Writer:
    """Writes events, data and removals of random members to a board, with any of its clients."""

    def __init__(self, clients: Sequence[Leaderboards], board: Board, seed: int) -> None:
        self._clients = clients
        self._board = board
        self._random = Random(seed)
        self._count = 0

    def write(self, most: int) -> None:
        random, name = self._random, self._board.name
        for _ in range(random.randrange(most)):
            lb = random.choice(self._clients)
            self._count += 1
            events = events_of(self._board, random, random.randrange(1, 4), 100 + self._count)
            lb.submit_many(name, events, position=("feed", f"w{self._count}"))
            if random.random() < 0.2:
                lb.submit_many(name, events)
            if random.random() < 0.1:
                member = random.choice(["m1", "m3", "absent", "new"])
                lb.set_data(name, member, random.choice([None, {"n": self._count}]))
            if random.random() < 0.1:
                lb.remove(name, random.choice(["m4", "m5", "a/b", "nobody"]))


def begun(source: MovableCopies, target: MovableCopies, board: str) -> TrackedBoard:
    tracked = source.track(board, "move")
    target.begin(source.origin(board))
    return tracked


@pytest.mark.parametrize(
    ("pair", "board"),
    covering(PAIRS, BOARDS),
    indirect=["pair"],
    ids=lambda value: value.name if isinstance(value, Board) else "-to-".join(value),
)
def test_a_copy_is_the_same_as_the_board_that_was_written_meanwhile(
    pair: tuple[Deployment, Deployment], clock: ManualClock, board: Board, scaled: Scaled
) -> None:
    source, target = (movable_copies_of(each.lb) for each in pair)
    play(pair[0].lb, clock, [board], days=scaled(3, 5))
    with ExitStack() as stack:
        clients = [pair[0].lb]
        if pair[0].lasting and not pair[0].exclusive:
            clients.append(stack.enter_context(pair[0].open_beside()))
        for seed in range(scaled(1, 10)):
            writer, random = Writer(clients, board, seed), Random(seed)
            tracked = begun(source, target, board.name)
            for piece in tracked.pieces():
                target.put(board.name, [piece])
                writer.write(3)
                clock.advance(random.randrange(3))
            for _ in range(random.randrange(3)):
                for changed in tracked.changed_pieces():
                    target.put(board.name, [changed])
                    writer.write(2)
            tracked.block()
            for changed in tracked.changed_pieces():
                target.put(board.name, [changed])
            target.renew(source.origin(board.name))
            target.finish(board.name)
            assert compare(source, target, board.name).differences == []
            assert answers(pair[1].lb, board) == answers(pair[0].lb, board)
            pair[1].lb.check()
            tracked.end()
            pair[1].lb.delete(board.name)


@pytest.mark.parametrize("kinds", [("redis", "folder"), ("folder", "redis")])
def test_a_board_in_event_time_is_copied_while_it_is_written(
    kinds: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of successive events go forward and back. Each id is remembered as of the time of
    its event."""
    monkeypatch.setattr(tracking, "_TAKEN", 7)
    board, random = Board("b", windows=["all", "day"], tie="last", dedupe="3d"), Random(7)
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(Deployment(STORES[kind], tmp_path / side, "event"))
            for kind, side in zip(kinds, ("source", "target"), strict=True)
        )
        source.lb.create(board)
        events: list[tuple[Any, ...]] = []

        def write(count: int) -> None:
            for _ in range(count):
                at = START_MS + 1_000 * len(events) + random.randrange(-60_000, 60_000)
                events.append((f"m{random.randrange(40)}", 1, at, f"e{len(events)}"))
                source.lb.submit_many("b", [events[-1]])

        write(100)
        of_source, of_target = (movable_copies_of(each.lb) for each in (source, target))
        tracked = begun(of_source, of_target, "b")
        for piece in tracked.pieces():
            of_target.put("b", [piece])
            write(5)
        for _ in range(3):
            for changed in tracked.changed_pieces():
                of_target.put("b", [changed])
            write(20)
        for changed in tracked.changed_pieces():
            of_target.put("b", [changed])
        of_target.renew(of_source.origin("b"))
        of_target.finish("b")
        tracked.end()
        assert compare(of_source, of_target, "b").differences == []
        assert answers(target.lb, board) == answers(source.lb, board)
        receipts = target.lb.submit_many("b", events)
        assert {receipt.status for receipt in receipts} == {"duplicate"}


@pytest.fixture(params=["redis", "cluster-shards"])
def shared(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[Deployment]:
    """Boards to which several processes write."""
    with Deployment(STORES[request.param], tmp_path, clock) as deployment:
        yield deployment


WRITES: list[Callable[[Leaderboards], object]] = [
    lambda lb: lb.submit_many("sums", [("m1", 1)], position=("feed", "x")),
    lambda lb: lb.set("sums", "m1", 3),
    lambda lb: lb.set_data("sums", "m1", {"n": 1}),
    lambda lb: lb.remove("sums", "m3"),
    lambda lb: lb.submit_many("sums", [], position=("feed", "x")),
]


def test_writes_of_all_processes_are_refused_once_they_are_blocked(
    shared: Deployment, clock: ManualClock
) -> None:
    play(shared.lb, clock, BOARDS[:1], days=1)
    before = answers(shared.lb, BOARDS[0])
    tracked = movable_copies_of(shared.lb).track("sums", "move")
    tracked.block()
    with shared.open_beside() as other:
        for lb in (shared.lb, other):
            for write in WRITES:
                with pytest.raises(BoardMoving):
                    write(lb)
            assert answers(lb, BOARDS[0]) == before
            with pytest.raises(BoardMoving):
                lb.change("sums", title="another")
            with pytest.raises(BoardMoving):
                movable_copies_of(lb).track("sums", "another move")
            assert not movable_copies_of(lb).unblock("sums", "another move")
            with pytest.raises(BoardMoving):
                lb.submit("sums", "m1", 1)
        assert movable_copies_of(other).unblock("sums", "move")
        for write in WRITES:
            write(other)
        assert other.change("sums", title="another").title == "another"
    with pytest.raises(BoardChanging):
        list(tracked.changed_pieces())


def test_a_copy_has_one_owner(pair: tuple[Deployment, Deployment], clock: ManualClock) -> None:
    """A second move is refused while a board is copied, and does not end the tracking."""
    source, target = (movable_copies_of(each.lb) for each in pair)
    play(pair[0].lb, clock, BOARDS[:1], days=1)
    tracked = begun(source, target, "sums")
    with pytest.raises(BoardMoving):
        source.track("sums", "another move")
    assert not source.unblock("sums", "another move")
    pair[0].lb.submit_many("sums", [("late", 5)])
    for piece in [*tracked.pieces(), *tracked.changed_pieces()]:
        target.put("sums", [piece])
    target.renew(source.origin("sums"))
    target.finish("sums")
    assert answers(pair[1].lb, BOARDS[0]) == answers(pair[0].lb, BOARDS[0])
    assert source.unblock("sums", "move")
    another = source.track("sums", "another move")
    with pytest.raises(BoardChanging):
        list(tracked.changed_pieces())
    tracked.end()
    list(another.changed_pieces())
    another.end()


def test_a_copy_is_begun_anew_if_a_member_was_erased(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    """A sealed period that was copied before the erasure may have the member, and the tracked
    changes do not show that. So any erasure during the copy counts."""
    play(pair[0].lb, clock, BOARDS[:1], days=1)
    source = movable_copies_of(pair[0].lb)
    pair[0].lb.erase("m2", "asked for it")
    tracked = source.track("sums", "move")
    list(tracked.pieces())
    list(tracked.changed_pieces())
    pair[0].lb.erase("nobody", "asked for it")
    with pytest.raises(BoardChanging, match="erased"):
        list(tracked.changed_pieces())
    tracked.end()


def test_a_definition_that_another_process_changed_is_no_error(
    shared: Deployment, clock: ManualClock
) -> None:
    """This process does not know the new definition when it begins or ends a copy."""
    play(shared.lb, clock, BOARDS[:1], days=1)
    copies = movable_copies_of(shared.lb)
    with shared.open_beside() as other:
        other.change("sums", title="another")
        tracked = copies.track("sums", "move")
        assert list(tracked.changed_pieces()) == []
        other.change("sums", title="a third")
        assert copies.unblock("sums", "move")


def test_the_rest_of_a_copy_is_refused_if_the_server_lost_its_beginning(
    shared: Deployment, clock: ManualClock
) -> None:
    play(shared.lb, clock, BOARDS[:1], days=1)
    copies = movable_copies_of(shared.lb)
    origin, pieces = copies.origin("sums"), list(copies.pieces("sums"))
    shared.lb.delete("sums")
    copies.begin(origin)
    copies.put("sums", pieces[:1])
    remote: Any = copies
    unfinished = remote._run(remote._find_unfinished("sums"))
    remote._run(remote._catalog.index.close(unfinished.opened))
    with pytest.raises(CopyLost):
        copies.put("sums", pieces)
    with pytest.raises(CopyLost):
        copies.finish("sums")


def test_a_copy_is_begun_anew_if_changes_may_be_missing(
    shared: Deployment, clock: ManualClock
) -> None:
    play(shared.lb, clock, BOARDS[1:2], days=1)
    copies = movable_copies_of(shared.lb)
    changes: list[Callable[[], object]] = [
        lambda: copies.track("by-member", "move"),
        lambda: shared.lb.change("by-member", title="another"),
    ]
    for change in changes:
        tracked = copies.track("by-member", "move")
        list(tracked.changed_pieces())
        change()
        with pytest.raises(BoardChanging):
            list(tracked.changed_pieces())
        with pytest.raises(BoardChanging):
            tracked.block()
        tracked.end()
    shared.lb.submit("by-member", "m1", 1)
