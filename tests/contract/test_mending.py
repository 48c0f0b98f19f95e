"""Mending: in every implementation, entries that are read from one ranking and written into another
one make the same ranking."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import laurels
from laurels.core.changes.answers import ChangedRanking
from laurels.core.mending import RankingEntries, StoredEntry
from laurels.errors import LaurelsError
from laurels.errors.ledger import InvalidEntry
from tests.contract.deployments import Deployment

DAY = 86_400_000
MEMBERS = [f"m{i}" for i in range(30)] + ["'; --", "a/b", 'é"', "x" * 128]
BOARDS: dict[str, dict[str, Any]] = {
    "sums": {},
    "decimals": {"columns": [laurels.Column("s", scale=2, order="asc")], "tie": "last"},
    "by member": {"tie": "member", "rank": "competition"},
    "stamped": {
        "columns": [laurels.Column("a"), laurels.Column("b", op="last")],
        "tie_resolution": "1m",
    },
    "last": {"columns": [laurels.Column("b", op="last")], "tie": "member"},
    "best": {"columns": [laurels.Column("a", op="best"), laurels.Column("b", op="best")]},
    "scopes": {"scopes": [[], ["room"]]},
    "small": {"columns": [laurels.Column("s", min=0, max=500)], "tie": "member"},
}


def board(kind: str) -> laurels.Board:
    return laurels.Board(
        "b",
        **{"windows": ["all", "day"], "keep": 3, "grace": "1d", "changes": "7d", **BOARDS[kind]},
    )


def play(lb: laurels.Leaderboards, defined: laurels.Board, clock: laurels.ManualClock) -> None:
    """Submit a random history of up to three days."""
    random = Random(defined.columns[0].name)
    for _ in range(12):
        events = []
        for _ in range(30):
            values = [random.randrange(9) for _ in defined.columns]
            value: Any = tuple(values) if len(values) > 1 else values[0]
            if defined.columns[0].scale:
                value = Decimal(value).scaleb(-2)
            labels = {"room": random.choice("12 ,")} if any(defined.scopes) else None
            events.append((random.choice(MEMBERS), value, None, None, labels))
        lb.submit_many("b", events)
        clock.advance(random.choice([1_000, 61_000, DAY // 4]))


def present(lb: laurels.Leaderboards) -> list[RankingEntries]:
    """Return every current entry, of all scopes."""
    rankings: list[RankingEntries] = []
    for change in _initial(lb):
        (ranking,) = change.rankings
        entry = StoredEntry(change.member, ranking.score, ranking.reached_ms, ranking.last_ms)
        name = ranking.window, ranking.period, ranking.labels
        if not rankings or name != (rankings[-1].window, rankings[-1].period, rankings[-1].labels):
            rankings.append(RankingEntries(*name, entries=[]))
        rankings[-1].entries.append(entry)  # type: ignore[attr-defined]
    return rankings


def _initial(lb: laurels.Leaderboards) -> Iterator[Any]:
    page = lb.changes("b", initial=True)
    while not (page.changes and page[-1].kind == "initial_end"):
        yield from page
        page = lb.changes("b", after=page.cursor)


def rankings(lb: laurels.Leaderboards) -> list[Any]:
    """Return every ranking in order, with the times that decide between equal scores."""
    rows = []
    for each in present(lb):
        members = [entry.member for entry in each.entries]
        window: dict[str, Any] = {
            "window": each.window,
            "period": each.period,
            "labels": each.labels,
        }
        stored = lb.entries("b", members, **window)
        assert stored == list(each.entries)
        listed = list(lb.export("b", **window))
        rows.append((window, listed, stored))
    return rows


@pytest.mark.parametrize("kind", BOARDS)
def test_mended_entries_make_the_same_rankings(
    kind: str, lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    defined = board(kind)
    lb.create(defined)
    play(lb, defined, clock)
    expected, entries = rankings(lb), present(lb)
    lb.delete("b")
    lb.create(defined)
    before = lb.changes("b", after="now").cursor
    total = sum(len(each.entries) for each in entries)
    assert lb.mend("b", entries) == total
    assert lb.mend("b", entries) == total
    assert rankings(lb) == expected
    lb.check()
    changes = _all(lb, before)
    assert [change.kind for change in changes] == ["mend"] * 2 * total
    last = {(c.member, str(c.rankings[0].to_dict())) for c in changes}
    assert last == {(e.member, str(_ranking(each, e))) for each in entries for e in each.entries}


def _ranking(each: RankingEntries, entry: StoredEntry) -> dict[str, Any]:
    name = each.window, each.period, each.labels
    return ChangedRanking(*name, entry.score, entry.reached_ms, entry.last_ms).to_dict()


def _all(lb: laurels.Leaderboards, after: str) -> list[Any]:
    changes: list[Any] = []
    page = lb.changes("b", after=after)
    while page.changes:
        changes += page.changes
        page = lb.changes("b", after=page.cursor)
    return changes


@pytest.mark.parametrize("kind", ["sums", "stamped", "scopes", "small"])
def test_mended_entries_can_be_removed_and_restored(
    kind: str, lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    defined = board(kind)
    lb.create(defined)
    play(lb, defined, clock)
    expected, entries = rankings(lb), present(lb)
    for each in entries:
        gone = [StoredEntry(entry.member) for entry in each.entries]
        lb.mend("b", [RankingEntries(each.window, each.period, each.labels, gone)])
    assert present(lb) == []
    assert all(not page.rankings[0].score for page in _all(lb, lb.changes("b").cursor)[-3:])
    lb.check()
    for each in entries:
        lb.mend("b", [each])
    assert rankings(lb) == expected


def test_only_expected_entries_are_replaced(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"], changes="7d"))
    lb.submit_many("b", [("ann", 5), ("bob", 7)])
    ann, _, cid = lb.entries("b", ["ann", "bob", "cid"], window="all")
    assert cid == StoredEntry("cid")
    cursor = lb.changes("b", after="now").cursor
    done = lb.mend(
        "b",
        [
            RankingEntries(
                "all",
                None,
                None,
                [StoredEntry(m, 50 + i, 9) for i, m in enumerate(["ann", "bob", "cid"])],
                [ann, StoredEntry("bob", 7, 1), cid],
            )
        ],
    )
    assert done == 2
    scores = [(entry.member, entry.score) for entry in lb.top("b").entries]
    assert scores == [("cid", 52), ("ann", 50), ("bob", 7)]
    assert [(c.member, c.score) for c in lb.changes("b", after=cursor)] == [
        ("ann", 50),
        ("cid", 52),
    ]
    assert lb.mend("b", [RankingEntries("all", None, None, [ann], [ann])]) == 0
    assert lb.changes("b", after="now").cursor == lb.changes("b", after=cursor).cursor


def test_expired_periods_are_not_mended(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"], keep=1))
    lb.submit("b", "ann", 5)
    (period,) = lb.periods("b", window="day")
    clock.advance(5 * DAY)
    assert (
        lb.mend("b", [RankingEntries("day", period.label, None, [StoredEntry("ann", 1, 1)])]) == 0
    )
    assert [p.total for p in lb.periods("b", window="day")] == [0] * len(
        lb.periods("b", window="day")
    )


WRONG = [
    RankingEntries("all", None, None, [StoredEntry("a", 1)]),
    RankingEntries("all", None, None, [StoredEntry("a", (1, 2), 1)]),
    RankingEntries("all", None, None, [StoredEntry("a", 1, 1), StoredEntry("a", 2, 1)]),
    RankingEntries("all", "2026", None, [StoredEntry("a", 1, 1)]),
    RankingEntries("day", None, None, [StoredEntry("a", 1, 1)]),
    RankingEntries("rolling:1h/1m", None, None, [StoredEntry("a", 1, 1)]),
    RankingEntries("fading", None, None, [StoredEntry("a", 1, 1)]),
    RankingEntries("all", None, None, [StoredEntry("a", 1, 1)], [StoredEntry("b", 1, 1)]),
    RankingEntries("all", None, None, [StoredEntry("a", Decimal("1.5"), 1)]),
    RankingEntries("all", None, None, [StoredEntry("a", 900, 1)]),
    RankingEntries("all", None, {"room": "1"}, [StoredEntry("a", 1, 1)]),
    RankingEntries("all", None, None, [StoredEntry("", 1, 1)]),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_impossible_entries_are_refused(number: int, lb: laurels.Leaderboards) -> None:
    windows = ["all", "day", "rolling:1h/1m", "fading=decay:1h"]
    lb.create(laurels.Board("b", windows=windows, columns=[laurels.Column("s", max=500)]))
    with pytest.raises(LaurelsError) as caught:
        lb.mend("b", [WRONG[number]])
    assert caught.value.status in (400, 404)
    assert lb.top("b").total == 0


def test_decayed_entries_are_not_shown(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["fading=decay:1h"]))
    with pytest.raises(InvalidEntry):
        lb.entries("b", ["ann"])


def test_mended_entries_survive_a_restart(lasting: Deployment, clock: laurels.ManualClock) -> None:
    lb, defined = lasting.lb, board("scopes")
    lb.create(defined)
    play(lb, defined, clock)
    entries = present(lb)
    lb.delete("b")
    lb.create(defined)
    lb.mend("b", entries)
    expected, cursor = rankings(lb), lb.changes("b").cursor
    changes = _all(lb, cursor)
    lb = lasting.reopen()
    assert rankings(lb) == expected
    assert _all(lb, cursor) == changes
    lb.check()
