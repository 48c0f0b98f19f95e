"""The index on a server says what the one in memory says, in every layout."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from random import Random

import pytest

from laurels.index.memory import MemoryIndex
from laurels.index.redis import index
from laurels.index.redis.index import RedisIndex
from laurels.index.redis.layout import layout_of
from laurels.index.remote import Opened
from tests.redis.asking import connected
from tests.redis.servers import Server
from tests.redis.side_by_side import Pair, play, some_board

BOARDS = int(os.environ.get("LAURELS_BOARDS", "60"))
SEED = int(os.environ.get("LAURELS_SEED", "1"))
_SHARES = (100, 4, 7)
"""What a call does of a pass: all members there are, or some of them."""


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


def test_random_boards_agree_in_every_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts: Counter[str] = Counter()
    with Server() as server:
        for seed in range(SEED * 1_000, SEED * 1_000 + BOARDS):
            monkeypatch.setattr(index, "SHARE", _SHARES[seed % len(_SHARES)])
            layouts[asyncio.run(_play(server.url, seed))] += 1
        kept = [key for key in server.call("KEYS", "*") if b":a:" not in key]
    assert set(layouts) == {"plain", "packed", "prefixed"}
    assert kept == [], "a board that is closed leaves nothing"
