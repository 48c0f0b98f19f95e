"""The guarantees of an index: every implementation gives the answers that plain lists of entries
give."""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from laurels.core.index import Index, Outcome
from laurels.core.plan import plan_batch
from laurels.core.ranking_key import RankingKey
from laurels.model.batch import Batch, batch_of
from laurels.model.board import Board, Column
from laurels.model.event import EventReader
from laurels.stores.local.index.memory import MemoryIndex
from laurels.timeline.instants import MIN_MS

MAKERS: dict[str, Callable[[], Index]] = {"memory": lambda: MemoryIndex(seed=7)}
BOARD = Board("b", columns=[Column(max=1_000)], windows=["all", "day"], rank="competition")
RULES = BOARD.rules()
KEY = RankingKey(1, "all", MIN_MS)
NOW = 1_795_219_200_000


@pytest.fixture(params=MAKERS)
def index(request: pytest.FixtureRequest) -> Iterator[Index]:
    made = MAKERS[request.param]()
    made.open_board(1, RULES)
    yield made
    made.check()


def _batch(*events: tuple[object, ...], now: int = NOW, atomic: bool = False) -> Batch:
    return batch_of(EventReader(RULES).gather(events), 1, now, atomic=atomic)


def _apply(index: Index, batch: Batch, watch: int | None = None) -> list[Outcome]:
    outcomes = index.apply(batch, plan_batch(RULES, {}, batch), watch)
    return [Outcome(code) for code in outcomes.codes]


def test_an_unknown_ranking_is_empty(index: Index) -> None:
    assert index.size(KEY) == 0
    assert index.slice(KEY, 0, 10).members == []
    assert index.position(KEY, b"ann") == -1
    assert list(index.ranks(KEY, [b"ann"])) == [-1]
    assert list(index.locate(KEY, ["ann"]).positions) == [-1]
    assert index.bound(KEY, (0,), right=True) == 0
    assert index.keys(1) == []
    assert not index.remove(1, b"ann")


def test_all_lookups_of_an_entry_agree(index: Index) -> None:
    random = Random(3)
    totals: dict[str, int] = {}
    for _ in range(40):
        events = [(f"m{random.randrange(60)}", random.randrange(-5, 9)) for _ in range(20)]
        assert set(_apply(index, _batch(*events))) <= {Outcome.APPLIED, Outcome.UNCHANGED}
        for member, value in events:
            totals[member] = totals.get(member, 0) + value
    # Every event has the same `at`, so the member id decides between equal scores.
    order = sorted(totals, key=lambda member: (-totals[member], member))
    better = [sum(totals[other] > totals[member] for other in order) for member in order]
    part = index.slice(KEY, 0, len(order) + 5)
    assert (part.start, part.members) == (0, order)
    assert list(part.ranks) == better
    assert list(part.words[0]) == [-totals[member] for member in order]
    assert index.slice(KEY, 5, 8).members == order[5:8]
    assert list(index.ranks(KEY, [member.encode() for member in order])) == better
    assert [index.position(KEY, member.encode()) for member in order] == list(range(len(order)))
    friends = [order[7], "nobody", order[2]]
    assert list(index.locate(KEY, friends).positions) == [7, -1, 2]
    for low in range(-10, 10):
        assert index.bound(KEY, (-low,), right=False) == sum(t > low for t in totals.values())
        assert index.bound(KEY, (-low,), right=True) == sum(t >= low for t in totals.values())


def test_an_event_counts_in_all_its_windows_or_in_none(index: Index) -> None:
    yesterday = NOW - 86_400_000
    _apply(index, _batch(("ann", 900), now=yesterday))
    assert _apply(index, _batch(("ann", 200))) == [Outcome.OUT_OF_RANGE]
    assert index.keys(1) == [KEY, RankingKey(1, "day", yesterday)]
    assert index.slice(KEY, 0, 1).words[0] == [-900]


def test_an_id_counts_once_and_a_refused_event_does_not_use_it_up(index: Index) -> None:
    batch = _batch(("ann", 2_000, None, "x"), ("ann", 1, None, "x"), ("ann", 1, None, "x"))
    expected = [Outcome.OUT_OF_RANGE, Outcome.APPLIED, Outcome.DUPLICATE]
    assert _apply(index, batch) == expected
    assert index.remembered(1, NOW) == 1
    assert index.ids(1) == [(b"\x03annx", NOW)]


def test_a_refused_all_or_nothing_batch_is_rolled_back(index: Index) -> None:
    _apply(index, _batch(("ann", 5), ("bob", 3)))
    before = index.slice(KEY, 0, 10)
    batch = _batch(("ann", 1, None, "x"), ("cid", 1), ("bob", 2_000), atomic=True)
    assert _apply(index, batch) == [
        Outcome.ROLLED_BACK,
        Outcome.ROLLED_BACK,
        Outcome.OUT_OF_RANGE,
    ]
    assert index.slice(KEY, 0, 10) == before
    assert index.ids(1) == []


def test_scores_of_the_watched_window_are_reported_before_and_after(index: Index) -> None:
    batch = _batch(("ann", 5), ("ann", 3))
    outcomes = index.apply(batch, plan_batch(RULES, {}, batch), 0)
    assert outcomes.before is not None
    assert outcomes.after is not None
    assert list(outcomes.before.present) == [0, 1]
    assert outcomes.before.words[0][1] == -5
    assert list(outcomes.after.present) == [1, 1]
    assert list(outcomes.after.words[0]) == [-5, -8]


def test_dropped_rankings_removed_members_and_closed_boards_are_gone(index: Index) -> None:
    _apply(index, _batch(("ann", 5), ("bob", 3)))
    index.set_data(1, b"ann", b"{}")
    assert index.data(1, ["ann", "bob"]) == [b"{}", None]
    day = next(key for key in index.keys(1) if key.window == "day")
    index.drop([day])
    assert index.keys(1) == [KEY]
    assert index.remove(1, b"ann")
    assert index.data(1, ["ann"]) == [None]
    assert index.slice(KEY, 0, 10).members == ["bob"]
    index.remove(1, b"bob")
    assert index.keys(1) == []
    index.close_board(1)
    index.open_board(2, RULES)
    assert index.keys(2) == []
