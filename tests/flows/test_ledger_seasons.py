"""A ledger gets the same sealed periods, payouts and hidden members of its boards as the store
has."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from laurels.errors import StorageFailed
from laurels.errors.sinks import TargetUnavailable
from laurels.sql.final_writing import PeriodWriter
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.sealing_thread import SealingThread

from .ledger_seasons import DAY, HOUR, NOW_MS, TODAY, Seasons
from .sinking import rows, sent


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
