"""Erased members: no running ranking has them, and data that stays, such as the archive, has a
token in their places."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors import MemberEmpty, StorageFailed
from laurels.errors.payouts import InvalidReference, PayoutsOpen
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.payouts.table import PayoutTable
from laurels.stores.local.sealing_thread import SealingThread
from tests.calendar_by_scanning import HOUR
from tests.changes import all_changes
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import (
    ARCHIVING,
    STORES,
    Deployment,
    Implementation,
)
from tests.counts import rare
from tests.sealing import sealed_by_calls
from tests.stateful import rules
from tests.stateful.choices import COMBINATIONS
from tests.stateful.clock import EpisodeClock
from tests.stateful.world import World

pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

DAY = 24 * HOUR
ODD = ["zoe/../b", "a\"b'c", "new\nline", "%2F", "é" * 64, "\x00", "; DROP TABLE payout; --"]
PRIZES: dict[str, Any] = {
    "list": [{"name": "gold", "ranks": [1, 2], "amount": "5.00", "scale": 2}],
    "pay_after": "1h",
}
STEPS: tuple[rules.Rule, ...] = (
    rules.erase,
    rules.erase,
    rules.hide,
    rules.show,
    rules.submit,
    rules.submit,
    rules.submit_many,
    rules.scatter,
    rules.remove,
    rules.pass_time,
    rules.cross,
    rules.change,
    rules.restart,
    rules.snapshot,
    rules.set_data,
    rules.read_on,
    rules.query,
    rules.begin_anew,
    rules.clear,
    rules.check,
    rules.seal,
)


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    chosen: Implementation = request.param
    return chosen


def listed(lb: laurels.Leaderboards, board: str = "b", **ranking: Any) -> list[str]:
    return [entry.member for entry in lb.top(board, **ranking)]


def season(lb: laurels.Leaderboards, clock: laurels.ManualClock, *members: str) -> str:
    """Create a board with a sealed day in which these members are ranked; return its label."""
    day = {"type": "day", "prizes": PRIZES}
    lb.create(
        laurels.Board(
            "b",
            windows=["all", day, "rolling:7d/1d"],
            changes="30d",
            scopes=[[], ["room"]],
            ledger="main",
        )
    )
    events = [
        laurels.Event(member, 100 - at, id="first", labels={"room": "1"})
        for at, member in enumerate(members)
    ]
    lb.submit_many("b", events)
    period = lb.periods("b", "day")[0]
    clock.set(period.end_ms + HOUR)
    lb.seal()
    clock.advance(2 * HOUR)
    for payout in lb.payouts("b", state="due"):
        lb.confirm("b", payout.id, "paid")
    return period.label


def test_an_erased_member_leaves_its_places_and_nothing_else(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("other"))
    label = season(lb, clock, "ann", "zoe", "cid")
    before = lb.verify("b", period=label, window="day")
    assert before.verified
    lb.set_data("b", "zoe", {"name": "Zoë"})
    lb.hide(None, "zoe", "under review")
    lb.hide("b", "zoe", "under review")
    lb.submit("other", "zoe", 1)
    erasure = lb.erase("zoe", "asked for it")
    token = erasure.token
    assert (erasure.boards, erasure.periods, erasure.payouts) == (2, 1, 1)
    assert "zoe" not in token
    for ranking in ({}, {"window": "rolling:7d/1d"}, {"labels": {"room": "1"}}):
        assert listed(lb, **ranking) == ["ann", "cid"]
    assert listed(lb, "other") == []
    assert lb.hidden("b") == lb.hidden() == []
    for scope in ({}, {"room": "1"}):
        then: dict[str, Any] = {"window": "day", "period": label, "labels": scope}
        assert listed(lb, **then) == ["ann", token, "cid"]
        assert [lb.rank("b", m, **then) for m in ("ann", "zoe", token)] == [1, None, 2]
    after = lb.verify("b", period=label, window="day")
    assert after.verified
    assert (after.digest, after.entries) == (before.digest, before.entries)
    assert [(each.token, each.position, each.labels) for each in after.erased] == [
        (token, 2, {}),
        (token, 2, {"room": "1"}),
    ]
    [payout] = lb.payouts("b", member=token)
    assert (payout.reference, payout.position) == ("paid", 2)
    assert payout.id.split("/")[4] == token
    assert not lb.payouts("b", member="zoe")
    # readers got this payout when it named zoe, so it is not listed again
    assert token not in [each.member for each in lb.due_payouts()]
    lb.check()
    lb.rebuild()
    assert listed(lb, window="day", period=label) == ["ann", token, "cid"]


def test_a_member_hidden_when_a_period_was_closed_does_not_appear_in_it(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    windows = ["all", "day:archive=forever"]
    lb.create(laurels.Board("b", windows=windows, ledger="main", scopes=[[], ["room"]]))
    for room in ("1", "2"):
        for member in ("ann", "bob", "cid", "dan", "zoe"):
            lb.submit("b", member, len(room), labels={"room": room})
    lb.hide("b", "zoe", "a bot")
    label = lb.periods("b", "day")[0].label
    clock.advance(DAY)
    lb.seal()
    assert lb.erase("zoe", "asked for it").periods == 0
    for labels in ({}, {"room": "1"}, {"room": "2"}):
        then: dict[str, Any] = {"window": "day", "period": label, "labels": labels}
        assert listed(lb, **then) == ["ann", "bob", "cid", "dan"]
        assert lb.count("b", **then) == 4
        assert listed(lb, labels=labels) == ["ann", "bob", "cid", "dan"]
    assert lb.verify("b", window="day", period=label).verified
    lb.check()


def test_a_label_with_the_value_of_an_erased_id_stays(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    windows = ["all", "day:archive=forever"]
    lb.create(laurels.Board("b", windows=windows, rank_by=["room"], ledger="main"))
    lb.submit_many("b", [("zoe", 1, None, None, {"room": "zoe"})])
    period = lb.periods("b", "day")[0]
    clock.set(period.end_ms + HOUR)
    lb.seal()
    token = lb.erase("zoe", "asked for it").token
    where = {"window": "day", "period": period.label}
    assert listed(lb, **where) == [token]
    assert listed(lb, by="room") == listed(lb, by="room", **where) == ["zoe"]
    assert lb.verify("b", **where).verified


def test_an_erased_member_may_come_back(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["all", "day:archive=forever"], ledger="main"))
    lb.submit("b", "zoe", 5, id="x")
    assert lb.submit("b", "zoe", 5, id="x").status == "duplicate"
    first = lb.erase("zoe", "asked for it")
    receipt = lb.submit("b", "zoe", 3, id="x")
    assert (receipt.status, receipt.previous_score, receipt.score) == ("applied", None, 3)
    second = lb.erase("zoe", "asked for it again")
    assert second.token != first.token
    assert (second.boards, second.periods) == (1, 0)
    third = lb.erase("zoe", "and again")
    assert (third.boards, third.periods, third.payouts) == (0, 0, 0)
    assert listed(lb) == []


def test_a_member_with_open_payouts_is_paid_first(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    day = {"type": "day", "prizes": PRIZES}
    lb.create(laurels.Board("b", windows=[day], ledger="main"))
    lb.submit_many("b", [("ann", 3), ("zoe", 2), ("cid", 1)])
    clock.advance(DAY)
    lb.seal()
    with pytest.raises(PayoutsOpen, match="not confirmed: 1"):
        lb.erase("zoe", "asked for it")
    label = lb.periods("b", "day")[1].label
    assert listed(lb, period=label) == ["ann", "zoe", "cid"]
    lb.erase("cid", "has won nothing")
    clock.advance(2 * HOUR)
    with pytest.raises(PayoutsOpen, match="to waive one"):
        lb.erase("zoe", "asked for it")
    [payout] = lb.payouts("b", member="zoe")
    lb.confirm("b", payout.id, "waived")
    assert lb.erase("zoe", "asked for it").payouts == 1


def test_periods_that_are_due_are_closed_with_the_member(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    """The period was final before the member was erased. So it is closed with a token in the
    member's place, and the other members keep their places."""
    lb.create(laurels.Board("b", windows=["all", "day:archive=forever"], ledger="main"))
    lb.submit_many("b", [("ann", 3), ("zoe", 2), ("cid", 1)])
    label = lb.periods("b", "day")[0].label
    clock.advance(DAY)
    erasure = lb.erase("zoe", "asked for it")
    assert erasure.periods == 1
    assert listed(lb, window="day", period=label) == ["ann", erasure.token, "cid"]
    assert listed(lb) == ["ann", "cid"]


def test_every_revision_is_erased(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    label = season(lb, clock, "ann", "mal", "zoe", "cid")
    lb.disqualify("b", "mal", "a bot", window="day", period=label)
    clock.advance(2 * HOUR)
    for payout in lb.payouts("b", state="due"):
        lb.confirm("b", payout.id, "paid")
    token = lb.erase("zoe", "asked for it").token
    then: dict[str, Any] = {"window": "day", "period": label}
    assert listed(lb, **then) == ["ann", token, "cid"]
    assert listed(lb, **then, revision=0) == ["ann", "mal", token, "cid"]
    mal = lb.erase("mal", "asked for it").token
    assert listed(lb, **then, revision=0) == ["ann", mal, token, "cid"]
    assert {payout.member for payout in lb.payouts("b")} == {"ann", mal, token}
    corrected = [payout for payout in lb.payouts("b", member=mal) if payout.corrects]
    assert [payout.corrects for payout in corrected] == [
        payout.id for payout in lb.payouts("b", member=mal) if not payout.corrects
    ]
    assert lb.verify("b", window="day", period=label).verified
    lb.disqualify("b", "ann", "another bot", window="day", period=label)
    assert listed(lb, **then) == [token, "cid"]


@pytest.mark.parametrize("member", ODD)
def test_any_id_can_be_erased(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, member: str
) -> None:
    label = season(lb, clock, "ann", member, "cid")
    token = lb.erase(member, f"asked by {member}").token
    assert listed(lb, window="day", period=label) == ["ann", token, "cid"]
    assert listed(lb) == ["ann", "cid"]
    assert [payout.member for payout in lb.payouts("b")] == ["ann", token]
    for entry in lb.audit():
        named = dict(entry.request) if isinstance(entry.request, dict) else {}
        named.pop("reason", None)
        assert member not in named.values()
        assert entry.verb != "confirm" or named["payout"].split("/")[4] in ("ann", token)


def test_the_audit_log_has_the_token_and_not_the_member(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.set("b", "zoe", 3)
    lb.set("b", "zoe-2", 4)
    lb.hide("b", "zoe", "a bot")
    lb.remove("b", "zoe")
    token = lb.erase("zoe", "asked for it").token
    erased, *others = lb.audit()
    assert (erased.verb, erased.board, erased.reason) == ("erase", None, "asked for it")
    assert token in str(erased.request)
    assert [entry.request["member"] for entry in others[:4]] == [token, token, "zoe-2", token]
    assert "'zoe'" not in str(list(lb.audit()))


@pytest.mark.parametrize("fails", [Archive, PayoutTable])
def test_entries_of_the_audit_log_before_the_rest_of_an_erasure(
    tmp_path: Path, clock: laurels.ManualClock, fails: type
) -> None:
    """The disk is full in the middle of an erasure. Before the rest of it is done, others write
    about the member."""
    data, full = str(tmp_path / "data"), StorageFailed("no space left")
    with patch.object(SealingThread, "start"), laurels.open(data, clock=clock) as lb:
        season(lb, clock, "zoe")
        with patch.object(fails, "erase", side_effect=full), pytest.raises(StorageFailed):
            lb.erase("zoe", "asked for it")
        lb.remove("b", "zoe")
        assert "'zoe'" in str(list(lb.audit()))
    with laurels.open(data, clock=clock) as lb:
        lb.seal()
        assert "'zoe'" not in str(list(lb.audit()))
        assert "erased-" in str(list(lb.payouts("b")))


@pytest.mark.parametrize("fails", [Archive, PayoutTable])
def test_a_payout_and_its_place_have_one_token_if_an_erasure_is_repeated(
    tmp_path: Path, clock: laurels.ManualClock, fails: type
) -> None:
    full = StorageFailed("no space left")
    data = str(tmp_path / "data")
    with patch.object(SealingThread, "start"), laurels.open(data, clock=clock) as lb:
        label = season(lb, clock, "ann", "zoe")
        with patch.object(fails, "erase", side_effect=full), pytest.raises(StorageFailed):
            lb.erase("zoe", "asked for it")
        lb.submit("b", "zoe", 1)
        assert lb.erase("zoe", "asked for it again").boards == 1
        assert listed(lb) == ["ann"]
        places = listed(lb, window="day", period=label)
        assert places == [payout.member for payout in lb.payouts("b")]
        assert "zoe" not in places


def test_boards_that_had_the_member_tell_their_followers(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    label = season(lb, clock, "ann", "zoe")
    lb.create(laurels.Board("never", changes="1d"))
    lb.submit("never", "ann", 1)
    lb.remove("b", "zoe")  # from now on only the archive has the member
    erasure = lb.erase("zoe", "asked for it")
    assert erasure.periods == 1
    assert listed(lb, window="day", period=label) == ["ann", erasure.token]
    last = list(all_changes(lb, "b"))[-1]
    assert (last.kind, last.member) == ("erase", "zoe")
    assert last.data == {"token": erasure.token, "reason": "asked for it"}
    assert "erase" not in [change.kind for change in all_changes(lb, "never")]
    places = {each.place: each for each in erasure.remains}
    assert places["changes"].names == ["b"]
    assert places["changes"].until_ms == clock.now_ms() + 30 * DAY


def test_boards_that_told_of_a_hiding_tell_of_the_erasure(lb: laurels.Leaderboards) -> None:
    for name in ("b", "told"):
        lb.create(laurels.Board(name, changes="1d"))
    lb.create(laurels.Board("silent"))
    lb.submit("b", "zoe", 1)
    lb.hide(None, "zoe", "a bot")
    lb.hide("b", "zoe", "abuse")
    lb.create(laurels.Board("new", changes="1d"))
    erasure = lb.erase("zoe", "asked for it")
    assert lb.hidden() == lb.hidden("b") == lb.hidden("new") == []
    kinds = {
        name: [change.kind for change in all_changes(lb, name) if change.member == "zoe"]
        for name in ("b", "told", "new")
    }
    assert kinds == {
        "b": ["event", "hide", "hide", "erase"],
        "told": ["hide", "erase"],
        "new": ["hide", "erase"],
    }
    [names] = [each.names for each in erasure.remains if each.place == "changes"]
    assert names == ["b", "new", "told"]
    assert erasure.boards == 3
    lb.submit("told", "zoe", 2)
    assert listed(lb, "told") == ["zoe"]


@pytest.mark.parametrize("reason", ["", "x" * 501, None])
def test_a_reason_is_required(lb: laurels.Leaderboards, reason: Any) -> None:
    with pytest.raises(InvalidReference):
        lb.erase("zoe", reason)
    with pytest.raises(MemberEmpty):
        lb.erase("", "asked for it")


def test_the_newest_places_of_a_board_that_has_ended_are_from_the_archive(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    ends = laurels.Board(
        "b", windows=["all:archive=forever"], ends="2026-11-21", rank="dense", ledger="main"
    )
    lb.create(ends)
    lb.submit_many("b", [("zoe", 3), ("ann", 2), ("cid", 1)])
    clock.advance(DAY)
    lb.seal()
    assert lb.rank("b", "ann") == 2
    token = lb.erase("zoe", "asked for it").token
    # the ranking in memory must answer none of these queries, even when they are repeated
    for _ in range(3):
        assert lb.rank("b", "ann") == 2
        assert lb.ranks("b", ["zoe", token, "cid"]) == [None, 1, 3]
        assert listed(lb) == [token, "ann", "cid"]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, *rare(*range(4, 200))])
def test_random_erasures_leave_what_the_oracle_says(
    tmp_path: Path, seed: int, scaled: Scaled
) -> None:
    rng = Random(seed)
    stores = [
        *STORES[:2],
        *(each for each in ARCHIVING if each.name in ("redis", "cluster-shards")),
    ]
    implementation = stores[seed % len(stores)]
    clock = EpisodeClock(NOW_MS)
    with sealed_by_calls(), Deployment(implementation, tmp_path, clock) as deployment:
        world = World(deployment, clock, "UTC")
        for name in ("b", "c"):
            world.create(world.chosen(rng, name, rng.choice(COMBINATIONS)))
        for _ in range(scaled(25, 60)):
            rng.choice(STEPS)(world, rng)
            world.comparison.compare(world.lb, rng)
        world.lb.check()
