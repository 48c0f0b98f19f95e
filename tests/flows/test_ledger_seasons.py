"""A ledger gets the same sealed periods, payouts and hidden members of its boards as the store
has."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.core.payouts import payout_of
from laurels.core.sealed_contents import DigestOfPieces
from laurels.errors import StorageFailed
from laurels.errors.sinks import TargetUnavailable
from laurels.flows.ledger.reading import LedgerReader
from laurels.flows.ledger.rebuild import rebuild
from laurels.sql import hidden_rows, payout_rows
from laurels.sql.databases import dialect_of
from laurels.sql.final_reading import FinalReader
from laurels.sql.final_writing import PeriodWriter
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.sealing_thread import SealingThread
from tests.internals import copies_of

from .reconciling import reconciled
from .sinking import rows, sent

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
TODAY = "2026-11-20"
PRIZES = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "two", "ranks": [1, 2], "data": {"badge": 7}},
    ],
    "pay_after": "1h",
}


def board(**fields: Any) -> laurels.Board:
    windows = ["all", {"name": "day", "type": "day", "keep": 2, "prizes": PRIZES}, "month"]
    return laurels.Board(
        "b", **{"windows": windows, "changes": "60d", "scopes": [[], ["room"]], **fields}
    )


class Seasons:
    """A board in memory and its ledger."""

    def __init__(self, url: str, **fields: Any) -> None:
        self.url = url
        self.dialect, self.prefix = dialect_of(url)
        self.clock = laurels.ManualClock(NOW_MS)
        self.board = board(**fields)

    async def open(self) -> laurels.AsyncLeaderboards:
        self.lb = await laurels.open_async("memory:", clock=self.clock)
        await self.lb.create(self.board)
        return self.lb

    async def play(self, members: int = 5) -> None:
        await self.lb.submit_many(
            "b", [(f"m{i}", i, None, None, {"room": "a"}) for i in range(members)]
        )

    async def end_day(self) -> None:
        self.clock.advance(DAY)
        await self.lb.seal()

    def table(self, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return rows(self.url, f"SELECT {columns} FROM {self.prefix}{name}")

    def execute(self, *statements: str) -> None:
        """Execute a statement in the database of the ledger."""
        with closing(self.dialect.connect()) as connection:
            for statement in statements:
                self.dialect.execute(connection, statement)
            connection.commit()

    async def ensure_equal(self) -> None:
        """Compare the sealed periods, the payouts and the hidden members of ledger and store."""
        with closing(self.dialect.connect()) as connection:
            reader = FinalReader(self.dialect, self.prefix, connection)
            [uid] = {row[0] for row in self.table("final_periods", "uid")} or {""}
            stored = reader.periods(uid)
            listed = await self.lb.archived("b")
            assert {
                (p.revision.window, p.revision.instance, p.revision.seal.digest.hex())
                for p in stored
                if p.is_current
            } == {(each.window, each.start_ms, each.digest) for each in listed}
            assert len(stored) == sum(each.revision + 1 for each in listed)
            for period in stored:
                digest = DigestOfPieces()
                for piece in reader.pieces(period):
                    digest.add(piece)
                assert digest.digest() == period.revision.seal.digest
        payouts = await self.lb.payouts("b", limit=2_000)
        now_ms = self.clock.now_ms()
        found = [
            payout_rows.payout_of_row(row) for row in self.table("payouts", payout_rows.SELECTED)
        ]
        assert {each.id: payout_of(each, now_ms) for each in found} == {
            payout.id: payout for payout in payouts
        }
        hidden = dict(map(hidden_rows.hiding_of_row, self.table("hidden", hidden_rows.SELECTED)))
        assert {member: hiding.reason for member, hiding in hidden.items()} == {
            each.member: each.reason for each in await self.lb.hidden("b")
        }


def test_sealed_periods_payouts_and_hidden_members_follow_the_store(url: str) -> None:
    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        await sent(lb, url)
        await seasons.play()
        await lb.hide("b", "m4", "a bot", until=NOW_MS + 30 * DAY)
        await lb.hide("b", "m0", "asked for it")
        await sent(lb, url)
        await seasons.ensure_equal()
        await seasons.end_day()
        await lb.show("b", "m0")
        await sent(lb, url)
        await seasons.ensure_equal()
        gold = next(p for p in await lb.payouts("b") if p.prize == "gold")
        assert gold.member == "m3"
        seasons.clock.advance(HOUR)
        await lb.confirm("b", gold.id, "bank-17")
        await lb.disqualify("b", "m3", "cheated", window="day", period=TODAY)
        await seasons.play()
        await sent(lb, url)
        await seasons.ensure_equal()
        assert seasons.table("member_data") == []
        await seasons.end_day()
        await sent(lb, url)
        await seasons.ensure_equal()
        shown = rows(
            url,
            f"SELECT member FROM {seasons.prefix}final_standings WHERE board = 'b' "
            f"AND window_name = 'day' AND period = '{TODAY}' AND scope = '' AND is_current = 1 "
            "ORDER BY position",
        )
        expected = await lb.top("b", window="day", period=TODAY)
        assert [member for (member,) in shown] == [entry.member for entry in expected]
        await lb.close()

    asyncio.run(run())


def test_a_ledger_that_begins_later_gets_everything(url: str) -> None:
    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        for _ in range(4):
            await seasons.play()
            await seasons.end_day()
        await lb.disqualify("b", "m4", "cheated", window="day", period=TODAY)
        await lb.hide("b", "m1", "a bot")
        await sent(lb, url)
        await seasons.ensure_equal()
        await lb.close()

    asyncio.run(run())


def test_periods_that_leave_the_archive_leave_the_ledger(url: str) -> None:
    async def run() -> None:
        windows = ["all", "day:keep=2,archive=2"]
        seasons = Seasons(url, windows=windows)
        lb = await seasons.open()
        for _ in range(5):
            await seasons.play()
            await seasons.end_day()
            await sent(lb, url)
            await seasons.ensure_equal()
        assert len(seasons.table("final_periods")) == 2
        await lb.close()

    asyncio.run(run())


def test_a_removal_leaves_closed_periods_as_they_are(url: str) -> None:
    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        await sent(lb, url)
        await seasons.play()
        seasons.clock.advance(DAY)
        await seasons.play()
        # the close, the removal and the changes before them may be in the same page or in different
        # pages
        for member in ("m1", "m2"):
            await lb.remove("b", member)
            await sent(lb, url)
            for period in await lb.periods("b", window="day"):
                ranked = {
                    each.member
                    for each in await lb.top("b", window="day", period=period.label, limit=100)
                }
                stored = rows(
                    url,
                    f"SELECT member FROM {seasons.prefix}scores WHERE board = 'b' "
                    f"AND window_name = 'day' AND period = '{period.label}' AND scope = ''",
                )
                assert {member for (member,) in stored} == ranked
            assert {
                m for (m,) in rows(
                    url,
                    f"SELECT member FROM {seasons.prefix}scores "
                    "WHERE window_name = 'all' AND scope = ''",
                )
            } == {each.member for each in await lb.top("b", limit=100)}  # fmt: skip
        await lb.close()

    asyncio.run(run())


def test_an_interrupted_period_is_written_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        await seasons.play(50)
        await seasons.end_day()
        tries = iter([True, True])
        complete = PeriodWriter.complete

        def interrupted(writer: PeriodWriter) -> None:
            if next(tries, False):
                assert seasons.table("final_standings") == []
                raise TargetUnavailable("the database failed")
            complete(writer)

        monkeypatch.setattr(PeriodWriter, "complete", interrupted)
        await sent(lb, url)
        await seasons.ensure_equal()
        assert len(seasons.table("final_entries")) == len(seasons.table("final_standings")) == 100
        await lb.close()

    asyncio.run(run())


def test_a_store_made_from_the_ledger_hides_the_same_members_and_pays_nothing_twice(
    url: str,
) -> None:
    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        await seasons.play()
        await seasons.end_day()
        await lb.disqualify("b", "m4", "cheated", window="day", period=TODAY)
        seasons.clock.advance(2 * HOUR)
        [first, *_] = await lb.payouts("b", state="due")
        await lb.confirm("b", first.id, "bank 1")
        await seasons.play()
        await seasons.end_day()
        await lb.disqualify("b", "m3", "as well", window="day", period=TODAY)
        await seasons.play()
        await lb.hide("b", "m1", "a bot")
        await lb.hide("b", "m2", "a bot", until=seasons.clock.now_ms() + 90 * DAY)
        await sent(lb, url)
        new = await laurels.open_async("memory:", clock=seasons.clock)
        with closing(LedgerReader(seasons.dialect, seasons.prefix)) as reader:
            reader.open()
            await asyncio.to_thread(rebuild, reader, copies_of(new))
        assert await new.hidden("b") == await lb.hidden("b")
        shown = [each.member for each in await new.top("b", window="day")]
        assert shown == [each.member for each in await lb.top("b", window="day")]
        assert (await new.seal()).sealed == 0
        owed = {p.id: (p.state, p.reference) for p in await lb.payouts("b")}
        assert {p.id: (p.state, p.reference) for p in await new.payouts("b")} == owed
        assert {state for state, _ in owed.values()} >= {"pending", "due", "confirmed"}
        assert await new.archived("b") == await lb.archived("b")
        for info in await lb.archived("b"):
            found = await new.verify("b", window=info.window, period=info.period)
            assert (found.verified, found.archive) == (True, info.digest)
            for revision in range(info.revision + 1):
                chosen: dict[str, Any] = {"window": info.window, "period": info.period}
                for labels in ({}, {"room": "a"}):
                    pages = [
                        await each.top("b", revision=revision, labels=labels, **chosen)
                        for each in (lb, new)
                    ]
                    assert pages[0].entries == pages[1].entries
        seasons.clock.advance(DAY)
        for each in (lb, new):
            await each.seal()
        of_today = [p.id for p in await new.payouts("b", period="2026-11-22")]
        assert of_today == [p.id for p in await lb.payouts("b", period="2026-11-22")]
        assert len(of_today) == 3
        assert len(await new.payouts("b", limit=1_000)) == len(owed) + 3
        await lb.close()
        await new.close()

    asyncio.run(run())


def test_a_comparison_finds_no_difference_in_hidden_members_and_closed_periods(url: str) -> None:
    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        await sent(lb, url)
        await seasons.play()
        await lb.hide("b", "m1", "a bot")
        await seasons.end_day()
        await seasons.play()
        await lb.remove("b", "m2")
        await lb.submit("b", "m1", 7)
        await sent(lb, url)
        result = await reconciled(lb, url)
        assert (result.differing, result.waiting) == (0, 0)
        assert result.entries
        await seasons.end_day()
        await seasons.end_day()
        await lb.submit("b", "m9", 7)
        await sent(lb, url)
        result = await reconciled(lb, url)
        assert (result.differing, result.waiting) == (0, 0)
        await lb.close()

    asyncio.run(run())


def test_differences_of_seasons_are_found_and_mended_in_the_ledger_only(url: str) -> None:
    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        await seasons.play()
        await seasons.end_day()
        await lb.disqualify("b", "m4", "cheated", window="day", period=TODAY)
        await seasons.play()
        await seasons.end_day()
        await lb.hide("b", "m1", "a bot")
        await sent(lb, url)
        equal = await reconciled(lb, url)
        assert (equal.differing, equal.sealed, equal.season_differences) == (0, 3, ())
        assert equal.payouts == len(await lb.payouts("b"))
        [[number]] = rows(
            url,
            f"SELECT number FROM {seasons.prefix}final_periods "
            "WHERE instance = (SELECT min(instance) FROM "
            f"{seasons.prefix}final_periods) AND revision = 0",
        )
        names = [f"day {TODAY} 0", f"day {TODAY} 1", "day 2026-11-21 0"]
        owed = {each.id: each for each in await lb.payouts("b")}
        lost, changed = sorted(owed)[:2]
        seasons.execute(
            f"UPDATE {seasons.prefix}final_entries SET word_1 = word_1 + 1 WHERE position = 1 "
            f"AND ranking IN (SELECT ranking FROM {seasons.prefix}final_rankings "
            f"WHERE number = {number})",
            f"DELETE FROM {seasons.prefix}final_periods WHERE revision = 1",
            f"DELETE FROM {seasons.prefix}payouts WHERE payout = '{payout_rows.payout_key(lost)}'",
            f"UPDATE {seasons.prefix}payouts SET reference = 'forged', confirmed_at = 1 "
            f"WHERE payout = '{payout_rows.payout_key(changed)}'",
            f"DELETE FROM {seasons.prefix}hidden",
        )
        wrong = {("sealed", name) for name in names[:2]} | {
            ("payout", lost),
            ("payout", changed),
            ("hidden", "m1"),
        }
        before = await lb.archived("b"), await lb.payouts("b"), await lb.hidden("b")
        for mend in (None, "store"):
            result = await reconciled(lb, url, mend)
            assert {(each.kind, each.name) for each in result.season_differences} == wrong
            assert (result.differing, result.mended) == (5, 0)
            assert before == (
                await lb.archived("b"),
                await lb.payouts("b"),
                await lb.hidden("b"),
            )
        result = await reconciled(lb, url, "ledger")
        assert (result.differing, result.mended) == (5, 5)
        assert (await reconciled(lb, url)).differing == 0
        await seasons.ensure_equal()
        await lb.close()

    asyncio.run(run())


def test_a_sink_starts_over_while_an_erasure_is_not_complete(url: str) -> None:
    """The member was removed from the boards, and the disk was full when the archive was to be
    rewritten. The sink reads no change of the erasure, since that is before its beginning."""

    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()
        await lb.submit("b", "zoe", 9)
        await seasons.play()
        await seasons.end_day()
        seasons.clock.advance(2 * HOUR)
        for payout in await lb.payouts("b", state="due"):
            await lb.confirm("b", payout.id, "paid")
        full = patch.object(Archive, "erase", side_effect=StorageFailed("no space left"))
        with full, pytest.raises(StorageFailed):
            await lb.erase("zoe", "asked for it")
        await sent(lb, url)
        await seasons.ensure_equal()
        for table in ("final_standings", "payouts"):
            assert "zoe" not in str(seasons.table(table))
        assert "erased-" in str(seasons.table("final_standings", "member"))
        await lb.close()

    with patch.object(SealingThread, "start"):  # it would do the rest in the background
        asyncio.run(run())


@pytest.mark.parametrize("follows", ["each change", "in one page", "later", "anew"])
def test_a_member_that_is_erased_leaves_its_places_in_the_ledger(url: str, follows: str) -> None:
    """The sink sends the seal before the erasure, sends both in one page, or begins after both."""

    async def run() -> None:
        seasons = Seasons(url)
        lb = await seasons.open()

        async def follow() -> None:
            if follows == "each change":
                await sent(lb, url)

        member = "zoe/\0\\'\n"
        if follows != "anew":
            await sent(lb, url)
        await lb.submit_many("b", [(member, 9, None, None, {"room": "a"})])
        await seasons.play()
        await lb.hide("b", "m1", "a bot")
        await follow()
        await seasons.end_day()
        await follow()
        await lb.disqualify("b", "m4", "cheated", window="day", period=TODAY)
        seasons.clock.advance(2 * HOUR)
        for payout in await lb.payouts("b", state="due"):
            await lb.confirm("b", payout.id, "paid")
        await lb.hide("b", member, "asked for it")
        await follow()
        if follows == "later":
            await sent(lb, url)
        token = (await lb.erase(member, "asked for it")).token
        await lb.erase("m1", "it was hidden when the day was closed")
        await seasons.play()
        await lb.submit("b", member, 5)
        await seasons.end_day()
        await sent(lb, url)
        await seasons.ensure_equal()
        for table, column in (
            ("final_standings", "member"),
            ("payouts", "id"),
            ("final_periods", "seal"),
        ):
            of_day = f"WHERE period = '{TODAY}'"
            found = str(rows(url, f"SELECT {column} FROM {seasons.prefix}{table} {of_day}"))
            assert "zoe" not in found
            assert "m1" not in found
        assert token in str(seasons.table("final_standings", "member"))
        next_day = [row for row in seasons.table("final_standings", "period, member")
                    if row[0] != TODAY]  # fmt: skip
        assert any("zoe" in name for _, name in next_day), "the id has come back since"
        await lb.close()

    asyncio.run(run())
