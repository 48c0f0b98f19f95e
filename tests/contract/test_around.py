"""The entries around a member: always min(2r+1, total) entries. At the ends of the ranking, the
range is shifted."""

from __future__ import annotations

import pytest

import laurels
from tests.contract.reading import members, ranks


@pytest.fixture
def seven(lb: laurels.Leaderboards) -> laurels.Leaderboards:
    """Return a store with a board of seven members, in order from `a` (first) to `g` (last)."""
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [(name, 10 - i) for i, name in enumerate("abcdefg")])
    return lb


@pytest.mark.parametrize(
    ("member", "radius", "expected"),
    [
        ("d", 1, "cde"),
        ("d", 0, "d"),
        ("a", 1, "abc"),
        ("b", 2, "abcde"),
        ("g", 1, "efg"),
        ("f", 2, "cdefg"),
        ("d", 3, "abcdefg"),
        ("a", 3, "abcdefg"),
        ("g", 50, "abcdefg"),
    ],
)
def test_around_returns_the_full_number_of_entries_at_the_ends(
    seven: laurels.Leaderboards, member: str, radius: int, expected: str
) -> None:
    page = seven.around("b", member, radius=radius)
    assert page is not None
    assert "".join(members(page)) == expected
    first = "abcdefg".index(expected[0]) + 1
    assert ranks(page) == list(range(first, first + len(expected)))
    assert page.total == 7


def test_a_past_period_can_be_queried(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["day"]))
    lb.submit_many("b", [("ann", 1), ("bob", 2)])
    clock.advance(86_400_000)
    assert lb.around("b", "ann") is None
    page = lb.around("b", "ann", period="2026-11-20", radius=1)
    assert page is not None
    assert members(page) == ["bob", "ann"]
    assert page.as_of.period == "2026-11-20"
