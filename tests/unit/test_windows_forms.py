"""A window's text and its object say the same and lead to the same window."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laurels.durations import MAX_DURATION_MS, duration_ms, duration_text
from laurels.errors import BoardInvalid, InvalidName
from laurels.window_forms import TYPES, WindowDefaults, WindowForm, parse_window
from laurels.windows import UNITS, WEEKDAYS, All, Calendar

DEFAULTS = WindowDefaults("Europe/Berlin", "sunday", 2, 300_000)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("all", All("all")),
        ("total=all", All("total")),
        ("day", Calendar("day", "day", "Europe/Berlin", "sunday", 2, 300_000)),
        ("today=day", Calendar("today", "day", "Europe/Berlin", "sunday", 2, 300_000)),
        (
            "month:keep=12",
            Calendar("month:keep=12", "month", "Europe/Berlin", "sunday", 12, 300_000),
        ),
        ("w=week:week_start=monday", Calendar("w", "week", "Europe/Berlin", "monday", 2, 300_000)),
        ("h=hour:tz=Asia/Tokyo,grace=0s", Calendar("h", "hour", "Asia/Tokyo", "sunday", 2, 0)),
    ],
)
def test_a_text_says_which_window(text: str, window: All | Calendar) -> None:
    form = parse_window(text)
    assert form.window(DEFAULTS) == window
    assert form.text == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("day:tz=Asia/Tokyo,keep=3", "day:keep=3,tz=Asia/Tokyo"),
        ("day:grace=60000ms", "day:grace=1m"),
        ("day:grace=120", "day:grace=120ms"),
        ("day:keep=007", "day:keep=7"),
        ("day=day", "day"),
        ("month=month:keep=12", "month=month:keep=12"),
        ({"type": "all"}, "all"),
        ({"type": "day", "name": "day"}, "day"),
        ({"type": "day", "name": None, "keep": None}, "day"),
        ({"name": "today", "type": "day", "grace": "1h"}, "today=day:grace=1h"),
        ({"type": "day", "grace": 3_600_000}, "day:grace=1h"),
        (
            {"name": "month:keep=12", "type": "month", "keep": 24},
            "month:keep=12=month:keep=24",
        ),
    ],
)
def test_there_is_one_canonical_text(written: Any, text: str) -> None:
    form = parse_window(written)
    assert form.text == text
    assert parse_window(text) == form


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("", "is no window"),
        ("days", "is no window"),
        ("DAY", "is no window"),
        ("7d=rolling:7d/1h", "is no window"),
        ("day:", "is no window"),
        ("day=", "is no window"),
        (7, "is no window"),
        (["day"], "is no window"),
        ("day:keep", "'keep' is no option"),
        ("day:keep=", "'keep=' is no option"),
        ("day:keep=1,keep=2", "'keep=2' is no option, or a second"),
        ("day:keep=1,", "'' is no option"),
        ("day:name=x", "'name=x' is no option"),
        ("day:keep=x", "keep is 'x'"),
        ("day:keep=1.5", "keep is '1.5'"),
        ("day:keep=0", "keep is 0"),
        ("day:keep=10001", "keep is 10001"),
        ("day:colour=red", "unknown option 'colour'"),
        ("day:week_start=sunday", "a window of type day takes no week_start"),
        ("all:keep=2", "a window of type all takes no keep"),
        ("week:week_start=Sunday", "week_start is 'Sunday'"),
        ("day:tz=Nowhere", "tz is 'Nowhere'"),
        ("day:grace=soon", "grace: 'soon' is no duration"),
        ({}, "the type of a window is None"),
        ({"type": "rolling"}, "the type of a window is 'rolling'"),
        ({"type": "day", "keep": "12"}, "keep is '12'"),
    ],
)
def test_what_is_no_window_is_refused(written: Any, fault: str) -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window(written)
    [found] = refused.value.faults
    assert fault in found


def test_every_fault_of_a_window_is_named() -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window("a b=day:keep=0,tz=x,grace=y,colour=red,week_start=monday")
    assert len(refused.value.faults) == 6


@pytest.mark.parametrize("name", ["a b", "", "-x", "week", "all", "week:keep=2", "day:keep=02"])
def test_a_window_needs_a_name_that_is_one(name: str) -> None:
    with pytest.raises(InvalidName):
        parse_window({"name": name, "type": "day"})


GRACES = st.none() | st.integers(0, MAX_DURATION_MS)
TZS = st.none() | st.sampled_from(["UTC", "Etc/GMT+5", "America/Argentina/ComodRivadavia"])
NAMES = st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True)
FORMS = st.builds(
    WindowForm,
    type=st.sampled_from(UNITS),
    own_name=NAMES.filter(lambda name: name not in TYPES),
    keep=st.none() | st.integers(1, 10_000),
    tz=TZS,
    grace_ms=GRACES,
) | st.builds(
    WindowForm,
    type=st.just("week"),
    own_name=st.just("w"),
    week_start=st.none() | st.sampled_from(WEEKDAYS),
)


@settings(deadline=None)
@given(FORMS)
def test_both_ways_of_writing_go_through_json_and_back(form: WindowForm) -> None:
    written = {
        "name": form.own_name,
        "type": form.type,
        "keep": form.keep,
        "tz": form.tz,
        "week_start": form.week_start,
        "grace": form.grace_ms,
    }
    said = {key: value for key, value in written.items() if value is not None}
    for way in (form.text, said):
        assert parse_window(msgspec.json.decode(msgspec.json.encode(way))) == form


@settings(deadline=None)
@given(st.integers(0, MAX_DURATION_MS))
def test_a_duration_goes_through_its_text_and_back(length_ms: int) -> None:
    text = duration_text(length_ms)
    assert duration_ms(text) == length_ms
    assert duration_text(duration_ms(text)) == text


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "0s"),
        (500, "500ms"),
        (1500, "1500ms"),
        (5_000, "5s"),
        (300_000, "5m"),
        (3_600_000, "1h"),
        (90 * 60_000, "90m"),
        (604_800_000, "7d"),
    ],
)
def test_a_duration_is_written_in_its_largest_unit(length_ms: int, text: str) -> None:
    assert duration_text(length_ms) == text
    assert duration_ms(text) == length_ms
    assert duration_ms(length_ms) == length_ms
