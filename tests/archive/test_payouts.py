"""Payouts of sealed periods and of their corrections, compared with a plain recount: at every
moment the payouts of a period that are not superseded add up to what its members win."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.core.entry_columns import EntryColumns
from laurels.core.payouts import PayoutFilter, PayoutRow, payout_id, payout_of
from laurels.core.period_awards import SealedStandings
from laurels.model.board import Board
from laurels.stores.local import correcting
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import MemorySegments
from laurels.stores.local.archive.ranking_form import FrozenRanking
from laurels.stores.local.archive.segment import PeriodKey
from laurels.stores.local.payouts.making import (
    archived_standings,
    stage_correction,
    stage_payouts,
)
from laurels.stores.local.payouts.table import PayoutTable
from tests.conftest import Scaled
from tests.prizes import Row, balance, random_prizes, winnings

START = (0, 0)


def board(prizes: dict[str, Any]) -> Board:
    return Board("b", tie="member", windows=[{"type": "month", "prizes": prizes}])


def sealed(
    archive: Archive, definition: Board, rows: Sequence[Row], revision: int = 0
) -> SealedStandings:
    """Archive a ranking as a revision of a period, and return its standings."""
    key = PeriodKey("uid", "month", 0, revision)
    members = [member.encode() for member, _ in rows]
    chunks = [EntryColumns.of(members, [[-score for _, score in rows]])]
    ranking = FrozenRanking("", "ordinal", 1, 1, len(rows), chunks)
    archive.write([(key, [ranking] if rows else [])])
    archived = archive.open(key)
    assert archived is not None
    prizes = definition.prizes()["month"]
    return archived_standings(archived, "b", definition.rules(), prizes, "2026-11", 0)


def archive() -> Archive:
    return Archive(MemorySegments(), secrets.token_bytes)


def publish(table: PayoutTable, revision: int, now_ms: int) -> None:
    table.publish(1, "uid", "month", 0, revision, now_ms, tag=7)


def every(table: PayoutTable, now_ms: int = 0, **wanted: Any) -> list[PayoutRow]:
    """Return all payouts, read in small pages."""
    found: list[PayoutRow] = []
    after = START
    while page := table.page(PayoutFilter("b", **wanted), now_ms, after, 3):
        after = page[-1][1].due_ms, page[-1][0]
        found += [row for _, row in page]
    return found


@pytest.fixture(params=["file", "memory"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> PayoutTable:
    return PayoutTable(tmp_path if request.param == "file" else None)


GOLD = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "ten", "ranks": [1, 10], "data": {"badge": 7}},
    ],
    "pay_after": "1s",
}


def test_payouts_are_invisible_until_they_are_published(table: PayoutTable) -> None:
    standings = sealed(archive(), board(GOLD), [("ann", 9), ("bob", 8)])
    assert every(table) == []
    stage_payouts(table, standings)
    stage_payouts(table, standings)
    assert every(table) == []
    assert not table.open_on("uid")
    publish(table, 0, 7_000)
    payouts = [payout_of(row, 7_999) for row in every(table)]
    assert [(each.member, each.prize, each.amount, each.data) for each in payouts] == [
        ("ann", "gold", Decimal("5.00"), None),
        ("ann", "ten", None, {"badge": 7}),
        ("bob", "ten", None, {"badge": 7}),
    ]
    assert {(each.state, each.made_ms, each.due_ms) for each in payouts} == {
        ("pending", 7_000, 8_000)
    }
    assert payouts[0].id == "uid/month/2026-11//ann/gold/0"
    assert payout_of(every(table)[0], 8_000).state == "due"
    assert table.open_on("uid")
    publish(table, 0, 9_000)
    stage_payouts(table, standings)
    assert {row.made_ms for row in every(table)} == {7_000}


def test_a_confirmed_payout_keeps_its_first_reference(table: PayoutTable) -> None:
    stage_payouts(table, sealed(archive(), board(GOLD), [("ann", 9)]))
    publish(table, 0, 0)
    ids = [row.id for row in every(table)]
    table.confirm(ids[0], "bank-1", 50)
    table.confirm(ids[0], "bank-2", 60)
    confirmed = table.find(ids[0])
    assert confirmed is not None
    assert (confirmed.reference, confirmed.confirmed_ms) == ("bank-1", 50)
    assert table.open_on("uid")
    table.confirm(ids[1], "bank-3", 60)
    assert not table.open_on("uid")
    assert [row.id for row in every(table, state="confirmed")] == ids
    assert every(table, state="due", now_ms=10**9) == []


def test_payouts_are_found_by_window_period_member_and_state(table: PayoutTable) -> None:
    stage_payouts(table, sealed(archive(), board(GOLD), [("ann", 9), ("bob", 8)]))
    publish(table, 0, 0)
    assert len(every(table, window="month", period="2026-11")) == 3
    assert len(every(table, member="ann")) == 2
    assert every(table, window="day") == []
    assert every(table, period="2026-10") == []
    assert len(every(table, state="pending", now_ms=999)) == 3
    assert every(table, due_only=True, now_ms=999) == []
    assert len(every(table, due_only=True, now_ms=1_000)) == 3
    assert table.page(PayoutFilter("c"), 0, START, 9) == []
    assert table.knows("b")
    assert not table.knows("c")


def test_the_parts_of_an_id_cannot_be_confused() -> None:
    ids = {
        payout_id("u", "w", "p", scope, member, prize, 0)
        for scope in ("", "room=1", "a/b")
        for member in ("", "a/b", "a%2Fb", "é")
        for prize in ("x", "b/x", "%")
    }
    assert len(ids) == 36
    assert all(id.count("/") == 6 and id.isascii() for id in ids)


def test_a_correction_before_the_payouts_are_due_supersedes_them(table: PayoutTable) -> None:
    store, definition = archive(), board(GOLD)
    stage_payouts(table, sealed(store, definition, [("ann", 9), ("bob", 8)]))
    publish(table, 0, 0)
    stage_correction(table, sealed(store, definition, [("bob", 8)], 1), 500)
    assert table.next_due_of_replaced("uid", "month", 0, 1) == 1_000
    assert [row.superseded for row in every(table)] == [None] * 3
    publish(table, 1, 500)
    rows = {row.id: row for row in every(table)}
    assert {id: row.superseded for id, row in rows.items()} == {
        "uid/month/2026-11//ann/gold/0": 1,
        "uid/month/2026-11//ann/ten/0": 1,
        "uid/month/2026-11//bob/ten/0": None,
        "uid/month/2026-11//bob/gold/1": None,
    }
    assert rows["uid/month/2026-11//bob/gold/1"].due_ms == 1_500


def test_a_correction_of_payouts_that_are_due_adds_the_differences(table: PayoutTable) -> None:
    store, definition = archive(), board(GOLD)
    stage_payouts(table, sealed(store, definition, [("ann", 9), ("bob", 8)]))
    publish(table, 0, 0)
    table.confirm("uid/month/2026-11//ann/gold/0", "bank-1", 2_000)
    stage_correction(table, sealed(store, definition, [("bob", 8)], 1), 2_000)
    publish(table, 1, 2_000)
    payouts = {row.id: payout_of(row, 2_000) for row in every(table)}
    assert all(payout.superseded_by is None for payout in payouts.values())
    back = payouts["uid/month/2026-11//ann/gold/1"]
    assert (back.amount, back.corrects) == (Decimal("-5.00"), "uid/month/2026-11//ann/gold/0")
    taken = payouts["uid/month/2026-11//ann/ten/1"]
    assert (taken.amount, taken.withdrawn) == (None, True)
    assert payouts["uid/month/2026-11//bob/gold/1"].amount == Decimal("5.00")
    assert "uid/month/2026-11//bob/ten/1" not in payouts


def test_a_correction_that_was_interrupted_leaves_nothing_behind(table: PayoutTable) -> None:
    store, definition = archive(), board(GOLD)
    stage_payouts(table, sealed(store, definition, [("ann", 9), ("bob", 8)]))
    publish(table, 0, 0)
    stage_correction(table, sealed(store, definition, [("bob", 8)], 1), 500)
    stage_correction(table, sealed(store, definition, [("ann", 9)], 1), 500)
    publish(table, 1, 500)
    open_ids = [row.id for row in every(table, state="pending", now_ms=500)]
    assert open_ids == ["uid/month/2026-11//ann/gold/0", "uid/month/2026-11//ann/ten/0"]


def owed_now(table: PayoutTable) -> Counter[tuple[str, str]]:
    """Return the total of the payouts that are not superseded, for each member and prize."""
    return balance(
        (row.member, row.prize, row.units, row.withdrawn)
        for row in every(table)
        if row.superseded is None
    )


def test_after_every_correction_the_payouts_add_up_to_what_is_won(scaled: Scaled) -> None:
    random = Random("corrections")
    for _ in range(scaled(60, 3_000)):
        store, table = archive(), PayoutTable(None)
        definition = board(random_prizes(random))
        prizes = definition.prizes()["month"]
        rows = [(f"m{i:02}", random.randint(0, 6)) for i in range(random.randint(1, 12))]
        now_ms, reported = 0, dict[str, PayoutRow]()
        for revision in range(random.randint(1, 5)):
            if revision:
                rows.pop(random.randrange(len(rows)))
            ranked = sorted(rows, key=lambda row: (-row[1], row[0]))
            standings = sealed(store, definition, ranked, revision)
            for _ in range(random.randint(1, 2)):
                if revision:
                    stage_correction(table, standings, now_ms)
                else:
                    stage_payouts(table, standings)
            publish(table, revision, now_ms)
            assert owed_now(table) == winnings(prizes, ranked)
            for id, row in reported.items():
                kept = table.find(id)
                assert kept is not None
                assert kept.superseded is None, "a payout that was due has been superseded"
                assert (kept.units, kept.due_ms) == (row.units, row.due_ms)
            now_ms += random.randint(0, 4)
            for row in every(table, due_only=True, now_ms=now_ms):
                reported[row.id] = row
                if random.random() < 0.5:
                    table.confirm(row.id, "paid", now_ms)
            if not rows:
                break


def play_a_day(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> str:
    """Create a board with prizes, and seal its first day, which `ann` wins. Return the label of the
    day."""
    lb.create(laurels.Board("b", windows=[{"type": "day", "prizes": GOLD}]))
    lb.submit_many("b", [("ann", 9), ("bob", 8)])
    period = lb.periods("b")[0].label
    clock.advance(86_400_000)
    lb.seal()
    return period


def test_a_payout_that_becomes_due_while_a_correction_is_prepared_is_not_superseded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = laurels.ManualClock(1_795_000_000_000)
    with laurels.open("memory:", clock=clock) as lb:
        period = play_a_day(lb, clock)
        attempts: list[int] = []

        def stage_slowly(*arguments: Any) -> None:
            stage_correction(*arguments)
            if not attempts:
                clock.advance(1_000)
            attempts.append(clock.now_ms())

        monkeypatch.setattr(correcting, "stage_correction", stage_slowly)
        lb.disqualify("b", "ann", "a bot", period=period)
        assert len(attempts) == 2
        gold = [each for each in lb.payouts("b") if each.prize == "gold"]
        assert [(each.member, each.amount, each.state) for each in gold] == [
            ("ann", Decimal("5.00"), "due"),
            ("bob", Decimal("5.00"), "pending"),
            ("ann", Decimal("-5.00"), "pending"),
        ]


def test_a_payout_that_is_confirmed_while_a_correction_is_prepared_counts_as_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = laurels.ManualClock(1_795_000_000_000)
    with laurels.open("memory:", clock=clock) as lb:
        period = play_a_day(lb, clock)
        confirmed: list[str] = []

        def stage_slowly(*arguments: Any) -> None:
            stage_correction(*arguments)
            if not confirmed:
                clock.advance(1_000)
                confirmed.extend(each.id for each in lb.payouts("b"))
                for id in confirmed:
                    lb.confirm("b", id, "bank")

        monkeypatch.setattr(correcting, "stage_correction", stage_slowly)
        lb.disqualify("b", "ann", "a bot", period=period)
        gold = [each for each in lb.payouts("b") if each.prize == "gold"]
        assert [(each.member, each.amount, each.state) for each in gold] == [
            ("ann", Decimal("5.00"), "confirmed"),
            ("bob", Decimal("5.00"), "pending"),
            ("ann", Decimal("-5.00"), "pending"),
        ]
