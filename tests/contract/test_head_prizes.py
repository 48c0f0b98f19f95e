"""Prizes on a board with a head: they are for ranks within the head, but ties may reach below it.
Payouts are compared with a recount of the whole list, on every store."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import BeyondHead, BoardInvalid
from laurels.model.prizes import prizes_of
from tests.calendar_by_scanning import HOUR
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import ARCHIVING, Implementation
from tests.prizes import Row, balance, winnings

DAY = 24 * HOUR
HEAD, MEMBERS = 100, 320


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each store that awards prizes."""
    implementation: Implementation = request.param
    return implementation


def board(name: str, prizes: object, **fields: Any) -> laurels.Board:
    window = {"name": "day", "type": "day", "prizes": prizes}
    fields = {"windows": ["all", window], "tie": "member", "grace": "0s", **fields}
    return laurels.Board(name, head=HEAD, ledger="main", **fields)


def prizes_up_to(last: int, ties: str) -> dict[str, Any]:
    return {
        "list": [
            {"name": "gold", "ranks": [1, 1], "amount": 1_000},
            {"name": "list", "ranks": [2, last], "amount": 7},
            {"name": "edge", "ranks": [last, last], "amount": 100},
        ],
        "ties": ties,
    }


def won(lb: laurels.Leaderboards, name: str) -> Counter[tuple[str, str]]:
    """Return the total of the payouts that are not superseded, for each member and prize."""
    payouts: list[laurels.Payout] = []
    after: str | None = None
    while True:
        page = lb.payouts(name, after=after, limit=1_000)
        payouts += page
        if (after := page.next) is None:
            break
    return balance(
        (each.member, each.prize, int(each.amount or 0), each.withdrawn)
        for each in payouts
        if each.state != "superseded"
    )


@pytest.mark.parametrize("ties", ["all", "first", "split"])
def test_payouts_are_those_of_a_recount_of_the_whole_list(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled, ties: str
) -> None:
    random, now_ms = Random(f"head prizes {ties}"), NOW_MS
    for episode in range(scaled(3, 60)):
        name, last = f"b{episode}", random.choice([10, HEAD - 1, HEAD])
        # few scores make tie groups that reach far below the head
        scores = random.choice([2, 5, 40, 10_000])
        rank: Any = random.choice(["ordinal", "competition"])
        definition = prizes_up_to(last, ties)
        rows: list[Row] = [(f"m{i:03}", random.randint(1, scores)) for i in range(MEMBERS)]
        lb.create(board(name, definition, rank=rank))
        lb.submit_many(name, rows)
        rows.sort(key=lambda row: (-row[1], row[0]))
        for member, _ in random.sample(rows[:HEAD], 15):
            lb.hide(name, member, "a bot")
            rows = [row for row in rows if row[0] != member]
        expected = winnings(prizes_of(definition), rows)
        with suppress(BeyondHead):  # some stores cannot tell where a tie group below the head ends
            previewed = lb.settle(name, window="day", limit=1_000)
            awards = {(each.member, each.prize): each.amount for each in previewed.awards}
            assert awards == expected
        period = lb.periods(name, "day")[0].label
        now_ms += DAY + HOUR
        clock.set(now_ms)
        lb.seal()
        assert won(lb, name) == expected
        for member, _ in random.sample(rows[:HEAD], 4):
            lb.disqualify(name, member, "a bot", window="day", period=period)
            rows = [row for row in rows if row[0] != member]
        assert won(lb, name) == winnings(prizes_of(definition), rows)
        page = lb.top(name, limit=HEAD, window="day", period=period)
        assert [entry.member for entry in page.entries] == [member for member, _ in rows[:HEAD]]
        assert (page.total, page.certain) == (len(rows), HEAD)
    lb.check()


def test_an_outcome_is_that_of_the_preview(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(board("b", prizes_up_to(HEAD, "all"), tie="first"))
    lb.submit_many("b", [(f"m{i:03}", i // 3) for i in range(318)])
    preview = lb.settle("b", window="day")
    assert (preview.winners, preview.total) == (102, 318)
    edge = [award.member for award in preview.awards if award.prize == "edge"]
    assert edge == ["m216", "m217", "m218"]  # at the positions 100 to 102
    clock.set(NOW_MS + 2 * DAY)
    lb.seal()
    period = lb.archived("b")[0].period
    outcome = lb.settle("b", window="day", period=period)
    assert outcome.awards == preview.awards
    assert (outcome.winners, outcome.total, outcome.final) == (102, 318, True)


@pytest.mark.parametrize(
    "condition", [{"percent": 1}, {"at_least": 5}, {"ranks": [1, HEAD + 1]}], ids=str
)
def test_prizes_that_may_reach_below_the_head_are_refused(
    lb: laurels.Leaderboards, condition: dict[str, Any]
) -> None:
    with pytest.raises(BoardInvalid, match="expected ranks up to the head, 100, got"):
        lb.create(board("b", {"list": [{"name": "gold", **condition}]}))
