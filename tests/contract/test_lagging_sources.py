"""A source that lags behind its stream. Whether an event is late depends on the time at which the
stream received the event, not on the time at which the source reads it. No period becomes final
before all sources of the board have passed its end.

The oracle of this file implements these rules in whole hours and days of UTC, for a board with two
sources.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any, NamedTuple

import pytest

import laurels
from laurels.errors import AllEventsRefused, InvalidPosition
from tests.conftest import Scaled
from tests.contract.deployments import Deployment
from tests.contract.reading import scores
from tests.counts import some

HOUR = 3_600_000
DAY = 24 * HOUR
MINUTE = 60_000
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
GRACE = 5 * MINUTE
WAIT = 3 * HOUR
KEEP_HOURS, KEEP_DAYS, SPAN = 5, 2, 4
WINDOWS = ["all", f"hour:keep={KEEP_HOURS}", f"day:keep={KEEP_DAYS}", f"last=rolling:{SPAN}h/1h"]
BOARD = laurels.Board(
    "b", windows=WINDOWS, grace="5m", close_wait="3h", scopes=[[], ["room"]], rank_by="room"
)


def position(at: int, passed_ms: int | None) -> str:
    fields = {} if passed_ms is None else {"passed_ms": passed_ms}
    return json.dumps({"at": at, **fields})


class Oracle:
    """A second implementation of the rules of lateness, which counts the events of each period and
    step."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, int, str]] = Counter()
        self.passed: dict[str, int] = {}

    def counts_in(self, window: str, at_ms: int, judged_ms: int, now_ms: int) -> int | None:
        """Return the period or step of `window` in which an event counts, None if the event is
        late."""
        length = DAY if window == "day" else HOUR
        number, running = at_ms // length, now_ms // length
        if number < running and judged_ms > (number + 1) * length + GRACE:
            return None
        kept = {"hour": KEEP_HOURS, "day": KEEP_DAYS, "last": SPAN}[window]
        return number if number > running - kept else None

    def count(
        self, source: str, member: str, at_ms: int, arrived_ms: int | None, now_ms: int
    ) -> None:
        judged_ms = now_ms
        if arrived_ms is not None:
            passed_ms = self.passed.get(source, arrived_ms)
            judged_ms = min(now_ms, max(arrived_ms, passed_ms, now_ms - WAIT))
        for window in ("hour", "day", "last"):
            number = self.counts_in(window, at_ms, judged_ms, now_ms)
            if number is not None:
                self.totals[window, number, member] += 1
        self.totals["all", 0, member] += 1

    def of(self, window: str, numbers: range) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for (name, number, member), total in self.totals.items():
            if name == window and number in numbers:
                totals[member] += total
        return dict(totals)

    def waits(self, until_ms: int, now_ms: int) -> tuple[bool, tuple[str, ...]]:
        """Return whether a period whose grace ends at `until_ms` is final, and the sources for
        which it still waits."""
        if now_ms <= until_ms:
            return False, ()
        if now_ms > until_ms + WAIT:
            return True, ()
        lagging = tuple(sorted(s for s, passed in self.passed.items() if passed <= until_ms))
        return not lagging, lagging


class Message(NamedTuple):
    arrived_ms: int
    at_ms: int
    member: str


class Stream:
    """A stream whose source lags, and how far the source has read it."""

    def __init__(self, name: str, random: Random, end_ms: int) -> None:
        self.name = name
        self.at = 0
        self.text: str | None = None
        at_ms = NOW_MS - 2 * HOUR
        self.messages: list[Message] = []
        while at_ms < end_ms:
            at_ms += random.randrange(1, 10 * MINUTE)
            late = random.choice([0, 0, random.randrange(12 * MINUTE), random.randrange(5 * HOUR)])
            self.messages.append(Message(at_ms, at_ms - late, f"m{random.randrange(4)}"))

    def commit(self, lb: laurels.Leaderboards, oracle: Oracle, count: int, now_ms: int) -> None:
        """Count the next messages, each in a commit of its own. If none of them has arrived yet,
        commit only a position, which says that the source has read the stream up to `now_ms`."""
        there = [m for m in self.messages[self.at : self.at + count] if m.arrived_ms <= now_ms]
        for message in there:
            self._submit(lb, [message], message.arrived_ms)
            oracle.count(self.name, message.member, message.at_ms, message.arrived_ms, now_ms)
            oracle.passed[self.name] = message.arrived_ms
        if count and not there:
            self._submit(lb, [], now_ms)
            oracle.passed[self.name] = now_ms

    def _submit(self, lb: laurels.Leaderboards, messages: list[Message], passed_ms: int) -> None:
        self.at += len(messages)
        text = position(self.at, passed_ms)
        events = [(m.member, 1, m.at_ms, None, {"room": "1"}) for m in messages]
        if text != self.text:
            arrived = messages[0].arrived_ms if messages else None
            place = (self.name, text, self.text)
            lb.submit_many("b", events, position=place, arrived=arrived)
        self.text = text


def check(
    lb: laurels.Leaderboards, oracle: Oracle, now_ms: int
) -> dict[tuple[str, str], dict[str, int]]:
    """Compare every readable ranking, and whether the store reports it as final. Return the scores
    of the final periods."""
    finals = {}
    for window, length in (("hour", HOUR), ("day", DAY)):
        for info in lb.periods("b", window):
            number = info.start_ms // length
            expected = oracle.of(window, range(number, number + 1))
            where: Any = {"window": window, "period": info.label, "limit": 50}
            assert scores(lb.top("b", **where)) == expected
            assert scores(lb.top("b", **where, labels={"room": "1"})) == {
                member: score for member, score in expected.items() if member != "direct"
            }
            by = sum(score for member, score in expected.items() if member != "direct")
            assert scores(lb.top("b", **where, by="room")) == ({"1": by} if by else {})
            state = info.final, info.waits_for
            assert state == oracle.waits(info.end_ms + GRACE, now_ms), info
            if info.final:
                finals[window, info.label] = expected
    running = now_ms // HOUR
    last = oracle.of("last", range(running - SPAN + 1, running + 1))
    assert scores(lb.top("b", window="last", limit=50)) == last
    assert scores(lb.top("b", window="all", limit=50)) == oracle.of("all", range(1))
    return finals


@pytest.mark.parametrize("seed", some(1, range(30)))
def test_sources_that_lag_lose_no_events(
    lasting: Deployment, clock: laurels.ManualClock, seed: int, scaled: Scaled
) -> None:
    random, oracle = Random(seed), Oracle()
    clock.set(NOW_MS)
    lb = lasting.lb
    lb.create(BOARD)
    end_ms = NOW_MS + 9 * HOUR
    streams = [Stream(name, random, end_ms) for name in ("source/a", "source/b")]
    # Both sources begin before any period ends: a source that begins later may change a final
    # period.
    for stream in streams:
        stream.at = sum(message.arrived_ms <= NOW_MS for message in stream.messages)
        stream.commit(lb, oracle, 1, NOW_MS)
    finals: dict[tuple[str, str], object] = {}
    stalled = {"source/a": 0, "source/b": 0}
    for _ in range(scaled(14, 24)):
        clock.advance(random.randrange(5 * MINUTE, 40 * MINUTE))
        now_ms = clock.now_ms()
        for stream in streams:
            if stalled[stream.name]:
                stalled[stream.name] -= 1
                continue
            if random.random() < 0.2:
                stalled[stream.name] = random.randrange(2, 12)
            stream.commit(lb, oracle, random.choice([0, 1, 5, 50]), now_ms)
        lb.submit("b", "direct", 1, at=(at_ms := now_ms - random.randrange(90 * MINUTE)))
        oracle.count("", "direct", at_ms, None, now_ms)
        for period, totals in check(lb, oracle, now_ms).items():
            assert finals.setdefault(period, totals) == totals
        if random.random() < 0.15:
            lb = lasting.reopen()
    assert finals


def test_without_sources_periods_are_final_after_their_grace(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    clock.set(NOW_MS)
    lb.create(laurels.Board("b", windows=["hour:keep=3", "all", "d=decay:1h", "r=rolling:2h/1h"]))
    lb.submit_many("b", [("ann", 1)], position=("import.csv", "7"))
    lb.submit_many("b", [("ann", 1)], position=("import", '{"passed_ms": "soon"}'))
    assert [info.final for info in lb.periods("b", "hour")] == [False, True, True]
    clock.advance(HOUR // 2 + GRACE)
    assert [info.final for info in lb.periods("b", "hour")] == [False, False, True]
    clock.advance(1)
    assert [info.final for info in lb.periods("b", "hour")] == [False, True, True]
    for window in ("all", "d", "r"):
        assert [info.final for info in lb.periods("b", window)] == [False]


def test_events_after_the_close_wait_are_refused(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    clock.set(NOW_MS)
    lb.create(laurels.Board("b", windows=["hour:keep=9"], close_wait="2h"))
    text = position(1, NOW_MS)
    lb.submit_many("b", [("ann", 1)], position=("source/s", text, None), arrived=NOW_MS)
    period = lb.periods("b")[0]
    clock.set(period.end_ms + GRACE + 2 * HOUR)
    [ended] = [info for info in lb.periods("b") if info.label == period.label]
    assert (ended.final, ended.waits_for) == (False, ("source/s",))
    late, arrived = position(2, NOW_MS + 1), NOW_MS + 1
    counted = lb.submit_many(
        "b", [("ann", 1, NOW_MS)], position=("source/s", late, text), arrived=arrived
    )
    assert (counted.applied, counted.late) == (1, {})
    clock.advance(1)
    [ended] = [info for info in lb.periods("b") if info.label == period.label]
    assert (ended.final, ended.waits_for) == (True, ())
    with pytest.warns(AllEventsRefused):
        refused = lb.submit_many(
            "b",
            [("ann", 1, NOW_MS)],
            position=("source/s", position(3, NOW_MS + 2), late),
            arrived=NOW_MS + 2,
        )
    assert (refused.refused, refused.late) == (1, {"hour": 1})
    assert refused[0].reason == "too_late"
    assert scores(lb.top("b", period=period.label)) == {"ann": 2}


def test_a_source_cannot_report_an_earlier_time_than_before(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    clock.set(NOW_MS)
    lb.create(laurels.Board("b", windows=["hour:keep=9"]))
    first = position(1, NOW_MS + 2 * HOUR)
    lb.submit_many("b", [], position=("source/s", first, None))
    clock.advance(2 * HOUR)
    assert [info.final for info in lb.periods("b")][:3] == [False, True, True]
    second = position(2, NOW_MS)
    with pytest.warns(AllEventsRefused):
        receipts = lb.submit_many(
            "b", [("ann", 1, NOW_MS)], position=("source/s", second, first), arrived=NOW_MS
        )
    assert receipts.late == {"hour": 1}


def test_an_arrival_time_needs_the_position_that_its_batch_follows(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b"))
    for place in (None, ("s", "1")):
        with pytest.raises(InvalidPosition):
            lb.submit_many("b", [("ann", 1)], position=place, arrived=NOW_MS)
    with pytest.raises(laurels.errors.InvalidAt):
        lb.submit_many("b", [("ann", 1)], position=("s", "1", None), arrived="soon")
    lb.submit_many("b", [("ann", 1)], position=("s", "1", None), arrived=NOW_MS + 99 * DAY)
    assert scores(lb.top("b")) == {"ann": 1}
