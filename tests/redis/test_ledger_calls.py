"""A call to a ledger ends when nobody waits for it any more, and a long verification delays no
seal."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from laurels.errors.index_server import LedgerUnavailable
from laurels.sql.databases import dialect_of
from laurels.stores.redis import ledgers
from laurels.stores.redis.ledgers import Ledger
from tests.flows.conftest import mariadb, postgres, url
from tests.flows.databases import MariaDB, Postgres, Program
from tests.internals import remote
from tests.redis.servers import until
from tests.redis.test_closing import (
    DAY,
    FIRST,
    HOUR,
    AnyClock,
    Open,
    clock,
    create,
    periods,
)

__all__ = ["clock", "mariadb", "postgres", "url"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give reads more time than they need on a busy machine, unless a test sets a shorter limit."""
    monkeypatch.setattr(ledgers, "READ_SECONDS", 300.0)


ENDLESS = """WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
SELECT count(*) FROM numbers"""
MILLIONS = ENDLESS.replace("FROM numbers)", "FROM numbers WHERE n < 2000000)")


@contextmanager
def paused(server: Program) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.resume()


def select(statement: str, dialect: Any) -> Callable[[Any], Any]:
    def work(connection: Any) -> Any:
        return list(dialect.execute(connection, statement).fetchall())

    return work


def ended(ledger: Ledger) -> bool:
    return not ledger._reads.running and not ledger._writes.running


@pytest.mark.parametrize("program", [Postgres, MariaDB])
def test_reads_of_a_server_that_hangs_leave_no_threads(
    program: type[Program], request: pytest.FixtureRequest
) -> None:
    """Reads that run and reads that wait for a thread end while the server still hangs."""
    server = request.getfixturevalue(program.__name__.lower())
    with patch.object(ledgers, "READ_SECONDS", 4.5):  # also limits how long a connection may take
        ledger = Ledger("main", *dialect_of(f"{server.url}?prefix=calls_"))
    one = select("SELECT 1", ledger.dialect)

    async def read(count: int) -> list[Any]:
        reads = [ledger.read(one) for _ in range(count)]
        return await asyncio.gather(*reads, return_exceptions=True)

    async def play() -> None:
        assert await ledger.read(one) == [(1,)]
        with paused(server):
            with patch.object(ledgers, "READ_SECONDS", 0.2):
                answers = await read(3 * ledgers.READERS)
            assert all(isinstance(each, LedgerUnavailable) for each in answers)
            await asyncio.to_thread(until, lambda: ended(ledger), "no call is left")
        assert await ledger.read(one) == [(1,)]

    asyncio.run(play())
    ledger.close()


def test_a_long_statement_of_sqlite_is_interrupted(tmp_path: Path) -> None:
    ledger = Ledger("main", *dialect_of(f"sqlite:////{tmp_path}/ledger.db"))

    async def play() -> None:
        await ledger.write(lambda _: None)
        with (
            patch.object(ledgers, "READ_SECONDS", 0.05),
            pytest.raises(LedgerUnavailable, match="did not answer"),
        ):
            await ledger.read(select(ENDLESS, ledger.dialect))
        await asyncio.to_thread(until, lambda: ended(ledger), "the call has ended")

    asyncio.run(play())
    ledger.close()


def test_closing_a_ledger_ends_its_calls(tmp_path: Path) -> None:
    ledger = Ledger("main", *dialect_of(f"sqlite:////{tmp_path}/ledger.db"))

    async def play() -> None:
        await ledger.write(lambda _: None)
        calls = [
            asyncio.ensure_future(call(select(ENDLESS, ledger.dialect)))
            for call in (ledger.write, ledger.compute)
        ]
        await asyncio.sleep(0)
        ledger.close()
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, LedgerUnavailable)
        with pytest.raises(LedgerUnavailable, match="closed"):
            await ledger.read(lambda _: None)

    asyncio.run(play())


def test_a_statement_fails_that_begins_while_its_connection_is_aborted(tmp_path: Path) -> None:
    """The statement was not running yet when it was interrupted."""
    dialect, _ = dialect_of(f"sqlite:////{tmp_path}/ledger.db")
    with closing(dialect.connect()) as connection:
        dialect.abort(connection)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(MILLIONS).fetchall()


def test_an_outage_is_written_to_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ledger.db"
    ledger = Ledger("main", *dialect_of(f"sqlite:////{file}"))
    file.mkdir()

    async def play() -> None:
        for _ in range(3):
            with pytest.raises(LedgerUnavailable) as failure:
                await ledger.read(lambda _: None)
            assert "database" not in failure.value.what
            assert str(tmp_path) not in str(failure.value)
        file.rmdir()
        await ledger.read(lambda _: None)

    with caplog.at_level(logging.WARNING, "laurels"):
        asyncio.run(play())
    assert len(caplog.messages) == 2
    assert "unable to open" in caplog.messages[0]
    assert caplog.messages[1] == "the ledger 'main' works again"
    ledger.close()


def test_periods_are_sealed_while_a_period_is_verified(opened: Open, clock: AnyClock) -> None:
    lb = opened()
    create(lb)
    lb.submit("b", "ann", 1)
    clock.advance(HOUR)
    lb.seal()
    lb.submit("b", "ann", 1)
    clock.advance(DAY)
    begun, goes_on, run = threading.Event(), threading.Event(), Ledger._run
    verified: list[Any] = []

    def slow(ledger: Ledger, threads: Any, call: Any) -> Any:
        if threads is ledger._computations:
            begun.set()
            goes_on.wait(60)
        return run(ledger, threads, call)

    def verify() -> None:
        verified.append(lb.verify("b", window="hour", period=FIRST))

    with patch.object(Ledger, "_run", slow):
        verifying = threading.Thread(target=verify)
        verifying.start()
        assert begun.wait(60)
        lb.seal()
        assert len(periods(lb, "seal")) == 2
        assert verified == []
        with (
            patch.object(ledgers, "MAX_COMPUTING", 1),
            pytest.raises(LedgerUnavailable, match="keep up"),
        ):
            remote(lb).verify_period("b", "hour", FIRST)
        goes_on.set()
        verifying.join()
    assert verified[0].verified
