"""Closing and sealing: from the end of its grace on, a period of a window with an archive does not
change any more, and it is closed and sealed exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.core.changes.answers import Change
from laurels.core.mending import RankingEntries, StoredEntry
from laurels.errors import NotSealed, PeriodExpired, UnknownBoard, UnsafeChange
from tests.contract import reading
from tests.contract.deployments import ARCHIVING, STORES, Deployment

HOUR = 3_600_000
MINUTE = 60_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC


class AnyClock(laurels.ManualClock):
    """A clock that can also be set back."""

    def set(self, now_ms: int) -> None:
        self._now_ms = now_ms


@pytest.fixture
def clock() -> laurels.ManualClock:
    return AnyClock(NOW_MS)


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Deployment]:
    """Return a deployment of each kind that has an archive."""
    with Deployment(request.param, tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture
def lb(deployment: Deployment) -> laurels.Leaderboards:
    return deployment.lb


def create(lb: laurels.Leaderboards, *windows: str, **fields: Any) -> None:
    fields = {"changes": "30d", "grace": "5m", "ledger": "main", **fields}
    lb.create(laurels.Board("b", windows=windows, **fields))


def period_of(lb: laurels.Leaderboards, label: str, window: str = "hour") -> laurels.PeriodInfo:
    (period,) = [each for each in lb.periods("b", window=window) if each.label == label]
    return period


def scores(lb: laurels.Leaderboards, **ranking: Any) -> dict[str, object]:
    return reading.scores(lb.top("b", **ranking))


def recorded(lb: laurels.Leaderboards, *kinds: str) -> list[Change]:
    return [each for each in lb.changes("b", limit=10_000) if each.kind in kinds]


def test_a_period_goes_through_its_states(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:archive=forever")
    lb.submit_many("b", [("ann", 3), ("ben", 5)])
    running = "2026-11-20T15+00:00"
    assert period_of(lb, running).state == "open"
    clock.set(NOW_MS + HOUR // 2)
    assert period_of(lb, running).state == "grace"
    clock.set(NOW_MS + HOUR // 2 + 5 * MINUTE)
    assert (period_of(lb, running).state, period_of(lb, running).final) == ("grace", False)
    clock.set(NOW_MS + HOUR // 2 + 5 * MINUTE + 1)
    assert period_of(lb, running).state in ("closed", "sealed")
    lb.seal()
    sealed = period_of(lb, running)
    assert (sealed.state, sealed.final, sealed.entries) == ("sealed", True, 2)
    assert sealed.digest is not None
    assert len(bytes.fromhex(sealed.digest)) == 32
    assert lb.seal() == laurels.Sealed(0, 0)


def test_an_empty_period_counts_as_sealed_without_a_record(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:archive=forever")
    lb.submit("b", "ann", 1)
    lb.remove("b", "ann")
    clock.set(NOW_MS + 2 * HOUR)
    assert lb.seal() == laurels.Sealed(0, 0)
    empty = period_of(lb, "2026-11-20T16+00:00")
    assert (empty.state, empty.entries, empty.digest) == ("sealed", 0, None)
    with pytest.raises(NotSealed, match="something was ranked in it"):
        lb.verify("b", window="hour", period=empty.label)
    assert recorded(lb, "close", "seal") == []


def test_nothing_changes_a_closed_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "all", "hour:archive=forever", scopes=[[], ["room"]], rank_by="room")
    lb.submit_many("b", [("ann", 3, None, None, {"room": "1"}), ("ben", 5), ("cid", 0)])
    clock.set(NOW_MS + HOUR // 2 + 5 * MINUTE + 1)
    assert lb.remove("b", "ann")
    assert not lb.remove("b", "ann")
    lb.change("b", hide_zero=True)
    closed: dict[str, Any] = {"window": "hour", "period": "2026-11-20T15+00:00"}
    for _ in range(2):
        assert scores(lb, **closed) == {"ben": 5, "ann": 3, "cid": 0}
        assert scores(lb, labels={"room": "1"}, **closed) == {"ann": 3}
        assert period_of(lb, "2026-11-20T15+00:00").total == 3
        lb.seal()
    assert scores(lb) == {"ben": 5}
    sealed = period_of(lb, "2026-11-20T15+00:00")
    # the number of entries in all three scopes
    assert (sealed.state, sealed.entries) == ("sealed", 5)


def test_a_closed_period_lists_those_who_were_not_hidden_at_its_end(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    if deployment.kind not in STORES:
        pytest.skip("a hiding that ends shows the member in earlier periods as well")
    create(lb, "all", "hour:archive=forever", "day:archive=forever")
    lb.submit_many("b", [("ann", 3), ("ben", 5), ("cid", 1), ("dan", 2), ("eve", 4)])
    final_ms = NOW_MS + HOUR // 2 + 5 * MINUTE + 1
    lb.hide("b", "ann", "bot")
    lb.hide("b", "ben", "bot", until=final_ms + MINUTE)
    lb.hide(None, "eve", "bot", until=final_ms + MINUTE)
    clock.set(final_ms + 2 * MINUTE)
    closed: dict[str, Any] = {"window": "hour", "period": "2026-11-20T15+00:00"}
    assert scores(lb, **closed) == {"dan": 2, "cid": 1}
    lb.hide("b", "cid", "later")
    lb.hide(None, "dan", "later")
    lb.show("b", "ann")
    for _ in range(2):
        assert scores(lb, **closed) == {"dan": 2, "cid": 1}
        lb.seal()
    assert period_of(lb, "2026-11-20T15+00:00").entries == 2
    assert scores(lb) == {"ben": 5, "eve": 4, "ann": 3}
    lb.check()


def test_a_window_without_an_archive_changes_on(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:keep=3")
    lb.submit_many("b", [("ann", 3), ("ben", 5)])
    clock.set(NOW_MS + HOUR)
    assert period_of(lb, "2026-11-20T15+00:00").state == "final"
    lb.remove("b", "ann")
    assert scores(lb, window="hour", period="2026-11-20T15+00:00") == {"ben": 5}
    assert lb.seal() == laurels.Sealed(0, 0)


def test_a_period_is_held_through_its_grace_whatever_the_window_keeps(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:keep=1,grace=3h,archive=forever", "day", dedupe="4h")
    lb.submit("b", "ann", 3)
    at_ms = NOW_MS
    clock.set(NOW_MS + HOUR // 2 + 3 * HOUR)
    assert lb.submit("b", "ann", 4, at=at_ms).refused_windows == ()
    assert scores(lb, window="hour", period="2026-11-20T15+00:00") == {"ann": 7}
    labels = [each.label for each in lb.periods("b", window="hour")]
    assert labels == [f"2026-11-20T{hour}+00:00" for hour in (19, 18, 17, 16, 15)]
    clock.set(NOW_MS + HOUR // 2 + 3 * HOUR + 1)
    assert lb.submit("b", "ann", 1, at=at_ms).refused_windows == ("hour",)
    lb.seal()
    (sealed,) = [each.data for each in recorded(lb, "seal") if each.data["window"] == "hour"]
    assert sealed["entries"] == 1


def test_every_period_is_closed_once_and_in_order_after_a_long_time(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    create(lb, "hour:archive=forever,keep=1,grace=12h", "day:archive=forever,keep=1", dedupe="1d")
    for hours in range(12):
        clock.set(NOW_MS + hours * HOUR)
        lb.submit("b", f"m{hours}", 1)
    lb = deployment.reopen() if deployment.lasting else lb
    clock.set(NOW_MS + 40 * HOUR)
    lb.submit("b", "late", 1)
    lb.seal()
    clock.set(NOW_MS + 39 * HOUR)
    lb.submit("b", "back", 1)
    lb.seal()
    closes = [(each.data["window"], each.data["period"]) for each in recorded(lb, "close")]
    ended = [("hour", f"2026-11-20T{hour}+00:00") for hour in range(15, 24)]
    ended += [("hour", f"2026-11-21T0{hour}+00:00") for hour in range(3)]
    days = [("day", "2026-11-20"), ("day", "2026-11-21")]
    assert [each for each in closes if each[0] == "day"] == days
    assert [each for each in closes if each[0] == "hour"] == ended
    seals = [(each.data["window"], each.data["period"]) for each in recorded(lb, "seal")]
    assert sorted(seals) == sorted(closes) == sorted([*ended, *days])
    lb.check()


def test_a_close_comes_before_the_write_that_came_with_it(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    if deployment.kind.divided:
        pytest.skip("the changes of several shards have no order")
    create(lb, "all", "hour:archive=forever", "day:archive=forever")
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + DAY)
    lb.submit_many("b", [("ben", 1), ("cid", 1)])
    lb.seal()
    kinds = [each.kind for each in lb.changes("b", limit=100)]
    assert kinds == ["create", "event", "close", "close", "event", "event", "seal", "seal"]
    closed = [each.data["window"] for each in recorded(lb, "close")]
    assert closed == ["hour", "day"]


def test_a_board_is_closed_at_its_end(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    create(
        lb,
        "all:archive=forever",
        "day:archive=forever",
        "hot=decay:6h,archive=forever",
        ends=NOW_MS + HOUR,
    )
    lb.submit_many("b", [("ann", 3), ("ben", 5)])
    before = lb.change("b", ends=NOW_MS + 2 * HOUR)
    clock.set(NOW_MS + 2 * HOUR + 5 * MINUTE)
    assert [lb.periods("b", window=window)[0].state for window in before.rules().windows] == [
        "grace"
    ] * 3
    clock.set(NOW_MS + 2 * HOUR + 5 * MINUTE + 1)
    with pytest.raises(UnsafeChange, match="closed"):
        lb.change("b", ends=NOW_MS + DAY)
    lb.remove("b", "ann")
    assert scores(lb) == {"ben": 5, "ann": 3}
    assert lb.seal().sealed in (0, 3)
    for window in before.rules().windows:
        assert lb.periods("b", window=window)[0].state == "sealed"
        assert lb.periods("b", window=window)[0].entries == 2
    lb.change("b", windows=["all", "day", "hot=decay:6h"])
    with pytest.raises(UnsafeChange, match="closed"):
        lb.change("b", ends=NOW_MS + DAY)
    assert lb.top("b", window="hot").total == 2


def test_an_archive_applies_from_the_change_on(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:keep=5")
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + HOUR)
    lb.submit("b", "ann", 1)
    # the time is 17:01, in the grace of the hour 16:00
    clock.set(NOW_MS + HOUR + HOUR // 2 + MINUTE)
    lb.change("b", windows=["hour:keep=5,archive=forever"])
    clock.set(NOW_MS + 2 * HOUR)
    lb.submit("b", "ann", 1)
    lb.change("b", windows=["hour:keep=5"])
    clock.set(NOW_MS + 3 * HOUR)
    lb.seal()
    states = {each.label[11:13]: each.state for each in lb.periods("b", window="hour")}
    assert states == {"18": "open", "17": "final", "16": "sealed", "15": "final", "14": "final"}


def test_only_the_newest_periods_stay_in_a_short_archive(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:archive=2,keep=3")
    for hours in range(5):
        clock.set(NOW_MS + hours * HOUR)
        lb.submit("b", f"m{hours}", 1)
    lb.seal()
    clock.set(NOW_MS + 5 * HOUR)
    lb.seal()
    entries = [each.entries for each in lb.periods("b", window="hour")]
    assert entries == [None, 1, 1]
    with pytest.raises(PeriodExpired):
        lb.top("b", window="hour", period="2026-11-20T16+00:00")
    with pytest.raises(laurels.LaurelsError, match="archive"):
        lb.change("b", windows=["hour:archive=2,keep=4"])


def test_a_closed_period_is_not_mended(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:keep=3,archive=forever")
    lb.submit("b", "ann", 3)
    entries = [StoredEntry("ann", 9, NOW_MS, None), StoredEntry("zoe", 1, NOW_MS, None)]
    ranking = RankingEntries("hour", "2026-11-20T15+00:00", {}, entries)
    clock.set(NOW_MS + HOUR // 2 + 5 * MINUTE)
    assert lb.mend("b", [ranking]) == 2
    clock.set(NOW_MS + HOUR // 2 + 5 * MINUTE + 1)
    assert lb.mend("b", [ranking]) == 0
    assert scores(lb, window="hour", period="2026-11-20T15+00:00") == {"ann": 9, "zoe": 1}


def test_a_period_waits_for_a_source_that_lags(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:keep=1,archive=forever", close_wait="6h")
    in_time, passed = NOW_MS + MINUTE, NOW_MS + HOUR

    def feed(member: str, position: str, before: str | None, at: int) -> laurels.Receipts:
        return lb.submit_many("b", [(member, 1, at)], position=("s", position, before), arrived=at)

    first = f'{{"at":1,"passed_ms":{NOW_MS}}}'
    feed("ann", first, None, NOW_MS)
    clock.set(NOW_MS + 3 * HOUR)
    assert lb.seal() == laurels.Sealed(0, 0)
    waiting = period_of(lb, "2026-11-20T15+00:00")
    assert (waiting.state, waiting.waits_for) == ("grace", ("s",))
    lb.change("b", title="Hours")
    second = f'{{"at":2,"passed_ms":{passed}}}'
    assert feed("ben", second, first, in_time).applied == 1
    assert scores(lb, window="hour", period="2026-11-20T15+00:00") == {"ann": 1, "ben": 1}
    assert lb.seal().sealed <= 1
    assert [each.data["entries"] for each in recorded(lb, "seal")] == [2]
    receipts = lb.submit_many(
        "b", [("cid", 1, in_time)], position=("new", "1", None), arrived=in_time
    )
    assert receipts[0].reason == "too_late"


def test_no_source_delays_a_close_for_longer_than_the_board_allows(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:keep=1,archive=forever", close_wait="6h")
    first = f'{{"at":1,"passed_ms":{NOW_MS}}}'
    lb.submit_many("b", [("ann", 1, NOW_MS)], position=("s", first, None), arrived=NOW_MS)
    clock.set(NOW_MS + HOUR // 2 + 5 * MINUTE + 6 * HOUR)
    assert lb.seal() == laurels.Sealed(0, 0)
    clock.set(NOW_MS + HOUR // 2 + 5 * MINUTE + 6 * HOUR + 1)
    lb.seal()
    assert [each.data["entries"] for each in recorded(lb, "seal")] == [1]


def test_a_board_is_deleted_once_its_periods_are_sealed(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "hour:archive=forever")
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + 2 * HOUR)
    lb.delete("b")
    create(lb, "hour:archive=forever")
    assert lb.seal() == laurels.Sealed(0, 0)


def test_a_board_is_removed_once_its_periods_are_sealed(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "all:archive=forever", ends=NOW_MS + HOUR, retain="1h")
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + DAY)
    with pytest.raises(UnknownBoard):
        lb.get("b")
    lb.seal()
    create(lb, "hour:archive=forever")
    assert lb.periods("b", window="hour")[0].total == 0
