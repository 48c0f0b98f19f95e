"""In every layout, an index on a server gives the same answers as one in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.index.layout import layout_of
from laurels.stores.redis.remote import Opened
from tests.conftest import Scaled
from tests.redis.asking import connected
from tests.redis.servers import Server
from tests.redis.side_by_side import Pair, play, some_board

FIRST_SEEDS = (1_000, 2_003)
"""The test runs in parts, on different test workers. Each part begins with one of these seeds. Six
boards with successive seeds have all layouts."""
_SHARES = (100, 4, 7)
"""The number of members that one call of a pass covers at most. The first number covers all
members."""


async def _play(url: str, seed: int) -> str:
    random = Random(seed)
    rules = some_board(random).rules()
    memory = MemoryIndex(seed)
    memory.open_board(1, rules)
    async with connected(url) as connection:
        redis = RedisIndex(connection, f"s{seed}:")
        opened = Opened(1, 1, rules)
        await redis.open(opened)
        await play(Pair(random, rules, memory, redis, opened), 25)
        await redis.close(opened)
    return layout_of(rules).name


@pytest.mark.parametrize("part", range(len(FIRST_SEEDS)))
def test_random_boards_agree_in_every_layout(
    monkeypatch: pytest.MonkeyPatch, part: int, scaled: Scaled
) -> None:
    first = FIRST_SEEDS[part]
    layouts: Counter[str] = Counter()
    with Server() as server:
        for seed in range(first, first + scaled(6, 500)):
            monkeypatch.setattr(RedisIndex, "share", _SHARES[seed % len(_SHARES)])
            layouts[asyncio.run(_play(server.url, seed))] += 1
        kept = [key for key in server.call("KEYS", "*") if b":a:" not in key]
    assert set(layouts) == {"plain", "packed", "prefixed"}
    assert kept == [], "a closed board leaves no keys"
