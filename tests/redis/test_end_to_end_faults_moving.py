"""The slot of a board moves to another node of a cluster, key by key, while clients write."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import TypeVar

import pytest

import laurels
from laurels.errors.index_server import IndexMoving, IndexUnavailable
from laurels.stores.redis.index.calls import ShardCalls
from tests.conftest import Scaled
from tests.contract.heads import bounds

from .cluster import Cluster
from .heads import SIZES
from .servers import Server, until
from .writing import BOARD, Writers, counted, opened, patient

WINDOWS = ["all", "day", "r=rolling:10s/1s"]
T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def key_of(lb: laurels.Leaderboards, name: str) -> bytes:
    """Create a board and return its first key. Boards are numbered from 1 in the order in which
    they are created."""
    lb.create(laurels.Board(name, windows=WINDOWS))
    return b"laurels:{%d.0}:m" % len(lb.boards())


def way(cluster: Cluster, key: bytes) -> tuple[int, Server, Server]:
    """Return the slot of a key, the node that owns it, and another node."""
    source = cluster.owner_of(key)
    return cluster.slot_of(key), source, next(n for n in cluster.primaries if n is not source)


def move(cluster: Cluster, key: bytes, pause: float = 0.0, order: int = 0) -> None:
    """Move a slot key by key, in a random order whose seed is `order`."""
    slot, source, target = way(cluster, key)
    cluster.begin_migration(slot, source, target)
    keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, 1_000)
    Random(order).shuffle(keys)
    for key in keys:
        time.sleep(pause)
        source.call("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)
    while cluster.move_keys(slot, source, target):
        pass
    cluster.end_migration(slot, target)


def test_writes_wait_for_a_short_move(cluster: Cluster) -> None:
    with patient(), opened(cluster.url) as lb:
        key = key_of(lb, "short")
        with Writers(lb, "short") as writers:
            for order in range(4):
                writers.wait_for_more()
                move(cluster, key, 0.02, order)
            writers.wait_for_more()
        writers.check()
        assert not writers.refused
        lb.check()
        assert lb.top("short", window="day").total == len(counted(lb, "short"))


def test_during_a_long_move_whole_calls_are_refused(cluster: Cluster) -> None:
    with opened(cluster.url) as lb:
        key = key_of(lb, "long")
        slot, source, target = way(cluster, key)
        with Writers(lb, "long") as writers:
            writers.wait_for_more()
            cluster.begin_migration(slot, source, target)
            source.call("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)
            with pytest.raises(IndexMoving) as caught:
                lb.top("long")
            assert caught.value.code == "index_moving"
            lb.submit(BOARD, "elsewhere", 1)
            until(lambda: writers.refused, "a writer is refused")
            while cluster.move_keys(slot, source, target, 1):
                pass
            cluster.end_migration(slot, target)
            writers.wait_for_more()
        writers.check()
        assert set(writers.refused) == {"index_moving"}
        assert not writers.doubtful
        lb.check()


def test_whole_batches_are_counted_while_their_slot_moves(cluster: Cluster, scaled: Scaled) -> None:
    """The values of each batch add up to 0. If only a part of a batch were counted, the total would
    not be 0."""
    with opened(cluster.url) as lb:
        key = key_of(lb, "pairs")
        rng, acknowledged, refused = Random(1), Counter[str](), 0
        doubtful: list[tuple[str, str]] = []
        for order in range(scaled(1, 6)):
            moving = threading.Thread(target=move, args=(cluster, key, 0.25, order))
            moving.start()
            while moving.is_alive() or not acknowledged:
                one, other = rng.sample("abcdefgh", 2)
                try:
                    lb.submit_many("pairs", [(one, 3), (other, -3)])
                    acknowledged.update({one: 3, other: -3})
                except IndexUnavailable as error:
                    refused += 1
                    if error.may_have_applied:
                        doubtful.append((one, other))
            moving.join()
        assert refused
        left = Counter(counted(lb, "pairs"))
        left.subtract(acknowledged)
        assert is_made_of(left, doubtful), (left, doubtful)
        lb.check()


def test_scopes_agree_with_the_scope_of_all_events_while_their_slot_moves(
    cluster: Cluster, scaled: Scaled
) -> None:
    """The values of each batch add up to 0, in all rooms together and in each room. The scores of a
    member in all rooms add up to its score in the scope of all events."""
    rooms = ["1", "2", "3"]
    with opened(cluster.url) as lb:
        scopes: list[list[str]] = [[], ["room"]]
        lb.create(laurels.Board("rooms", windows=WINDOWS, scopes=scopes, rank_by="room"))
        key = b"laurels:{%d.0}:m" % len(lb.boards())
        rng = Random(2)

        def give(room_of: str) -> None:
            one, other = rng.sample("abcdefgh", 2)
            room = {"room": room_of}
            lb.submit_many("rooms", [(one, 3, None, None, room), (other, -3, None, None, room)])

        for room_of in rooms:
            give(room_of)
        for order in range(scaled(1, 6)):
            moving = threading.Thread(target=move, args=(cluster, key, 0.05, order))
            moving.start()
            while moving.is_alive():
                with suppress(IndexUnavailable):
                    give(rng.choice(rooms))
            moving.join()
        in_rooms: Counter[str] = Counter()
        for room_of in rooms:
            entries = lb.top("rooms", labels={"room": room_of}).entries
            assert sum(int(str(entry.score)) for entry in entries) == 0
            in_rooms.update({entry.member: int(str(entry.score)) for entry in entries})
        assert in_rooms == Counter(counted(lb, "rooms"))
        assert {int(str(entry.score)) for entry in lb.top("rooms", by="room").entries} == {0}
        assert lb.scopes("rooms", "room") == [{"room": room_of} for room_of in rooms]
        lb.check()


def test_ranks_on_a_board_with_a_head_are_within_their_bounds_while_a_slot_moves(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board has three shards. The slot of one of them moves, with all its buckets. A call that is
    refused is repeated, which has no further effect, since the column keeps the last value."""
    monkeypatch.setattr(ShardCalls, "head_sizes", SIZES)
    rng, score = Random(3), dict[str, int]()
    with opened(cluster.url) as lb:
        columns = [laurels.Column("score", op="last")]
        lb.create(laurels.Board("heads", columns=columns, tie="member", head=100, shards=3))
        key = b"laurels:{%d.1}:m" % len(lb.boards())

        def repeated(call: Callable[[], T]) -> T:
            while True:
                with suppress(IndexUnavailable):
                    return call()

        def submit(members: list[str]) -> None:
            score.update({member: rng.randrange(5_000) for member in members})
            events = [(member, score[member]) for member in members]
            repeated(lambda: lb.submit_many("heads", events))

        def check() -> None:
            order = sorted(score, key=lambda member: (-score[member], member))
            ranks = repeated(lambda: lb.ranks("heads", order))
            for i, rank in enumerate(ranks, 1):
                low, high = bounds(rank)
                assert low <= i <= high
            page = repeated(lambda: lb.top("heads", limit=100))
            assert [entry.member for entry in page] == order[: page.certain]

        everybody = [f"m{i}" for i in range(900)]
        submit(everybody)
        moving = threading.Thread(target=move, args=(cluster, key, 0.02))
        moving.start()
        while moving.is_alive():
            submit(rng.sample(everybody, 40))
            check()
        moving.join()
        submit(everybody)
        check()
        lb.check()


def is_made_of(left: Counter[str], pairs: list[tuple[str, str]]) -> bool:
    """Return whether the total is the sum of some of these batches, each counted at most once."""
    if not pairs:
        return not any(left.values())
    (one, other), rest = pairs[0], pairs[1:]
    without = left.copy()
    without.subtract({one: 3, other: -3})
    return is_made_of(left, rest) or is_made_of(without, rest)


def test_the_slot_of_the_definitions_can_move(cluster: Cluster) -> None:
    with patient(), opened(cluster.url) as lb:
        key = b"laurels:{boards}:d"
        with Writers(lb, name="d") as writers:
            writers.wait_for_more()
            move(cluster, key, 0.1)
            writers.wait_for_more()
        assert not writers.refused
        lb.create(laurels.Board("afterwards"))
        with opened(cluster.url) as other:
            assert [b.name for b in other.boards()] == [b.name for b in lb.boards()]
