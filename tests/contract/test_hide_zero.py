"""Boards that do not rank members whose score is 0, on every store: such a member is counted, and
no answer about the ranking includes it until its score changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import laurels
from laurels.errors import BoardInvalid
from tests.conftest import Scaled
from tests.contract.deployments import Deployment, Implementation
from tests.counts import rare
from tests.stateful import rules
from tests.stateful.rounds import play_round, three_boards

# Events are random, so all events of a batch may be refused, and callers get a warning about that.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

CHANGES: tuple[rules.Rule, ...] = (rules.submit, rules.set_score, rules.remove, rules.pass_time)


def test_a_member_without_points_is_counted_and_not_ranked(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", hide_zero=True))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", -1), ("dan", 5)])
    received = lb.submit("b", "bob", -2)
    assert (received.status, received.score) == ("applied", 0)
    assert (received.previous_rank, received.rank) == (3, None)
    page = lb.top("b")
    assert [(entry.member, entry.rank) for entry in page] == [("dan", 1), ("ann", 2), ("cid", 3)]
    assert page.total == 3
    assert lb.standing("b", "bob") is None
    assert lb.rank("b", "bob") is None
    assert lb.around("b", "bob") is None
    assert lb.card("b", "bob") == {"all": None}
    assert lb.ranks("b", ["bob", "cid", "nobody"]) == [None, 3, None]
    assert [entry.member for entry in lb.standings("b", ["bob", "cid"])] == ["cid"]
    cid = lb.standing("b", "cid")
    assert cid is not None
    assert (cid.rank, cid.total, cid.percent) == (3, 3, 100)
    assert cid.above is not None
    assert (cid.above.member, cid.above.gap) == ("ann", 4)
    third = lb.at_rank("b", 3)
    assert third is not None
    assert third.member == "cid"
    assert lb.at_rank("b", 4) is None
    assert (lb.count("b"), lb.count("b", low=0), lb.count("b", low=0, high=0)) == (3, 2, 0)
    assert [entry.member for entry in lb.range("b", low=-1, high=3)] == ["ann", "cid"]
    assert lb.score_at_percentile("b", 40) == 3
    assert [period.total for period in lb.periods("b")] == [3]
    assert [entry.member for entry in lb.export("b")] == ["dan", "ann", "cid"]
    assert lb.submit("b", "bob", 4).rank == 2


def test_a_member_without_points_stays_on_a_board_that_ranks_them(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 3), ("bob", 0)])
    assert [entry.member for entry in lb.top("b")] == ["ann", "bob"]
    assert "hide_zero" not in lb.get("b").to_dict()


@pytest.mark.parametrize("wrong", [1, "yes", None])
def test_hide_zero_must_be_true_or_false(lb: laurels.Leaderboards, wrong: object) -> None:
    with pytest.raises(BoardInvalid, match="expected true or false for hide_zero"):
        lb.create({"name": "b", "hide_zero": wrong})


def test_a_member_is_hidden_only_if_every_column_is_zero(lb: laurels.Leaderboards) -> None:
    columns = [{"name": "wins"}, {"name": "time", "op": "last", "order": "asc"}]
    lb.create(laurels.Board("b", columns=columns, hide_zero=True))
    lb.submit_many("b", [("ann", (0, 0)), ("bob", (0, 7)), ("cid", (1, 0)), ("dan", (0, -7))])
    assert [entry.member for entry in lb.top("b")] == ["cid", "dan", "bob"]


def test_hide_zero_can_be_changed_at_any_time(deployment: Deployment) -> None:
    lb = deployment.lb
    lb.create(laurels.Board("b", tie="member"))
    lb.submit_many("b", [("ann", 3), ("bob", 0), ("cid", -1), ("dan", 0)])
    for hidden in (True, False, True):
        assert lb.change("b", hide_zero=hidden).hide_zero is hidden
        members = ["ann", "cid"] if hidden else ["ann", "bob", "dan", "cid"]
        assert [entry.member for entry in lb.top("b")] == members
        assert lb.submit("b", "cid", 0).rank == len(members)
    if deployment.lasting:
        lb = deployment.reopen()
    assert lb.get("b").hide_zero
    assert [entry.member for entry in lb.top("b")] == ["ann", "cid"]
    lb.check()


def test_a_page_continues_after_an_entry_that_has_become_zero(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", tie="member", hide_zero=True))
    lb.submit_many("b", [(f"m{i}", 3 - i) for i in range(7)])
    page = lb.top("b", limit=2)
    lb.submit("b", "m1", -2)
    assert [entry.member for entry in lb.top("b", after=page.next)] == ["m2", "m4", "m5", "m6"]
    assert [entry.member for entry in lb.top("b", limit=5, reverse=True)] == [
        "m6",
        "m5",
        "m4",
        "m2",
        "m0",
    ]


def test_needed_is_never_a_value_that_leaves_a_member_without_points(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b", hide_zero=True))
    lb.submit_many("b", [("ann", 3), ("bob", -2), ("cid", 0)])
    for member in ("cid", "nobody"):
        first = lb.needed("b", member, 3)
        assert first is not None
        assert first.value == 1
    least = lb.needed("b", "bob", 1)
    assert least is not None
    assert least.value == 6
    lb.submit("b", "ann", -4)
    second = lb.needed("b", "bob", 1)
    assert second is not None
    assert second.value == 3  # an event of 2 would make the score 0
    assert lb.submit("b", "bob", 3).rank == 1
    lb.create(laurels.Board("best", columns=[{"op": "best", "max": 0}], hide_zero=True))
    lb.submit_many("best", [("ann", -1), ("bob", 0)])
    unreachable = lb.needed("best", "bob", 1)
    assert unreachable is not None
    assert unreachable.unreachable


def test_scores_that_have_decayed_to_zero_are_not_ranked(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["decay:1h"], hide_zero=True))
    lb.submit_many("b", [("ann", 8), ("bob", 2_000_000), ("cid", -3)])
    assert [entry.member for entry in lb.top("b")] == ["bob", "ann", "cid"]
    clock.advance(25 * 3_600_000)
    page = lb.top("b")
    assert [(entry.member, entry.rank) for entry in page] == [("bob", 1)]
    assert page.total == 1
    assert lb.submit("b", "cid", 1).rank == 1
    clock.advance(100 * 3_600_000)
    assert lb.top("b").total == 0
    assert lb.standing("b", "bob") is None
    needed = lb.needed("b", "bob", 1)
    assert needed is not None
    assert needed.value == 1


def test_stored_data_of_hidden_members_can_still_be_read(deployment: Deployment) -> None:
    lb = deployment.lb
    lb.create(laurels.Board("b", hide_zero=True, changes="1h", scopes=[[], ["room"]]))
    lb.submit_many("b", [("ann", 3), ("bob", 0, None, None, {"room": "1"})])
    lb.set_data("b", "bob", {"name": "Bob"})
    [bob] = lb.entries("b", ["bob"], with_data=True)
    assert (bob.score, bob.data) == (0, {"name": "Bob"})
    assert lb.scopes("b", "room") == [{"room": "1"}]
    assert lb.top("b", labels={"room": "1"}).total == 0
    members = {change.member for change in lb.changes("b", initial=True).changes}
    assert {"ann", "bob"} <= members
    assert lb.remove("b", "bob")


def test_shards_leave_zeros_out_of_long_lists(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", hide_zero=True, tie="member", rank="competition"))
    lb.submit_many("b", [(f"m{i:04}", i % 4 - 2) for i in range(4_000)])
    listed = list(lb.export("b"))
    expected = sorted((2 - i % 4, f"m{i:04}") for i in range(4_000) if i % 4 != 2)
    assert [entry.member for entry in listed] == [member for _, member in expected]
    assert {entry.rank for entry in listed} == {1, 1_001, 2_001}
    page = lb.top("b", offset=995, limit=10)
    assert [entry.member for entry in page] == [member for _, member in expected[995:1_005]]
    assert lb.score_at_percentile("b", 60) == -1
    around = lb.around("b", expected[1_000][1], radius=3)
    assert around is not None
    assert [entry.member for entry in around] == [member for _, member in expected[997:1_004]]


@pytest.mark.parametrize("seed", [0, 1, *rare(*range(2, 30))])
def test_every_answer_is_that_of_the_oracle(
    implementation: Implementation, tmp_path: Path, seed: int, scaled: Scaled
) -> None:
    rng = Random(seed)
    with three_boards(implementation, tmp_path, rng, lambda: True) as world:
        for step in range(scaled(6, 12)):
            name = play_round(world, rng, CHANGES)
            if step == scaled(3, 8):
                world.change(replace(world.definition(name), hide_zero=False))
