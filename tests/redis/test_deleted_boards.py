"""Several processes use a board on an index server that one of them deletes. They read its changes,
fail during the deletion, or do not know of the deletion yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

import laurels
from laurels.core.changes.answers import Change
from laurels.errors import BoardDeleted, LaurelsError, UnknownBoard
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.remote import opened_as
from laurels.stores.redis.sharding.sharded import ShardedIndex
from tests.counts import rare
from tests.internals import remote
from tests.redis.servers import Server

pytestmark = pytest.mark.usefixtures("emptied")
HOUR = 3_600_000
Open = Callable[[], laurels.Leaderboards]


@pytest.fixture
def opened(server: Server, clock: laurels.ManualClock) -> Iterator[Open]:
    """Return a function that opens the same boards as another process."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(laurels.open(server.url, clock=clock))


@pytest.fixture(params=[1, 3], ids=["one-shard", "shards"])
def board(request: pytest.FixtureRequest) -> laurels.Board:
    scopes = [[], ["room"]]
    return laurels.Board("b", changes="1h", shards=request.param, scopes=scopes, rank_by="room")


def submit(lb: laurels.Leaderboards, first: int = 0, count: int = 20) -> None:
    lb.submit_many(
        "b", [(f"m{i}", 1, None, f"e{i}", {"room": "1"}) for i in range(first, first + count)]
    )


def remaining(lb: laurels.Leaderboards, after: str) -> list[Change]:
    """Return the changes of a deleted board after a cursor."""
    changes: list[Change] = []
    for page in lb.watch_changes("b", after=after, limit=7):
        changes += page
        after = page.cursor
    with pytest.raises(BoardDeleted):
        lb.changes("b", after=after)
    return changes


def kinds(changes: list[Change]) -> list[str]:
    return [change.kind for change in changes]


ENDED = ["event"] * 20 + ["delete"]


def test_a_process_that_knows_the_board_learns_of_its_deletion(
    opened: Open, board: laurels.Board
) -> None:
    one, two, three = opened(), opened(), opened()
    one.create(board)
    after = one.changes("b").cursor
    for lb in (two, three):
        assert lb.changes("b").cursor == after
    submit(two)
    seen = three.changed_boards()
    one.delete("b")
    assert kinds(remaining(two, after)) == ENDED
    assert three.changed_boards(seen.cursor).boards == ["b"]
    assert kinds(remaining(three, after)) == ENDED
    with pytest.raises(UnknownBoard):
        submit(three)
    one.create(board)
    submit(one, 0, 3)
    for lb in (two, three, one):
        assert kinds(remaining(lb, after)) == ENDED
        assert kinds(list(lb.changes("b"))) == ["create"] + ["event"] * 3


def test_a_position_goes_to_the_board_of_its_cursor(opened: Open, board: laurels.Board) -> None:
    """The processes that store the positions do not know yet that the board was deleted, and that a
    new board has its name."""
    one, two, three = opened(), opened(), opened()
    one.create(board)
    after = one.changes("b").cursor
    two.submit_many("b", [], position=("sink:s", after))
    submit(three)
    one.delete("b")
    one.create(board)
    end = one.changes("b", after=after, limit=100).cursor
    three.submit_many("b", [], position=("sink:t", end))
    for _ in range(2):
        two.submit_many("b", [], position=("sink:s", end, after))
    for sink in ("sink:s", "sink:t"):
        assert one.position("b", sink) is None
        assert [each.position for each in one.deleted_boards(sink)] == [end]


class KilledError(Exception):
    """Raised in place of the death of a process. No call is repeated after it."""


@pytest.mark.parametrize("index", [ShardedIndex, RedisIndex])
@pytest.mark.parametrize("step", range(4))
def test_a_process_that_fails_in_a_deletion_leaves_the_rest_to_others(
    opened: Open, board: laurels.Board, index: Any, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = opened(), opened(), opened()
    one.create(board)
    after = one.changes("b").cursor
    submit(one)
    one.submit_many("b", [], position=("sink:s", after))
    submit(two, 0, 1)
    calls = 0

    def failing(verb: Any) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > step:
                raise KilledError
            return await verb(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("end_changes", "close"):
            patch.setattr(index, name, failing(getattr(index, name)))
        with suppress(KilledError):
            one.delete("b")
    two.deleted_boards()
    ends = ["event"] * 20 + ["position", "delete"]
    for lb in (two, three, one):
        assert sorted(kinds(remaining(lb, after))) == sorted(ends)
        assert kinds(remaining(lb, after))[-1] == "delete"
        assert [each.position for each in lb.deleted_boards("sink:s")] == [after]
        with pytest.raises(UnknownBoard):
            submit(lb)
    two.create(board)
    assert kinds(list(three.changes("b"))) == ["create"]


def test_a_process_with_an_outdated_copy_cannot_bring_the_board_back(
    opened: Open, board: laurels.Board, server: Server
) -> None:
    one, two = opened(), opened()
    one.create(board)
    after = one.changes("b").cursor
    submit(two)
    store = remote(two)
    state = store.named("b")
    one.delete("b")
    before = remaining(one, after)
    store.run(store._catalog.index.open(opened_as(state)))
    keys = server.call("KEYS", f"*{{{state.number}.*}}:m")
    assert keys
    assert all(server.call("HGET", key, "ver") is None for key in keys)
    store.run(store._catalog.deletions.close(opened_as(state)))
    assert remaining(one, after) == before


def test_a_process_with_an_outdated_copy_removes_no_changes(
    opened: Open, board: laurels.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that deletes the board is killed before it has ended the changes. Then the
    process with the outdated copy removes the board's data, except the changes."""
    one, two = opened(), opened()
    one.create(board)
    after = one.changes("b").cursor
    submit(two)
    state = remote(two).named("b")
    with monkeypatch.context() as patch:
        patch.setattr(ShardedIndex, "end_changes", _killed)
        with pytest.raises(KilledError):
            one.delete("b")
    store = remote(two)
    store.run(store._catalog.deletions.close(opened_as(state)))
    assert kinds(remaining(one, after)) == ENDED


async def _killed(*_arguments: Any) -> None:
    raise KilledError


def test_nothing_is_left_when_the_changes_have_expired(
    opened: Open, board: laurels.Board, server: Server, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    one.create(laurels.Board("stays"))
    kept = {*server.call("KEYS", "*")}
    one.create(board)
    after = one.changes("b").cursor
    submit(one)
    one.submit_many("b", [], position=("sink:s", after))
    one.delete("b")
    assert kinds(remaining(two, after))[-1] == "delete"
    clock.advance(HOUR)
    assert one.deleted_boards() == []
    with pytest.raises(UnknownBoard):
        two.changes("b", after=after)
    remote(one).work(100)
    left = {key for key in server.call("KEYS", "*") if b":a:" not in key} - kept
    hints = {b"c", b"cn", b"cf", b"n", b"f"}
    assert {key.rpartition(b":")[2] for key in left} <= hints


def test_keys_of_a_deleted_board_expire_by_themselves(server: Server) -> None:
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", changes="1h", shards=2))
        lb.submit_many("b", [(f"m{i}", 1) for i in range(50)])
        lb.submit_many("b", [], position=("sink:s", lb.changes("b").cursor))
        lb.delete("b")
    # skip the keys of definitions, and of answers that are kept for a minute
    skipped = (b"{boards}", b":a:")
    keys = [key for key in server.call("KEYS", "*") if not any(part in key for part in skipped)]
    assert {key.rpartition(b":")[2] for key in keys} == {b"m", b"h", b"hx"}
    for key in keys:
        assert HOUR - 60_000 < server.call("PTTL", key) <= HOUR


@pytest.mark.parametrize("batches", [0, 3, *rare(1, 2, 4, 5)])
def test_acknowledged_events_come_before_the_deletion(
    opened: Open, board: laurels.Board, batches: int
) -> None:
    """Three processes submit batches, and two delete the board at once after some batches."""
    stores = [opened() for _ in range(5)]
    stores[0].create(board)
    after = stores[1].changes("b").cursor
    acknowledged: list[str] = []
    deleted: list[int] = []
    is_time = threading.Event()

    def write(number: int) -> None:
        for i in range(10_000):
            if i == batches:
                is_time.set()
            events = [(f"m{j}", 1, None, f"{number}.{i}.{j}") for j in range(9)]
            try:
                receipts = stores[number].submit_many("b", events)
            except LaurelsError:
                return
            acknowledged.extend(
                f"{number}.{i}.{j}"
                for j, receipt in enumerate(receipts)
                if receipt.status == "applied"
            )

    def delete(number: int) -> None:
        is_time.wait()
        with suppress(UnknownBoard):
            stores[number].delete("b")
            deleted.append(number)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(3)]
    threads += [threading.Thread(target=delete, args=(i,)) for i in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(deleted) == 1
    *events, last = remaining(stores[batches % 5], after)
    assert last.kind == "delete"
    ids = [change.event_id for change in events]
    assert len({*ids}) == len(ids)
    assert {*acknowledged} <= {*ids}


def test_the_oldest_of_many_deleted_boards_is_removed_early(
    opened: Open, board: laurels.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.core.changes.deleted.MAX_DELETED", 3)
    monkeypatch.setattr("laurels.stores.redis.deletions.MAX_DELETED", 3)
    lb, cursors = opened(), []
    for _ in range(5):
        lb.create(board)
        cursors.append(lb.changes("b").cursor)
        lb.delete("b")
    uids = [cursor.partition("~")[0] for cursor in cursors]
    assert [each.uid for each in lb.deleted_boards()] == uids[2:]
    with pytest.raises(UnknownBoard):
        lb.changes("b", after=cursors[0])
    assert kinds(remaining(opened(), cursors[2])) == ["delete"]
