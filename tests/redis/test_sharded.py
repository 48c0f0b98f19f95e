"""For every kind of query, a board in several shards gives the same answer as the same board in one
shard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from laurels.core.lifecycle import due_of
from laurels.core.plan import plan_batch
from laurels.core.ranking_key import RankingKey
from laurels.core.receipt import Receipt
from laurels.core.requests import (
    Anchor,
    AtBound,
    AtMember,
    End,
    ReadRequest,
    ReadResult,
    Span,
    Start,
)
from laurels.core.standing import AsOf
from laurels.model.batch import Batch, batch_of
from laurels.model.board import Board, Column
from laurels.model.event import EventReader
from laurels.model.rules import Rules
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.remote import Opened
from laurels.stores.redis.sharding.sharded import ShardedIndex
from laurels.stores.redis.sharding.shards import shard_of
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.wire.answers import BatchAnswer
from tests.counts import some
from tests.redis.asking import connected
from tests.redis.servers import Server
from tests.redis.side_by_side import listing, some_labels, some_scopes

from .conftest import NOW

WHOLE, PARTS = 1, 2
"""The numbers of the two boards: the board in one shard, and the board in several."""


class Both:
    """A board in one shard and a board in several, which count the same events."""

    def __init__(self, connection: Connection, prefix: str, rules: Rules, shards: int) -> None:
        self.index = ShardedIndex(RedisIndex(connection, prefix))
        self.rules = rules
        self.whole = Opened(WHOLE, 1, replace(rules, shards=1))
        self.parts = Opened(PARTS, 1, replace(rules, shards=shards))

    def batch(self, board: Opened, events: Sequence[tuple[Any, ...]]) -> Batch:
        return batch_of(EventReader(self.rules).gather(events), board.number, NOW)

    async def open(self) -> None:
        for board in (self.whole, self.parts):
            await self.index.open(board)

    async def submit(self, events: Sequence[tuple[Any, ...]]) -> None:
        """Count events on both boards, and assert that their results are the same."""
        receipts = []
        for board in (self.whole, self.parts):
            batch = self.batch(board, events)
            plan = plan_batch(self.rules, {}, batch)
            applied = await self.index.apply(board, batch, plan, 0, ranks=True, due_ms=MAX_MS)
            assert applied.left is None
            receipts.append((applied.outcomes, applied.ranks_before, applied.ranks_after))
        assert receipts[0] == receipts[1]

    async def ask(self, asks: Sequence[ReadRequest]) -> list[ReadResult]:
        """Return the answers of both boards after asserting that they are the same."""
        reads = []
        for board in (self.whole, self.parts):
            own = [replace(ask, key=ask.key._replace(board=board.number)) for ask in asks]
            read = await self.index.read(board, own, now_ms=NOW, due_ms=MAX_MS)
            reads.append(read.results)
        for ask, one, several in zip(asks, *reads, strict=True):
            assert one == several, ask
        return reads[0]


def key(window: str = "all") -> RankingKey:
    return RankingKey(WHOLE, window, MIN_MS)


def board_of(rng: Random) -> Board:
    best = rng.random() < 0.3
    columns = [
        Column(name, op="best" if best else "sum", order=rng.choice(["asc", "desc"]))
        for name in ("points", "time")[: rng.randint(1, 2)]
    ]
    return Board(
        "b",
        columns=columns,
        tie=rng.choice(["first", "last", "member"]),
        rank=rng.choice(["ordinal", "competition"]),
        **some_scopes(rng, rank_by=False),
    )


def events_of(rng: Random, rules: Rules, members: int, size: int) -> list[tuple[Any, ...]]:
    """Return events with few different values, so that many members are tied, also members of
    different shards."""
    spread = rng.choice([1, 4, 1_000])
    return [
        (
            f"m{rng.randrange(members)}",
            tuple(rng.randint(-spread, spread) for _ in rules.columns),
            NOW - rng.choice([0, 0, 1, 2, 5_000]),
            *([None, some_labels(rng, rules)] if rules.scoped else []),
        )
        for _ in range(size)
    ]


def anchor_of(rng: Random, rules: Rules, members: int) -> Anchor:
    kind = rng.randrange(5)
    member = f"m{rng.randrange(members + 3)}"
    if kind < 2:
        return (Start(), End())[kind]
    if kind < 4:
        return AtMember(member.encode())
    words = tuple(rng.randint(-5, 5) for _ in range(rng.randint(1, len(rules.columns))))
    return AtBound(words, None, rng.random() < 0.5)


def ask_of(rng: Random, rules: Rules, members: int) -> ReadRequest:
    anchors = tuple(anchor_of(rng, rules, members) for _ in range(rng.randint(1, 3)))
    spans = []
    for _ in range(rng.randint(0, 3)):
        low = rng.choice([0, 0, 1, -1, -5, 7, -40, 60, members // 2, -members // 2, members])
        length = rng.choice([0, 1, 3, 10, 50, members])
        first, last = (
            rng.randrange(len(anchors)) if rng.random() < 0.2 else None for _ in range(2)
        )
        fit = rng.random() < 0.3
        spans.append(Span(rng.randrange(len(anchors)), low, low + length, first, last, fit))
    some = rng.sample(range(members + 3), min(rng.choice([0, 0, 1, 5, 40]), members))
    wanted = tuple(f"m{i}" for i in some)
    scope = rng.choice(["", "room=1", "zone=cn", "room=2,zone=us"]) if rules.scoped else ""
    ranking = key()._replace(scope=scope)
    return ReadRequest(ranking, anchors, tuple(spans), wanted, data=rng.random() < 0.3)


@pytest.mark.parametrize(
    ("seed", "near"), some(3, [(i % 24, [2, 512][(i + i // 24) % 2]) for i in range(48)])
)
def test_every_read_is_answered_as_by_one_shard(
    server: Server, seed: int, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.stores.redis.sharding.merging.NEAR", near)
    monkeypatch.setattr("laurels.stores.redis.sharding.merged_reads.NEAR", near)
    rng = Random(seed)
    rules = board_of(rng).rules()
    members = rng.choice([1, 5, 40, 300])

    async def main() -> None:
        async with connected(server.url) as connection:
            both = Both(connection, f"{seed}.{near}:", rules, rng.choice([2, 3, 7, 16]))
            await both.open()
            await both.ask([ask_of(rng, rules, members)])
            for _ in range(4):
                await both.submit(events_of(rng, rules, members, rng.choice([1, 30, 200])))
                for member in (f"m{rng.randrange(members)}" for _ in range(5)):
                    for board in (both.whole, both.parts):
                        await both.index.set_data(board, member.encode(), member.encode())
                for _ in range(20):
                    await both.ask([ask_of(rng, rules, members) for _ in range(rng.randint(1, 3))])
                gone = f"m{rng.randrange(members)}".encode()
                removed = [
                    await both.index.remove(board, gone, due_of(board.number, rules, {}, NOW))
                    for board in (both.whole, both.parts)
                ]
                assert removed[0] == removed[1]
                await both.ask([listing(rng, rules, WHOLE) for _ in range(3)])
                for place in rules.specs:
                    counts = [
                        await both.index.scope_count(board, place.name)
                        for board in (both.whole, both.parts)
                    ]
                    assert counts[0] == counts[1]

    asyncio.run(main())


def test_a_deep_position_reads_few_entries(server: Server) -> None:
    """A position in the middle of a large ranking is found in a few rounds of calls, without
    reading all entries before it."""
    rules = Board("b", rank="competition").rules()

    async def main() -> None:
        async with connected(server.url) as connection:
            both = Both(connection, "deep:", rules, 3)
            await both.open()
            rng = Random(1)
            for first in range(0, 30_000, 5_000):
                events = [(f"m{i}", rng.randrange(900)) for i in range(first, first + 5_000)]
                for board in (both.whole, both.parts):
                    batch = both.batch(board, events)
                    plan = plan_batch(rules, {}, batch)
                    await both.index.apply(board, batch, plan, 0, ranks=False, due_ms=MAX_MS)
            spans = [Span(0, at, at + 3) for at in (0, 700, 15_000, 29_990)]
            await both.ask([ReadRequest(key(), (Start(),), (span,)) for span in spans])
            await both.ask(
                [ReadRequest(key(), (AtMember(b"m77"),), (Span(0, -5_000, 5_001, fit=True),))]
            )
            counted = Counted(both.index._index)
            reads = await ShardedIndex(counted).read(
                both.parts,
                [
                    ReadRequest(
                        RankingKey(PARTS, "all", MIN_MS), (Start(),), (Span(0, 15_000, 15_003),)
                    )
                ],
                now_ms=NOW,
                due_ms=MAX_MS,
            )
            assert reads.results[0].slices[0].start == 15_000
            assert counted.entries < 3_000
            assert counted.calls <= 3 * 10

    asyncio.run(main())


class Counted:
    """An index that counts its read calls and the entries that they return."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self.calls = self.entries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    async def read(
        self, board: Opened, asks: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Any:
        read = await self._index.read(board, asks, now_ms=now_ms, due_ms=due_ms)
        self.calls += 1
        self.entries += sum(len(part.members) for each in read.results for part in each.slices)
        return read


def test_shards_may_rank_one_after_the_other(server: Server) -> None:
    """All members of a shard rank before all members of the next shard. So no entry is at the
    position that an even distribution would suggest."""
    rules = Board("b").rules()

    async def main() -> None:
        async with connected(server.url) as connection:
            both = Both(connection, "skewed:", rules, 5)
            await both.open()
            members = [f"m{i}" for i in range(5_000)]
            await both.submit(
                [
                    (member, 10_000 * shard_of(member.encode(), 5) + i)
                    for i, member in enumerate(members)
                ]
            )
            for at in (0, 400, 999, 1_000, 2_500, 4_990):
                await both.ask([ReadRequest(key(), (Start(),), (Span(0, at, at + 300),))])
                await both.ask([ReadRequest(key(), (End(),), (Span(0, -at - 300, -at),))])
                reads = await both.ask([ReadRequest(key(), (Start(),), (Span(0, at, at + 1),))])
                member = reads[0].slices[0].members[0]
                around = (AtMember(member.encode()),)
                await both.ask(
                    [ReadRequest(key(), around, (Span(0, -150, 151, fit=True),), (member,))]
                )

    asyncio.run(main())


@pytest.mark.parametrize("offset", [7, (1, 0, 2)])
def test_offsets_of_several_shards_round_trip(offset: int | tuple[int, ...]) -> None:
    as_of = AsOf(offset, "all")
    receipt = Receipt("ann", "applied", "all", offset)
    batch = BatchAnswer(offset, "all", 1, 0, 0, 0, {}, [receipt])
    for sent in (as_of, receipt, batch):
        assert msgspec.json.decode(msgspec.json.encode(sent), type=type(sent)) == sent
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=type(sent)) == sent


def test_a_list_and_its_total_agree_while_others_write(server: Server) -> None:
    rules = Board("b").rules()

    async def main() -> None:
        async with connected(server.url) as connection:
            both = Both(connection, "hot:", rules, 3)
            await both.open()
            whole = ReadRequest(RankingKey(PARTS, "all", MIN_MS), (Start(),), (Span(0, 0, 10_000),))
            middle = replace(whole, anchors=(AtMember(b"m0"),), spans=(Span(0, -3, 4, fit=True),))
            deep = replace(whole, spans=(Span(0, 600, 601),))
            writing = True

            async def write(seed: int) -> None:
                rng = Random(seed)
                while writing:
                    events = [(f"m{rng.randrange(900)}", rng.randint(-9, 9)) for _ in range(10)]
                    batch = both.batch(both.parts, events)
                    plan = plan_batch(rules, {}, batch)
                    applied = await both.index.apply(
                        both.parts, batch, plan, 0, ranks=True, due_ms=MAX_MS
                    )
                    assert applied.left is None

            writers = [asyncio.create_task(write(seed)) for seed in range(3)]
            await asyncio.sleep(0.2)
            for _ in range(30):
                read = await both.index.read(
                    both.parts, [whole, middle, deep], now_ms=NOW, due_ms=MAX_MS
                )
                assert isinstance(read.offset, tuple)
                everyone, around, one = read.results
                members = everyone.slices[0].members
                assert len(members) == len(set(members)) == everyone.total
                own = around.slices[0]
                assert members[own.start : own.start + len(own.members)] == own.members
                if around.positions[0] >= 0:
                    assert members[around.positions[0]] == "m0"
                assert one.slices[0].members == members[600:601]
            writing = False
            await asyncio.gather(*writers)

    asyncio.run(main())
