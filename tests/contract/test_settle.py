"""`settle` returns who wins which prizes by the present standings. It is compared with a recount of
the whole list."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import InvalidLimit, InvalidOffset, NoPrizes, PeriodFuture, UnknownScope
from laurels.model.prizes import prizes_of
from tests.calendar_by_scanning import HOUR
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import ARCHIVING, Implementation
from tests.prizes import Award, Row, at_least, recounted

DAY = 24 * HOUR
GOLD = {"list": [{"name": "gold", "ranks": [1, 1]}, {"name": "ten", "ranks": [1, 10]}]}


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each store that awards prizes."""
    implementation: Implementation = request.param
    return implementation


def month(prizes: object) -> dict[str, Any]:
    """Return a window of months with prizes."""
    return {"name": "month", "type": "month", "prizes": prizes}


def awards(settlement: laurels.Settlement, prizes: Any) -> list[Award]:
    """Return the awards in the form of a recount."""
    scales = {prize.name: prize.scale for prize in prizes.list}
    return [
        (
            award.member,
            award.prize,
            None
            if award.amount is None
            else int(Decimal(award.amount) * 10 ** scales[award.prize]),
        )
        for award in settlement.awards
    ]


def prizes_by(random: Random, scale: int) -> dict[str, Any]:
    """Return prizes of all kinds, chosen at random."""
    ties = random.choice(["all", "first", "split"])
    prizes: list[dict[str, Any]] = []
    for number in range(random.randint(1, 4)):
        first = random.randint(1, 12)
        condition: dict[str, Any] = random.choice(
            [
                {"ranks": [first, first + random.randint(0, 8)]},
                {"percent": Decimal(random.randint(1, 10_000)) / 100},
                {"at_least": Decimal(random.randint(-2, 8)) / 10**scale},
            ]
        )
        if ties == "split" or random.random() < 0.5:
            condition |= {"amount": Decimal(random.randint(1, 999)) / 100, "scale": 2}
        prizes.append({"name": f"p{number}", **condition})
    return {"list": prizes, "ties": ties}


def less(score: Any, most: Any) -> bool:
    """Return whether a score has reached a prize's `at_least`, where a lower score is better."""
    return bool(score <= most)


def test_awards_are_those_of_a_recount_of_the_whole_list(
    lb: laurels.Leaderboards, scaled: Scaled
) -> None:
    random = Random("settle")
    for episode in range(scaled(15, 500)):
        order: Any = random.choice(["desc", "asc"])
        scale = random.choice([0, 1])
        rank: Any = random.choice(["ordinal", "competition", "dense"])
        hide_zero = random.random() < 0.3
        name = f"b{episode}"
        definition = prizes_by(random, scale)
        lb.create(
            laurels.Board(
                name,
                ledger="main",
                columns=[laurels.Column(op="last", order=order, scale=scale)],
                tie="member",
                rank=rank,
                hide_zero=hide_zero,
                windows=[month(definition)],
            )
        )
        events = [
            (f"m{i:02}", Decimal(random.randint(-2, 6)) / 10**scale)
            for i in range(random.randint(0, 30))
        ]
        lb.submit_many(name, events)
        rows: list[Row] = [(member, score) for member, score in events if score or not hide_zero]
        sign = 1 if order == "asc" else -1
        rows.sort(key=lambda row: (sign * row[1], row[0]))
        prizes = prizes_of(definition)
        expected = recounted(prizes, rows, less if order == "asc" else at_least)
        settlement = lb.settle(name)
        assert awards(settlement, prizes) == expected
        assert settlement.total == len(rows)
        positions = {member: i for i, (member, _) in enumerate(rows, 1)}
        assert all(award.position == positions[award.member] for award in settlement.awards)
        assert all(rows[award.position - 1][1] == award.score for award in settlement.awards)
        limit = random.randint(1, 5)
        found: list[laurels.Award] = []
        offset: int | None = 0
        while offset is not None:
            page = lb.settle(name, limit=limit, offset=offset)
            found += page.awards
            assert len({award.member for award in page.awards}) <= limit
            offset = page.next
        assert found == settlement.awards


def test_a_period_is_settled_at_any_time(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", ledger="main", windows=["all", month(GOLD)]))
    lb.submit("b", "ann", 5)
    preview = lb.settle("b", window="month")
    assert [(a.member, a.prize) for a in preview.awards] == [("ann", "gold"), ("ann", "ten")]
    assert (preview.winners, preview.total, preview.final) == (1, 1, False)
    assert (preview.as_of.window, preview.as_of.period) == ("month", "2026-11")
    lb.submit("b", "bob", 6)
    assert lb.settle("b", window="month").awards[0].member == "bob"
    with pytest.raises(PeriodFuture):
        lb.settle("b", window="month", period="2026-12")


def test_a_past_period_is_final_after_its_grace(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", ledger="main", windows=[month(GOLD)], keep=2))
    lb.submit("b", "ann", 5)
    clock.set(NOW_MS + 11 * DAY)
    lb.submit("b", "bob", 1)
    past = lb.settle("b", period="2026-11")
    assert [(a.member, a.prize) for a in past.awards] == [("ann", "gold"), ("ann", "ten")]
    assert past.final
    assert not lb.settle("b").final


def test_prizes_are_awarded_in_each_scope(lb: laurels.Leaderboards) -> None:
    prizes = {**GOLD, "scopes": [["room"]]}
    lb.create(laurels.Board("b", ledger="main", scopes=[[], ["room"]], windows=[month(prizes)]))
    events = [("ann", 5, None, None, {"room": "1"}), ("bob", 6, None, None, {"room": "2"})]
    lb.submit_many("b", events)
    settlement = lb.settle("b", labels={"room": "1"})
    assert [award.member for award in settlement.awards] == ["ann", "ann"]
    assert settlement.as_of.labels == {"room": "1"}
    with pytest.raises(NoPrizes, match=r"\(room\), got no labels"):
        lb.settle("b")
    with pytest.raises(UnknownScope):
        lb.settle("b", labels={"zone": "1"})


def test_the_data_of_a_prize_and_the_score_are_in_the_award(lb: laurels.Leaderboards) -> None:
    prize = {"name": "p", "at_least": [5, 2], "data": {"badge": 7}}
    columns = [laurels.Column("points"), laurels.Column("seconds", order="asc")]
    lb.create(
        laurels.Board("b", ledger="main", columns=columns, windows=[month({"list": [prize]})])
    )
    lb.submit_many("b", [("ann", (5, 2)), ("bob", (5, 3)), ("cid", (6, 9))])
    assert lb.settle("b").to_dict()["awards"] == [
        {"member": "cid", "position": 1, "score": [6, 9], "prize": "p", "data": {"badge": 7}},
        {"member": "ann", "position": 2, "score": [5, 2], "prize": "p", "data": {"badge": 7}},
    ]


def test_a_window_without_prizes_cannot_be_settled(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", ledger="main", windows=["all", month(GOLD)]))
    with pytest.raises(NoPrizes, match=r"the window .all. has no prizes"):
        lb.settle("b")
    with pytest.raises(InvalidLimit):
        lb.settle("b", window="month", limit=0)
    with pytest.raises(InvalidOffset):
        lb.settle("b", window="month", offset=-1)


def test_members_that_share_the_columns_of_the_last_winner_win(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", ledger="main", tie="member", windows=[month(GOLD)]))
    lb.submit_many("b", [(f"m{i:04}", 5_000 - i // 3) for i in range(5_000)])
    settlement = lb.settle("b")
    assert (settlement.winners, settlement.total) == (12, 5_000)
    assert [a.member for a in settlement.awards if a.prize == "gold"] == ["m0000", "m0001", "m0002"]
