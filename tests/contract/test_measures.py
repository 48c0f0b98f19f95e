"""Measures: the value of a column is the exact weighted sum of the measures that an event
reports."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import BoardInvalid, LaurelsError, TotalOutOfRange
from tests.comparison import assert_entries, assert_receipt, board_of
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment
from tests.contract.reading import scores
from tests.contract.scoped import anything
from tests.definitions import ColumnDef, Definition, Report
from tests.oracle import Oracle

LIKES = {"like": 1, "gift": "0.2"}
LIMIT = 2**53 - 1


def hot(**more: Any) -> laurels.Board:
    fields = {"columns": [{"name": "hot", "scale": 1, "measures": LIKES}], **more}
    return laurels.Board("b", **fields)


def test_an_event_counts_as_the_weighted_sum_of_its_measures(lb: laurels.Leaderboards) -> None:
    lb.create(hot())
    receipt = lb.submit("b", "ann", {"like": 3, "gift": 10})
    assert (receipt.score, type(receipt.score)) == (Decimal("5.0"), Decimal)
    assert lb.submit("b", "ann", {"gift": "-2.5"}).score == Decimal("4.5")
    assert lb.submit("b", "ann", 1).score == Decimal("5.5")
    assert lb.set("b", "ann", {"like": Decimal("2.0")}).score == 2
    events: list[Any] = [
        ("bob", {"like": 1}),
        {"member": "bob", "value": {"gift": 5}},
        laurels.Event("bob", {"like": "1.5", "gift": 0}, NOW_MS, "id"),
        ["bob", {"like": 100}, NOW_MS, "id"],
    ]
    assert [receipt.status for receipt in lb.submit_many("b", events)] == [
        "applied",
        "applied",
        "applied",
        "duplicate",
    ]
    assert scores(lb.top("b")) == {"bob": Decimal("3.5"), "ann": Decimal("2.0")}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"like": 1, "share": 1}, "unknown_measure"),
        ({"hot": 1}, "unknown_measure"),
        ({}, "invalid_value"),
        ({"like": 0.5}, "invalid_value"),
        ({"like": None}, "invalid_value"),
        ({"like": True}, "invalid_value"),
        ({"like": [1]}, "invalid_value"),
        ({"like": {"like": 1}}, "invalid_value"),
        ({"like": "many"}, "invalid_value"),
        ({"like": Decimal("nan")}, "not_finite"),
        ({"gift": "0.25"}, "too_many_places"),
        ({"like": "1e-16"}, "too_many_places"),
        ({"like": LIMIT}, "value_out_of_range"),
        ({"like": 10**30}, "value_out_of_range"),
        (({"like": 1},), "invalid_value"),
    ],
)
def test_invalid_measures_are_refused(lb: laurels.Leaderboards, value: object, code: str) -> None:
    lb.create(hot())
    with pytest.raises(LaurelsError) as refused:
        lb.submit("b", "ann", anything(value))
    assert refused.value.code == code
    assert lb.top("b").total == 0


def test_a_board_without_measures_expects_numbers(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(LaurelsError) as refused:
        lb.submit("b", "ann", {"score": 1})
    assert refused.value.code == "invalid_value"


def test_each_column_weighs_an_event_by_its_own_weights(lb: laurels.Leaderboards) -> None:
    columns = [
        laurels.Column("hot", measures={"like": 2, "fine": -100}, min=-50),
        laurels.Column("level", op="last"),
        laurels.Column("likes", measures={"like": 1}),
    ]
    lb.create(laurels.Board("b", columns=columns))
    assert lb.submit("b", "ann", {"like": 3, "level": 7}).score == (6, 7, 3)
    assert lb.submit("b", "ann", {"level": 8}).score == (6, 8, 3)
    with pytest.raises(LaurelsError) as refused:
        lb.submit("b", "ann", {"like": 1})
    assert refused.value.code == "wrong_columns"
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", {"fine": 1, "level": 9})
    assert lb.submit("b", "ann", (1, 2, 3)).score == (7, 2, 6)


def test_a_definition_keeps_its_measures(deployment: Deployment) -> None:
    lb = deployment.lb
    board = lb.create(hot(title="Hot"))
    assert dict(board.columns[0].measures) == {"gift": Decimal("0.2"), "like": 1}
    assert laurels.Board.from_json(board.to_json()) == board == lb.get("b")
    assert hash(board) == hash(lb.get("b"))
    lb.submit("b", "ann", {"like": 3})
    with pytest.raises(LaurelsError) as refused:
        lb.change("b", columns=[laurels.Column("hot", scale=1, measures={"like": 2})])
    assert refused.value.code == "unsafe_change"
    if deployment.lasting:
        lb = deployment.reopen()
        assert lb.get("b") == board
        assert lb.submit("b", "ann", {"gift": 5}).score == 4
    assert "measures" not in laurels.Board("c").to_dict()["columns"][0]


@pytest.mark.parametrize(
    "measures",
    [
        {"like": 0},
        {"like": "1e-16"},
        {"like": 0.5},
        {"like": "x"},
        {"": 1},
        {"a b": 1},
        {f"m{i}": 1 for i in range(33)},
        ["like"],
        "like",
    ],
)
def test_invalid_measures_of_a_column_are_refused(measures: object) -> None:
    with pytest.raises(BoardInvalid, match=r"measure|weight|exact|decimal"):
        hot(columns=[{"name": "hot", "measures": measures}])


def test_measures_can_be_submitted_on_an_event_loop(deployment: Deployment) -> None:
    async def scenario() -> list[laurels.Receipt]:
        async with deployment.opened_async() as lb:
            await lb.create(hot())
            submits = [lb.submit("b", f"m{i}", {"like": i}) for i in range(5)]
            return await asyncio.gather(*submits)

    assert [receipt.score for receipt in asyncio.run(scenario())] == [0, 1, 2, 3, 4]


def test_random_measures_agree_with_the_oracle(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rng = Random(29)
    columns = (
        ColumnDef("hot", scale=3, measures={"like": 1, "gift": Decimal("0.125"), "fine": -7}),
        ColumnDef("spent", "sum", "asc", 2, -20, 90, {"gift": Decimal("0.01")}),
        ColumnDef("level"),
    )
    definition = Definition("b", columns)
    lb.create(board_of(definition))
    oracle = Oracle(clock.now_ms)
    oracle.create(definition)
    names = ("like", "gift", "fine", "level", "x")
    for _ in range(30):
        reports = [
            Report(
                rng.choice("abcde"),
                {
                    name: rng.choice([0, 1, -3, "0.5", Decimal("0.08"), 400, "2e1"])
                    for name in rng.sample(names, rng.randint(0, 3))
                },
            )
            for _ in range(8)
        ]
        receipts = lb.submit_many("b", [(report.member, report.value) for report in reports])
        expected = oracle.submit_many("b", reports)
        for receipt, verdict in zip(receipts, expected, strict=True):
            assert_receipt(receipt, verdict, "all", definition)
        assert_entries(lb.top("b").entries, oracle.places("b"), definition)
