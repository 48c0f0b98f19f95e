"""Prizes in the definition of a window: what is accepted, its canonical form, and each mistake."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from laurels.errors import BoardInvalid
from laurels.model.column import Column
from laurels.model.prizes import MAX_PRIZE_DATA, MAX_PRIZES, Prize, Prizes, prize_errors, prizes_of

GOLD = {"name": "gold", "ranks": [1, 1], "amount": "500", "scale": 2}


def errors_of(value: object) -> list[str]:
    with pytest.raises(BoardInvalid) as refused:
        prizes_of(value)
    return refused.value.errors


def error_of(**fields: Any) -> str:
    [error] = errors_of({"list": [{"name": "p", **fields}]})
    return error


def test_prizes_are_read_into_one_canonical_form() -> None:
    prizes = prizes_of(
        {
            "list": [
                GOLD,
                {"name": "top", "percent": Decimal("0.500")},
                {"name": "冠军", "at_least": ["1e3", Decimal("2.50")], "data": {"b": 1, "a": [2]}},
            ],
            "ties": "first",
            "pay_after": 3_600_000,
            "scopes": [[], ["zone", "room"]],
        }
    )
    assert prizes.list == (
        Prize("gold", ranks=(1, 1), amount=Decimal("500.00"), scale=2),
        Prize("top", percent=Decimal("0.5")),
        Prize("冠军", at_least=(1000, Decimal("2.5")), data={"b": 1, "a": [2]}),
    )
    assert (prizes.ties, prizes.pay_after, prizes.pay_after_ms) == ("first", "1h", 3_600_000)
    assert prizes.scopes == ((), ("room", "zone"))
    assert [prize.amount_units for prize in prizes.list] == [50_000, None, None]
    assert [prize.least for prize in prizes.list] == [(), (), (1000, Decimal("2.5"))]


def test_what_is_left_out_has_a_default() -> None:
    assert prizes_of({"list": [GOLD]}) == Prizes((prizes_of({"list": [GOLD]}).list[0],))
    assert prizes_of({"list": [GOLD]}).to_dict() == {
        "list": [{"name": "gold", "ranks": [1, 1], "amount": "500.00", "scale": 2}],
        "ties": "all",
        "pay_after": "0s",
        "scopes": [[]],
    }


def test_the_text_and_the_fields_read_back_as_equal_prizes() -> None:
    prizes = prizes_of(
        {"list": [{"name": "p", "at_least": (0.5).as_integer_ratio()[0], "data": {"rate": 0.1}}]}
    )
    assert prizes_of(prizes) == prizes
    assert prizes_of(prizes.text) == prizes
    assert prizes_of(prizes.to_dict()) == prizes
    assert prizes_of(msgspec.json.encode(prizes).decode()) == prizes
    assert prizes_of(prizes.text).text == prizes.text
    assert hash(prizes_of(prizes.text)) == hash(prizes)


def test_prizes_with_other_data_differ() -> None:
    one, other = (prizes_of({"list": [{**GOLD, "data": data}]}) for data in ("a", "b"))
    assert one != other


def test_every_mistake_is_named_at_once() -> None:
    errors = errors_of(
        {
            "list": [
                {"name": "", "ranks": [1, 1]},
                {"name": "p", "ranks": [3, 1]},
                {"name": "q", "percent": 0},
            ],
            "ties": "none",
            "payafter": "1h",
        }
    )
    assert [error.split(":")[1].strip() for error in errors] == [
        "unknown field 'payafter'",
        "prize ''",
        "prize 'p'",
        "prize 'q'",
        "expected one of all, first, split for ties, got 'none'",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, "expected an object with a list of prizes, got 7"),
        ("{", "expected JSON"),
        ("[]", "expected an object with a list of prizes, got []"),
        ({}, "expected a list of prizes in list, got none"),
        ({"list": "gold"}, "expected a list of prizes, got 'gold'"),
        ({"list": []}, f"expected 1 to {MAX_PRIZES} prizes, got 0"),
        ({"list": [GOLD] * 2}, "expected distinct names of prizes, got 'gold' 2 times"),
        ({"list": [3]}, "expected a prize as an object, got 3"),
        ({"list": [GOLD], "pay_after": "1y"}, "pay_after: expected a duration"),
        ({"list": [GOLD], "scopes": []}, "expected 1 to 8 scopes, got 0"),
    ],
)
def test_prizes_of_another_form_are_refused(value: object, expected: str) -> None:
    [error] = errors_of(value)
    assert error.startswith(f"prizes: {expected}")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "expected one of ranks, percent, at_least, got none"),
        ({"ranks": [1, 2], "percent": 1}, "got ranks and percent"),
        ({"ranks": [0, 1]}, "expected ranks as the first and the last position"),
        ({"ranks": [1]}, "expected ranks as the first and the last position"),
        ({"ranks": "11"}, "expected ranks as the first and the last position"),
        ({"percent": -1}, "expected percent to be above 0 and at most 100, got -1"),
        ({"percent": "100.1"}, "expected percent to be above 0 and at most 100, got '100.1'"),
        ({"percent": 1_000}, "expected percent to be above 0 and at most 100, got 1000"),
        ({"percent": 0.07}, "expected an exact number for 'percent', got 0.07"),
        ({"at_least": []}, "expected at_least to have a number, got none"),
        ({"at_least": "many"}, "expected a decimal number for 'at_least', got 'many'"),
        ({"ranks": [1, 1], "amount": 0}, "expected an amount above 0, got 0"),
        ({"ranks": [1, 1], "amount": "1.5"}, "expected no decimal places for 'amount'"),
        ({"ranks": [1, 1], "scale": 16}, "expected an integer from 0 to 15 for scale, got 16"),
        ({"ranks": [1, 1], "data": {1}}, "the data changes when it is written as JSON"),
        ({"ranks": [1, 1], "data": float("nan")}, "the data changes when it is written as JSON"),
        ({"ranks": [1, 1], "data": "x" * MAX_PRIZE_DATA}, "expected at most 1,024 bytes of data"),
        ({"ranks": [1, 1], "colour": "red"}, "unknown field 'colour'"),
    ],
)
def test_a_prize_of_another_form_is_refused(fields: dict[str, Any], expected: str) -> None:
    assert expected in error_of(**fields)


def test_only_amounts_can_be_split() -> None:
    [error] = errors_of({"list": [GOLD, {"name": "p", "ranks": [2, 3]}], "ties": "split"})
    assert error.startswith("prizes: prize 'p': expected an amount with ties split, got none")


def test_prizes_have_to_suit_their_board() -> None:
    def errors(fields: dict[str, Any], *, head: int = 0, **more: Any) -> list[str]:
        prizes = prizes_of({"list": [{"name": "p", **fields}], **more})
        return list(prize_errors(prizes, [Column(scale=1)], [(), ("room",)], head))

    assert errors({"ranks": [1, 100]}, head=100, scopes=[[], ["room"]]) == []
    assert errors({"at_least": "1.5"}) == []
    assert errors({"ranks": [1, 1]}, scopes=[["zone"]]) == [
        "prizes: expected scopes of the board, got ['zone']"
    ]
    [error] = errors({"at_least": "1.25"})
    assert "expected at most 1 decimal places for 'score', got" in error
    [error] = errors({"at_least": [1, 2]})
    assert "expected at_least to have at most one number for each column, 1, got 2" in error
    for fields in ({"ranks": [1, 101]}, {"percent": 1}, {"at_least": 1}):
        [error] = errors(fields, head=100)
        assert "expected ranks up to the head, 100" in error
