"""Boards in event time: answers do not depend on the batches into which a history is cut, and each
board has its own time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import laurels
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import assert_entries, assert_receipt, board_of
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import (
    IMPLEMENTATIONS,
    LASTING,
    STORES,
    Deployment,
    Implementation,
)
from tests.contract.reading import scores
from tests.counts import some
from tests.definitions import Definition, Report, WindowDef
from tests.oracle import Oracle

# The events are random, so all events of a batch may be refused. laurels warns about such batches.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

DAY = 24 * HOUR
NOON = NOW_MS - NOW_MS % DAY + 12 * HOUR
BERLIN_SPRING = 1_774_746_000_000  # 2026-03-29T01:00Z: clocks in Berlin go forward by an hour
BERLIN_AUTUMN = 1_792_890_000_000  # 2026-10-25T01:00Z: clocks go back again

Seen = list[tuple[object, ...]]
Drawn = Sequence[tuple[int, int, str, int, str | None]]
"""A history as hypothesis draws it. Each event has the delay after the previous event, how late it
is, its member, its value and its id."""


@pytest.fixture
def replayed(implementation: Implementation, tmp_path: Path) -> Iterator[Deployment]:
    """Return a deployment whose boards use event time."""
    with Deployment(implementation, tmp_path, "event") as deployment:
        yield deployment


@pytest.fixture(scope="module", params=IMPLEMENTATIONS, ids=lambda each: each.name)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[laurels.Leaderboards]:
    """Return leaderboards in event time that all examples of a property share; each example has its
    own boards."""
    implementation: Implementation = request.param
    with Deployment(implementation, tmp_path_factory.mktemp("shared"), "event") as deployment:
        yield deployment.lb


def seen(receipts: Sequence[laurels.Receipt]) -> Seen:
    """Return the fields of receipts that do not depend on which events share a commit."""
    return [
        (r.member, r.status, r.reason, r.period, r.previous_score, r.score, r.refused_windows)
        for r in receipts
    ]


def test_an_event_within_grace_counts_although_a_later_one_of_its_batch_ends_the_grace(
    replayed: Deployment,
) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["hour:grace=10m"]))
    receipts = lb.submit_many(
        "b",
        [
            ("ann", 1, NOON + 5),
            ("bob", 1, NOON + HOUR + 9 * MINUTE),
            ("cid", 1, NOON + 6),
            ("dan", 1, NOON + HOUR + 10 * MINUTE),
            ("eve", 1, NOON + 7),
            ("fay", 1, NOON + HOUR + 10 * MINUTE + 1),
            ("gil", 1, NOON + 8),
        ],
    )
    assert [r.reason or r.status for r in receipts] == ["applied"] * 6 + ["too_late"]
    assert receipts.late == {"hour": 1}


def test_an_id_is_remembered_from_the_time_of_its_event(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["all"], dedupe="1h"))
    at = [NOON, NOON + 50 * MINUTE, NOON + HOUR - 1, NOON + HOUR, NOON + 3 * HOUR]
    receipts = lb.submit_many("b", [("ann", 1, each, "x") for each in at])
    statuses = ["applied", "duplicate", "duplicate", "applied", "applied"]
    assert [r.status for r in receipts] == statuses
    more = lb.submit_many("b", [("ann", 1, NOON + 4 * HOUR - 1, "x"), ("ann", 1, NOON, "x")])
    assert [r.status for r in more] == ["duplicate", "duplicate"]


def test_ids_that_are_forgotten_make_room_within_a_batch(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["all"], dedupe="1h", dedupe_max=1))
    events = [("ann", 1, NOON, "x"), ("ann", 1, NOON + 1, "y"), ("ann", 1, NOON + HOUR, "z")]
    receipts = lb.submit_many("b", events)
    assert [r.reason or r.status for r in receipts] == ["applied", "dedupe_full", "applied"]


def test_an_id_is_forgotten_by_the_event_that_shows_dedupe_has_passed(
    replayed: Deployment,
) -> None:
    """An id is forgotten at the first event whose `at` shows that `dedupe` has passed. For the
    events before it in the same batch, the id is still remembered, even if the batch has more
    events with ids than `dedupe_max`."""
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["all"], dedupe="30m", dedupe_max=2))
    events = [
        ("ann", 1, NOON, "x"),
        ("ann", 1, NOON, "x"),
        ("ann", 1, NOON + MINUTE, None),
        ("ann", 1, NOON + MINUTE + 1, "x"),
        ("ann", 1, NOON + HOUR, None),
        ("ann", 1, NOON + HOUR, "x"),
    ]
    statuses = ["applied", "duplicate", "applied", "duplicate", "applied", "applied"]
    assert [receipt.status for receipt in lb.submit_many("b", events)] == statuses
    assert scores(lb.top("b")) == {"ann": 4}


def test_a_receipt_has_the_decayed_score_at_the_time_of_its_event(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["decay:1h"]))
    receipts = lb.submit_many("b", [("ann", 8, NOON), ("bob", 8, NOON + 3 * HOUR)])
    assert [r.score for r in receipts] == [8, 8]
    assert scores(lb.top("b")) == {"bob": 8, "ann": 1}


def test_boards_do_not_share_their_time(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("late", windows=["hour", "decay:1h", "r=rolling:3h/1h"]))
    lb.create(laurels.Board("early", windows=["hour", "decay:1h", "r=rolling:3h/1h"]))
    lb.submit_many("late", [("ann", 8, NOON + 40 * DAY)])
    receipts = lb.submit_many("early", [("bob", 8, NOON), ("cid", 8, NOON + HOUR)])
    assert [receipt.status for receipt in receipts] == ["applied", "applied"]
    assert lb.top("early").as_of.period == "2026-11-20T13+00:00"
    assert scores(lb.top("early", window="r")) == {"bob": 8, "cid": 8}
    assert scores(lb.top("early", window="decay:1h")) == {"cid": 8, "bob": 4}
    lb.submit("late", "dan", 8, at=NOON + 40 * DAY + HOUR)
    assert scores(lb.top("late", window="decay:1h")) == {"dan": 8, "ann": 4}
    assert lb.remove("early", "bob")
    assert scores(lb.top("early", window="r")) == {"cid": 8}
    lb.change("early", keep=5)
    lb.submit("early", "eve", 8, at=NOON + 2 * HOUR)
    assert lb.top("early").as_of.period == "2026-11-20T14+00:00"
    lb.check()


@pytest.mark.parametrize("implementation", LASTING, ids=lambda it: it.name)
def test_the_time_of_each_board_is_restored_after_a_restart(replayed: Deployment) -> None:
    lb = replayed.lb
    windows = ["decay:1h", "hour:grace=10m", "all"]
    for name in ("late", "early"):
        lb.create(laurels.Board(name, windows=windows))
    lb.submit("late", "ann", 8, at=NOON + 40 * DAY)
    lb.submit_many("early", [("ann", 8, NOON, "x"), ("ann", 8, NOON + HOUR, "y")])
    before = [list(lb.export(name, window="decay:1h")) for name in ("late", "early")]
    lb = replayed.reopen()
    assert [list(lb.export(name, window="decay:1h")) for name in ("late", "early")] == before
    receipts = lb.submit_many(
        "early",
        [
            ("ann", 8, NOON, "x"),  # counts again, since `dedupe` has passed
            ("ann", 8, NOON + 1, "y"),
            ("ann", 8, NOON + HOUR + 10 * MINUTE, "z"),
            ("bob", 8, NOON + 2),
            ("cid", 8, NOON + HOUR + 10 * MINUTE + 1),
            ("bob", 8, NOON + 3),
        ],
        window="hour",
    )
    assert [r.status for r in receipts] == [
        "applied",
        "duplicate",
        "applied",
        "applied",
        "applied",
        "applied",
    ]
    assert receipts[5].refused_windows == ("hour",)
    lb.check()


@pytest.mark.parametrize("implementation", STORES[1:], ids=lambda it: it.name)
def test_a_snapshot_keeps_the_time_of_each_board(replayed: Deployment) -> None:
    lb = replayed.lb
    for name in ("late", "early"):
        lb.create(laurels.Board(name, windows=["r=rolling:3h/1h", "hour:keep=2"]))
    lb.submit("late", "ann", 8, at=NOON + 40 * DAY)
    lb.submit_many("early", [("ann", 8, NOON), ("bob", 8, NOON + HOUR)])
    lb.snapshot()
    lb = replayed.reopen()
    assert scores(lb.top("early")) == {"ann": 8, "bob": 8}
    lb.submit("early", "cid", 8, at=NOON + 3 * HOUR)
    assert scores(lb.top("early")) == {"bob": 8, "cid": 8}
    lb.check()


@pytest.mark.one_shard
def test_an_all_or_nothing_batch_is_judged_at_one_time(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["hour:grace=10m"]))
    late = [("ann", 1, NOON), ("bob", 1, NOON + 2 * HOUR)]
    with pytest.raises(laurels.errors.BatchRefused):
        lb.submit_many("b", late, all_or_nothing=True)
    assert lb.submit_many("b", [late[1], ("cid", 1, NOON)])[1].reason == "too_late"


# Random partitions into batches

BOARDS: tuple[dict[str, Any], ...] = (
    {"windows": (WindowDef("hour", name="hour", grace="10m"), WindowDef("all")), "dedupe": "1h"},
    {
        "windows": (
            WindowDef("rolling", name="r", span="3h", step="1h", grace="2h"),
            WindowDef("day", name="day", keep=3, tz="Europe/Berlin"),
            WindowDef("rolling", name="d", span="4d", step="2d", tz="Europe/Berlin"),
        ),
        "dedupe": "2h",
        "grace": "20m",
    },
    {
        "windows": (WindowDef("decay", half_life="90m"), WindowDef("hour", name="hour", keep=2)),
        "dedupe": "1h",
    },
    {"windows": (WindowDef("all"),), "dedupe": "30m", "tie": "last", "dedupe_max": 2},
    {
        "windows": (
            WindowDef("hour", name="hour", keep=3),
            WindowDef("all"),
            WindowDef("rolling", name="r", span="3h", step="1h", grace="2h"),
            WindowDef("decay", half_life="90m"),
        ),
        "grace": "10m",
        "dedupe": "2h",
        "starts": NOON + 10 * MINUTE,
        "ends": NOON + HOUR + 20 * MINUTE,
    },
)
STEPS = [0, 0, 1, MINUTE, 10 * MINUTE, 10 * MINUTE + 1, 20 * MINUTE, HOUR, 9 * HOUR, 2 * DAY]
LATE = [0, 0, 0, 1, 5 * MINUTE, 10 * MINUTE, HOUR, 2 * HOUR, 30 * HOUR]
EVENT = st.tuples(
    st.sampled_from(STEPS),
    st.sampled_from(LATE),
    st.sampled_from("abc"),
    st.integers(-2, 3),
    st.sampled_from([None, None, "x", "y"]),
)
HISTORY = st.tuples(
    st.sampled_from(range(len(BOARDS))),
    st.sampled_from([NOON, BERLIN_SPRING - HOUR, BERLIN_AUTUMN - HOUR]),
    st.lists(EVENT, min_size=1, max_size=14),
)
_numbers = count()


def reports_of(
    begin_ms: int, drawn: Sequence[tuple[int, int, str, int, str | None]]
) -> list[Report]:
    reports, at_ms = [], begin_ms
    for step_ms, late_ms, member, value, id in drawn:
        at_ms += step_ms
        reports.append(Report(member, value, at_ms - late_ms, id))
    return reports


def submitted(
    lb: laurels.Leaderboards, definition: Definition, reports: Sequence[Report], cuts: Sequence[int]
) -> tuple[Seen, list[laurels.Receipt]]:
    """Submit a history in batches that end at the cuts. Return its receipts in two forms: without
    the fields that depend on the commit, and complete."""
    lb.create(board_of(definition))
    receipts: list[laurels.Receipt] = []
    for start, end in pairwise(sorted({0, *cuts, len(reports)})):
        events = [(r.member, r.value, r.at, r.id) for r in reports[start:end]]
        receipts += lb.submit_many(definition.name, events)
    return seen(receipts), receipts


def everything(
    lb: laurels.Leaderboards, name: str, oracle: Oracle, other: str
) -> list[list[tuple[object, ...]]]:
    """Return all readable entries of a board. The labels of its periods come from the board `other`
    of the oracle, which has the same definition."""
    rankings: list[list[tuple[object, ...]]] = []
    for window in oracle.board(other).windows:
        labels: list[str | None] = [span.label for span in oracle.periods(other, window)]
        for label in labels or [None]:
            entries = lb.export(name, window=window, period=label)
            rankings.append([(e.member, e.rank, e.score) for e in entries])
    return rankings


@settings(
    max_examples=settings().max_examples // 4,  # each example runs on every kind of store
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=HISTORY, data=st.data())
def test_any_partition_gives_the_same_answers(
    shared: laurels.Leaderboards,
    history: tuple[int, int, Drawn],
    data: st.DataObject,
) -> None:
    which, begin_ms, drawn = history
    reports = reports_of(begin_ms, drawn)
    cuts = data.draw(st.lists(st.integers(0, len(reports)), max_size=4))
    number = next(_numbers)
    one, cut, whole = (
        Definition(f"{name}{number}", **BOARDS[which]) for name in ("one", "cut", "whole")
    )
    alone, _ = submitted(shared, one, reports, range(len(reports)))
    oracle = Oracle(None)
    oracle.create(whole)
    verdicts = oracle.submit_many(whole.name, reports)
    in_parts, _ = submitted(shared, cut, reports, cuts)
    at_once, receipts = submitted(shared, whole, reports, [])
    assert in_parts == alone
    assert at_once == alone
    watched = next(iter(oracle.board(whole.name).windows))
    if len(reports) > 1:  # the receipt of a single event also has the member's rank
        for receipt, verdict in zip(receipts, verdicts, strict=True):
            assert_receipt(receipt, verdict, watched, whole)
    for window in oracle.board(whole.name).windows:
        labels: list[str | None] = [span.label for span in oracle.periods(whole.name, window)]
        for label in labels or [None]:
            places = oracle.places(whole.name, window, label)
            assert_entries(shared.export(whole.name, window=window, period=label), places, whole)
    expected = everything(shared, one.name, oracle, whole.name)
    assert everything(shared, cut.name, oracle, whole.name) == expected
    assert everything(shared, whole.name, oracle, whole.name) == expected


@pytest.mark.parametrize("implementation", LASTING, ids=lambda it: it.name)
@pytest.mark.parametrize("seed", some(1, range(3)))
def test_a_restart_between_batches_changes_nothing(replayed: Deployment, seed: int) -> None:
    rng = Random(seed)
    definition = Definition("b", **BOARDS[1])
    drawn = [
        (rng.choice(STEPS), rng.choice(LATE), rng.choice("abc"), rng.randint(-2, 3), id)
        for id in rng.choices([None, "x", "y"], k=60)
    ]
    reports = reports_of(NOON, drawn)
    oracle = Oracle(None)
    oracle.create(definition)
    verdicts = oracle.submit_many("b", reports)
    lb = replayed.lb
    lb.create(board_of(definition))
    receipts: list[laurels.Receipt] = []
    for start in range(0, 60, 20):
        events = [(r.member, r.value, r.at, r.id) for r in reports[start : start + 20]]
        receipts += lb.submit_many("b", events)
        lb = replayed.reopen()
    for receipt, verdict in zip(receipts, verdicts, strict=True):
        assert_receipt(receipt, verdict, "r", definition)
    for window in oracle.board("b").windows:
        for span in oracle.periods("b", window):
            places = oracle.places("b", window, span.label)
            assert_entries(lb.export("b", window=window, period=span.label), places, definition)
    lb.check()
