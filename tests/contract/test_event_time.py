"""Boards in event time: the time of a board is the latest `at` it has received, and a batch is cut
where a period or step begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import AtRequired, BoardEnded
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import assert_entries, assert_receipt, board_of
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import LASTING, Deployment, Implementation
from tests.contract.reading import members, scores
from tests.counts import some
from tests.definitions import Definition, Refusal, Report, WindowDef
from tests.oracle import Oracle

NOON = NOW_MS - NOW_MS % (24 * HOUR) + 12 * HOUR


@pytest.fixture
def replayed(implementation: Implementation, tmp_path: Path) -> Iterator[Deployment]:
    """Return a deployment whose boards use event time."""
    with Deployment(implementation, tmp_path, "event") as deployment:
        yield deployment


def test_the_time_of_a_board_is_the_latest_at(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["hour", "all"]))
    lb.submit("b", "ann", 1, at=NOON)
    assert lb.top("b").as_of.period == "2026-11-20T12+00:00"
    lb.submit("b", "bob", 1, at=NOON - HOUR)
    lb.submit("b", "bob", 1, at=NOON + 30 * HOUR)
    assert lb.top("b").as_of.period == "2026-11-21T18+00:00"
    assert members(lb.top("b")) == ["bob"]
    assert scores(lb.top("b", window="all")) == {"bob": 2, "ann": 1}


def test_events_without_a_time_are_refused(replayed: Deployment) -> None:
    replayed.lb.create(laurels.Board("b"))
    with pytest.raises(AtRequired):
        replayed.lb.submit("b", "ann", 1)
    receipts = replayed.lb.submit_many("b", [("ann", 1), ("bob", 1, NOON)])
    assert [receipt.reason or receipt.status for receipt in receipts] == ["at_required", "applied"]


def test_a_batch_is_replayed_as_if_live(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["hour:keep=1"], dedupe="1h"))
    hours = [(f"m{i}", 1, NOON + i * HOUR, "same id") for i in range(5)]
    late = ("late", 1, NOON + HOUR)
    receipts = lb.submit_many(
        "b", [*hours, late, *[(m, 1, at + 5 * HOUR, i) for m, _, at, i in hours]]
    )
    assert receipts.applied == 10
    assert receipts[5].reason == "too_late"
    assert members(lb.top("b")) == ["m4"]


def test_receipts_have_the_ranks_before_and_after_the_events_of_one_moment(
    replayed: Deployment,
) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["all", "hour"]))
    lb.submit("b", "ann", 5, at=NOON)
    receipts = lb.submit_many(
        "b",
        [("bob", 6, NOON), ("cid", 7, NOON + HOUR), ("bob", 2, NOON + HOUR), ("ann", 9, NOON)],
        ranks=True,
    )
    assert [(r.previous_rank, r.rank) for r in receipts] == [(None, 1), (None, 3), (1, 2), (2, 1)]


@pytest.mark.parametrize("labels", [(), ("team",)])
def test_a_set_reads_the_total_in_all_after_all_takes_no_more_events(
    replayed: Deployment, labels: tuple[str, ...]
) -> None:
    """The end of the board and the grace of `all` have passed. A rolling window still takes
    events, and a set adds the difference to the total in `all` to it."""
    lb = replayed.lb
    scopes: list[list[str]] = [[], *[[label] for label in labels]]
    windows = ["all", "r=rolling:3h/1h,grace=2h"]
    fields: dict[str, Any] = {"scopes": scopes, "rank_by": labels} if labels else {}
    ends = NOON + HOUR
    lb.create(laurels.Board("b", windows=windows, ends=ends, changes="30d", dedupe="2h", **fields))
    team: dict[str, Any] = {"labels": {"team": "red"}} if labels else {}
    lb.submit("b", "ann", 10, at=NOON, **team)
    with pytest.raises(BoardEnded):
        lb.submit("b", "ann", 1, at=ends + HOUR, **team)
    receipt = lb.set("b", "ann", 12, at=ends - 1, window="r", **team)
    assert (receipt.previous_score, receipt.score) == (10, 12)
    assert receipt.refused_windows == ("all",)
    change = lb.changes("b", limit=100).changes[-1]
    assert (change.kind, change.delta, change.score) == ("set", 2, None)
    assert lb.set("b", "bob", 3, at=ends - 1, window="r", **team).score == 3
    assert scores(lb.top("b", window="r")) == {"ann": 12, "bob": 3}
    assert scores(lb.top("b", window="all")) == {"ann": 10}
    for label in labels:
        by = lb.top("b", window="r", by=label)
        assert scores(by) == {"red": 15}
        assert scores(lb.top("b", window="r", labels={label: "red"})) == {"ann": 12, "bob": 3}


@pytest.mark.parametrize("implementation", LASTING, ids=lambda it: it.name)
def test_event_time_continues_after_a_restart(replayed: Deployment) -> None:
    lb = replayed.lb
    lb.create(laurels.Board("b", windows=["hour"]))
    lb.submit("b", "ann", 1, at=NOON)
    lb = replayed.reopen()
    assert lb.top("b").as_of.period == "2026-11-20T12+00:00"
    assert members(lb.top("b")) == ["ann"]


@pytest.mark.parametrize(
    "seed",
    [
        *some(2, range(8)),
        *some(1, [pytest.param(seed, marks=pytest.mark.one_shard) for seed in range(8, 12)]),
    ],
)
def test_replays_agree_with_the_oracle(replayed: Deployment, seed: int, scaled: Scaled) -> None:
    rng = Random(seed)
    windows = (
        WindowDef("hour"),
        WindowDef("day", name="day", keep=3),
        WindowDef("all"),
        WindowDef("rolling", name="r", span="3h", step="1h", grace="2h"),
        WindowDef("rolling", span="4d", step="2d"),
    )
    definition = Definition("b", windows=windows, grace="10m", dedupe="2h", tz="Europe/Berlin")
    oracle = Oracle(None)
    oracle.create(definition)
    lb = replayed.lb
    lb.create(board_of(definition))
    at_ms = NOON
    for _ in range(scaled(8, 30)):
        reports = []
        for _ in range(rng.randint(1, 8)):
            at_ms += rng.choice([0, 1, MINUTE, 20 * MINUTE, HOUR, 9 * HOUR])
            late_ms = rng.choice([0, 0, 0, 5 * MINUTE, HOUR, 30 * HOUR])
            id = rng.choice([None, "x", "y"])
            reports.append(Report(rng.choice("abc"), rng.randint(-2, 3), at_ms - late_ms, id))
        events = [(r.member, r.value, r.at, r.id) for r in reports]
        whole = seed >= 8 and rng.random() < 0.5
        watched = rng.choice([window.called for window in windows])
        try:
            verdicts = oracle.submit_many(
                "b", reports, window=watched, ranks=True, all_or_nothing=whole
            )
        except Refusal:
            with pytest.raises(laurels.errors.BatchRefused):
                lb.submit_many("b", events, all_or_nothing=True)
            continue
        receipts = lb.submit_many("b", events, window=watched, ranks=True, all_or_nothing=whole)
        for receipt, verdict in zip(receipts, verdicts, strict=True):
            assert_receipt(receipt, verdict, watched, definition)
        for window in oracle.board("b").windows:
            labels: list[str | None] = [span.label for span in oracle.periods("b", window)]
            for label in labels or [None]:
                places = oracle.places("b", window, label)
                assert_entries(lb.export("b", window=window, period=label), places, definition)
    lb.check()
