"""A batch for several shards counts once, even if something fails between the calls to the
shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import laurels
from laurels import config
from laurels.errors import AtomicAcrossShards, LaurelsError, PartlyCounted, PositionDiffers
from laurels.errors.index_server import IndexDenied, IndexUnavailable
from laurels.stores.redis import retry
from laurels.stores.redis.outdated import DefinitionOutdated, PlanExpired, StepNotReady
from laurels.stores.redis.remote import Opened, opened_as
from laurels.stores.redis.sharding.sharded import ShardedIndex
from laurels.stores.redis.sharding.shards import shard_of
from tests.comparison import everything
from tests.redis.conftest import NOW
from tests.redis.servers import Server

SHARDS = 3
MEMBERS = [f"m{i}" for i in range(12)]


class Failing:
    """An index that raises an error in the calls of `apply` and `set_position` for some shards."""

    def __init__(self, index: Any, failure: Callable[[Opened], Exception | None]) -> None:
        self._index = index
        self.failure = failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    async def apply(self, board: Opened, *args: Any, **more: Any) -> Any:
        if (error := self.failure(board)) is not None:
            raise error
        return await self._index.apply(board, *args, **more)

    async def set_position(self, board: Opened, *args: Any) -> None:
        if (error := self.failure(board)) is not None:
            raise error
        await self._index.set_position(board, *args)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "REPEATS_SECONDS", 0.2)


@pytest.fixture
def lb(server: Server, request: pytest.FixtureRequest) -> Iterator[laurels.Leaderboards]:
    clock = laurels.ManualClock(NOW)
    with config.direct(f"{server.url}?prefix={abs(hash(request.node.name))}:", clock) as opened:
        opened.create(laurels.Board("b", windows=["all", "day"], shards=SHARDS, dedupe_max=40))
        yield opened


def failing(lb: laurels.Leaderboards, failure: Callable[[Opened], Exception | None]) -> None:
    """From now on, let the calls to a shard fail if `failure` returns an error for that shard."""
    catalog: Any = lb._store._catalog  # type: ignore[attr-defined]
    catalog.index = ShardedIndex(Failing(catalog.index._index, failure))


def healed(lb: laurels.Leaderboards) -> None:
    catalog: Any = lb._store._catalog  # type: ignore[attr-defined]
    catalog.index = ShardedIndex(catalog.index._index._index)


def members_of(shard: int) -> list[str]:
    return [member for member in MEMBERS if shard_of(member.encode(), SHARDS) == shard]


def scores(lb: laurels.Leaderboards) -> dict[str, object]:
    return {entry.member: entry.score for entry in lb.top("b", limit=100).entries}


@pytest.mark.parametrize("seed", range(6))
def test_events_that_a_shard_refuses_at_first_count_once(
    lb: laurels.Leaderboards, seed: int
) -> None:
    rng = Random(seed)

    def refusal(_: Opened) -> Exception | None:
        shard_errors = [DefinitionOutdated(), PlanExpired(NOW), StepNotReady(), None, None, None]
        return rng.choice(shard_errors)

    with laurels.open("memory:", clock=laurels.ManualClock(NOW)) as plain:
        plain.create(laurels.Board("b", windows=["all", "day"], dedupe_max=40))
        failing(lb, refusal)
        for number in range(12):
            events: list[tuple[object, ...]] = []
            for _ in range(rng.randint(1, 30)):
                late_ms = rng.choice([0, 0, 40 * 3_600_000])
                id = rng.choice([None, None, "x", "y", "z", "u", "v"])
                value = rng.choice([1, 2, -3, 2**53 - 1])
                events.append((rng.choice(MEMBERS), value, NOW - late_ms, id))
            wanted = plain.submit_many("b", events)
            position = ("file", str(number)) if rng.random() < 0.5 else None
            got = lb.submit_many("b", events, position=position)
            without = [
                [
                    (r.member, r.status, r.score, r.previous_score, r.reason, r.refused_windows)
                    for r in receipts
                ]
                for receipts in (got, wanted)
            ]
            assert without[0] == without[1]
            assert (got.applied, got.late) == (wanted.applied, wanted.late)
            assert position is None or lb.position("b", "file") == str(number)
        assert list(lb.export("b")) == list(plain.export("b"))
        assert lb.stats("b").remembered == plain.stats("b").remembered
        lb.check()


@pytest.mark.parametrize("refusing", range(SHARDS))
def test_a_label_has_the_last_value_of_a_call_that_a_shard_refused_at_first(
    lb: laurels.Leaderboards, refusing: int
) -> None:
    shard_errors: list[Exception] = [StepNotReady()]

    def refusal(board: Opened) -> Exception | None:
        return shard_errors.pop() if shard_errors and board.shard == refusing else None

    columns = [laurels.Column("level", op="last")]
    lb.create(laurels.Board("levels", columns=columns, rank_by=["room"], shards=SHARDS))
    lb.submit_many("levels", [(member, 0, NOW, None, {"room": "a"}) for member in MEMBERS])
    failing(lb, refusal)
    others = [member for shard in range(SHARDS - 1) for member in members_of(shard)[:2]]
    events = [*others, members_of(SHARDS - 1)[0]]
    lb.submit_many(
        "levels", [(member, i, NOW, None, {"room": "a"}) for i, member in enumerate(events)]
    )
    assert not shard_errors
    assert [entry.score for entry in lb.top("levels", by="room").entries] == [len(events) - 1]


@pytest.mark.parametrize(
    "error", [IndexUnavailable("gone"), IndexDenied("no")], ids=["unavailable", "denied"]
)
def test_a_failing_shard_raises_partly_counted(
    lb: laurels.Leaderboards, error: LaurelsError
) -> None:
    def failure(board: Opened) -> Exception | None:
        return error if board.shard == 1 else None

    failing(lb, failure)
    events = [(member, 1, None, "once") for member in MEMBERS]
    with pytest.raises(PartlyCounted):
        lb.submit_many("b", events)
    with pytest.raises(type(error)):
        lb.submit_many("b", [(members_of(1)[0], 1)])
    healed(lb)
    assert scores(lb).keys() == {*members_of(0), *members_of(2)}
    counted = lb.submit_many("b", events)
    assert counted.applied == len(members_of(1))
    assert scores(lb) == dict.fromkeys(MEMBERS, 1)


@pytest.mark.parametrize("broken", range(SHARDS))
def test_an_interrupted_import_counts_each_event_once(
    lb: laurels.Leaderboards, broken: int
) -> None:
    def failure(board: Opened) -> Exception | None:
        return IndexUnavailable("gone") if board.shard == broken else None

    lb.submit_many("b", [(member, 1) for member in MEMBERS], position=("file", "1"))
    failing(lb, failure)
    with pytest.raises(PartlyCounted):
        lb.submit_many("b", [(member, 2) for member in MEMBERS], position=("file", "2"))
    healed(lb)
    assert lb.position("b", "file") == "1"
    with pytest.raises(PositionDiffers):
        lb.submit_many("b", [(member, 2) for member in MEMBERS[:5]], position=("file", "1.5"))
    with pytest.raises(PositionDiffers) as bare:
        lb.submit_many("b", [], position=("file", "1.5"))
    assert bare.value.ends_at == "2"
    counted = lb.submit_many("b", [(member, 2) for member in MEMBERS], position=("file", "2"))
    assert counted.applied + counted.duplicates == len(MEMBERS)
    assert (lb.position("b", "file"), scores(lb)) == ("2", dict.fromkeys(MEMBERS, 3))
    for position in ("1", "2", "1", "2", "2"):
        lb.submit_many("b", [(member, 1) for member in MEMBERS[:2]], position=("file", position))
    assert scores(lb)[MEMBERS[0]] == 8
    lb.submit_many("b", [], position=("file", "1"))
    assert lb.position("b", "file") == "1"
    lb.submit_many("b", [(MEMBERS[0], 1)], position=("file", "2"))
    assert scores(lb)[MEMBERS[0]] == 9


def test_claims_are_not_listed_as_positions(lb: laurels.Leaderboards) -> None:
    store: Any = lb._store
    for i in range(20):
        lb.submit_many("b", [(MEMBERS[i % 12], 1)], position=(f"s{i}", "1", None))
    opened = opened_as(store._catalog.boards.named("b"))
    assert store.run(store._catalog.index.positions(opened)) == {f"s{i}": "1" for i in range(20)}


def test_an_all_or_nothing_batch_needs_one_shard(lb: laurels.Leaderboards) -> None:
    before = everything(lb)
    with pytest.raises(AtomicAcrossShards):
        lb.submit_many("b", [(member, 1) for member in MEMBERS], all_or_nothing=True)
    assert everything(lb) == before
    own = [(member, 1) for member in members_of(2)]
    bad = (members_of(2)[0], 2**53 - 1)
    with pytest.raises(laurels.errors.BatchRefused):
        lb.submit_many("b", [*own, bad], all_or_nothing=True, position=("file", "1"))
    assert (everything(lb), lb.position("b", "file")) == (before, None)
    assert lb.submit_many("b", own, all_or_nothing=True, position=("file", "1")).applied == len(own)
    assert lb.position("b", "file") == "1"


def test_at_most_dedupe_max_ids_are_remembered(lb: laurels.Leaderboards) -> None:
    events = [(MEMBERS[i % 12], 1, None, f"id{i}") for i in range(30)]
    assert lb.submit_many("b", events).applied == 30
    more = [(MEMBERS[i % 12], 1, None, f"id{i}") for i in range(25, 50)]
    counted = lb.submit_many("b", more)
    expected = ["duplicate"] * 5 + ["applied"] * 10 + ["refused"] * 10
    assert [receipt.status for receipt in counted] == expected
    assert lb.stats("b").remembered == 40
    with pytest.raises(laurels.errors.DedupeFull):
        lb.submit("b", "new", 1, id="x")
