"""Messages say what was expected and what came."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import InvalidMember, InvalidRange


def test_a_text_is_no_list_of_members(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(InvalidMember, match="expected a list of members, got the text 'alice'"):
        lb.standings("b", "alice")


def test_a_bound_has_as_many_values_as_the_board_columns(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(InvalidRange, match=r"expected 1 value \(score\) for a bound, got"):
        lb.range("b", low=(1, 2))
