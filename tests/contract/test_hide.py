"""Hidden members: they are counted, and no answer about a ranking includes them until they are
shown again."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from random import Random

import pytest

import laurels
from laurels.errors import HiddenEverywhere, InvalidAt, InvalidHiding, MemberHidden
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation
from tests.counts import rare
from tests.stateful import rules
from tests.stateful.rounds import play_round, three_boards

# Events are random, so all events of a batch may be refused, and callers get a warning about that.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

HOUR_MS = 3_600_000
STEPS: tuple[rules.Rule, ...] = (
    rules.hide,
    rules.hide,
    rules.hide,
    rules.show,
    rules.submit,
    rules.scatter,
    rules.set_score,
    rules.remove,
    rules.pass_time,
    rules.cross,
    rules.change,
    rules.restart,
    rules.snapshot,
    rules.set_data,
    rules.read_on,
    rules.begin_anew,
    rules.check,
    rules.seal,
)


def listed(lb: laurels.Leaderboards, board: str = "b", **ranking: object) -> list[tuple[str, int]]:
    arguments: dict[str, object] = ranking
    page = lb.top(board, **arguments)  # type: ignore[arg-type]
    return [(entry.member, entry.rank) for entry in page]


def test_a_hidden_member_is_counted_and_not_ranked(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["all", "day", "rolling:7d/1d"]))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", -1), ("dan", 5)])
    lb.hide("b", "ann", "scripted gifts")
    received = lb.submit("b", "ann", 10)
    assert (received.status, received.previous_score, received.score) == ("applied", 3, 13)
    assert (received.previous_rank, received.rank) == (None, None)
    assert lb.submit("b", "bob", 1).rank == 2
    for window in ("all", "day", "rolling:7d/1d"):
        assert listed(lb, window=window) == [("dan", 1), ("bob", 2), ("cid", 3)]
        assert lb.rank("b", "ann", window=window) is None
        assert lb.rank("b", "cid", window=window) == 3
    assert lb.top("b").total == 3
    assert lb.standing("b", "ann") is None
    assert lb.standing("b", "ann", to_rank=1) is None
    assert lb.around("b", "ann") is None
    assert lb.card("b", "ann") == {"all": None, "day": None, "rolling:7d/1d": None}
    assert lb.ranks("b", ["ann", "cid", "nobody"]) == [None, 3, None]
    assert [entry.member for entry in lb.standings("b", ["ann", "cid"])] == ["cid"]
    cid = lb.standing("b", "cid", to_rank=1)
    assert cid is not None
    assert (cid.rank, cid.total, cid.percent) == (3, 3, 100)
    assert (cid.above and cid.above.member, cid.to_rank and cid.to_rank.gap) == ("bob", 6)
    last = lb.at_rank("b", 3)
    assert last is not None
    assert last.member == "cid"
    assert lb.at_rank("b", 4) is None
    assert (lb.count("b"), lb.count("b", low=0), lb.count("b", low=13, high=13)) == (3, 2, 0)
    assert [entry.member for entry in lb.range("b", low=-1, high=20)] == ["dan", "bob", "cid"]
    assert lb.score_at_percentile("b", 40) == 3
    assert [period.total for period in lb.periods("b")] == [3]
    assert [entry.member for entry in lb.export("b")] == ["dan", "bob", "cid"]


def test_a_member_that_is_shown_again_stands_as_if_never_hidden(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    lb.hide("b", "bob", "bot")
    lb.submit("b", "bob", 5)
    assert listed(lb) == [("ann", 1)]
    assert lb.show("b", "bob")
    assert listed(lb) == [("bob", 1), ("ann", 2)]
    assert lb.submit("b", "bob", -6).rank == 2
    assert not lb.show("b", "bob")
    assert not lb.show("b", "nobody")


def test_a_member_may_be_hidden_before_its_first_event(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.hide("b", "bob", "known cheater")
    assert lb.submit("b", "bob", 5).rank is None
    assert listed(lb) == []
    assert lb.submit("b", "ann", 1).rank == 1


@pytest.mark.parametrize("rank", ["ordinal", "competition", "dense"])
def test_ties_with_a_hidden_member_keep_their_rank(lb: laurels.Leaderboards, rank: str) -> None:
    lb.create({"name": "b", "rank": rank, "tie": "member"})
    lb.submit_many("b", [("a", 5), ("b", 5), ("c", 3), ("d", 2), ("e", 2), ("f", 1)])
    ranks = {"ordinal": [1, 2, 3, 4], "competition": [1, 2, 2, 4], "dense": [1, 2, 2, 3]}[rank]
    lb.hide("b", "c", "bot")
    lb.hide("b", "b", "bot")
    assert listed(lb) == list(zip("adef", ranks, strict=True))
    assert lb.ranks("b", list("abcdef")) == [ranks[0], None, None, *ranks[1:]]
    assert listed(lb, offset=2) == list(zip("ef", ranks[2:], strict=True))
    lb.hide("b", "e", "bot")
    assert listed(lb)[-1] == ("f", 3)


def test_a_hidden_member_can_be_removed_and_stays_hidden(deployment: Deployment) -> None:
    lb = deployment.lb
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    lb.hide("b", "bob", "bot")
    assert lb.remove("b", "bob")
    lb.submit("b", "bob", 9)
    assert listed(lb) == [("ann", 1)]
    assert [each.member for each in lb.hidden("b")] == ["bob"]
    lb.show("b", "bob")
    assert listed(lb) == [("bob", 1), ("ann", 2)]


def test_hidden_lists_members_with_reasons(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b"))
    assert lb.hidden("b") == []
    lb.hide("b", "zoë", "spam", until=NOW_MS + HOUR_MS)
    clock.advance(1_000)
    until = datetime.fromtimestamp((NOW_MS + 2 * HOUR_MS) / 1_000, UTC)
    lb.hide("b", "ann", "bot", until=until)
    assert lb.hidden("b") == [
        laurels.HiddenMember("ann", "bot", NOW_MS + 1_000, NOW_MS + 2 * HOUR_MS),
        laurels.HiddenMember("zoë", "spam", NOW_MS, NOW_MS + HOUR_MS),
    ]
    lb.hide("b", "zoë", "spam, again")
    assert [each.member for each in lb.hidden("b", limit=1)] == ["ann"]
    [zoe] = lb.hidden("b", after="ann")
    assert zoe == laurels.HiddenMember("zoë", "spam, again", NOW_MS, None)


def test_a_hiding_ends(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["all", "rolling:1h/1m"], changes="1d"))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    lb.hide("b", "ann", "bot", until=NOW_MS + HOUR_MS - 60_000)
    assert listed(lb) == [("bob", 1)]
    clock.set(NOW_MS + HOUR_MS - 60_001)
    assert listed(lb) == listed(lb, window="rolling:1h/1m") == [("bob", 1)]
    clock.advance(1)
    assert listed(lb) == listed(lb, window="rolling:1h/1m") == [("ann", 1), ("bob", 2)]
    assert lb.hidden("b") == []
    assert lb.submit("b", "ann", 1).previous_rank == 1
    kinds = [change.kind for change in lb.changes("b") if change.member == "ann"]
    assert kinds == ["event", "hide", "show", "event"]


def test_a_hiding_that_has_ended_can_be_begun_anew(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", changes="1d"))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    lb.hide("b", "ann", "bot", until=NOW_MS + 1_000)
    lb.hide("b", "ann", "bot", until=NOW_MS + 5_000)
    clock.advance(1_000)
    assert listed(lb) == [("bob", 1)]
    clock.advance(4_000)
    lb.hide("b", "ann", "again", until=NOW_MS + 9_000)
    assert [each.since_ms for each in lb.hidden("b")] == [NOW_MS + 5_000]
    assert listed(lb) == [("bob", 1)]
    clock.advance(4_000)
    assert not lb.show("b", "ann")
    assert listed(lb) == [("ann", 1), ("bob", 2)]
    assert [c.kind for c in lb.changes("b") if c.member == "ann"][:5] == [
        "event",
        "hide",
        "hide",
        "show",
        "hide",
    ]


@pytest.mark.parametrize("reason", ["", "  ", 7, None, "x" * 501, "\ud800"])
def test_a_hiding_needs_a_reason(lb: laurels.Leaderboards, reason: object) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(InvalidHiding, match="expected a reason"):
        lb.hide("b", "ann", reason)  # type: ignore[arg-type]
    assert lb.hidden("b") == []


def test_a_hiding_ends_after_now(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    for until in (NOW_MS, NOW_MS - 1):
        with pytest.raises(InvalidHiding, match="expected `until` after now"):
            lb.hide("b", "ann", "bot", until=until)
    with pytest.raises(InvalidAt):
        lb.hide("b", "ann", "bot", until="tomorrow")


def test_needed_is_refused_for_a_hidden_member(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 9), ("bob", 5), ("cid", 1)])
    lb.hide("b", "ann", "bot")
    with pytest.raises(MemberHidden):
        lb.needed("b", "ann", 1)
    needed = lb.needed("b", "cid", 1)
    assert needed is not None
    assert needed.value == 5


def test_a_page_continues_after_an_entry_that_is_hidden_meanwhile(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b", tie="member"))
    lb.submit_many("b", [(f"m{i}", 9 - i) for i in range(7)])
    page = lb.top("b", limit=2)
    for hidden in ("m1", "m0", "m3"):
        lb.hide("b", hidden, "bot")
    rest = lb.top("b", after=page.next)
    assert [(entry.member, entry.rank) for entry in rest] == [
        ("m2", 1),
        ("m4", 2),
        ("m5", 3),
        ("m6", 4),
    ]


def test_scopes_leave_hidden_members_out(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", scopes=[[], ["room"]], rank_by=["room"]))
    room = {"room": "ann"}
    events = [("ann", 3), ("bob", 2)]
    lb.submit_many("b", [(member, score, None, None, room) for member, score in events])
    lb.hide("b", "ann", "bot")
    assert listed(lb, labels=room) == [("bob", 1)]
    assert listed(lb, by="room") == [("ann", 1)]
    received = lb.submit("b", "ann", 1, labels=room, scope=["room"])
    assert (received.score, received.rank) == (4, None)
    assert lb.top("b", labels=room).total == 1
    assert lb.submit("b", "bob", 1, labels={"room": "2"}, scope=["room"]).rank == 1
    lb.hide("b", "bob", "bot")
    assert lb.top("b", labels={"room": "2"}).total == 0
    lb.show("b", "ann")
    assert listed(lb, labels=room) == [("ann", 1)]


def test_changes_report_hidden_members(deployment: Deployment) -> None:
    lb = deployment.lb
    lb.create(laurels.Board("b", changes="1d"))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    lb.hide("b", "ann", "bot", until=NOW_MS + HOUR_MS)
    lb.submit("b", "ann", 1)
    lb.hide("b", "bob", "spam")
    lb.show("b", "bob")
    changes = [change for change in lb.changes("b") if change.kind in ("hide", "show", "event")]
    # A board in several shards may report a hiding before events of the same time.
    own = sorted([(c.kind, c.data) for c in changes if c.member == "ann"], key=itemgetter(0))
    hiding = {"reason": "bot", "since_ms": NOW_MS, "until_ms": NOW_MS + HOUR_MS}
    assert own == [("event", None), ("event", None), ("hide", hiding)]
    of_bob = [c.kind for c in changes if c.member == "bob"]
    assert sorted(of_bob) == ["event", "hide", "show"]
    assert of_bob.index("hide") < of_bob.index("show")
    page = lb.changes("b", initial=True)
    loaded = list(page)
    while loaded[-1].kind != "initial_end":
        page = lb.changes("b", after=page.cursor)
        loaded += page
    entries = {c.member: c.rankings[0].score for c in loaded if c.kind == "initial"}
    assert entries == {"ann": 4, "bob": 2}
    assert [(c.member, c.data) for c in loaded if c.kind == "hide"] == [("ann", hiding)]


def test_changes_report_members_hidden_on_all_boards_at_once(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", changes="1d"))
    hidden = []
    for member in ("ann", "bob", "cid", "dan", "eve"):
        lb.hide(None, member, "bot")
        hidden.append(member)
        reported = [change.member for change in lb.changes("b") if change.kind == "hide"]
        assert sorted(map(str, reported)) == hidden


def test_a_new_board_reports_who_is_hidden_as_of_its_creation(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.hide(None, "ann", "bot")
    clock.advance(5_000)
    lb.create(laurels.Board("b", changes="1d"))
    [hide] = [change for change in lb.changes("b") if change.kind == "hide"]
    hiding = {"reason": "bot", "since_ms": NOW_MS, "until_ms": None}
    assert (hide.at_ms, hide.data) == (NOW_MS + 5_000, hiding)


def test_hidden_members_stay_hidden_after_a_restart(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", 1)])
    lb.hide("b", "ann", "bot")
    lb.hide("b", "bob", "spam", until=NOW_MS + 1_000)
    if deployment.lasting:
        lb = deployment.reopen()
    assert listed(lb) == [("cid", 1)]
    if deployment.exclusive:
        lb.snapshot()
        lb = deployment.reopen()
    lb.check()
    assert listed(lb) == listed(lb, window="day") == [("cid", 1)]
    assert [each.reason for each in lb.hidden("b")] == ["bot", "spam"]
    clock.advance(1_000)
    assert listed(lb) == [("bob", 1), ("cid", 2)]


def test_a_member_is_hidden_on_all_boards(deployment: Deployment) -> None:
    lb = deployment.lb
    for board in ("a", "b"):
        lb.create(laurels.Board(board, windows=["all", "day"], changes="1d"))
        lb.submit_many(board, [("ann", 3), ("bob", 2)])
        assert lb.rank(board, "ann") == 1
    lb.hide(None, "ann", "banned", until=NOW_MS + HOUR_MS)
    lb.create(laurels.Board("c", changes="1d"))
    lb.submit_many("c", [("ann", 3), ("bob", 2)])
    for board in "abc":
        assert listed(lb, board) == [("bob", 1)]
        assert lb.hidden(board) == lb.hidden()
        kinds = [change.kind for change in lb.changes(board) if change.member == "ann"]
        assert kinds == (["hide", "event"] if board == "c" else ["event", "hide"])
    assert lb.hidden() == [
        laurels.HiddenMember("ann", "banned", NOW_MS, NOW_MS + HOUR_MS, everywhere=True)
    ]
    lb.hide("a", "ann", "here, too")
    with pytest.raises(HiddenEverywhere):
        lb.show("b", "ann")
    if deployment.exclusive:
        lb.snapshot()
    if deployment.lasting:
        lb = deployment.reopen()
    assert [each.reason for each in lb.hidden("a")] == ["here, too"]
    assert lb.show(None, "ann")
    assert not lb.show(None, "ann")
    assert listed(lb, "a") == [("bob", 1)]
    assert listed(lb, "b") == listed(lb, "c") == [("ann", 1), ("bob", 2)]
    last = {board: [c for c in lb.changes(board) if c.member == "ann"][-1] for board in "abc"}
    assert [change.kind for change in last.values()] == ["hide", "show", "show"]
    assert last["a"].data["reason"] == "here, too"
    lb.check()


def test_a_board_that_was_just_read_hides_a_member_at_once(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    for board in (None, "b"):
        for _ in range(2):
            assert [lb.rank("b", "ann"), *lb.ranks("b", ["ann", "bob"])] == [1, 1, 2]
        lb.hide(board, "ann", "bot")
        for _ in range(2):
            assert [lb.rank("b", "ann"), *lb.ranks("b", ["ann", "bob"])] == [None, None, 1]
        assert lb.show(board, "ann")


def test_a_hiding_on_all_boards_ends(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", changes="1d"))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    lb.hide(None, "ann", "banned", until=NOW_MS + HOUR_MS)
    clock.advance(HOUR_MS - 1)
    assert listed(lb) == [("bob", 1)]
    clock.advance(1)
    assert lb.hidden() == []
    assert listed(lb) == [("ann", 1), ("bob", 2)]
    lb.submit("b", "bob", 1)
    kinds = [change.kind for change in lb.changes("b") if change.member == "ann"]
    assert kinds == ["event", "hide", "show"]


def test_many_hidden_members_in_long_lists(lb: laurels.Leaderboards, scaled: Scaled) -> None:
    lb.create(laurels.Board("b", tie="member", rank="competition"))
    lb.submit_many("b", [(f"m{i:04}", i % 7) for i in range(2_000)])
    hidden = {f"m{i:04}" for i in [*range(0, 2_000, scaled(13, 3)), *range(4, 700, 7)]}
    for member in hidden:
        lb.hide("b", member, "bot")
    expected = sorted((-(i % 7), f"m{i:04}") for i in range(2_000) if f"m{i:04}" not in hidden)
    entries = list(lb.export("b"))
    assert [entry.member for entry in entries] == [member for _, member in expected]
    scores = [score for score, _ in expected]
    assert [entry.rank for entry in entries] == [scores.index(score) + 1 for score in scores]
    assert lb.ranks("b", [member for _, member in expected]) == [e.rank for e in entries]
    page = lb.top("b", offset=300, limit=50)
    assert [entry.member for entry in page] == [member for _, member in expected[300:350]]
    around = lb.around("b", expected[400][1], radius=20)
    assert around is not None
    assert [entry.member for entry in around] == [m for _, m in expected[380:421]]
    last = lb.top("b", limit=5, reverse=True)
    assert [entry.member for entry in last] == [member for _, member in expected[:-6:-1]]


@pytest.mark.parametrize("seed", [0, 1, *rare(*range(2, 30))])
def test_every_answer_is_that_of_the_oracle(
    implementation: Implementation, tmp_path: Path, seed: int, scaled: Scaled
) -> None:
    rng = Random(seed)
    # A batch that is all or nothing needs its members in one shard.
    steps = [step for step in STEPS if not (implementation.divided and step is rules.scatter)]
    with three_boards(implementation, tmp_path, rng, lambda: rng.random() < 0.2) as world:
        for _ in range(scaled(8, 16)):
            play_round(world, rng, steps)
            for asked in world.oracle.boards:
                world.comparison.changes(world.lb, asked, rng)
