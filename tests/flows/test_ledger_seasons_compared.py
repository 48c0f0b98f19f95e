"""Sealed periods, payouts and hidden members are compared with those of a ledger, and a store that
is made from the ledger has the same."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import laurels
from laurels.flows.ledger.reading import LedgerReader
from laurels.flows.ledger.rebuild import rebuild
from laurels.sql import payout_rows
from tests.internals import copies_of

from .ledger_seasons import DAY, HOUR, TODAY, Seasons
from .reconciling import reconciled
from .sinking import rows, sent


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
