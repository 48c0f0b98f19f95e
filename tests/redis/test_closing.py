"""Closing and sealing on an index server: by several processes at once, after failures at any
point, after long downtime, and while the ledger does not answer."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import threading
from collections.abc import Callable
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.core.changes.answers import Change
from laurels.errors import ArchiveDamaged, LaurelsError, UnsafeChange
from laurels.errors.index_server import LedgerUnavailable, UnknownLedger
from laurels.sql.final_writing import FinalWriter, PeriodWriter
from laurels.stores.redis import frozen, ledgers
from laurels.stores.redis.index.closing import PeriodClosing
from laurels.stores.redis.remote import opened_as
from tests.internals import remote

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
FIRST = "2026-11-20T15+00:00"

Open = Callable[[], laurels.Leaderboards]


class AnyClock(laurels.ManualClock):
    """A clock that can also be set back."""

    def set(self, now_ms: int) -> None:
        self._now_ms = now_ms


@pytest.fixture
def clock() -> AnyClock:
    return AnyClock(NOW_MS)


def create(lb: laurels.Leaderboards, *windows: str, **fields: Any) -> None:
    fields = {"changes": "3650d", "grace": "5m", "ledger": "main", **fields}
    lb.create(
        laurels.Board("b", windows=windows or ("all", "hour:keep=1,archive=forever"), **fields)
    )


def recorded(lb: laurels.Leaderboards, *kinds: str) -> list[Change]:
    return [each for each in lb.changes("b", limit=10_000) if each.kind in kinds]


def periods(lb: laurels.Leaderboards, *kinds: str) -> list[tuple[str, str]]:
    return [(each.data["window"], each.data["period"]) for each in recorded(lb, *kinds)]


def ledger_file() -> Path:
    return Path(os.environ["LAURELS_LEDGER_MAIN"].removeprefix("sqlite:///"))


def scores(lb: laurels.Leaderboards, period: str = FIRST, **ranking: Any) -> dict[str, Any]:
    page = lb.top("b", limit=1_000, period=period, **{"window": "hour", **ranking})
    return {entry.member: entry.score for entry in page}


def test_a_process_that_knows_nothing_of_a_seal_reads_the_sealed_period(
    opened: Open, clock: AnyClock
) -> None:
    one, other = opened(), opened()
    create(one)
    one.submit_many("b", [("ann", 3), ("ben", 5)])
    assert scores(other, period=None) == {"ben": 5, "ann": 3}  # type: ignore[arg-type]
    clock.advance(HOUR)
    assert scores(other) == {"ben": 5, "ann": 3}
    clock.advance(3 * DAY)
    one.submit("b", "cid", 1)
    one.seal()
    remote(one).work(100)
    assert scores(other) == {"ben": 5, "ann": 3}
    assert [each.period for each in other.archived("b")] == [FIRST]


def test_late_events_find_the_period_frozen_whatever_the_clock_of_their_process(
    opened: Open, clock: AnyClock
) -> None:
    fast, slow = opened(), opened()
    create(fast)
    slow.submit("b", "ann", 3)
    clock.set(NOW_MS + HOUR)
    fast.submit("b", "ben", 1)
    clock.set(NOW_MS + 10)  # the other process is an hour behind
    remote(slow)._catalog.latest_ms = NOW_MS + 10
    assert slow.submit("b", "ann", 1, at=NOW_MS).refused_windows == ("hour",)
    clock.set(NOW_MS + HOUR)
    assert scores(fast) == {"ann": 3}
    assert periods(fast, "close") == [("hour", FIRST)]


def test_long_downtime_over_many_boundaries_and_a_change_to_winter_time(
    opened: Open, clock: AnyClock
) -> None:
    start = datetime.fromisoformat("2026-10-24T20:30:00+02:00")
    clock.set(int(start.timestamp()) * 1_000)
    create(
        opened(),
        "hour:keep=1,archive=forever",
        "day:keep=1,archive=forever",
        "week:keep=1,archive=forever",
        tz="Europe/Berlin",
        dedupe="30d",
        grace="20d",
    )
    writer = opened()
    for hours in range(30):
        at_ms = int(start.timestamp()) * 1_000 + hours * HOUR
        clock.set(at_ms)
        writer.submit("b", f"m{hours}", 1)
    clock.advance(60 * DAY)
    late = opened()
    late.submit("b", "late", 1)
    late.seal()
    closes = periods(late, "close")
    labels = [period for window, period in closes if window == "hour"]
    assert len(labels) == len(set(labels)) == 30
    assert {"2026-10-25T02+02:00", "2026-10-25T02+01:00"}.issubset(labels)
    days = [period for window, period in closes if window == "day"]
    assert days == ["2026-10-24", "2026-10-25", "2026-10-26"]
    assert [period for window, period in closes if window == "week"] == ["2026-W43", "2026-W44"]
    rules = late.get("b").rules()
    ends = [rules.windows[window].period(period).end_ms for window, period in closes]
    assert ends == sorted(ends)
    assert sorted(periods(late, "seal")) == sorted(closes)
    assert late.verify("b", window="day", period="2026-10-25").verified
    assert len(late.top("b", window="day", period="2026-10-25", limit=100)) == 25


def test_two_processes_close_and_seal_each_period_once(opened: Open, clock: AnyClock) -> None:
    stores = [opened() for _ in range(2)]
    create(stores[0], "hour:keep=1,archive=forever", "day:archive=forever", dedupe="1d", grace="9h")
    for hours in range(8):
        clock.set(NOW_MS + hours * HOUR)
        stores[hours % 2].submit("b", f"m{hours}", 1)
    clock.set(NOW_MS + 3 * DAY)
    failures: list[BaseException] = []

    def seal(lb: laurels.Leaderboards) -> None:
        try:
            lb.submit("b", "later", 1)
            lb.seal()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=seal, args=(lb,)) for lb in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    closes = periods(stores[0], "close")
    assert len(closes) == len(set(closes)) == 9
    assert sorted(periods(stores[1], "seal")) == sorted(closes)
    for window, period in closes:
        assert stores[0].verify("b", window=window, period=period).verified


def _dies(_: Any, *__: Any, **___: Any) -> Any:
    raise LedgerUnavailable("the process has died")


@pytest.mark.parametrize(
    "where",
    [
        (PeriodClosing, "record_close"),
        (PeriodClosing, "record_floors"),
        (FinalWriter, "begin"),
        (PeriodWriter, "add"),
        (PeriodWriter, "complete"),
        (PeriodClosing, "record_seal"),
    ],
    ids=lambda where: where[1],
)
def test_another_process_goes_on_where_one_failed(
    opened: Open, clock: AnyClock, where: tuple[Any, str]
) -> None:
    one, other = opened(), opened()
    create(one, "all", "hour:keep=1,archive=forever", rank_by="room")
    one.submit_many("b", [("ann", 3, None, None, {"room": "1"}), ("ben", 5)])
    clock.advance(HOUR)
    with patch.object(*where, _dies), pytest.raises(LedgerUnavailable):
        one.seal()
    remote(other).run(_release(one, other))
    assert other.remove("b", "ann")
    other.seal()
    assert periods(other, "close") == [("hour", FIRST)]
    [seal] = recorded(other, "seal")
    assert seal.data["entries"] == 3
    clock.advance(2 * DAY)
    remote(one).work(100)
    assert scores(one) == scores(other) == {"ben": 5, "ann": 3}
    assert scores(one, by="room") == {"1": 3}
    assert one.verify("b", window="hour", period=FIRST).verified
    one.check()


def test_a_process_that_was_paused_for_longer_than_its_lease_changes_nothing(
    opened: Open, clock: AnyClock
) -> None:
    one, other = opened(), opened()
    create(one)
    one.submit_many("b", [(f"m{i}", i) for i in range(50)])
    clock.advance(HOUR)
    with patch.object(ledgers.Ledger, "write", _interleaved(one, other)):
        one.seal()
    assert periods(one, "seal") == [("hour", FIRST)]
    assert one.verify("b", window="hour", period=FIRST).verified
    assert len(scores(other)) == 50


def _interleaved(one: laurels.Leaderboards, other: laurels.Leaderboards) -> Any:
    """Return a replacement for `Ledger.write`. Before the second transaction of `one`, it ends the
    lease of `one` and lets `other` seal everything."""
    write, calls = ledgers.Ledger.write, count(1)

    async def interleaved(self: Any, work: Any) -> Any:
        if next(calls) == 2:
            store = remote(other)
            await asyncio.to_thread(store.run, _release(one, other))
            await asyncio.to_thread(other.seal)
        return await write(self, work)

    return interleaved


async def _release(one: laurels.Leaderboards, other: laurels.Leaderboards) -> None:
    """End the lease of one process by a call of another one."""
    catalog = remote(other)._catalog
    board = opened_as(await catalog.find_board("b"))
    await catalog.index.take_lease(board, remote(one)._sealing._token, 0)


def test_boards_count_while_the_ledger_is_down_and_are_sealed_later(
    opened: Open, clock: AnyClock
) -> None:
    lb = opened()
    create(lb, "all", "hour:keep=1,archive=forever")
    lb.submit("b", "ann", 3)
    file = ledger_file()
    file.mkdir()  # a folder in the place of the file, so that no database can be opened
    for hours in range(1, 6):
        clock.set(NOW_MS + hours * HOUR)
        assert lb.submit("b", "ann", 1).status == "applied"
        remote(lb).work(100)
    with pytest.raises(LedgerUnavailable):
        lb.seal()
    assert scores(lb) == {"ann": 3}
    states = {each.label: each.state for each in lb.periods("b", window="hour")}
    assert [*states.values()] == ["open", "closed", "closed", "closed", "closed", "closed"]
    assert lb.periods("b", window="hour")[1].waits_for == ("ledger:main",)
    figures = remote(lb).run(remote(lb).figures(None))
    assert figures.unsealed == [("b", 4 * HOUR / 1_000)]
    with pytest.raises(LedgerUnavailable):
        lb.delete("b")
    assert lb.rank("b", "ann") == 1
    file.rmdir()
    assert lb.seal().sealed == 5
    assert remote(lb).run(remote(lb).figures(None)).unsealed == []
    assert [each.entries for each in lb.archived("b")] == [1] * 5
    clock.advance(DAY)
    remote(lb).work(100)
    assert scores(lb) == {"ann": 3}


def test_reads_of_a_ledger_that_hangs_fail_and_others_do_not_wait(
    opened: Open, clock: AnyClock
) -> None:
    lb = opened()
    create(lb)
    lb.submit("b", "ann", 3)
    clock.advance(2 * DAY)
    lb.seal()
    ends = threading.Event()
    with (
        patch.object(ledgers, "READ_SECONDS", 0.05),
        patch.object(ledgers.Ledger, "_run", lambda *_: ends.wait(60)),
    ):
        for _ in range(2 * ledgers.READERS):
            with pytest.raises(LedgerUnavailable, match="did not answer"):
                scores(lb)
        assert lb.rank("b", "ann", window="all") == 1
        assert lb.submit("b", "ann", 1).status == "applied"
        with (
            patch.object(ledgers, "MAX_WAITING", ledgers.READERS),
            pytest.raises(LedgerUnavailable, match="keep up"),
        ):
            scores(lb)
        ends.set()
    assert scores(lb) == {"ann": 3}


def test_a_server_that_takes_connections_and_never_answers_is_unavailable(
    opened: Open, clock: AnyClock
) -> None:
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
        with patch.dict(os.environ, {"LAURELS_LEDGER_SILENT": url}):
            lb = opened()
        create(lb, ledger="silent")
        lb.submit("b", "ann", 3)
        clock.advance(2 * HOUR)
        assert lb.submit("b", "ann", 1).status == "applied"
        assert scores(lb) == {"ann": 3}


def test_a_full_disk_of_the_ledger_leaves_the_period_closed(
    opened: Open, clock: AnyClock, caplog: pytest.LogCaptureFixture
) -> None:
    lb = opened()
    create(lb)
    lb.submit_many("b", [(f"member-{i:04}", i) for i in range(3_000)])
    clock.advance(HOUR)
    with pytest.raises(LaurelsError):
        lb.verify("b", window="hour", period=FIRST)  # this makes the tables of the ledger
    remote(lb).run(remote(lb)._ledgers.named("main").read(lambda _: None))
    connect = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        return connection

    remote(lb)._ledgers.close()
    remote(lb)._ledgers._opened.clear()
    with patch.object(sqlite3, "connect", small), pytest.raises(LedgerUnavailable) as failure:
        lb.seal()
    assert "full" not in str(failure.value)
    assert "the ledger 'main' does not work: the database failed: database or disk is full" in (
        caplog.messages
    )
    assert len(scores(lb)) == 1_000
    lb.seal()
    assert lb.verify("b", window="hour", period=FIRST).verified
    assert recorded(lb, "seal")[0].data["entries"] == 3_000


def test_a_period_that_the_ledger_has_lost_is_an_error(opened: Open, clock: AnyClock) -> None:
    lb = opened()
    create(lb)
    lb.submit("b", "ann", 3)
    clock.advance(2 * DAY)
    lb.seal()
    with sqlite3.connect(ledger_file()) as database:
        database.execute("DELETE FROM laurels_final_periods")
    with pytest.raises(ArchiveDamaged, match="no standings"):
        scores(lb)
    with pytest.raises(ArchiveDamaged):
        lb.verify("b", window="hour", period=FIRST)


def test_an_entry_that_was_changed_in_the_ledger_does_not_verify(
    opened: Open, clock: AnyClock
) -> None:
    lb = opened()
    create(lb)
    lb.submit_many("b", [("ann", 3), ("ben", 5)])
    clock.advance(2 * DAY)
    lb.seal()
    with sqlite3.connect(ledger_file()) as database:
        database.execute("UPDATE laurels_final_entries SET word_1 = -9 WHERE position = 1")
    assert not lb.verify("b", window="hour", period=FIRST).verified


def test_the_clock_leaps_and_nothing_is_closed_twice(opened: Open, clock: AnyClock) -> None:
    lb = opened()
    create(lb)
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + 2 * HOUR)
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS - DAY)
    lb.submit("b", "ben", 1)
    lb.seal()
    clock.set(NOW_MS + 4 * HOUR)
    lb.submit("b", "ben", 1)
    lb.seal()
    assert periods(lb, "close") == [("hour", FIRST), ("hour", "2026-11-20T17+00:00")]
    assert sorted(periods(lb, "seal")) == periods(lb, "close")


def test_the_ledger_of_a_board_stays_once_a_period_is_closed(opened: Open, clock: AnyClock) -> None:
    lb = opened()
    create(lb)
    with pytest.raises(UnknownLedger):
        lb.change("b", ledger="other")
    lb.submit("b", "ann", 1)
    clock.advance(HOUR)
    with pytest.raises(UnsafeChange, match="ledger"):
        lb.change("b", ledger="", windows=["all", "hour:keep=1"])


def test_readers_do_not_see_the_url_of_a_ledger(
    opened: Open, clock: AnyClock, caplog: pytest.LogCaptureFixture
) -> None:
    lb = opened()
    with patch.dict(os.environ, {"LAURELS_LEDGER_WRONG": "postgresql://u:secret@127.0.0.1:1/x"}):
        broken = opened()
    create(broken, ledger="wrong")
    broken.submit("b", "ann", 1)
    clock.advance(HOUR)
    assert "secret" not in lb.get("b").to_json().decode()
    with pytest.raises(LedgerUnavailable) as failure:
        broken.seal()
    for text in ("secret", "127.0.0.1", "user"):
        assert text not in str(failure.value)
    assert "secret" not in caplog.text
    assert "127.0.0.1" in caplog.text


def test_a_page_is_read_whatever_lies_beyond_it(opened: Open, clock: AnyClock) -> None:
    lb = opened()
    create(lb, hide_zero=True, columns=[laurels.Column("score", op="last")], tie="last")
    with patch.object(frozen, "PAGE", 7):
        lb.submit_many("b", [(f"m{i:02}", i % 5, NOW_MS - 50 + i) for i in range(40)])
        before = lb.top("b", window="hour", limit=100)
        clock.advance(2 * DAY)
        lb.seal()
    assert lb.top("b", window="hour", period=FIRST, limit=100).entries == before.entries
    assert recorded(lb, "seal")[0].data["entries"] == 32
