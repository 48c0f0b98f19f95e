"""Boards with a head in several shards, whose passes refill the heads and make new grids. After any
change and at any stage of a pass, the rank of every member is within the returned bounds, and lists
are right as far as they are certain."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels import config
from laurels.stores.redis.index.calls import ShardCalls
from laurels.stores.redis.index.head import HeadSizes
from laurels.stores.redis.sharding.shards import shard_of
from tests.conftest import Scaled
from tests.contract.heads import HEAD, Pair, bounds
from tests.counts import some
from tests.definitions import ColumnDef, Definition, Report
from tests.internals import remote

from .conftest import NOW
from .servers import Server

SIZES = HeadSizes(
    slack=16, capacity=8, sample=200, edges=128, step=0.05, width=0.2, least=8, trims=30
)
LAYOUTS = {
    "plain": ((ColumnDef(op="last", min=-(1 << 40), max=1 << 40),), "member"),
    "packed": ((ColumnDef(op="last", min=0, max=2_000),), "first"),
    "prefixed": ((ColumnDef(op="last"),), "last"),
    "two columns": ((ColumnDef("level", op="last"), ColumnDef("xp", op="last")), "first"),
}
WAYS = (
    "one shard has the best",
    "one score for half",
    "all rise",
    "all fall",
    "two scores",
    "the best are removed",
    "wide",
    "nearly all are zero",
)


@pytest.fixture(autouse=True)
def _small_heads(monkeypatch: pytest.MonkeyPatch, scaled: Scaled) -> None:
    monkeypatch.setattr(ShardCalls, "head_sizes", SIZES)
    monkeypatch.setattr(Pair, "sampled", scaled(3, 8))


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?prefix={abs(hash(request.node.name))}:"


@pytest.fixture
def lb(url: str, clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    with config.direct(url, clock) as opened:
        yield opened


class Crowd:
    """Members of a board in several shards, whose scores change in a way that is difficult for the
    layout."""

    def __init__(self, pair: Pair, way: str, rng: Random, members: int) -> None:
        self.pair, self.way, self.rng = pair, way, rng
        self.members = [f"m{i}" for i in range(members)]
        self.steps = 0

    def step(self, size: int) -> None:
        """Submit a batch of events, and remove some members."""
        rng, pair = self.rng, self.pair
        self.steps += 1
        if self.way == "the best are removed" and self.steps % 2 == 0:
            for place in pair.places()[: rng.randrange(1, 40)]:
                pair.remove(place.member)
        some = rng.sample(self.members, size)
        pair.submit([(member, self._value(member), pair.clock.now_ms()) for member in some])
        for member in rng.sample(some, size // 20):
            pair.remove(member)
        pair.clock.advance(rng.randrange(5))

    def _value(self, member: str) -> tuple[int, ...]:
        columns = self.pair.definition.columns
        rest = [self.rng.randrange(4) for _ in columns[1:]]
        if self.way == "nearly all are zero" and self.rng.random() < 0.8:
            return (0,) * len(columns)
        return self._score(member), *rest

    def _score(self, member: str) -> int:
        rng = self.rng
        match self.way:
            case "one shard has the best":
                first = shard_of(member.encode(), self.pair.definition.shards) == 0
                return rng.randrange(1_000) + 1_000 * first
            case "one score for half":
                return 500 if rng.random() < 0.5 else rng.randrange(1_000)
            case "all rise":
                return 20 * self.steps + rng.randrange(50)
            case "all fall":
                return 2_000 - 20 * self.steps - rng.randrange(50)
            case "two scores":
                return rng.choice([1, 2])
            case _:
                return int(rng.lognormvariate(5, 1)) % 2_000


def check_everybody(pair: Pair) -> int:
    """Check the ranks of all members. Return how many of them are estimated."""
    places = pair.places()
    members = [place.member for place in places]
    ranks = pair.lb.ranks(pair.name, members)
    for place, rank in zip(places, ranks, strict=True):
        low, high = bounds(rank)
        assert low <= place.rank <= high, (place, rank)
    friends = pair.lb.standings(pair.name, members).entries
    assert [entry.member for entry in friends] == members
    return sum(not isinstance(rank, int) for rank in ranks)


def finish_passes(lb: laurels.Leaderboards) -> None:
    for _ in range(5_000):
        if not remote(lb).work(200)[0]:
            return
    raise AssertionError("the passes do not end")


def definition_of(layout: str, rank: str, shards: int, **fields: Any) -> Definition:
    columns, tie = LAYOUTS[layout]
    return Definition("b", columns, tie, rank=rank, head=HEAD, shards=shards, **fields)


def boards() -> list[object]:
    """Return every combination of a layout and a way in which members change, each with one value
    for every other parameter. `make test` runs the first few combinations, in which each layout and
    each way occurs."""
    return some(
        len(WAYS),
        [
            (
                [*LAYOUTS][i % len(LAYOUTS)],
                WAYS[(i + i // len(WAYS)) % len(WAYS)],
                ("ordinal", "competition")[i // len(LAYOUTS) % 2],
                (3, 2, 5)[i % 3],
                (512, 4, 4)[i // 2 % 3],
            )
            for i in range(len(LAYOUTS) * len(WAYS))
        ],
    )


@pytest.mark.parametrize(("layout", "way", "rank", "shards", "near"), boards())
def test_every_rank_is_within_its_bounds(
    lb: laurels.Leaderboards,
    clock: laurels.ManualClock,
    layout: str,
    way: str,
    rank: str,
    shards: int,
    near: int,
    scaled: Scaled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laurels.stores.redis.sharding.merging.NEAR", near)
    monkeypatch.setattr("laurels.stores.redis.sharding.merged_reads.NEAR", near)
    rng = Random(f"{layout} {way} {rank} {shards}")
    hides = way == "nearly all are zero"
    pair = Pair(lb, clock, definition_of(layout, rank, shards, hide_zero=hides))
    crowd = Crowd(pair, way, rng, 260 * shards * (4 if hides else 1))
    estimated = 0
    for step in range(scaled(3, 60)):
        crowd.step(len(crowd.members) if step == 0 else rng.choice([1, 30, 200]))
        while rng.random() < 0.5:
            remote(lb).work(rng.choice([1, 20, 100]))
        estimated += check_everybody(pair)
        if step % 4 == 0:
            pair.check(rng)
    finish_passes(lb)
    estimated += check_everybody(pair)
    pair.check(rng)
    assert estimated
    assert lb.top("b", limit=0).certain == HEAD
    lb.check()


def test_all_members_of_the_head_may_be_in_one_shard(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    pair = Pair(lb, clock, definition_of("plain", "ordinal", 3))
    crowd = Crowd(pair, "one shard has the best", Random(1), 900)
    crowd.step(900)
    finish_passes(lb)
    page = lb.top("b", limit=HEAD)
    assert {shard_of(entry.member.encode(), 3) for entry in page} == {0}
    pair.check(crowd.rng)
    for entry in page.entries[:70]:
        pair.remove(entry.member)
    certain = lb.top("b", limit=0).certain
    assert certain is not None
    assert certain < HEAD
    pair.check(crowd.rng)
    while remote(lb).work(scaled(400, 100))[0]:
        pair.check(crowd.rng)
    assert lb.top("b", limit=0).certain == HEAD


def test_a_head_can_be_added_grown_shrunk_and_removed(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    rng = Random(2)
    pair = Pair(lb, clock, definition_of("prefixed", "competition", 3))
    pair.change(0)
    crowd = Crowd(pair, "wide", rng, 900)
    crowd.step(900)
    for head in (150, 240, HEAD, 0, 120):
        pair.change(head)
        for _ in range(scaled(1, 3)):
            crowd.step(30)
            remote(lb).work(rng.choice([20, 100]))
            check_everybody(pair)
            if head:
                pair.check(rng)
    finish_passes(lb)
    pair.check(rng)


@pytest.mark.parametrize("near", [4, 512])
def test_deep_positions_of_a_long_head_are_found(
    lb: laurels.Leaderboards, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no known bound is near a position, the position is searched for in the heads of the
    shards. It is found even if one shard has all of the best members."""
    monkeypatch.setattr("laurels.stores.redis.sharding.merging.NEAR", near)
    monkeypatch.setattr("laurels.stores.redis.sharding.merged_reads.NEAR", near)
    head, members = 2_000, [f"m{i:05}" for i in range(9_000)]
    score = {
        member: i if shard_of(member.encode(), 3) else 10_000 + i
        for i, member in enumerate(members)
    }
    lb.create(laurels.Board("b", head=head, shards=3, tie="member"))
    lb.submit_many("b", [*score.items()])
    finish_passes(lb)
    order = sorted(members, key=score.__getitem__, reverse=True)
    for position in (600, 1_500, 1_993, head - 1, head):
        holder = lb.at_rank("b", position)
        assert holder is not None
        assert (holder.member, holder.rank, holder.exact) == (order[position - 1], position, True)
        page = lb.top("b", offset=position - 5, limit=10)
        assert [entry.member for entry in page] == order[position - 5 : min(head, position + 5)]
    far = lb.standing("b", order[-1], to_rank=head)
    assert far is not None
    assert not far.exact
    assert far.to_rank == laurels.Gap(head, score[order[head - 1]] - score[order[-1]])


def test_two_processes_write_and_read_the_same_board(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    rng = Random(3)
    pair = Pair(lb, clock, definition_of("packed", "ordinal", 3))
    crowd = Crowd(pair, "wide", rng, 900)
    with config.direct(url, clock) as other:
        for step in range(scaled(4, 12)):
            pair.lb = rng.choice([lb, other])
            crowd.step(900 if step == 0 else 60)
            remote(rng.choice([lb, other])).work(rng.choice([5, 100]))
            pair.lb = rng.choice([lb, other])
            check_everybody(pair)
        pair.check(rng)


def test_passes_that_become_due_by_an_event_are_begun(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    pair = Pair(lb, clock, definition_of("plain", "ordinal", 3))
    Crowd(pair, "wide", Random(6), 1_500).step(1_500)
    finish_passes(lb)
    assert not remote(lb).work(1)[0]
    now_ms = clock.now_ms()
    pair.submit([(place.member, 0, now_ms) for place in pair.places()[:500]])
    assert remote(lb).work(1)[0]


def test_passes_of_a_killed_process_are_continued(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    rng = Random(4)
    pair = Pair(lb, clock, definition_of("prefixed", "ordinal", 3))
    crowd = Crowd(pair, "the best are removed", rng, 900)
    crowd.step(900)
    child = [sys.executable, "-m", "tests.redis.child", url, "0", "sweep", str(NOW), "25"]
    for _ in range(scaled(1, 20)):
        crowd.step(200)
        with subprocess.Popen(child, cwd=Path(__file__).parents[2]) as process:
            while process.poll() is None:
                check_everybody(pair)
                crowd.step(20)
                if rng.random() < 0.1:
                    process.kill()
        pair.check(rng)
    finish_passes(lb)
    pair.check(rng)
    assert lb.top("b", limit=0).certain == HEAD


def test_receipts_have_ranks_within_their_bounds(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rng = Random(5)
    pair = Pair(lb, clock, definition_of("packed", "competition", 3))
    crowd = Crowd(pair, "wide", rng, 900)
    crowd.step(900)
    finish_passes(lb)
    estimated = 0
    for _ in range(12):
        before = {place.member: place.rank for place in pair.places()}
        events = [(member, rng.randrange(2_000)) for member in rng.sample(crowd.members, 5)]
        receipts = lb.submit_many("b", events, ranks=True)
        pair.oracle.submit_many("b", [Report(*event) for event in events])
        after = {place.member: place.rank for place in pair.places()}
        for (member, _), receipt in zip(events, receipts, strict=True):
            if member in before:
                low, high = bounds(receipt.previous_rank)
                assert low <= before[member] <= high
            low, high = bounds(receipt.rank)
            assert low <= after[member] <= high
            estimated += not isinstance(receipt.rank, int)
    assert estimated
