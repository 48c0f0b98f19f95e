"""Connections to a target that break in the middle of a page.

The connection is lost before the server receives a statement or a commit, or after that but before
its answer arrives. Or the server closes the connection. In each case no change is lost, and no
change is delivered twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import psycopg
import pymysql
import pytest

import laurels
from tests.redis.proxy import Proxy
from tests.redis.servers import Server

from .databases import MariaDB, Nats, Postgres
from .sinking import NOW_MS, create_stream, ledger, messages, rankings, rows, sent

DAY_MS = 86_400_000
BOARD = laurels.Board("b", windows=["all", "day"], changes="7d", keep=1)
WAYS = ["before", "after", "by the server"]


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> Postgres | MariaDB:
    server: Postgres | MariaDB = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    with Server() as server:
        yield server


def end_sessions(url: str) -> None:
    """Make a database close all connections except the one that sends this statement."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as to:
            to.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        return
    port = int(url.rpartition(":")[2].partition("/")[0])
    with pymysql.connect(host="127.0.0.1", port=port, user="root") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id FROM information_schema.processlist WHERE id <> connection_id()")
        for (id,) in cursor.fetchall():
            cursor.execute(f"KILL {id}")


def cut(proxy: Proxy, way: str, part: bytes, end: Callable[[], None]) -> None:
    """Break the connection at the next request that contains `part`. The `way` is one of `WAYS`:
    before the request is forwarded; after the request, but before its answer is forwarded; or by
    calling `end`, which makes the server close its connections."""
    if way == "before":
        proxy.keep_back(part)
    elif way == "after":
        proxy.cut_after(part)
    else:
        proxy.notice(part, end)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", ["rows", "end"])
def test_a_ledger_is_complete_after_an_interrupted_page(
    database: Postgres | MariaDB, at: str, way: str, request: pytest.FixtureRequest
) -> None:
    """There are two pages: the first page of a board, with its definition, and a page that ends a
    period. The sink repeats a transaction that was not committed."""
    prefix = f"t{abs(hash(request.node.nodeid)) % 10**12}_"
    direct = f"{database.url}?prefix={prefix}"
    written = f"INSERT INTO {prefix}scores".encode()
    clock = laurels.ManualClock(NOW_MS)

    async def send(lb: laurels.AsyncLeaderboards) -> None:
        with Proxy(database) as proxy:

            def end() -> None:
                end_sessions(database.url)

            if at == "rows":
                cut(proxy, way, written, end)
            else:
                proxy.notice(written, lambda: cut(proxy, way, b"COMMIT", end))
            reports: list[str] = []
            through = direct.replace(f":{database.port}/", f":{proxy.port}/")
            await sent(lb, through, report=reports.append)
            assert len(reports) == 1, reports

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(BOARD)
            for _ in range(2):
                await lb.submit_many("b", [(f"m{i}", i) for i in range(300)])
                await send(lb)
                assert ledger(direct, BOARD, prefix) == rankings(lb.sync, BOARD)
                assert rows(direct, f"SELECT board FROM {prefix}boards") == [("b",)]
                clock.advance(3 * DAY_MS)

    asyncio.run(play())


@pytest.mark.parametrize("way", WAYS)
def test_a_redis_stream_has_each_change_once_after_an_interrupted_page(
    redis: Server, way: str
) -> None:
    key = f"cut {way}".replace(" ", "-")

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(BOARD)
            await lb.submit_many("b", [(f"m{i}", i) for i in range(1_500)])
            with Proxy(redis) as proxy:

                def end() -> None:
                    redis.call("CLIENT", "KILL", "TYPE", "normal")

                cut(proxy, way, b"EVALSHA", end)
                await sent(lb, f"{proxy.url}/0/{key}")
            delivered = [fields[1].decode() for _, fields in redis.call("XRANGE", key, "-", "+")]
            assert delivered == await ids(lb)

    asyncio.run(play())


@pytest.mark.parametrize("way", ["before", "after"])
def test_a_jetstream_has_each_change_once_after_an_interrupted_page(way: str) -> None:
    async def play(broker: Nats) -> None:
        await create_stream(broker.url)
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(BOARD)
            await lb.submit_many("b", [(f"m{i}", i) for i in range(700)])
            with Proxy(broker) as proxy:
                cut(proxy, way, b"HPUB", lambda: None)
                reports: list[str] = []
                through = f"nats://127.0.0.1:{proxy.port}/changes.{{board}}.{{member}}"
                await sent(lb, through, report=reports.append)
                [report] = reports
                assert "the connection was closed" in report
            delivered = [message["id"] for message in await messages(broker.url)]
            assert sorted(delivered) == sorted(await ids(lb))

    with Nats() as broker:
        asyncio.run(play(broker))


async def ids(lb: laurels.AsyncLeaderboards) -> list[str]:
    """Return the ids of all changes except changes of sink positions."""
    page = await lb.changes("b", limit=10_000)
    return [change.id for change in page if change.kind != "position"]
