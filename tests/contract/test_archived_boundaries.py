"""Rolling windows with `archive_every`: their ranking at each boundary is archived, and no later
write changes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import BoardInvalid, NothingToBackUp, PeriodExpired, PeriodFuture
from laurels.errors.index_server import NotOnIndexServer
from tests.conftest import Scaled
from tests.contract.boundary_history import (
    DAY,
    FORMS,
    HOUR,
    MINUTE,
    NOW_MS,
    AnyClock,
    Form,
    Happened,
    create,
    ensure_archived_as_shown,
    scores,
    shown,
)
from tests.contract.deployments import ARCHIVING, Deployment

MIDNIGHT_MS = NOW_MS // DAY * DAY + DAY
WEEK = "7d=rolling:7d/1h,archive=forever,archive_every=1d"


@pytest.fixture
def clock() -> AnyClock:
    return AnyClock(NOW_MS)


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock
) -> Iterator[Deployment]:
    """Return a deployment of each kind that has an archive."""
    with Deployment(request.param, tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture
def lb(deployment: Deployment) -> laurels.Leaderboards:
    return deployment.lb


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.text)
def test_each_boundary_is_archived_as_it_was_shown(
    deployment: Deployment, clock: AnyClock, form: Form, scaled: Scaled
) -> None:
    for episode in range(scaled(1, 15)):
        random = Random(f"{form.text} {episode}")
        verified = scaled(5, 1_000)
        ensure_archived_as_shown(
            deployment, clock, form, random, verified, writes=scaled(60, 120), restarts=False
        )


@pytest.fixture(
    params=[each for each in ARCHIVING if each.lasting],
    ids=lambda implementation: implementation.name,
)
def lasting(
    request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock
) -> Iterator[Deployment]:
    """Return a deployment of each kind that has an archive and can be opened again."""
    with Deployment(request.param, tmp_path, clock) as deployment:
        yield deployment


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.text)
def test_restarts_change_nothing_that_was_shown(
    lasting: Deployment, clock: AnyClock, form: Form, scaled: Scaled
) -> None:
    for episode in range(scaled(1, 15)):
        random = Random(f"restarts {form.text} {episode}")
        verified = scaled(5, 1_000)
        ensure_archived_as_shown(
            lasting, clock, form, random, verified, writes=scaled(60, 120), restarts=True
        )


def test_after_downtime_each_boundary_is_closed_once_and_in_order(
    lasting: Deployment, clock: AnyClock
) -> None:
    create(lasting.lb, WEEK)
    lasting.lb.submit("b", "ann", 3)
    clock.advance(2 * DAY)
    lasting.lb.submit("b", "ben", 5)
    with suppress(NothingToBackUp):  # an index server stores its data itself
        lasting.lb.snapshot()
    clock.advance(40 * DAY)
    lb = lasting.reopen()
    assert lb.submit("b", "cid", 1).rank == 1
    lb.seal()
    assert lb.seal() == laurels.Sealed(0, 0)
    closed: list[Any] = [each.data for each in lb.changes("b", limit=1_000) if each.kind == "close"]
    ends = [each["period"] for each in closed]
    assert ends == [f"2026-11-{day}T23:00Z" for day in range(20, 29)]
    listed = [scores(lb, window="7d", period=period) for period in ends]
    assert listed == [{"ann": 3}] * 2 + [{"ben": 5, "ann": 3}] * 5 + [{"ben": 5}] * 2
    assert [each.end_ms for each in lb.archived("b")][::-1] == [
        MIDNIGHT_MS + day * DAY for day in range(9)
    ]


def test_what_comes_after_a_boundary_does_not_change_it(
    lb: laurels.Leaderboards, clock: AnyClock
) -> None:
    create(lb, WEEK, "all")
    lb.submit_many("b", [("ann", 3), ("ben", 5), ("cid", 0)])
    clock.set(MIDNIGHT_MS)
    lb.submit("b", "ann", 10, at=MIDNIGHT_MS - MINUTE)
    lb.remove("b", "ben")
    lb.hide("b", "ann", "a bot")
    lb.change("b", hide_zero=True)
    for _ in range(2):
        assert scores(lb, window="7d", period="2026-11-20T23:00Z") == {"ben": 5, "ann": 3, "cid": 0}
        lb.seal()
    lb.show("b", "ann")
    assert scores(lb, window="7d") == {"ann": 13}


def test_a_boundary_goes_through_its_states(lb: laurels.Leaderboards, clock: AnyClock) -> None:
    create(lb, WEEK)
    lb.submit("b", "ann", 3)
    clock.set(MIDNIGHT_MS - 1)
    (running,) = lb.periods("b", "7d")
    assert (running.label, running.state, running.current) == ("2026-11-20T23:00Z", "open", True)
    clock.set(MIDNIGHT_MS)
    running, ended = lb.periods("b", "7d")
    assert (running.label, running.state) == ("2026-11-21T00:00Z", "open")
    assert (ended.label, ended.state, ended.final, ended.total) == (
        "2026-11-20T23:00Z",
        "closed",
        True,
        1,
    )
    assert (ended.start_ms, ended.end_ms) == (MIDNIGHT_MS - 7 * DAY, MIDNIGHT_MS)
    lb.seal()
    (sealed,) = lb.archived("b", "7d")
    assert (sealed.period, sealed.start_ms, sealed.end_ms, sealed.entries) == (
        "2026-11-20T23:00Z",
        MIDNIGHT_MS - 7 * DAY,
        MIDNIGHT_MS,
        1,
    )
    with pytest.raises(PeriodExpired):
        lb.top("b", window="7d", period="2026-11-20T22:00Z")
    with pytest.raises(PeriodFuture):
        lb.top("b", window="7d", period="2026-11-21T23:00Z")


def test_a_list_continues_in_what_was_shown(lb: laurels.Leaderboards, clock: AnyClock) -> None:
    create(lb, WEEK, tie="member")
    lb.submit_many("b", [(f"m{i:02}", 100 - i) for i in range(30)])
    clock.set(MIDNIGHT_MS)
    lb.submit("b", "m29", 1_000)
    for _ in range(2):
        page = lb.top("b", window="7d", period="2026-11-20T23:00Z", limit=10)
        listed = [entry.member for entry in page]
        while page.next:
            page = lb.top("b", window="7d", limit=10, after=page.next)
            listed += [entry.member for entry in page]
        assert listed == [f"m{i:02}" for i in range(30)]
        assert lb.standing("b", "m29", window="7d", period="2026-11-20T23:00Z").rank == 30  # type: ignore[union-attr]
        lb.seal()


def test_only_the_newest_boundaries_are_kept(lb: laurels.Leaderboards, clock: AnyClock) -> None:
    create(lb, "7d=rolling:7d/1h,archive=2,archive_every=1d")
    lb.submit("b", "ann", 3)
    clock.advance(5 * DAY)
    lb.seal()
    assert [each.period for each in lb.archived("b")] == ["2026-11-24T23:00Z", "2026-11-23T23:00Z"]
    with pytest.raises(PeriodExpired):
        lb.top("b", window="7d", period="2026-11-22T23:00Z")


def test_a_board_with_scopes_only_archives_them(lb: laurels.Leaderboards, clock: AnyClock) -> None:
    try:
        create(lb, WEEK, scopes=[["room"]], rank_by="room")
    except NotOnIndexServer:  # some stores need a ranking of all events
        return
    lb.submit_many(
        "b", [("ann", 3, None, None, {"room": "1"}), ("ben", 5, None, None, {"room": "2"})]
    )
    clock.advance(3 * DAY)
    lb.submit("b", "ann", 1, labels={"room": "1"})
    clock.advance(DAY)
    lb.seal()
    ends = [each.period for each in lb.archived("b")]
    assert len(ends) == 4
    rooms = [scores(lb, window="7d", period=period, labels={"room": "1"}) for period in ends]
    assert rooms == [{"ann": 4}, {"ann": 3}, {"ann": 3}, {"ann": 3}]
    assert scores(lb, window="7d", period=ends[0], by="room") == {"2": 5, "1": 4}


def test_a_change_of_the_definition_applies_from_then_on(
    lb: laurels.Leaderboards, clock: AnyClock
) -> None:
    create(lb, "7d=rolling:7d/1h")
    lb.submit("b", "ann", 3)
    clock.set(MIDNIGHT_MS + HOUR)
    lb.change("b", windows=[WEEK])
    clock.advance(DAY)
    lb.change("b", windows=[WEEK.replace("every=1d", "every=12h")])
    clock.advance(DAY)
    lb.change("b", windows=["7d=rolling:7d/1h"])
    clock.advance(DAY)
    lb.seal()
    assert [each.end_ms - MIDNIGHT_MS for each in lb.archived("b")][::-1] == [
        DAY,
        36 * HOUR,
        2 * DAY,
    ]
    assert scores(lb, window="7d", period="2026-11-22T11:00Z") == {"ann": 3}
    lb.check()


def test_a_clock_that_leaps_back_repeats_nothing(lb: laurels.Leaderboards, clock: AnyClock) -> None:
    create(lb, WEEK)
    lb.submit("b", "ann", 3)
    clock.set(MIDNIGHT_MS)
    assert lb.seal() == laurels.Sealed(1, 1)
    clock.set(MIDNIGHT_MS - HOUR)
    lb.submit("b", "ann", 4)
    clock.set(MIDNIGHT_MS)
    assert lb.seal() == laurels.Sealed(0, 0)
    assert scores(lb, window="7d", period="2026-11-20T23:00Z") == {"ann": 3}


def test_the_end_of_a_board_is_archived_with_late_events(
    lb: laurels.Leaderboards, clock: AnyClock
) -> None:
    create(lb, WEEK, "all", ends="2026-11-20T20:30:00Z")
    lb.submit("b", "ann", 3)
    clock.set(NOW_MS + 6 * HOUR)
    lb.submit("b", "ben", 5, at=NOW_MS + 4 * HOUR)
    assert lb.seal() == laurels.Sealed(0, 0)
    clock.advance(HOUR + 1)
    lb.remove("b", "ann")
    for _ in range(2):
        assert scores(lb, window="7d") == {"ben": 5, "ann": 3}
        assert scores(lb, window="7d", period="2026-11-20T20:00Z") == {"ben": 5, "ann": 3}
        lb.seal()
    assert [each.entries for each in lb.archived("b")] == [2]


def test_prizes_are_awarded_for_boundaries(lb: laurels.Leaderboards, clock: AnyClock) -> None:
    prizes = {"list": [{"name": "gold", "ranks": [1, 1], "amount": 7}]}
    window = {"name": "7d", "type": "rolling", "span": "7d", "step": "1h", "archive_every": "1d"}
    lb.create(laurels.Board("b", windows=[{**window, "prizes": prizes}], ledger="main"))
    lb.submit_many("b", [("ann", 3), ("ben", 2)])
    assert not lb.settle("b").final
    clock.set(MIDNIGHT_MS)
    lb.submit("b", "ben", 5)
    assert lb.settle("b", period="2026-11-20T23:00Z").final
    lb.seal()
    clock.advance(DAY)
    lb.seal()
    assert [(each.period, each.member, each.amount) for each in lb.payouts("b")] == [
        ("2026-11-20T23:00Z", "ann", 7),
        ("2026-11-21T23:00Z", "ben", 7),
    ]
    revision = lb.disqualify("b", "ben", "a bot", period="2026-11-21T23:00Z")
    assert (revision.revision, revision.entries) == (1, 1)
    assert scores(lb, period="2026-11-21T23:00Z") == {"ann": 3}
    assert scores(lb) == {"ben": 7, "ann": 3}


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("rolling:7d/1h,archive=3", "write archive_every"),
        ("rolling:7d/1h,archive_every=1d", "archive_every needs archive or prizes"),
        ("rolling:7d/1h,archive=3,archive_every=90m", "whole steps of 1h"),
        ("rolling:7d/1h,refresh=1h,archive=3,archive_every=1d", "leave refresh out"),
        ("day:archive=3,archive_every=1d", "takes no archive_every"),
        ("decay:6h,archive=3,archive_every=1d", "takes no archive_every"),
    ],
)
def test_other_windows_are_refused_by_name(
    lb: laurels.Leaderboards, window: str, expected: str
) -> None:
    with pytest.raises(BoardInvalid, match=expected):
        create(lb, window)


def test_an_event_of_a_source_that_lags_counts_in_later_boundaries(
    lb: laurels.Leaderboards, clock: AnyClock
) -> None:
    create(lb, "last=rolling:4h/1h,archive=forever,archive_every=1h", "all")
    lb.submit("b", "ann", 3)
    clock.advance(HOUR)
    lb.seal()
    lb.submit_many("b", [("ben", 5, NOW_MS)], position=("source/s", "{}", None), arrived=NOW_MS)
    assert scores(lb, window="last") == {"ben": 5, "ann": 3}
    clock.advance(HOUR)
    lb.seal()
    shown = [scores(lb, window="last", period=each.period) for each in lb.archived("b")]
    assert shown == [{"ben": 5, "ann": 3}, {"ann": 3}]


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_in_event_time_boundaries_are_those_of_the_events(
    tmp_path: Path, kind: str, scaled: Scaled
) -> None:
    form = FORMS[2]
    random = Random("event time")
    url = "memory:" if kind == "memory" else str(tmp_path / "boards")
    with laurels.open(url, clock="event") as lb:
        window = f"{form.text},archive=forever,archive_every=2h"
        lb.create(laurels.Board("b", windows=[window], scopes=[[], ["room"]], tie="member"))
        now_ms, board_ms, history = NOW_MS, 0, list[Happened]()
        for _ in range(30):
            events = []
            for _ in range(random.randint(1, 20)):
                at_ms = now_ms - random.randint(-HOUR, 2 * HOUR)
                now_ms, board_ms = max(now_ms, at_ms), max(board_ms, at_ms)
                happened = Happened(board_ms, f"m{random.randint(0, 9)}", at_ms, 1, "x")
                history.append(happened)
                events.append((happened.member, 1, at_ms, None, {"room": "x"}))
            lb.submit_many("b", events)
            now_ms += random.choice([0, 5 * HOUR, 9 * HOUR])
        lb.submit("b", "last", 1, at=now_ms + 12 * HOUR, labels={"room": "x"})
        lb.seal()
        sealed = lb.archived("b")
        assert len(sealed) > 30
        verified = random.sample([*sealed], min(scaled(10, 1_000), len(sealed)))
        for each in sealed:
            expected = shown(form, history, each.end_ms, None)
            of: dict[str, Any] = {"window": "w", "period": each.period, "limit": 100}
            assert scores(lb, **of) == scores(lb, labels={"room": "x"}, **of) == expected
            if each in verified:
                assert lb.verify("b", window="w", period=each.period).verified
        lb.check()


def test_a_boundary_that_has_nothing_left_to_show_is_not_listed(
    deployment: Deployment, clock: AnyClock
) -> None:
    lb = deployment.lb
    create(lb, "r=rolling:3m/1m,archive=forever,archive_every=1m", grace="0ms")
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + 5 * HOUR)
    shown = ["2026-11-20T15:32Z", "2026-11-20T15:31Z", "2026-11-20T15:30Z"]
    for _ in range(2):
        listed = [each.label for each in lb.periods("b", "r") if not each.current]
        assert listed in (shown, [])  # a service seals them at once
        assert scores(lb, window="r", period="2026-11-20T15:32Z") == {"ann": 1}
        with pytest.raises(PeriodExpired):
            lb.top("b", window="r", period="2026-11-20T15:33Z")
        lb = deployment.reopen() if deployment.lasting else lb


def test_an_archive_that_is_added_after_the_end_of_a_board_archives_nothing(
    lb: laurels.Leaderboards, clock: AnyClock
) -> None:
    windows = ["r=rolling:4h/1h", "day", "all"]
    options = [",archive=forever,archive_every=1h", ":archive=forever", ":archive=forever"]
    create(lb, *windows, grace="5s", ends=NOW_MS + MINUTE)
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + MINUTE + 5_001)
    lb.change(
        "b", windows=[window + option for window, option in zip(windows, options, strict=True)]
    )
    for _ in range(2):
        assert {lb.periods("b", name)[0].state for name in ("r", "day", "all")} == {"final"}
        assert lb.seal() == laurels.Sealed(0, 0)
        clock.set(NOW_MS + 2 * HOUR)
    assert lb.archived("b") == []
