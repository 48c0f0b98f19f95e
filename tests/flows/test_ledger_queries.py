"""The queries of docs/ledger.md run on every database and answer what the store answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.flows.ledger.databases import dialect_of

from .databases import MariaDB, Postgres
from .sinking import NOW_MS, rows, sent

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
DAY_MS = 86_400_000
EVENTS = [
    [("alice", 5, "1"), ("bob", 9, "1"), ("cid", 7, "2")],
    [("alice", 4, "2"), ("dan", 1, "1"), ("bob", 3, "2")],
    [("cid", 5, "2"), ("alice", 2, "1")],
]


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ledger.db"
        return
    with Postgres() if request.param == "postgres" else MariaDB() as server:
        yield server.url


def execute(url: str, *statements: str) -> None:
    dialect, _ = dialect_of(url)
    connection = dialect.connect()
    for statement in statements:
        dialect.execute(connection, statement)
    connection.commit()
    connection.close()


def test_the_queries_of_the_page(url: str) -> None:
    asyncio.run(_compare(url))


async def _compare(url: str) -> None:
    board = laurels.Board(
        "gifts", windows=["all", "day"], scopes=[[], ["room"]], keep=5, changes="7d"
    )
    clock = laurels.ManualClock(NOW_MS)
    async with laurels.open_async("memory:", clock=clock) as lb:
        await lb.create(board)
        for events in EVENTS:
            for member, value, room in events:
                await lb.submit("gifts", member, value, labels={"room": room})
                clock.advance(1)
            clock.advance(DAY_MS)
        await sent(lb, url)
        names = ", ".join([f"('{member}', '{member.title()}')" for member in ("alice", "bob")])
        execute(
            url,
            "CREATE TABLE users (id varchar(300) PRIMARY KEY, name varchar(300))",
            f"INSERT INTO users VALUES {names}",
        )
        top, days, rank, users, rooms, index = QUERIES
        shown = await lb.top("gifts")
        assert found(url, top) == [(e.member, e.score) for e in shown.entries]
        assert [score for _, score in found(url, days)] == [5, 4, 2]
        assert found(url, rank) == [(await lb.rank("gifts", "alice"),)]
        expected = [(e.member.title(), e.score) for e in shown.entries if e.member in "alicebob"]
        assert found(url, users) == expected
        leaders = []
        for room in ("1", "2"):
            first = (await lb.top("gifts", labels={"room": room}, limit=1)).entries[0]
            leaders.append((f"room={room}", first.member, first.score))
        assert found(url, rooms) == leaders
        execute(url, index)
        assert found(url, top) == [(e.member, e.score) for e in shown.entries]


def found(url: str, query: str) -> list[tuple[Any, ...]]:
    return rows(url, query)
