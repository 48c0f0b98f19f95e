"""Boards with a head on the command line: lists end with the head, and estimated ranks are
marked."""

import re
from collections.abc import Iterator

import pytest

from tests.contract.coarse import coarse

from .running import Shell

ABOUT = re.compile(r"about (\d+); between (\d+) and (\d+), of 300 \(top [\d.]+ %\)")


@pytest.fixture
def crowd(shell: Shell) -> Iterator[Shell]:
    """A board of 300 members with 1 to 300 points, of which the first 100 are listed."""
    shell.ok("board", "create", "crowd", "--head", "100", "--tie", "member")
    lines = "".join(f"m{i:03},{i}\n" for i in range(1, 301))
    shell.ok("import", "crowd", "-", stdin=f"member,score\n{lines}".encode())
    with coarse(120):
        yield shell


def _row(shell: Shell, name: str, *arguments: str) -> str:
    lines = shell.ok(*arguments).out.splitlines()
    return next(line.split(maxsplit=1)[1] for line in lines if line.split()[:1] == [name])


def test_a_board_is_made_and_changed_with_a_head(shell: Shell) -> None:
    shell.ok("board", "create", "b", "--head", "1000")
    assert shell.json("board", "show", "b")["head"] == 1_000
    assert _row(shell, "head", "board", "show", "b") == "the first 1,000 positions are listed"
    assert shell.json("board", "change", "b", "--head", "0").get("head", 0) == 0
    assert "listed" not in shell.ok("board", "show", "b").out
    refused = shell("board", "change", "b", "--head", "99")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [invalid_board]")
    refused = shell("board", "create", "c", "--head", "100", "--rank", "dense")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [invalid_board]")


def test_a_list_reports_how_many_members_are_listed(crowd: Shell) -> None:
    assert "300 members, of which 100 are listed" in crowd.ok("top", "crowd").out
    assert crowd.json("top", "crowd", "-n", "500")["certain"] == 100
    for command in (
        ["top", "crowd", "--reverse"],
        ["around", "crowd", "m001"],
        ["export", "crowd"],
    ):
        refused = crowd(*command)
        assert refused.err.startswith("error [beyond_head]: expected one of the first 100") or (
            refused.err.startswith("error [beyond_head]: expected a ranking")
        )
        assert refused.code == 2
        assert refused.out == ""


def test_a_refused_export_leaves_the_file_unchanged(crowd: Shell) -> None:
    kept = crowd.file("crowd.csv", "as before")
    assert crowd("export", "crowd", "-o", kept).code == 2
    assert kept.read_text() == "as before"


def test_an_estimated_rank_is_shown_as_an_estimate(crowd: Shell) -> None:
    match = ABOUT.fullmatch(_row(crowd, "rank", "rank", "crowd", "m007"))
    while match is None:  # By chance, both bounds of an estimate may be equal.
        match = ABOUT.fullmatch(_row(crowd, "rank", "rank", "crowd", "m007"))
    middle, low, high = map(int, match.groups())
    assert low <= 294 <= high
    assert middle == (low + high) // 2
    assert _row(crowd, "needs", "rank", "crowd", "m007") == "194 for rank 100, in one event"
    assert _row(crowd, "rank", "rank", "crowd", "m299") == "2 of 300 (top 0.6667 %)"
    table = crowd.ok("rank", "crowd", "m007", "m299").out
    while "about" not in table:
        table = crowd.ok("rank", "crowd", "m007", "m299").out
    assert re.search(r"about \d+; between \d+ and \d+ +m007", table)


def test_needed_shows_the_value_to_enter_the_head(crowd: Shell) -> None:
    assert crowd.ok("needed", "crowd", "m007").out == "m007 needs 194 for rank 100\n"
    assert crowd.ok("needed", "crowd", "m299").out == "m299 needs nothing: it is in the head\n"
    assert crowd("needed", "crowd", "m007", "150").err.startswith("error [beyond_head]")
    crowd.ok("board", "create", "plain")
    refused = crowd("needed", "plain", "m007")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [invalid_rank]")
