"""Error messages say what was expected and what was received."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import (
    InvalidLimit,
    InvalidMember,
    InvalidOffset,
    InvalidRange,
    TooManyPlaces,
)


def test_a_text_is_not_a_list_of_members(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(InvalidMember, match="expected a list of members, got the text 'alice'"):
        lb.standings("b", "alice")


def test_a_bound_has_a_value_for_each_column(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(InvalidRange, match=r"expected 1 value \(score\) for a bound, got"):
        lb.range("b", low=(1, 2))


def test_an_error_names_the_expected_integer_and_its_bounds(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(InvalidLimit, match="expected an integer from 0 to 10,000 for limit, got -"):
        lb.top("b", limit=-1)
    with pytest.raises(InvalidOffset, match="expected an integer of 0 or more for offset, got -1"):
        lb.top("b", offset=-1)


def test_an_error_names_the_decimal_places_of_the_column(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column("gold", scale=2)]))
    with pytest.raises(TooManyPlaces, match=r"at most 2 decimal places for .gold., got .0"):
        lb.submit("b", "ann", "0.125")
