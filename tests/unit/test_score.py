"""Scores are exact: an accepted score is returned unchanged, and all other scores are refused."""

import time
from array import array
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.errors import (
    InvalidValue,
    LaurelsError,
    NotFinite,
    TooManyPlaces,
    ValueOutOfRange,
)
from laurels.model.board import Board, Column
from laurels.model.rules import ColumnRule, Rules
from laurels.model.scale import Whole
from laurels.model.score import (
    LIMIT,
    exact_units,
    score_of,
    stamp,
    stamps_of,
    to_units,
    to_value,
    units_of,
)

SCALES = st.integers(0, 15)
UNITS = st.integers(-LIMIT, LIMIT)


def column(**fields: object) -> ColumnRule:
    return Board.from_json({"name": "b", "columns": [fields]}).rules().columns[0]


def rules(*columns: Column, tie: str = "first") -> Rules:
    return Board.from_json({"name": "b", "columns": list(columns), "tie": tie}).rules()


@pytest.mark.parametrize(
    ("value", "scale", "units"),
    [
        (0, 0, 0),
        (7, 2, 700),
        (-LIMIT, 0, -LIMIT),
        ("12", 0, 12),
        ("+12", 0, 12),
        ("-0", 0, 0),
        ("12.", 0, 12),
        (".5", 1, 5),
        ("-.5", 1, -5),
        ("1.10", 1, 11),
        ("1e3", 0, 1000),
        ("1E+3", 0, 1000),
        ("1200e-2", 0, 12),
        ("15e-1", 1, 15),
        ("0e999999999999", 0, 0),
        ("0e-999999999999", 0, 0),
        ("0.000000000000000000000", 0, 0),
        ("00000000000000000000000012", 0, 12),
        ("9007199254740991", 0, LIMIT),
        ("9.007199254740991", 15, LIMIT),
        (Decimal("12.30"), 1, 123),
        (Decimal("-1E+2"), 0, -100),
        (Decimal("0E+999999"), 0, 0),
        (Decimal("-0"), 0, 0),
    ],
)
def test_numbers_are_read_exactly(value: object, scale: int, units: int) -> None:
    assert exact_units(value, scale, "score") == units


@pytest.mark.parametrize(
    ("value", "scale", "error"),
    [
        (1.5, 1, InvalidValue),
        (2.0, 0, InvalidValue),
        (True, 0, InvalidValue),
        (None, 0, InvalidValue),
        ((1,), 0, InvalidValue),
        (b"1", 0, InvalidValue),
        ("", 0, InvalidValue),
        (" 1", 0, InvalidValue),
        ("1\n", 0, InvalidValue),
        ("1_000", 0, InvalidValue),
        ("1,5", 1, InvalidValue),
        ("0x10", 0, InvalidValue),
        (".", 0, InvalidValue),
        ("e5", 0, InvalidValue),
        ("--1", 0, InvalidValue),
        ("١٢", 0, InvalidValue),
        ("1" * 65, 0, InvalidValue),
        ("nan", 0, NotFinite),
        ("-Infinity", 0, NotFinite),
        ("inf", 0, NotFinite),
        (Decimal("NaN"), 0, NotFinite),
        (Decimal("sNaN"), 0, NotFinite),
        (Decimal("-Infinity"), 0, NotFinite),
        ("1.05", 1, TooManyPlaces),
        (Decimal("0.1"), 0, TooManyPlaces),
        ("1e-1000000", 0, TooManyPlaces),
        (Decimal("1e-1000000"), 15, TooManyPlaces),
        (LIMIT + 1, 0, ValueOutOfRange),
        (-LIMIT - 1, 0, ValueOutOfRange),
        ("9007199254740992", 0, ValueOutOfRange),
        (10, 15, ValueOutOfRange),
        ("1e1000000", 0, ValueOutOfRange),
        ("-1e99999999999999999999", 0, ValueOutOfRange),
        (Decimal("1e1000000"), 0, ValueOutOfRange),
    ],
)
def test_an_inexact_or_invalid_score_is_refused(
    value: object, scale: int, error: type[LaurelsError]
) -> None:
    with pytest.raises(error) as refused:
        exact_units(value, scale, "score")
    assert len(refused.value.what) < 200


def test_a_huge_number_costs_nothing() -> None:
    began = time.process_time()
    for value in ("1e1000000", "1e999999999999", Decimal("1e999999"), 1 << 100_000):
        with pytest.raises(ValueOutOfRange):
            exact_units(value, 0, "score")
    assert time.process_time() - began < 0.5


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None), SCALES)
def test_reading_agrees_with_fractions(value: Decimal, scale: int) -> None:
    exact = Fraction(value) * 10**scale
    for written in (value, str(value)):
        if len(str(value)) > 64 and written is not value:
            continue
        if exact.denominator == 1 and abs(exact) <= LIMIT:
            assert exact_units(written, scale, "score") == exact
        else:
            with pytest.raises((TooManyPlaces, ValueOutOfRange)):
                exact_units(written, scale, "score")


@given(UNITS, SCALES)
def test_units_round_trip_through_values(units: int, scale: int) -> None:
    with localcontext(prec=3):
        value = to_value(units, scale)
        assert isinstance(value, Decimal if scale else int)
        assert Fraction(value) * 10**scale == units
        assert exact_units(value, scale, "score") == units
        assert exact_units(str(value), scale, "score") == units


def test_a_value_shows_all_places_of_its_scale() -> None:
    assert str(to_value(1200, 2)) == "12.00"
    assert str(to_value(0, 2)) == "0.00"
    assert str(to_value(-5, 2)) == "-0.05"
    assert to_value(12, 0) == 12


@pytest.mark.parametrize("op", ["last", "best"])
def test_a_value_that_is_kept_lies_within_the_range_of_its_column(op: str) -> None:
    kept = column(op=op, scale=1, min=0, max="9.5")
    assert to_units("9.5", kept) == 95
    for value in (-1, "9.6"):
        with pytest.raises(ValueOutOfRange):
            to_units(value, kept)


def test_an_added_value_may_exceed_the_range_of_totals() -> None:
    total = column(op="sum", min=0, max=10)
    assert to_units(-5, total) == -5
    assert to_units(11, total) == 11
    with pytest.raises(ValueOutOfRange):
        to_units(LIMIT + 1, total)


def test_a_score_is_a_number_for_one_column_and_a_tuple_for_several() -> None:
    one = rules(Column(scale=1))
    assert score_of((15,), one) == Decimal("1.5")
    two = rules(Column("a"), Column("b", scale=2))
    assert score_of((3, 150), two) == (3, Decimal("1.50"))


def test_the_gap_is_the_lead_of_the_better_score() -> None:
    assert Whole(rules(Column())).gap((-10, 7), (-4, 9)) == 6
    assert Whole(rules(Column(order="asc"))).gap((4,), (10,)) == 6
    mixed = rules(Column("wins"), Column("time", order="asc", scale=1))
    assert Whole(mixed).gap((-3, 90), (-2, 70)) == (1, Decimal("-2.0"))


def test_stamps_round_down_also_before_1970() -> None:
    assert stamp(1999, 1000) == 1
    assert stamp(-1, 1000) == -1
    assert stamps_of(1999, 1000) == 1
    assert stamps_of(array("q", [-1, 0, 999, 1000]), 1000) == array("q", [-1, 0, 0, 1])
    ats = array("q", [-1, 5])
    assert stamps_of(ats, 1) is ats


@pytest.mark.parametrize("tie", ["first", "last", "member"])
def test_columns_are_decoded_from_an_entry(tie: str) -> None:
    board = rules(Column("more"), Column("less", order="asc"), tie=tie)
    assert units_of((-7, 3), board) == (7, 3)
    assert units_of((-7, 3, 1_000), board) == (7, 3)
    assert Whole(board).scores([[-7, 2], [3, 4], [0, 0]]) == [(7, 3), (-2, 4)]
