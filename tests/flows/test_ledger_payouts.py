"""Payouts of boards on an index server, in each kind of database, and in two ledgers at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors.index_server import LedgerUnavailable
from laurels.errors.payouts import PayoutsDiverged
from tests.redis.servers import Server

DAY_MS = 86_400_000
START_MS = 1_795_000_000_000
PRIZES: dict[str, Any] = {
    "list": [
        {"name": "gold/1", "ranks": [1, 1], "amount": "100.00", "scale": 2, "data": {"a": [1]}},
        {"name": "half", "percent": "50"},
    ],
    "pay_after": "1h",
}
MEMBERS = ["a/b", "o'neil", "line\nbreak", "ü\\", "nul\0"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def board(name: str, **fields: Any) -> laurels.Board:
    window = {"name": "day", "type": "day", "prizes": PRIZES}
    return laurels.Board(name, tie="member", windows=[window], **{"ledger": "main", **fields})


def every(lb: laurels.Leaderboards, limit: int) -> list[laurels.Payout]:
    """Return all due payouts, read in pages."""
    found: list[laurels.Payout] = []
    after: str | None = None
    while True:
        page = lb.due_payouts(after=after, limit=limit)
        found += page
        if (after := page.next) is None:
            return found


def test_payouts_are_the_same_in_each_database(url: str, server: Server) -> None:
    answers = []
    for place in ("memory:", server.url + f"?prefix={abs(hash(url)) % 10**9}:"):
        clock = laurels.ManualClock(START_MS)
        with (
            patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": url}),
            laurels.open(place, clock=clock) as lb,
        ):
            lb.create(board("b", changes="9d"))
            lb.submit_many("b", [(member, 9 - i) for i, member in enumerate(MEMBERS)])
            period = lb.periods("b")[0].label
            clock.advance(DAY_MS)
            lb.seal()
            lb.disqualify("b", "o'neil", "it's a bot", period=period)
            clock.advance(DAY_MS)
            lb.disqualify("b", "a/b", "another\nbot", period=period)
            clock.advance(DAY_MS)
            due = every(lb, 2)
            gold = [each for each in due if each.prize == "gold/1" and each.member == "a/b"]
            lb.confirm("b", gold[0].id, "ref'1\\")
            assert [each.amount for each in gold] == [Decimal("100.00"), Decimal("-100.00")]
            answers.append(
                [
                    [
                        (p.id.partition("/")[2], p.member, p.amount, p.state, p.data, p.withdrawn)
                        for p in lb.payouts("b", limit=500, **wanted)
                    ]
                    for wanted in (
                        {},
                        {"state": "due"},
                        {"state": "superseded"},
                        {"state": "confirmed"},
                        {"member": "nul\0"},
                        {"due_only": True, "window": "day", "period": period},
                    )
                ]
                + [[(p.member, p.prize, p.amount, p.due_ms) for p in due]]
                + [[(c.kind, c.member) for c in lb.changes("b", limit=1_000)][5:]]
                + [[lb.top("b", period=period, revision=i).entries for i in range(3)]]
                + [lb.waiting_payouts()]
            )
    assert answers[0] == answers[1]


def test_payouts_of_two_ledgers_are_one_list(server: Server, tmp_path: Any) -> None:
    ledgers = {
        f"LAURELS_LEDGER_{name}": f"sqlite:///{tmp_path}/{name}.db" for name in ("MAIN", "OTHER")
    }
    clock = laurels.ManualClock(START_MS)
    with (
        patch.dict(os.environ, ledgers),
        laurels.open(server.url + "?prefix=two:", clock=clock) as lb,
    ):
        for name, ledger in (("a", "main"), ("b", "other"), ("c", "main")):
            lb.create(board(name, ledger=ledger))
            lb.submit_many(name, [("ann", 2), ("bob", 1), ("cid", 1)])
            clock.advance(1)
        clock.advance(DAY_MS)
        lb.seal()
        assert every(lb, 1) == []
        clock.advance(DAY_MS)
        payouts = every(lb, 2)
        assert len(payouts) == len({each.id for each in payouts}) == 12
        assert {each.board for each in payouts} == {"a", "b", "c"}
        end = lb.due_payouts().cursor
        for name in ("b", "c"):
            lb.submit(name, "dan", 5)
        clock.advance(3 * DAY_MS)
        lb.seal()
        clock.advance(DAY_MS)
        more = lb.due_payouts(after=end)
        assert sorted((each.board, each.member) for each in more) == [
            *[("b", "dan")] * 2,
            *[("c", "dan")] * 2,
        ]
        assert end is not None
        with pytest.raises(PayoutsDiverged):
            lb.due_payouts(after=end.replace("main", "lost"))
    (tmp_path / "OTHER.db").rename(tmp_path / "moved.db")
    (tmp_path / "OTHER.db").mkdir()
    with (
        patch.dict(os.environ, ledgers),
        laurels.open(server.url + "?prefix=two:", clock=clock) as lb,
    ):
        shown = lb.due_payouts()
        assert {each.board for each in shown} == {"a", "c"}
        assert len(lb.payouts("a")) == 4
        with pytest.raises(LedgerUnavailable):
            lb.payouts("b")
        with pytest.raises(LedgerUnavailable):
            lb.due_payouts(after=shown.cursor)
