"""The times at which a refresh is due: multiples of an interval, or a local time in the window's
zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from tests.calendar_by_scanning import zone as scanned_zone

from laurels.errors import BoardInvalid
from laurels.model.board import Board
from laurels.model.windows.forms import WindowDefaults
from laurels.model.windows.parsing import parse_window
from laurels.model.windows.rolling import Rolling

HOUR, DAY = 3_600_000, 86_400_000


def _window(refresh: str, tz: str) -> Rolling:
    form = parse_window(f"rolling:60d/1d,refresh={refresh}")
    window = form.window(WindowDefaults(tz, "monday", 2, 0))
    assert isinstance(window, Rolling)
    return window


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def _due(refresh: str, tz: str, after: str) -> str:
    due_ms = _window(refresh, tz).due_after(_ms(after))
    return datetime.fromtimestamp(due_ms / 1_000, scanned_zone(tz)).isoformat(timespec="minutes")


@pytest.mark.parametrize(
    ("refresh", "tz", "after", "due"),
    [
        ("1d", "Asia/Shanghai", "2026-11-22T07:59+08:00", "2026-11-23T00:00+08:00"),
        ("1d", "Asia/Shanghai", "2026-11-22T00:00+08:00", "2026-11-23T00:00+08:00"),
        ("24h", "Asia/Shanghai", "2026-11-21T23:59+08:00", "2026-11-22T00:00+08:00"),
        ("1d", "UTC", "2026-11-22T12:00+00:00", "2026-11-23T00:00+00:00"),
        ("12h", "Asia/Shanghai", "2026-11-22T00:00+08:00", "2026-11-22T08:00+08:00"),
        ("day@04:00", "Asia/Shanghai", "2026-11-22T03:59+08:00", "2026-11-22T04:00+08:00"),
        ("day@04:00", "Asia/Shanghai", "2026-11-22T04:00+08:00", "2026-11-23T04:00+08:00"),
        ("day@23:59", "Europe/Berlin", "2026-11-22T12:00+01:00", "2026-11-22T23:59+01:00"),
        # 02:30 does not exist on 2026-03-29, so the refresh is due when the clocks are put forward
        ("day@02:30", "Europe/Berlin", "2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"),
        ("day@02:30", "Europe/Berlin", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"),
        # 02:30 occurs twice on 2026-10-25, and the refresh is due only the first time
        ("day@02:30", "Europe/Berlin", "2026-10-25T00:00+02:00", "2026-10-25T02:30+02:00"),
        ("day@02:30", "Europe/Berlin", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"),
        # local time skips midnight in Beirut on 2026-03-29
        ("1d", "Asia/Beirut", "2026-03-28T12:00+02:00", "2026-03-29T01:00+03:00"),
    ],
)
def test_a_refresh_is_due_at_local_times(refresh: str, tz: str, after: str, due: str) -> None:
    assert _due(refresh, tz, after) == due


@pytest.mark.parametrize("refresh", ["1d", "2d", "7d", "day@00:00", "day@04:00", "day@02:30"])
@pytest.mark.parametrize(
    "tz",
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana", "Asia/Gaza"],
)
def test_consecutive_due_times_are_adjacent_and_local(refresh: str, tz: str) -> None:
    window, zone, random = _window(refresh, tz), scanned_zone(tz), Random(refresh + tz)
    every = timedelta(days=int(refresh[0]) if refresh[0].isdigit() else 1)
    start = _ms("2010-01-01T00:00+00:00")
    for _ in range(300):
        at = start + random.randrange(17 * 365 * DAY)
        last, due = window.due_by(at), window.due_after(at)
        assert last <= at < due
        assert window.due_by(due - 1) == last
        assert window.due_by(due) == due
        assert window.due_after(last) == due
        length = timedelta(milliseconds=due - last)
        assert every - timedelta(hours=24) <= length <= every + timedelta(hours=24)
        local = datetime.fromtimestamp(due / 1_000, UTC).astimezone(zone)
        wanted = refresh.removeprefix("day@") if "@" in refresh else "00:00"
        hour, minute = map(int, wanted.split(":"))
        plain = local.replace(hour=hour, minute=minute, fold=0)
        if plain.astimezone(UTC).astimezone(zone).replace(fold=0) == plain:  # the local time exists
            assert local == plain


def test_a_definition_keeps_its_text_and_reads_back() -> None:
    for text in ("30d=rolling:30d/1d,refresh=day@04:00", "rolling:30d/1d,refresh=1d"):
        assert parse_window(text).text == text
        assert parse_window(parse_window(text)).window(WindowDefaults("UTC", "monday", 2, 0))
    written = {"type": "rolling", "span": "30d", "step": "1h", "refresh": "day@04:00"}
    assert parse_window(written).text == "rolling:30d/1h,refresh=day@04:00"
    board = Board("b", windows=["30d=rolling:30d/1d:refresh=day@04:00"], tz="Asia/Shanghai")
    assert Board.from_json(board.to_json()) == board


@pytest.mark.parametrize("wrong", ["day@4", "day@24:00", "day@04:60", "day@", "week@04:00"])
def test_a_wrong_local_time_is_refused(wrong: str) -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window({"type": "rolling", "span": "30d", "step": "1d", "refresh": wrong})
    assert "refresh" in str(refused.value)


def test_hourly_steps_take_a_tz_only_with_a_daily_refresh() -> None:
    text = "rolling:30d/1h,tz=Asia/Shanghai,refresh=day@04:00"
    assert parse_window(text).text == text
    with pytest.raises(BoardInvalid, match="take no tz"):
        parse_window("rolling:30d/1h,tz=Asia/Shanghai,refresh=6h")
