"""The list of due payouts after a restart, a rewind, a restored backup and a leap of the clock: no
payout is left out, whatever a reader has seen before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from laurels.config import folders
from laurels.errors import StorageFailed
from laurels.errors.payouts import PayoutsDiverged
from laurels.stores.local.payouts.file import PayoutFile
from laurels.stores.local.recovery.backup import back_up, restore
from tests.archive.test_payout_recovery import (
    DAY,
    DAY_MS,
    HOUR_MS,
    NOON_MS,
    opened,
    sealed,
)


def test_a_payout_that_is_made_later_comes_later_whatever_the_clock_shows(tmp_path: Path) -> None:
    """A reader sees payouts that are due, and then the clock is set back."""
    lb, clock = sealed(tmp_path / "data")
    clock.advance(HOUR_MS)
    seen = lb.due_payouts()
    assert [each.member for each in seen] == ["ann", "bob"]
    lb.close()
    lb, clock = opened(tmp_path / "data", NOON_MS)
    with lb:
        lb.disqualify("b", "ann", "a bot", window="day", period=DAY)
        clock.advance(2 * DAY_MS)
        assert [each.member for each in lb.due_payouts(after=seen.cursor)] == [
            *("bob", "cid", "ann", "bob")
        ]


def test_no_page_of_due_payouts_needs_all_of_them_to_be_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All payouts of a seal are due at the same time. A page that begins after one of them has the
    others of the same time, and then payouts of later times. Both are read in the order of the
    index, without sorting."""
    plans: list[str] = []
    original = PayoutFile.rows

    def rows(self: PayoutFile, statement: str, arguments: Any = ()) -> list[Any]:
        plan = original(self, f"EXPLAIN QUERY PLAN {statement}", arguments)
        plans.extend([detail for *_, detail in plan if "ORDER BY" in statement])
        return original(self, statement, arguments)

    monkeypatch.setattr(PayoutFile, "rows", rows)
    lb, clock = sealed(tmp_path / "data")
    with lb:
        clock.advance(HOUR_MS)
        first = lb.due_payouts(limit=1)
        assert [each.member for each in lb.due_payouts(after=first.cursor)] == ["bob"]
    assert any("in_list (<expr>=? AND serial>?)" in plan for plan in plans)
    assert any("in_list (<expr>>? AND <expr><?)" in plan for plan in plans)
    assert [plan for plan in plans if "TEMP B-TREE" in plan] == []


def test_a_rewound_store_refuses_the_cursors_of_readers(tmp_path: Path) -> None:
    lb, clock = sealed(tmp_path / "data")
    clock.advance(HOUR_MS)
    cursor = lb.due_payouts(limit=1).cursor
    lb.move_payout_position("r", None, cursor)
    lb.close()
    folders.rewind(str(tmp_path / "data"), NOON_MS + DAY_MS, dry_run=False)
    lb, clock = opened(tmp_path / "data", NOON_MS + DAY_MS)
    with lb:
        assert [each.state for each in lb.payouts("b")] == ["pending", "pending"]
        assert list(lb.due_payouts()) == []
        with pytest.raises(PayoutsDiverged):
            lb.due_payouts(after=cursor)
        assert lb.payout_positions() == {"r": cursor}
        lb.move_payout_position("r", cursor, None)
        clock.advance(HOUR_MS)
        assert [each.member for each in lb.due_payouts()] == ["ann", "bob"]


def test_a_store_from_a_backup_refuses_the_cursors_that_were_made_later(tmp_path: Path) -> None:
    """The reader then starts at the beginning of the list. Payouts that it has read before still
    have the same ids."""
    lb, clock = sealed(tmp_path / "data")
    lb.close()
    back_up(tmp_path / "data", tmp_path / "backup")
    lb, clock = opened(tmp_path / "data", NOON_MS + DAY_MS)
    lb.submit_many("b", [("dot", 9)])
    clock.advance(DAY_MS)
    lb.seal()
    clock.advance(HOUR_MS)
    seen = lb.due_payouts()
    assert [each.member for each in seen] == ["ann", "bob", "dot"]
    lb.close()
    restore(tmp_path / "backup", tmp_path / "again")
    lb, clock = opened(tmp_path / "again", NOON_MS + DAY_MS)
    with lb:
        lb.submit_many("b", [("eve", 9)])
        clock.advance(DAY_MS)
        lb.seal()
        clock.advance(HOUR_MS)
        with pytest.raises(PayoutsDiverged):
            lb.due_payouts(after=seen.cursor)
        again = lb.due_payouts()
        assert [each.member for each in again] == ["ann", "bob", "eve"]
        assert [each.id for each in again][:2] == [each.id for each in seen][:2]


def test_positions_and_the_list_outlive_the_store_and_the_board(tmp_path: Path) -> None:
    lb, clock = sealed(tmp_path / "data")
    clock.advance(HOUR_MS)
    page = lb.due_payouts(limit=1)
    lb.move_payout_position("r", None, page.cursor)
    for payout in lb.payouts("b"):
        lb.confirm("b", payout.id, "bank")
    lb.delete("b")
    lb.close()
    lb, _ = opened(tmp_path / "data", clock.now_ms())
    with lb:
        assert lb.payout_positions() == {"r": page.cursor}
        [later] = lb.due_payouts(after=page.cursor)
        assert (later.member, later.state, later.reference) == ("bob", "confirmed", "bank")
        assert [each.board for each in lb.waiting_payouts()] == ["b"]
        lb.check()


def test_a_table_of_an_earlier_version_is_used(tmp_path: Path) -> None:
    lb, clock = sealed(tmp_path / "data")
    lb.close()
    with closing(sqlite3.connect(tmp_path / "data" / "payouts.db")) as database:
        for statement in (
            "DROP INDEX in_list",
            "DROP TABLE emitted",
            "DROP TABLE reader",
            "ALTER TABLE payout DROP COLUMN tag",
            "ALTER TABLE payout DROP COLUMN erased",
            "ALTER TABLE payout DROP COLUMN list_ms",
            "ALTER TABLE payout DROP COLUMN number",
        ):
            database.execute(statement)
        database.commit()
    lb, clock = opened(tmp_path / "data", clock.now_ms() + HOUR_MS)
    with lb:
        page = lb.due_payouts(limit=1)
        assert [each.member for each in page] == ["ann"]
        assert [each.member for each in lb.due_payouts(after=page.cursor)] == ["bob"]


def test_the_payouts_of_an_erased_member_are_not_listed_again(tmp_path: Path) -> None:
    """The erasure changes the ids of these payouts. If they were listed again, a reader that was
    killed before it stored its position would pay them twice. A position after one of them stays
    valid."""
    lb, clock = sealed(tmp_path / "data")
    clock.advance(HOUR_MS)
    first = lb.due_payouts(limit=1)
    assert [each.member for each in first] == ["ann"]
    lb.move_payout_position("r", None, first.cursor)
    for payout in lb.payouts("b"):
        lb.confirm("b", payout.id, "bank")
    token = lb.erase("ann", "asked for it").token
    assert [each.member for each in lb.due_payouts()] == ["bob"]
    assert [each.payouts for each in lb.waiting_payouts()] == [1]
    lb.close()
    lb, _ = opened(tmp_path / "data", clock.now_ms())
    with lb:
        assert [each.member for each in lb.due_payouts()] == ["bob"]
        assert [each.member for each in lb.due_payouts(after=first.cursor)] == ["bob"]
        [kept] = lb.payouts("b", member=token)
        assert (kept.state, kept.amount) == ("confirmed", 100)


@pytest.mark.parametrize("name", ["payouts.db", "audit.db"])
def test_an_erasure_is_complete_only_when_no_reader_keeps_what_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lb, clock = sealed(tmp_path / "data")
    clock.advance(HOUR_MS)
    for payout in lb.payouts("b"):
        lb.confirm("b", payout.id, "bank")
    lb.hide("b", "ann", "a bot")
    lb.show("b", "ann")
    lb.close()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0.1))
    lb, _ = opened(tmp_path / "data", clock.now_ms())
    with lb:
        with closing(sqlite3.connect(tmp_path / "data" / name)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_master").fetchall()
            with pytest.raises(StorageFailed, match="another program"):
                lb.erase("ann", "asked for it")
        lb.seal()
        for path in (tmp_path / "data").glob(f"{name}*"):
            assert b"ann" not in path.read_bytes()


def test_an_erasure_names_the_sinks_of_payouts_and_snapshots_that_were_set_aside(
    tmp_path: Path,
) -> None:
    lb, clock = sealed(tmp_path / "data")
    clock.advance(HOUR_MS)
    lb.move_payout_position("sink:pay", None, lb.due_payouts(limit=1).cursor)
    lb.move_payout_position("sink:pay b*", None, lb.due_payouts(limit=1).cursor)
    lb.move_payout_position("own", None, lb.due_payouts(limit=1).cursor)
    for payout in lb.payouts("b"):
        lb.confirm("b", payout.id, "bank")
    aside = [f"snapshot-{7:020}.ahead", f"snapshot-{9:020}.damaged"]
    for name in aside:
        (tmp_path / "data" / name).write_bytes(b"ann")
    with lb:
        remains = [(each.place, each.names) for each in lb.erase("ann", "asked for it").remains]
        assert ("sinks", ["pay"]) in remains
        assert ("snapshots", aside) in remains
        again = [(each.place, each.names) for each in lb.erase("dot", "asked for it").remains]
        assert "sinks" not in dict(again), "it had no payouts"
