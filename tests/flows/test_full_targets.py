"""Targets that are full, or read-only for a while: all changes wait, the sink reports the reason,
and no change is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import nats
import psycopg
import pymysql
import pytest

import laurels
from laurels.flows.sinks.parking import ParkingFile
from laurels.flows.sinks.runner import SinkRunner
from laurels.sql.sqlite import SQLite

from .databases import MariaDB, Nats, Postgres
from .sinking import NOW_MS, ledger, rankings, sink_of

BOARD = laurels.Board("b", windows=["all"], changes="7d")
FULL = {
    "postgres": (
        "CREATE FUNCTION full_{0}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; "
        "CREATE TRIGGER full_{0} BEFORE INSERT ON {0}scores FOR EACH ROW "
        "EXECUTE FUNCTION full_{0}()",
        "DROP FUNCTION full_{0} CASCADE",
        "No space left",
    ),
    "mariadb": (
        "CREATE TRIGGER full_{0} BEFORE INSERT ON {0}scores FOR EACH ROW SIGNAL SQLSTATE 'HY000' "
        "SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'",
        "DROP TRIGGER full_{0}",
        "The table is full",
    ),
}
"""For each database: a statement that makes it behave as if its disk were full, a statement that
undoes this, and a part of the error."""


class Waits:
    """A replacement of `sleep` that takes no time. At the third call, it calls a function."""

    def __init__(self, then: Callable[[], Awaitable[object]]) -> None:
        self.errors: list[str | None] = []
        self.sink: SinkRunner | None = None
        self._then = then

    async def sleep(self, _seconds: float) -> None:
        assert self.sink is not None
        self.errors.append(self.sink.metrics.of("b").error)
        if len(self.errors) == 3:
            await self._then()
        assert len(self.errors) < 20, self.errors[-1]


async def opened(events: int = 500) -> laurels.AsyncLeaderboards:
    lb = await laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS))
    await lb.create(BOARD)
    await lb.submit_many("b", [(f"m{i}", i) for i in range(events)])
    return lb


async def sent_after_waits(
    lb: laurels.AsyncLeaderboards, url: str, then: Callable[[], Awaitable[object]], **options: Any
) -> str:
    """Send everything to a target that fails until `then` has been called. Return the reason that
    the sink reports while it waits."""
    waits, reports = Waits(then), list[str]()
    sink = waits.sink = sink_of(
        lb, url, sleep=waits.sleep, report=reports.append, what="changes", **options
    )
    await sink.run()
    assert not sink.failed
    assert (len(waits.errors), len(reports), sink.metrics.parked) == (3, 1, 0)
    assert sink.metrics.of("b").error is None
    assert waits.errors[0] == reports[0]
    return reports[0]


@pytest.mark.parametrize("kind", FULL)
def test_a_database_without_room_delays_changes_and_loses_none(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(kind)
    fill, free, why = (text.format("full_") for text in FULL[kind])

    async def play() -> None:
        lb = await opened()
        url = f"{server.url}?prefix=full_"
        await sink_of(lb, url).run()
        execute(server, fill)
        await lb.submit_many("b", [(f"m{i}", i) for i in range(500)])
        assert why in await sent_after_waits(lb, url, lambda: asyncio.to_thread(run_free))
        assert ledger(url, BOARD, "full_") == rankings(lb.sync, BOARD)
        await lb.close()

    def run_free() -> None:
        execute(server, free)

    asyncio.run(play())


def execute(server: Postgres | MariaDB, statement: str) -> None:
    if isinstance(server, Postgres):
        with psycopg.connect(server.url, autocommit=True) as to:
            to.execute("SET default_transaction_read_only = off")
            to.execute(statement.encode())
        return
    with pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", database="test"
    ) as connection:
        connection.cursor().execute(statement)


def test_a_full_file_of_sqlite_delays_changes_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = SQLite.connect

    def with_limit(self: SQLite, *, create: bool = True) -> Any:
        connection = connect(self, create=create)
        connection.execute("PRAGMA max_page_count = 50")
        return connection

    async def play() -> None:
        lb = await opened(5_000)
        url = f"sqlite:///{tmp_path}/ledger.db"
        monkeypatch.setattr(SQLite, "connect", with_limit)

        async def free() -> None:
            monkeypatch.setattr(SQLite, "connect", connect)

        assert "full" in await sent_after_waits(lb, url, free)
        assert ledger(url, BOARD) == rankings(lb.sync, BOARD)
        await lb.close()

    asyncio.run(play())


def test_a_sink_waits_for_a_read_only_postgresql(postgres: Postgres) -> None:
    """PostgreSQL is read-only, as during a failover to another server."""
    url = f"{postgres.url}?prefix=reading_"

    async def play() -> None:
        lb = await opened()
        await sink_of(lb, url).run()
        execute(postgres, "ALTER DATABASE test SET default_transaction_read_only = on")
        await lb.submit_many("b", [(f"m{i}", i) for i in range(500)])
        try:
            why = await sent_after_waits_of_open(lb)
        finally:
            reset()
        assert "read-only" in why
        assert ledger(url, BOARD, "reading_") == rankings(lb.sync, BOARD)
        await lb.close()

    async def sent_after_waits_of_open(lb: laurels.AsyncLeaderboards) -> str:
        waits, reports = list[float](), list[str]()

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                await asyncio.to_thread(reset)

        await sink_of(lb, url, sleep=sleep, report=reports.append).run()
        assert len(waits) == 3
        return reports[0]

    def reset() -> None:
        execute(postgres, "ALTER DATABASE test RESET default_transaction_read_only")

    asyncio.run(play())


def test_rows_that_fill_more_than_a_packet_are_divided(mariadb: MariaDB) -> None:
    """The server accepts at most 1 MiB in one packet, and the encoded rows are longer than that."""
    url = f"{mariadb.url}?prefix=packets_"
    data = '"' * 500

    async def play() -> None:
        lb = await opened(0)
        for i in range(600):
            await lb.set_data("b", f"m{i}", data)
        await lb.submit_many("b", [('"' * 100 + str(i), i) for i in range(3_000)])

        async def stop(_seconds: float) -> None:
            raise AssertionError(sink.metrics.of("b").error)

        sink = sink_of(lb, url, sleep=stop)
        await sink.run()
        assert not sink.failed
        assert ledger(url, BOARD, "packets_") == rankings(lb.sync, BOARD)
        await lb.close()

    execute(mariadb, "SET GLOBAL max_allowed_packet = 1048576")
    try:
        asyncio.run(play())
    finally:
        execute(mariadb, "SET GLOBAL max_allowed_packet = 16777216")


class LimitedNats(Nats):
    """A NATS server whose account may store at most 300,000 bytes, in messages of at most 1 KiB."""

    def command(self) -> Sequence[str]:
        path = self.folder / "nats.conf"
        path.write_text(
            "max_payload: 1024\n"
            "accounts {\n A {\n jetstream {\n max_memory: 300000\n }\n"
            " users: [ {user: a, password: b} ]\n }\n}\n"
            "no_auth_user: a\n"
        )
        return [*super().command(), "-c", str(path)]


def test_a_jetstream_without_room_delays_changes_and_refuses_long_ones(tmp_path: Path) -> None:
    """A message that is too long would be refused at every attempt, so the sink parks the page that
    contains it."""

    async def play(broker: Nats) -> None:
        client = await nats.connect(broker.url)
        stream = client.jetstream()
        await stream.add_stream(name="changes", subjects=["changes.>"], storage="memory")
        taken = 0

        async def free() -> None:
            nonlocal taken
            taken = (await stream.stream_info("changes")).state.messages
            await stream.purge_stream("changes")

        lb = await opened(900)
        parking = ParkingFile(tmp_path / "parked.jsonl", "sink")
        url = f"{broker.url}/changes.{{member}}"
        why = await sent_after_waits(lb, url, free, parking=parking)
        assert "no room" in why
        left = (await stream.stream_info("changes")).state.messages
        assert 0 < taken < 901
        assert taken + left >= 901
        await lb.set_data("b", "m1", "x" * 1_000)
        sink = sink_of(lb, url, parking=parking)
        await sink.run()
        assert sink.metrics.parked == 1
        assert ["max_payload" in each.error for each in parking.read()] == [True]
        await lb.close()
        await client.close()

    with LimitedNats() as broker:
        asyncio.run(play(broker))
