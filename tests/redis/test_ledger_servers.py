"""Sealing into every kind of database: one that dies, hangs or is full in the middle of a seal, and
one that a sink of the same board writes to as well."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pymysql
import pytest

import laurels
from laurels.errors.index_server import LedgerUnavailable
from laurels.flows.ledger.seasons import SeasonsOfBoard
from laurels.sql.final_writing import PeriodWriter
from laurels.stores.redis import frozen, sealing
from laurels.stores.redis.index.closing import PeriodClosing
from laurels.stores.redis.sealing_tasks import SealingTasks
from tests.contract.deployments import OnRedis
from tests.flows.conftest import mariadb, postgres, url
from tests.flows.databases import MariaDB, Postgres
from tests.flows.sinking import rows, sent
from tests.flows.test_full_targets import FULL
from tests.internals import remote
from tests.redis.test_closing import FIRST, HOUR, AnyClock, clock, create, periods, scores

__all__ = ["clock", "mariadb", "postgres", "url"]

MEMBERS = 40


class Boards:
    """The boards on an index server, which can be opened by any number of processes."""

    def __init__(self, url: str, clock: AnyClock) -> None:
        self.url = url
        self._clock = clock
        self._opened: list[laurels.Leaderboards] = []

    def open(self) -> laurels.Leaderboards:
        self._opened.append(laurels.open(self.url, clock=self._clock))
        return self._opened[-1]

    async def send(self, target: str) -> None:
        """Run a sink of these boards until it has sent everything. Its process seals nothing."""
        async with laurels.open_async(self.url, clock=self._clock) as lb:
            with patch.object(SealingTasks, "start"):
                await sent(lb, target)

    def close(self) -> None:
        for lb in self._opened:
            lb.close()


@contextmanager
def boards_with(ledger: str, tmp_path: Path, clock: AnyClock) -> Iterator[Boards]:
    """Return boards on an index server whose ledger `main` is in a database."""
    place = OnRedis(tmp_path / "laurels-data", clock)
    boards = Boards(place.url, clock)
    try:
        with patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": ledger}):
            yield boards
    finally:
        boards.close()
        place.close()


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Postgres | MariaDB:
    program: Postgres | MariaDB = request.getfixturevalue(request.param)
    return program


def prefixed(server: Postgres | MariaDB, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?prefix=s{abs(hash(request.node.nodeid)) % 10**10}_"


def filled(lb: laurels.Leaderboards, clock: AnyClock) -> None:
    """Create a board with a period that is final, and that takes several transactions."""
    create(lb)
    lb.submit_many("b", [(f"m{i}", i) for i in range(MEMBERS)])
    clock.advance(HOUR)


def assert_sealed_once(lb: laurels.Leaderboards) -> None:
    assert periods(lb, "close") == periods(lb, "seal") == [("hour", FIRST)]
    assert lb.verify("b", window="hour", period=FIRST).verified
    assert scores(lb) == {f"m{i}": i for i in range(MEMBERS)}


@contextmanager
def at_the_third_write(then: Callable[[], object]) -> Iterator[None]:
    """Call a function in the middle of a seal: before the third transaction adds its rows."""
    calls, add = count(1), PeriodWriter.add

    def adding(self: Any, *arguments: Any) -> None:
        if next(calls) == 3:
            then()
        add(self, *arguments)

    with (
        patch.object(PeriodWriter, "add", adding),
        patch.object(sealing, "ROWS", 10),
        patch.object(frozen, "PAGE", 10),
    ):
        yield


def test_a_database_that_dies_in_the_middle_of_a_seal(
    server: Postgres | MariaDB, request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock
) -> None:
    with boards_with(prefixed(server, request), tmp_path, clock) as boards:
        lb = boards.open()
        filled(lb, clock)
        with at_the_third_write(server.kill), pytest.raises(LedgerUnavailable):
            lb.seal()
        assert scores(lb) == {f"m{i}": i for i in range(MEMBERS)}
        assert lb.submit("b", "ann", 1).status == "applied"
        with pytest.raises(LedgerUnavailable):
            lb.seal()
        server.start()
        assert lb.seal().sealed == 1
        assert_sealed_once(lb)


def test_a_database_that_hangs_in_the_middle_of_a_seal(
    server: Postgres | MariaDB, request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock
) -> None:
    """The process that waits for the database is closed without waiting any longer, and another
    process seals the period."""
    paused = threading.Event()

    def pause() -> None:
        server.pause()
        paused.set()

    with boards_with(prefixed(server, request), tmp_path, clock) as boards:
        one, other = boards.open(), boards.open()
        filled(one, clock)
        try:
            # a short lease, so that the other process need not wait for a minute
            short = patch.object(sealing, "LEASE_MS", 1_000)
            with short, at_the_third_write(pause):
                sealing_it = asyncio.run_coroutine_threadsafe(
                    remote(one)._sealing_tasks.seal(), remote(one)._loop
                )
                while not paused.is_set():
                    assert one.submit("b", "ann", 1).status == "applied"
                assert scores(one) == {f"m{i}": i for i in range(MEMBERS)}
                assert remote(one).work(100)
                sealing_it.cancel()
                one.close()
        finally:
            server.resume()
        other.seal()
        assert_sealed_once(other)


def test_a_database_that_is_full(
    server: Postgres | MariaDB, request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock
) -> None:
    ledger = prefixed(server, request)
    prefix = ledger.rpartition("=")[2]
    kind = "postgres" if isinstance(server, Postgres) else "mariadb"
    fills, frees, _ = FULL[kind]
    with boards_with(ledger, tmp_path, clock) as boards:
        lb = boards.open()
        filled(lb, clock)
        remote(lb).run(remote(lb)._ledgers.named("main").read(lambda _: None))  # makes the tables
        fill = fills.format(prefix).replace(f"{prefix}scores", f"{prefix}final_entries")
        rows_of(server, fill)
        with pytest.raises(LedgerUnavailable):
            lb.seal()
        assert scores(lb) == {f"m{i}": i for i in range(MEMBERS)}
        rows_of(server, frees.format(prefix))
        assert lb.seal().sealed == 1
        assert_sealed_once(lb)
        assert rows(ledger, f"SELECT count(*) FROM {prefix}final_entries") == [(MEMBERS,)]


def rows_of(server: Postgres | MariaDB, statement: str) -> None:
    """Carry out a statement as an administrator of the database."""
    if isinstance(server, MariaDB):
        with pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", database="test"
        ) as connection:
            connection.cursor().execute(statement)
        return
    with psycopg.connect(server.url, autocommit=True) as to:
        to.execute(statement)


def test_a_sink_and_the_ledger_of_a_board_in_one_database(
    url: str, tmp_path: Path, clock: AnyClock
) -> None:
    """The database has each period once, whether the sink or the store writes it first, and even if
    a period is sealed while the sink reads the list of sealed periods."""
    url = url.replace("sqlite:///", "sqlite:////") if url.startswith("sqlite") else url
    with boards_with(url, tmp_path, clock) as boards:
        lb = boards.open()
        create(lb, "all", "hour:keep=1,archive=3", changes="60d")
        listed = SeasonsOfBoard._listed

        async def list_and_seal(self: Any) -> Any:
            found = await listed(self)
            lb.submit("b", "later", 1)
            clock.advance(HOUR)
            await asyncio.to_thread(lb.seal)
            return found

        for hour in range(6):
            lb.submit_many("b", [(f"m{i}", i + hour) for i in range(5)])
            clock.advance(HOUR)
            lb.seal()
            with patch.object(SeasonsOfBoard, "_listed", list_and_seal):
                asyncio.run(boards.send(url))
            archived = [each.period for each in lb.archived("b")]
            assert len(archived) == min(3, 2 * hour + 2)
            for label in archived:
                assert lb.verify("b", window="hour", period=label).verified
                assert scores(lb, label)
        lb.check()


def test_a_sink_that_begins_between_the_ledger_and_the_seal(
    url: str, tmp_path: Path, clock: AnyClock
) -> None:
    """A period is complete in the ledger, and the process dies before it records the seal."""
    url = url.replace("sqlite:///", "sqlite:////") if url.startswith("sqlite") else url
    with boards_with(url, tmp_path, clock) as boards:
        lb = boards.open()
        create(lb, changes="60d")
        lb.submit("b", "ann", 1)
        clock.advance(HOUR)
        lb.seal()
        lb.submit("b", "ben", 1)
        clock.advance(HOUR)

        def dies(*_: Any, **__: Any) -> Any:
            raise LedgerUnavailable("the process has died")

        with patch.object(PeriodClosing, "record_seal", dies), pytest.raises(LedgerUnavailable):
            lb.seal()

        asyncio.run(boards.send(url))
        lb.seal()
        for each in lb.archived("b"):
            assert lb.verify("b", window="hour", period=each.period).verified
        assert len(lb.archived("b")) == 2
