"""`seek` finds a point in the order near any listed position, however the entries are divided among
the shards."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from random import Random

import pytest

from laurels.core.index import Slice
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import AtBound, ReadRequest, ReadResult
from laurels.stores.redis.sharding.seeking import seek


class ListedShard:
    """A shard that lists its entries up to the end of a head, and knows positions up to `certain`
    exactly. Its entries are numbers."""

    def __init__(self, rng: Random, entries: Sequence[int], certain: int, head: int) -> None:
        self.rng = rng
        self.entries = entries
        self.certain = min(certain, len(entries))
        self.listed = min(self.certain, head)

    def read(self, request: ReadRequest) -> ReadResult:
        positions, highs = [], []
        for anchor in request.anchors:
            own = 0
            if isinstance(anchor, AtBound):
                own = bisect_left(self.entries, anchor.words[0])
            is_exact = own < self.certain or self.certain == len(self.entries)
            positions.append(own if is_exact else self.rng.randint(self.certain, own))
            highs.append(own if is_exact else len(self.entries))
        slices = []
        for span in request.spans:
            some = self.entries[span.low : min(span.high, self.listed)]
            ranks = array("q", range(span.low, span.low + len(some)))
            slices.append(Slice(span.low, ["m"] * len(some), ranks, [array("q", some)]))
        return ReadResult(
            len(self.entries), positions, slices, None, None, certain=self.certain, highs=highs
        )


@pytest.mark.parametrize("seed", range(60))
def test_every_listed_position_is_found(seed: int) -> None:
    rng = Random(seed)
    head, count, near = rng.choice([20, 60, 300]), rng.choice([2, 3, 7]), rng.choice([0, 1, 5])
    numbers = sorted({int(rng.lognormvariate(9, 3)) for _ in range(400)})
    parts: list[list[int]] = [[] for _ in range(count)]
    for i, number in enumerate(numbers):
        shard = rng.randrange(count) if rng.random() < 0.2 else i * count // len(numbers)
        parts[shard].append(number)
    shards = [ListedShard(rng, part, rng.randint(1, 2 * head), head) for part in parts]
    cut = [shard.certain for shard in shards if shard.certain < len(shard.entries)]
    request = ReadRequest(RankingKey(1, "all", 0), head=head)

    async def read(by_shard: list[list[ReadRequest]]) -> list[Sequence[ReadResult]]:
        return [
            [shard.read(each) for each in own] for shard, own in zip(shards, by_shard, strict=True)
        ]

    async def main() -> None:
        for wanted in range(min([head, len(numbers), *cut])):
            place, position = await seek(read, request, 1, count, wanted, near)
            assert abs(position - wanted) <= near
            if isinstance(place, AtBound):
                assert position == bisect_left(numbers, place.words[0])

    asyncio.run(main())
