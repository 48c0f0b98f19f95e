"""The payouts of a large period are published in shares. If the process is killed between two
shares, queries still give the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels
from laurels.core.payouts import DuePlace, PayoutFilter, PayoutRow
from laurels.stores.local.payouts.making import stage_payouts
from laurels.stores.local.payouts.publishing import SHARE
from laurels.stores.local.payouts.table import PayoutTable
from laurels.timeline.instants import MAX_MS
from tests.internals import local

from .test_payouts import archive, board, sealed

EACH = {"list": [{"name": "each", "percent": 100, "amount": 1}], "pay_after": "1s"}
COUNT = 3 * SHARE + 1
KEY = ("uid", "month", 0)


def staged(table: PayoutTable) -> None:
    rows = [(f"m{number:04}", COUNT - number) for number in range(COUNT)]
    stage_payouts(table, sealed(archive(), board(EACH), rows))


def listed(table: PayoutTable) -> list[PayoutRow]:
    return [row for _, row in table.page(PayoutFilter("b"), 0, (0, 0), 2 * COUNT)]


def identity(number: int) -> str:
    return f"uid/month/2026-11//m{number:04}/each/0"


@pytest.fixture(params=["file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "file" else None


def test_a_share_is_published_at_once_and_the_others_by_whoever_reads(folder: Path | None) -> None:
    table = PayoutTable(folder)
    staged(table)
    assert not table.publish_share()
    table.publish(1, *KEY, 0, 7_000, 5)
    assert table.is_publishing
    assert table.emission.next_ms == MAX_MS  # no payout is emitted before all are published
    assert table.emission.share(10**9, 10) is None
    first, last = table.find(identity(0)), table.find(identity(COUNT - 1))
    assert first is not None
    assert last is not None
    assert (last.made_ms, last.due_ms) == (first.made_ms, first.due_ms) == (7_000, 8_000)
    assert table.find("uid/month/2026-11//m0000/other/0") is None
    assert table.open_on("uid")
    assert table.publish_share()
    assert table.page(PayoutFilter("another"), 0, (0, 0), 9) == []
    # that query, about another board, has not waited until all payouts are published
    assert table.publish_share()
    rows = listed(table)
    assert [row.id for row in rows] == [identity(number) for number in range(COUNT)]
    assert {(row.made_ms, row.due_ms) for row in rows} == {(7_000, 8_000)}
    assert rows[-1] == last
    assert not table.publish_share()
    assert table.emission.next_ms == 8_000


def test_publishing_goes_on_after_a_kill(tmp_path: Path) -> None:
    table = PayoutTable(tmp_path)
    staged(table)
    table.publish(1, *KEY, 0, 7_000, 5)
    table.publish_share()
    table.close()
    opened = PayoutTable(tmp_path)
    opened.publish(1, *KEY, 0, 7_000, 5)  # the log is folded once more
    assert opened.is_publishing
    opened.undo_after(lambda *_: 0, 7_000, lambda: 9)
    assert not opened.publish_share()
    assert opened.emission.next_ms == 8_000
    assert len(listed(opened)) == COUNT
    opened.publish(1, *KEY, 0, 7_000, 5)
    assert not opened.publish_share()


def test_what_a_lost_record_published_is_taken_back(tmp_path: Path) -> None:
    table = PayoutTable(tmp_path)
    staged(table)
    table.publish(1, *KEY, 0, 7_000, 5)
    table.close()
    opened = PayoutTable(tmp_path)
    opened.undo_after(lambda *_: -1, 7_000, lambda: 9)
    assert not opened.is_publishing
    assert listed(opened) == []
    staged(opened)
    opened.publish(1, *KEY, 0, 9_000, 6)
    assert {row.made_ms for row in listed(opened)} == {9_000}


def test_emission_of_a_replayed_log_publishes_first(tmp_path: Path) -> None:
    table = PayoutTable(tmp_path)
    staged(table)
    table.publish(1, *KEY, 0, 7_000, 5)
    until = DuePlace(8_000, 10**9)
    table.emit(until)
    [rows] = table.emitted(DuePlace(0, 0), until).values()
    assert len(rows) == COUNT
    assert not table.is_publishing


def test_a_large_period_of_a_store_owes_each_payout_once() -> None:
    clock = laurels.ManualClock(1_795_188_600_000)
    with laurels.open("memory:", clock=clock) as lb:
        window = {"name": "day", "type": "day", "prizes": EACH}
        lb.create(laurels.Board("b", tie="member", windows=[window]))
        lb.submit_many("b", [(f"m{number:04}", COUNT - number) for number in range(COUNT)])
        clock.advance(86_400_000)
        lb.seal()
        assert not local(lb).payouts.is_publishing
        clock.advance(1_000)
        due = lb.due_payouts(limit=2 * COUNT)
        assert [each.member for each in due] == [f"m{number:04}" for number in range(COUNT)]
        lb.check()
