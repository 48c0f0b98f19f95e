"""Changes, ledgers and copies of boards with a head are complete. They begin with all current
entries, which are read while members move between buckets and writes continue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels import config
from laurels.core.changes.beginning import InitialCursor
from laurels.core.changes.current_entries import WALK
from laurels.errors import InvalidCursor
from laurels.flows.copying.copying import copy_board
from laurels.flows.ledger.reconcile import BoardReconciler
from laurels.sql.databases import dialect_of
from laurels.stores.redis import record_writes
from laurels.stores.redis.index import contents
from laurels.stores.redis.index.calls import ShardCalls
from tests.changes import all_changes, assert_changes
from tests.contract.heads import Pair
from tests.counts import covering
from tests.definitions import ColumnDef, Definition
from tests.flows.sinking import ledger, sent
from tests.internals import copies_of, remote

from .servers import Server
from .test_head_shards import LAYOUTS, SIZES, Crowd

HEAD = 100


@pytest.fixture(autouse=True)
def _small_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardCalls, "head_sizes", SIZES)


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?prefix={abs(hash(request.node.name))}:"


@pytest.fixture
def lb(url: str, clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    with config.direct(url, clock) as opened:
        yield opened


def definition_of(layout: str, shards: int, **fields: Any) -> Definition:
    columns, tie = LAYOUTS[layout]
    return Definition("b", columns, tie, head=HEAD, shards=shards, changes="1d", **fields)


def scores(pair: Pair) -> dict[str, Any]:
    """Return the score of every member, as laurels returns scores."""
    return {
        place.member: place.score if len(place.score) > 1 else place.score[0]
        for place in pair.places()
    }


@pytest.mark.parametrize(("layout", "shards"), covering([*LAYOUTS], [1, 3]))
def test_current_entries_are_followed_by_the_changes_during_the_load(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, layout: str, shards: int
) -> None:
    rng = Random(f"{layout} {shards}")
    pair = Pair(lb, clock, definition_of(layout, shards))
    crowd = Crowd(pair, "wide", rng, 700)
    crowd.step(500)
    applied: dict[str, Any] = {}
    page = lb.changes("b", initial=True, limit=30)
    while True:
        for change in page:
            if change.kind == "remove":
                applied.pop(str(change.member), None)
            for ranking in change.rankings:
                applied[str(change.member)] = ranking.score
        if not page.more:
            break
        if page.changes and page[-1].kind == "initial":
            crowd.step(40)  # new members divide buckets
            remote(lb).work(50)
        page = lb.changes("b", after=page.cursor, limit=30)
    assert applied == scores(pair)


@pytest.mark.parametrize("shards", [1, 3])
def test_each_member_is_loaded_once_while_buckets_are_divided(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, shards: int
) -> None:
    pair = Pair(lb, clock, definition_of("prefixed", shards))
    pair.submit([(f"m{i}", i, clock.now_ms()) for i in range(200)])
    seen, number = Counter[str](), 1_000
    page = lb.changes("b", initial=True, limit=10)
    while page[-1].kind == "initial":
        seen.update(str(change.member) for change in page)
        pair.submit([(f"n{number + i}", i, clock.now_ms()) for i in range(10)])
        number += 10
        page = lb.changes("b", after=page.cursor, limit=10)
    assert set(seen.values()) == {1}
    assert seen.keys() >= {f"m{i}" for i in range(200)}


@pytest.mark.parametrize("shards", [1, 3])
def test_changes_agree_with_the_oracle(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, shards: int
) -> None:
    pair = Pair(lb, clock, definition_of("two columns", shards))
    crowd = Crowd(pair, "the best are removed", Random(shards), 500)
    for size in (500, 60, 1, 200, 60):
        crowd.step(size)
        remote(lb).work(100)
    assert_changes(lb, pair.oracle, "b", limit=1_000)


@pytest.mark.parametrize("shards", [1, 3])
def test_entries_are_complete_while_a_head_is_added_and_removed(
    lb: laurels.Leaderboards,
    clock: laurels.ManualClock,
    shards: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The entries are read while only a part of the members has been moved into the layout that the
    changed head requires."""
    monkeypatch.setattr(record_writes, "MAX_MEMBERS", 60)
    pair = Pair(lb, clock, definition_of("packed", shards))
    pair.change(0)
    crowd = Crowd(pair, "wide", Random(3), 900)
    crowd.step(900)
    for head in (HEAD, 0):
        pair.change(head)
        changes = list(all_changes(lb, "b", limit=50, initial=True))
        assert changes.pop().kind == "initial_end"
        assert {change.member: change.rankings[0].score for change in changes} == scores(pair)
        crowd.step(30)  # after the members were moved, the head is trimmed


@pytest.mark.parametrize("shards", [1, 3])
def test_a_board_whose_members_are_being_moved_is_copied(
    lb: laurels.Leaderboards,
    server: Server,
    clock: laurels.ManualClock,
    shards: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_writes, "MAX_MEMBERS", 60)
    monkeypatch.setattr(contents, "_MOVE_LIMIT", 50)
    pair = Pair(lb, clock, definition_of("prefixed", shards))
    pair.change(0)
    Crowd(pair, "wide", Random(4), 900).step(900)
    pair.change(HEAD)
    with config.direct(f"{server.url}?prefix=copy{shards}:", clock) as target:
        done = copy_board(copies_of(lb), copies_of(target), "b")
        assert done.compared.differences == []
        assert done.compared.entries == len(pair.places())
        pair.lb = target
        pair.check(Random(5))


@pytest.mark.parametrize("cursor", ["x", "7", "9:0", "-1:0", "0:x", "0:4294967297", "²:0"])
def test_an_invalid_cursor_is_refused(lb: laurels.Leaderboards, cursor: str) -> None:
    lb.create(laurels.Board("b", head=HEAD, changes="1h", shards=3))
    lb.submit("b", "ann", 1)
    begun = lb.changes("b", after="now").cursor
    forged = InitialCursor(begun, 0, None, "", WALK + cursor).encode()
    with pytest.raises(InvalidCursor):
        lb.changes("b", after=forged)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_ledger_has_the_same_scores_as_the_board(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock, tmp_path: Path, shards: int
) -> None:
    """The sink begins from the current entries, and continues with changes."""
    to = f"sqlite:///{tmp_path}/ledger.db"
    columns = (ColumnDef(),)
    pair = Pair(lb, clock, Definition("b", columns, head=HEAD, shards=shards, changes="1d"))
    crowd = Crowd(pair, "the best are removed", Random(shards), 600)

    async def send() -> None:
        async with await laurels.open_async(url, clock=clock) as own:
            await sent(own, to)

    async def compare() -> tuple[int, int]:
        async with await laurels.open_async(url, clock=clock) as own:
            done = await BoardReconciler(own, *dialect_of(to), None).run("b")
            return done.differing, done.waiting

    for size in (600, 50, 1, 200):
        crowd.step(size)
        asyncio.run(send())
        stored = ledger(to, lb.get("b"))
        assert stored == {
            ("all", "", ""): {member: (score,) for member, score in scores(pair).items()}
        }
    assert asyncio.run(compare()) == (0, 0)
