"""Rolling windows: when steps begin, which labels they have, and how many count together."""

import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from laurels.errors import UnknownPeriod
from laurels.model.windows.forms import WindowDefaults
from laurels.model.windows.parsing import parse_window
from laurels.model.windows.rolling import Rolling
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_MS = 3_600_000


def window(text: str, tz: str = "UTC") -> Rolling:
    """Return the window with this text form, on a board in this time zone."""
    rolling = parse_window(text).window(WindowDefaults(tz, "monday", 2, 0))
    assert isinstance(rolling, Rolling)
    return rolling


def ms(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


def utc(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("text", "label", "start", "end"),
    [
        ("rolling:60s/1s", "2026-11-20T15:34:56Z", "2026-11-20T15:34:56Z", "2026-11-20T15:34:57Z"),
        ("rolling:5m/30s", "2026-11-20T15:34:30Z", "2026-11-20T15:34:30Z", "2026-11-20T15:35:00Z"),
        ("rolling:60m/1m", "2026-11-20T15:34Z", "2026-11-20T15:34:00Z", "2026-11-20T15:35:00Z"),
        ("rolling:7d/1h", "2026-11-20T15:00Z", "2026-11-20T15:00:00Z", "2026-11-20T16:00:00Z"),
        ("rolling:7d/24h", "2026-11-20T00:00Z", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"),
        ("rolling:35h/7h", "2026-11-20T11:00Z", "2026-11-20T11:00:00Z", "2026-11-20T18:00:00Z"),
        ("rolling:30d/1d", "2026-11-20", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"),
        ("rolling:28d/7d", "2026-11-19", "2026-11-19T00:00:00Z", "2026-11-26T00:00:00Z"),
    ],
)
def test_each_step_has_its_label_and_bounds(text: str, label: str, start: str, end: str) -> None:
    rolling = window(text)
    step = rolling.period_at(ms("2026-11-20T15:34:56.789Z"))
    assert (step.label, utc(step.start_ms), utc(step.end_ms)) == (label, start, end)
    assert rolling.period(label) == step
    assert rolling.step(rolling.number_at(step.start_ms)) == step


@pytest.mark.parametrize("text", ["rolling:2h/1h", "rolling:20d/10d", "rolling:2m/1s"])
def test_steps_are_counted_from_1970(text: str) -> None:
    rolling = window(text)
    assert [rolling.number_at(at_ms) for at_ms in (-1, 0)] == [-1, 0]
    assert rolling.step(0).start_ms == rolling.step(-1).end_ms == 0


def test_steps_of_days_are_counted_from_the_local_1_january_1970() -> None:
    rolling = window("rolling:6d/3d", "Asia/Tokyo")
    assert rolling.step(0) == Period("1970-01-01", -9 * HOUR_MS, 63 * HOUR_MS)
    assert rolling.step(-1).label == "1969-12-29"


@pytest.mark.parametrize(
    ("text", "count", "length_ms"),
    [
        ("rolling:7d/1h", 168, HOUR_MS),
        ("rolling:7d/168m", 60, 168 * 60_000),
        ("rolling:60m/1m", 60, 60_000),
        ("rolling:1h/1m", 60, 60_000),
        ("rolling:10000s/1s", 10_000, 1_000),
        ("rolling:2h/60m", 2, HOUR_MS),
    ],
)
def test_the_window_has_its_last_steps_including_the_running_one(
    text: str, count: int, length_ms: int
) -> None:
    rolling = window(text)
    running = rolling.number_at(ms("2026-11-20T15:34:56Z"))
    start_ms, end_ms = rolling.span(running)
    assert rolling.steps == count
    assert end_ms - start_ms == count * length_ms
    assert end_ms == rolling.step(running).end_ms
    assert rolling.number_at(start_ms) == running - count + 1


@pytest.mark.parametrize(
    ("tz", "date", "start", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", 23),
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", 25),
        ("Africa/Cairo", "2023-04-28", "2023-04-27T22:00:00Z", 23),
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:30:00Z", 25),
        ("Antarctica/Troll", "2026-03-29", "2026-03-29T00:00:00Z", 22),
        ("Antarctica/Troll", "2026-10-25", "2026-10-24T22:00:00Z", 26),
        ("Pacific/Kwajalein", "1969-09-30", "1969-09-29T13:00:00Z", 47),
    ],
)
def test_a_step_of_a_day_is_as_long_as_the_day(
    tz: str, date: str, start: str, hours: float
) -> None:
    step = window("rolling:7d/1d", tz).period(date)
    assert (utc(step.start_ms), (step.end_ms - step.start_ms) / HOUR_MS) == (start, hours)


def test_a_day_and_24_hours_count_differently() -> None:
    days, hours = window("rolling:7d/1d", "Asia/Tokyo"), window("rolling:7d/24h")
    at_ms = ms("2026-11-20T15:30:00Z")
    assert days.period_at(at_ms).label == "2026-11-21"
    assert hours.period_at(at_ms).label == "2026-11-20T00:00Z"
    lengths = {step.end_ms - step.start_ms for step in map(hours.step, range(20_000, 21_000))}
    assert lengths == {24 * HOUR_MS}


def test_a_date_skipped_by_the_zone_is_an_empty_step() -> None:
    days = window("rolling:7d/1d", "Pacific/Apia")
    left_out = days.period("2011-12-30")
    assert left_out.start_ms == left_out.end_ms == ms("2011-12-30T10:00:00Z")
    after = days.number_at(left_out.start_ms)
    assert days.step(after).label == "2011-12-31"
    assert days.step(after - 1) == left_out
    assert days.step(after - 2).label == "2011-12-29"
    assert days.number_at(left_out.start_ms - 1) == after - 2
    assert days.span(after) == (days.period("2011-12-25").start_ms, days.step(after).end_ms)


@pytest.mark.parametrize(
    ("text", "label", "start"),
    [
        ("rolling:6d/2d", "2011-12-30", "2011-12-30T10:00:00Z"),  # the zone skipped its first date
        ("rolling:9d/3d", "2011-12-28", "2011-12-28T10:00:00Z"),  # the zone skipped its last date
        ("rolling:20d/5d", "2011-12-27", "2011-12-27T10:00:00Z"),  # the zone skipped a middle date
    ],
)
def test_a_step_lasts_a_day_less_where_a_date_was_left_out(
    text: str, label: str, start: str
) -> None:
    rolling = window(text, "Pacific/Apia")
    step = rolling.period(label)
    days = int(text.rpartition("/")[2][:-1])
    assert utc(step.start_ms) == start
    assert step.end_ms - step.start_ms == (days - 1) * 24 * HOUR_MS
    assert rolling.period_at(step.start_ms) == rolling.period_at(step.end_ms - 1) == step


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("rolling:7d/1h", ""),
        ("rolling:7d/1h", "2026-11-20"),
        ("rolling:7d/1h", "2026-11-20T15"),
        ("rolling:7d/1h", "2026-11-20T15:00"),
        ("rolling:7d/1h", "2026-11-20T15:30Z"),
        ("rolling:7d/1h", "2026-11-20T15:00:00Z"),
        ("rolling:7d/1h", "2026-11-20T15:00+00:00"),
        ("rolling:7d/1h", "2026-11-20t15:00Z"),
        ("rolling:7d/1h", "2026-11-20 15:00Z"),
        ("rolling:7d/1h", "2026-11-20T15:00Z "),
        ("rolling:7d/1h", "2026-11-20T24:00Z"),
        ("rolling:7d/1h", "2026-02-29T00:00Z"),
        ("rolling:7d/1h", "٢٠٢٦-11-20T15:00Z"),
        ("rolling:7d/1h", "0001-01-01T00:00Z"),
        ("rolling:7d/1h", "1899-12-31T23:00Z"),
        ("rolling:7d/1h", "9900-01-01T00:00Z"),
        ("rolling:7d/1h", "9999-12-31T23:00Z"),
        ("rolling:5m/30s", "2026-11-20T15:00:15Z"),
        ("rolling:5m/30s", "2026-11-20T15:00:00Z"),
        ("rolling:5m/30s", "2026-11-20T15:00:30.0Z"),
        ("rolling:9d/3d", "2026-11-20"),
        ("rolling:7d/1d", "2026-11-20T00:00Z"),
        ("rolling:7d/1d", "20261120"),
        ("rolling:7d/1d", "2026-W47-5"),
        ("rolling:7d/1d", "2026-11"),
        ("rolling:7d/1d", "2026-02-29"),
        ("rolling:7d/1d", "0001-01-01"),
        ("rolling:7d/1d", "1899-12-31"),
        ("rolling:7d/1d", "9900-01-01"),
        ("rolling:7d/1d", "9999-12-31"),
        ("rolling:7d/1d", "x" * 10_000),
    ],
)
def test_an_invalid_step_label_is_an_unknown_period(text: str, label: str) -> None:
    with pytest.raises(UnknownPeriod) as refused:
        window(text).period(label)
    assert len(str(refused.value)) < 300


def test_an_unknown_label_error_names_the_step_of_the_window() -> None:
    with pytest.raises(UnknownPeriod, match="'x' names no step of 3d in Asia/Tokyo"):
        window("rolling:9d/3d", "Asia/Tokyo").period("x")
    with pytest.raises(UnknownPeriod, match="'x' names no step of 1h;"):
        window("rolling:7d/60m", "Asia/Tokyo").period("x")
    with pytest.raises(UnknownPeriod):
        window("rolling:7d/1h").period(2026)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["rolling:2s/1s", "rolling:9d/3h", "rolling:9d/3d"])
@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_the_first_and_last_supported_times_have_periods(text: str, tz: str) -> None:
    rolling = window(text, tz)
    for at_ms in (MIN_MS, MAX_MS - 1):
        step = rolling.period_at(at_ms)
        assert step.start_ms <= at_ms < step.end_ms
        assert rolling.period(step.label) == step
        start_ms, end_ms = rolling.span(rolling.number_at(at_ms))
        assert start_ms <= at_ms < end_ms


@pytest.mark.parametrize("tz", ["Pacific/Kiritimati", "Pacific/Niue"])
@pytest.mark.parametrize("text", ["rolling:36524d/18262d", "rolling:36525d/438300h"])
def test_the_longest_windows_work_at_the_first_and_last_times(text: str, tz: str) -> None:
    rolling = window(text, tz)
    for at_ms in (MIN_MS, MAX_MS - 1):
        running = rolling.number_at(at_ms)
        start_ms, end_ms = rolling.span(running)
        assert start_ms < rolling.step(running).start_ms <= at_ms < end_ms


def test_concurrent_lookups_in_one_window_do_not_mix() -> None:
    rolling = window("rolling:60s/1s")
    wrong: list[tuple[int, int]] = []

    def look_up(offset: int) -> None:
        for number in range(offset, 100_000, 4):
            at_ms = number * 1_000 + 500
            if rolling.number_at(at_ms) != number or rolling.period_at(at_ms).start_ms > at_ms:
                wrong.append((offset, number))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=look_up, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


BOUNDARIES = [
    ("rolling:7d/1h,archive=9,archive_every=1d", "Asia/Kolkata", MAX_MS),
    ("rolling:6h/1h,archive=9,archive_every=4h", "UTC", MAX_MS),
    ("rolling:6d/1d,archive=9,archive_every=3d", "America/New_York", MAX_MS),
    ("rolling:3h/1h,archive=9,archive_every=5h", "UTC", MAX_MS),
    ("rolling:40m/10m,archive=9,archive_every=1h", "UTC", ms("2026-11-20T15:34:56Z")),
    ("rolling:5d/1d,archive=9,archive_every=1d", "Pacific/Apia", MAX_MS),
]


@pytest.mark.parametrize(("text", "tz", "ends_ms"), BOUNDARIES)
def test_the_archived_steps_that_count_an_event_are_found_without_a_search(
    text: str, tz: str, ends_ms: int
) -> None:
    rolling = parse_window(text).window(WindowDefaults(tz, "monday", 2, 0, ends_ms))
    assert isinstance(rolling, Rolling)
    # local days of 23 and 25 hours, and the date that Apia skipped
    for day in ("2026-03-07", "2026-10-31", "2026-11-20", "2011-12-28"):
        first = rolling.number_at(ms(f"{day}T12:00:00Z"))
        for instance in range(first, first + 60):
            for running in (instance, instance + 2):
                now_ms = rolling.step(running).start_ms
                now_ms = min(now_ms, ends_ms)
                counted = range(max(instance, rolling.number_at(now_ms)), instance + rolling.steps)
                last = (
                    rolling.number_at(MAX_MS - 1)
                    if ends_ms == MAX_MS
                    else rolling.number_at(ends_ms)
                )
                archived = tuple(
                    number
                    for number in counted
                    if number <= last and rolling.is_archived(rolling.step(number))
                )
                assert rolling.archived_with(instance, now_ms) == archived
                known = archived[: len(archived) // 2]
                assert rolling.archived_with(instance, now_ms, known) == archived[len(known) :]
                if archived:
                    assert rolling.last_archived(instance) == archived[-1]
