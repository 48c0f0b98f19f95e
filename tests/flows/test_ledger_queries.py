"""The queries in docs/ledger.md work in every database, and give the same answers as the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.cli import main
from laurels.errors import LaurelsError
from laurels.errors.sinks import InvalidTarget
from laurels.flows.ledger.views import view_name
from laurels.sql.databases import dialect_of

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


def test_the_documented_queries_agree_with_the_store(url: str) -> None:
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
        top, days, rank, users, rooms, _, _, _, index, _ = QUERIES
        page = await lb.top("gifts")
        assert result_of(url, top) == [(e.member, e.score) for e in page.entries]
        assert [score for _, score in result_of(url, days)] == [5, 4, 2]
        assert result_of(url, rank) == [(await lb.rank("gifts", "alice"),)]
        expected = [(e.member.title(), e.score) for e in page.entries if e.member in "alicebob"]
        assert result_of(url, users) == expected
        leaders = []
        for room in ("1", "2"):
            first = (await lb.top("gifts", labels={"room": room}, limit=1)).entries[0]
            leaders.append((f"room={room}", first.member, first.score))
        assert result_of(url, rooms) == leaders
        execute(url, index)
        assert result_of(url, top) == [(e.member, e.score) for e in page.entries]


def test_the_documented_queries_of_seasons_agree_with_the_store(url: str) -> None:
    asyncio.run(_compare_seasons(url))


async def _compare_seasons(url: str) -> None:
    prizes = {"list": [{"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2}]}
    windows: list[str | dict[str, Any]] = ["all", {"name": "day", "type": "day", "prizes": prizes}]
    clock = laurels.ManualClock(NOW_MS)
    async with laurels.open_async("memory:", clock=clock) as lb:
        await lb.create(laurels.Board("gifts", windows=windows, changes="7d"))
        for events in EVENTS:
            await lb.submit_many("gifts", [(member, value) for member, value, _ in events])
            clock.advance(DAY_MS)
            await lb.seal()
        await lb.disqualify("gifts", "bob", "a bot", window="day", period="2026-09-21")
        await lb.confirm("gifts", (await lb.payouts("gifts"))[0].id, "bank-1")
        await sent(lb, url)
        winners, leaders, owed = QUERIES[5:8]
        expected = await lb.top("gifts", window="day", period="2026-09-21", limit=3)
        assert result_of(url, winners) == [(e.rank, e.member, e.score) for e in expected]
        assert result_of(url, leaders) == [("cid", 2), ("alice", 1)]
        open_payouts = [p for p in await lb.payouts("gifts") if p.state in ("pending", "due")]
        assert sorted(result_of(url, owed)) == sorted(
            (p.member, p.prize, p.amount, p.due_ms) for p in open_payouts
        )


def result_of(url: str, query: str) -> list[tuple[Any, ...]]:
    return rows(url, query)


def test_a_view_has_the_ranking_of_its_board(url: str) -> None:
    async def play() -> None:
        board = laurels.Board(
            "race",
            columns=[laurels.Column("wins"), laurels.Column("seconds", order="asc", scale=2)],
            windows=["all", "day"],
            changes="7d",
        )
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board)
            for member, wins, seconds in (("ann", 2, "9.5"), ("bob", 3, "70"), ("cid", 2, "1.25")):
                await lb.submit("race", member, (wins, seconds))
            await sent(lb, url)
            for _ in range(2):  # the second call creates the view again
                assert main(["sink", "view", "race", "--to", url]) == 0
            entries = [(e.member, *e.score) for e in (await lb.top("race")).entries]  # type: ignore[misc]
            assert [
                (m, int(w), Decimal(str(s))) for m, w, s in result_of(url, QUERIES[-1])
            ] == entries
        assert main(["sink", "view", "race", "--to", url, "--drop"]) == 0
        with pytest.raises(LaurelsError), dialect_of(url)[0].errors():
            result_of(url, QUERIES[-1])

    asyncio.run(play())


def test_a_board_with_an_odd_name_can_have_a_view(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [laurels.Column(name) for name in ("member", "A.b-c", "a.B-C", "select")]

    async def play() -> None:
        async with laurels.open_async("memory:") as lb:
            await lb.create(laurels.Board("Odd-1.0", columns=columns, changes="7d"))
            await lb.submit("Odd-1.0", "ann", (1, 2, 3, 4))
            await sent(lb, url)

    asyncio.run(play())
    for refused in ([], ["--name", "No"], ["--name", "x; DROP TABLE x"], ["--name", "a" * 64]):
        assert main(["sink", "view", "Odd-1.0", "--to", url, *refused]) == 2
        assert "[invalid_target]" in capsys.readouterr().err
    assert main(["sink", "view", "Odd-1.0", "--to", url, "--name", "odd"]) == 0
    assert capsys.readouterr().out == "odd\n"
    dialect, prefix = dialect_of(url)
    names = ", ".join([dialect.quote(name) for name in ("score_1", "A.b-c", "score_3", "select")])
    assert result_of(url, f"SELECT member, {names} FROM odd") == [("ann", 1, 2, 3, 4)]
    assert main(["sink", "view", "none", "--to", url]) == 2
    assert "[no_ledger]" in capsys.readouterr().err
    assert main(["sink", "view", "Odd-1.0", "--to", url, "--name", f"{prefix}scores"]) != 0
    assert result_of(url, f"SELECT count(*) FROM {prefix}scores") == [(1,)]


def test_no_two_boards_share_a_view_name() -> None:
    assert view_name("laurels_", "gifts_2") == "laurels_view_gifts_2"
    for board in ("Gifts", "a.b", "a-b", "x" * 64):
        with pytest.raises(InvalidTarget, match="--name"):
            view_name("laurels_", board)
