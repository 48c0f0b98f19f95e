"""The text form and the object form of a window have the same content and define the same
window."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laurels.errors import BoardInvalid, InvalidName
from laurels.model.durations import MAX_DURATION_MS, duration_ms, duration_text
from laurels.model.windows.all import All
from laurels.model.windows.calendar import UNITS, WEEKDAYS, Calendar
from laurels.model.windows.decay import Decay
from laurels.model.windows.forms import TYPES, WindowDefaults, WindowForm
from laurels.model.windows.kinds import Window
from laurels.model.windows.parsing import parse_window
from laurels.model.windows.rolling import Rolling
from laurels.model.windows.weighing import MAX_HALF_LIFE_MS

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
            Calendar("month", "month", "Europe/Berlin", "sunday", 12, 300_000),
        ),
        ("w=week:week_start=monday", Calendar("w", "week", "Europe/Berlin", "monday", 2, 300_000)),
        ("h=hour:tz=Asia/Tokyo,grace=0s", Calendar("h", "hour", "Asia/Tokyo", "sunday", 2, 0)),
        ("7d=rolling:7d/1h", Rolling("7d", 168, 3_600_000, 0, "Europe/Berlin", 300_000)),
        (
            "rolling:30d/3d,tz=Asia/Tokyo,grace=0s",
            Rolling("rolling:30d/3d", 10, 0, 3, "Asia/Tokyo", 0),
        ),
        ("w=rolling:7d/24h,grace=6d", Rolling("w", 7, 86_400_000, 0, "Europe/Berlin", 518_400_000)),
        ("w=rolling:7d/1d,grace=6d", Rolling("w", 7, 0, 1, "Europe/Berlin", 518_400_000)),
        ("w=rolling:20000s/2s", Rolling("w", 10_000, 2_000, 0, "Europe/Berlin", 300_000)),
    ],
)
def test_a_text_is_parsed_into_its_window(text: str, window: Window) -> None:
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
        ("month=month:keep=12", "month:keep=12"),
        ("month:keep=12=month:keep=12", "month:keep=12=month:keep=12"),
        ("rolling:7d/1h=rolling:7d/1h,refresh=1h", "rolling:7d/1h,refresh=1h"),
        ("rolling:7d/1h,refresh=1h=rolling:7d/1h,refresh=1h",) * 2,
        ({"type": "all"}, "all"),
        ({"type": "day", "name": "day"}, "day"),
        ({"type": "day", "name": None, "keep": None}, "day"),
        ({"name": "today", "type": "day", "grace": "1h"}, "today=day:grace=1h"),
        ({"type": "day", "grace": 3_600_000}, "day:grace=1h"),
        ("rolling:007d/01h", "rolling:7d/1h"),
        ("rolling:60m/1m", "rolling:60m/1m"),
        ("rolling:24h/60m", "rolling:24h/60m"),
        ("rolling:7d/168m", "rolling:7d/168m"),
        ("rolling:7200000ms/60s", "rolling:7200000ms/60s"),
        ("rolling:7d/1d,grace=3600s,tz=UTC", "rolling:7d/1d,tz=UTC,grace=1h"),
        ("rolling:7d/1d,refresh=3600s", "rolling:7d/1d,refresh=1h"),
        ("rolling:7d/1d:refresh=1h", "rolling:7d/1d,refresh=1h"),
        ("30d=rolling:30d/1d:refresh=1h,grace=1h", "30d=rolling:30d/1d,grace=1h,refresh=1h"),
        (
            {"name": "30d", "type": "rolling", "span": "30d", "step": "1d", "refresh": "1h"},
            "30d=rolling:30d/1d,refresh=1h",
        ),
        (
            {"type": "rolling", "span": "1m", "step": "1s", "refresh": 60_000},
            "rolling:1m/1s,refresh=1m",
        ),
        ("rolling:7d/1h=rolling:7d/1h", "rolling:7d/1h"),
        ("rolling=rolling:7d/1h", "rolling=rolling:7d/1h"),
        ({"type": "rolling", "span": "07d", "step": "01h"}, "rolling:7d/1h"),
        (
            {"name": "7d", "type": "rolling", "span": "7d", "step": "1d", "grace": 0, "tz": "UTC"},
            "7d=rolling:7d/1d,tz=UTC,grace=0s",
        ),
        ({"type": "rolling", "span": "7d", "step": "1h", "keep": None}, "rolling:7d/1h"),
        (
            {"name": "month:keep=12", "type": "month", "keep": 24},
            "month:keep=12=month:keep=24",
        ),
    ],
)
def test_equivalent_texts_have_one_canonical_form(written: Any, text: str) -> None:
    form = parse_window(written)
    assert form.text == text
    assert parse_window(text) == form


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("", "expected a window "),
        ("days", "expected a window "),
        ("DAY", "expected a window "),
        ("rolling:", "expected a window "),
        ("Rolling:7d/1h", "expected a window "),
        ("day:", "expected a window "),
        ("day=", "expected a window "),
        (7, "expected a window "),
        (["day"], "expected a window "),
        ("day:keep", "each once, got 'keep'"),
        ("day:keep=", "each once, got 'keep='"),
        ("day:keep=1,keep=2", "each once, got 'keep=2'"),
        ("day:keep=1,", "each once, got ''"),
        ("day:name=x", "each once, got 'name=x'"),
        ("day:keep=x", "for keep, got 'x'"),
        ("day:keep=1.5", "for keep, got '1.5'"),
        ("day:keep=0", "for keep, got 0"),
        ("day:keep=10001", "for keep, got 10001"),
        ("day:colour=red", "unknown option 'colour'"),
        ("day:week_start=sunday", "a window of type day takes no week_start"),
        ("all:keep=2", "a window of type all takes no keep"),
        ("week:week_start=Sunday", "for week_start, got 'Sunday'"),
        ("day:tz=Nowhere", "for tz, got 'Nowhere'"),
        ("day:grace=soon", "grace: expected a duration (as in 500ms"),
        ({}, "for the type of a window, got None"),
        ({"type": "decade"}, "for the type of a window, got 'decade'"),
        ({"type": "day", "keep": "12"}, "for keep, got '12'"),
    ],
)
def test_an_invalid_window_is_refused(written: Any, fault: str) -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window(written)
    [reported] = refused.value.errors
    assert fault in reported


ROLLING_FAULTS = [
    ("rolling", "has a span and a step: write rolling:7d/1h"),
    ("rolling:7d", "has a span and a step: write rolling:7d/1h"),
    ("rolling:7d/", "has a span and a step"),
    ("rolling:/1h", "has a span and a step"),
    ("rolling:grace=1m", "has a span and a step"),
    ({"type": "rolling"}, "has a span and a step"),
    ({"type": "rolling", "span": "7d"}, "has a span and a step"),
    ("rolling:x/1h", "span: expected a duration .* got 'x'"),
    ("rolling:-7d/1h", "span: expected a duration .* got '-7d'"),
    ("rolling:1w/1d", "span: expected a duration .* got '1w'"),
    ("rolling:36526d/1d", "span: expected a duration of at most 36525d, got '36526d'"),
    ("rolling:7d/x", "step: expected a duration .* got 'x'"),
    ("rolling:7d/1h/1m", "step: expected a duration .* got '1h/1m'"),
    ({"type": "rolling", "span": 7, "step": "1h"}, "expected span with a unit, .* got 7"),
    (
        {"type": "rolling", "span": "7h", "step": 3_600_000},
        "expected step with a unit, .* got 3600000",
    ),
    ("rolling:7d/500ms", "expected a step of whole seconds, 1s or longer, got 500ms"),
    ("rolling:7d/60000ms", "expected a step of whole seconds, 1s or longer, got 60000ms"),
    ("rolling:7d/0h", "expected a step of whole seconds, 1s or longer, got 0h"),
    ("rolling:7d/00s", "expected a step of whole seconds, 1s or longer, got 0s"),
    ("rolling:7d/0d", "expected a step of whole seconds, 1s or longer, got 0d"),
    ("rolling:48h/1d", "steps of 1d are days of the calendar: write the span 48h in days"),
    ("rolling:1h/1d", "write the span 1h in days"),
    ("rolling:7d/2d", "expected a span of whole steps of 2d, got 7d"),
    ("rolling:1h/7m", "expected a span of whole steps of 7m, got 1h"),
    ("rolling:1m/1h", "expected a span of whole steps of 1h, got 1m"),
    ("rolling:1d/1d", "expected 2 to 10,000 steps, got 1 of 1d/1d: write a longer span"),
    ("rolling:60m/1h", "got 1 of 60m/1h: write"),
    ("rolling:0d/1d", "got 0 of 0d/1d: write"),
    (
        "rolling:10001s/1s",
        "expected 2 to 10,000 steps, got 10,001 of 10001s/1s: write a longer step",
    ),
    ("rolling:7d/1h,grace=7d", "expected grace to be at most span less step, 167h, got 7d"),
    ("rolling:2d/1d,grace=86400001", "at most span less step, 1d, got 86400001ms"),
    ("rolling:7d/1h,grace=soon", "grace: expected a duration .* got 'soon'"),
    ("rolling:7d/1h,refresh=soon", "refresh: expected a duration .* got 'soon'"),
    ("rolling:7d/1h,refresh=0s", "expected refresh in whole seconds, 1s or longer, got 0s"),
    ("rolling:7d/1h,refresh=1500ms", "expected refresh in whole seconds, 1s or longer, got 1500ms"),
    ("rolling:7d/1h,refresh=8d", "expected refresh to be at most the span 7d, got 8d"),
    ("rolling:7d/1h:1d", "each once, got '1d'"),
    ("day:refresh=1h", "a window of type day takes no refresh"),
    ("all:refresh=1h", "a window of type all takes no refresh"),
    ("rolling:7d/1h,tz=Asia/Tokyo", "steps of 1h take no tz: leave it out"),
    ("rolling:7d/24h,tz=Asia/Tokyo", "steps of 24h take no tz"),
    ("rolling:7d/1d,tz=Nowhere", "for tz, got 'Nowhere'"),
    ("rolling:7d/1h,keep=3", "a window of type rolling takes no keep"),
    ("rolling:7d/1h,week_start=sunday", "a window of type rolling takes no week_start"),
    ("rolling:7d/1h,colour=red", "unknown option 'colour': expected one of span, step, keep"),
    ("rolling:7d/1h,span=9d", "each once, got 'span=9d'"),
    ("rolling:7d/1h,7d/1h", "each once, got '7d/1h'"),
    ("day:7d/1h", "each once, got '7d/1h'"),
    ({"type": "day", "span": "7d"}, "a window of type day takes no span"),
    ({"type": "all", "step": "1h"}, "a window of type all takes no step"),
]


@pytest.mark.parametrize(("written", "fault"), ROLLING_FAULTS)
def test_an_invalid_rolling_window_is_refused_with_the_reason(written: Any, fault: str) -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window(written)
    [reported] = refused.value.errors
    assert re.search(fault, reported)


def test_the_error_lists_every_fault_of_a_rolling_window() -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window("a b=rolling:7h/5h,tz=Asia/Tokyo,keep=2,week_start=monday,colour=red")
    assert len(refused.value.errors) == 6
    with pytest.raises(BoardInvalid) as refused:
        parse_window("rolling:x/500ms,tz=Nowhere,grace=y")
    assert len(refused.value.errors) == 4


@pytest.mark.parametrize("text", ["rolling:2h/1h", "rolling:7d/1d", "rolling:20000s/2s"])
def test_the_longest_grace_is_the_span_minus_a_step(text: str) -> None:
    longest_ms = parse_window(text).longest_grace_ms
    window = parse_window(f"{text},grace={longest_ms}").window(DEFAULTS)
    assert isinstance(window, Rolling)
    assert window.grace_ms == longest_ms
    with pytest.raises(BoardInvalid, match="expected grace to be at most span less step"):
        parse_window(f"{text},grace={longest_ms + 1}")


@pytest.mark.parametrize(
    ("text", "grace_ms"),
    [
        ("rolling:2h/1h", 3_600_000),
        ("rolling:2m/1s", 119_000),
        ("rolling:7d/1d", 7_200_000),
        ("rolling:2h/1h,grace=1m", 60_000),
        ("rolling:2h/1h,grace=0s", 0),
    ],
)
def test_the_grace_of_the_board_is_cut_to_the_limit_of_the_window(text: str, grace_ms: int) -> None:
    window = parse_window(text).window(WindowDefaults("UTC", "monday", 2, 7_200_000))
    assert isinstance(window, Rolling)
    assert window.grace_ms == grace_ms


def test_the_error_lists_every_fault_of_a_window() -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window("a b=day:keep=0,tz=x,grace=y,colour=red,week_start=monday")
    assert len(refused.value.errors) == 6


@pytest.mark.parametrize("name", ["a b", "", "-x", "week", "all", "week:keep=2", "day:keep=02"])
def test_a_window_needs_a_valid_name(name: str) -> None:
    with pytest.raises(InvalidName):
        parse_window({"name": name, "type": "day"})


@pytest.mark.parametrize("name", ["day", "7 d", "7d/1h", "rolling:30d/1d", "rolling:7d/01h"])
def test_the_name_of_a_rolling_window_is_not_the_text_of_another(name: str) -> None:
    with pytest.raises(InvalidName):
        parse_window({"name": name, "type": "rolling", "span": "7d", "step": "1h"})


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


@st.composite
def rolling_forms(draw: st.DrawFn) -> WindowForm:
    """Return the text form of a rolling window. The step may have any unit, and the unit of the
    span is any multiple of it."""
    unit = draw(st.sampled_from(["s", "m", "h", "d"]))
    spanned = draw(st.sampled_from([(unit, 1), *_LARGER[unit]]))
    count, steps = draw(st.integers(1, 400)), draw(st.integers(2, 90))
    form = WindowForm(
        type="rolling",
        own_name=draw(NAMES.filter(lambda name: name not in TYPES)),
        tz=draw(TZS) if unit == "d" else None,
        span=f"{count * steps}{spanned[0]}",
        step=f"{count * spanned[1]}{unit}",
    )
    refresh_s = draw(st.none() | st.integers(1, form.lengths_ms[0] // 1_000))
    return replace(
        form,
        grace_ms=draw(st.none() | st.integers(0, form.longest_grace_ms)),
        refresh_ms=None if refresh_s is None else 1_000 * refresh_s,
    )


_LARGER = {
    "s": [("m", 60), ("h", 3_600), ("d", 86_400)],
    "m": [("h", 60), ("d", 1_440)],
    "h": [("d", 24)],
    "d": [],
}
"""By the unit of the step: the larger units in which the span may be written, with their
lengths."""


@given(FORMS | rolling_forms())
def test_both_notations_round_trip_through_json(form: WindowForm) -> None:
    written = {
        "name": form.own_name,
        "type": form.type,
        "keep": form.keep,
        "tz": form.tz,
        "week_start": form.week_start,
        "grace": form.grace_ms,
        "span": form.span,
        "step": form.step,
        "refresh": form.refresh_ms,
    }
    fields = {key: value for key, value in written.items() if value is not None}
    for way in (form.text, fields):
        back = parse_window(msgspec.json.decode(msgspec.json.encode(way)))
        assert back == form
        assert back.window(DEFAULTS) == form.window(DEFAULTS)


@given(rolling_forms())
def test_the_steps_of_a_window_add_up_to_its_span(form: WindowForm) -> None:
    window = form.window(DEFAULTS)
    assert isinstance(window, Rolling)
    step_ms = window.step_ms or window.step_days * 86_400_000
    assert duration_ms(form.span) == window.steps * step_ms
    assert duration_ms(form.step) == step_ms
    assert bool(window.step_days) == str(form.step).endswith("d")
    assert 0 <= window.grace_ms <= (window.steps - 1) * step_ms


@given(st.integers(0, MAX_DURATION_MS))
def test_a_duration_round_trips_through_its_text(length_ms: int) -> None:
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


@pytest.mark.parametrize(
    ("written", "text", "name", "half_life_ms"),
    [
        ("decay:6h", "decay:6h", "decay:6h", 21_600_000),
        ("hot=decay:006h", "hot=decay:6h", "hot", 21_600_000),
        ({"type": "decay", "half_life": "90m"}, "decay:90m", "decay:90m", 5_400_000),
        ({"name": "hot", "type": "decay", "half_life": "1s"}, "hot=decay:1s", "hot", 1_000),
        ("decay=decay:36525d", "decay=decay:36525d", "decay", MAX_HALF_LIFE_MS),
    ],
)
def test_a_decay_window_has_a_half_life(
    written: Any, text: str, name: str, half_life_ms: int
) -> None:
    form = parse_window(written)
    assert form.text == text
    assert parse_window(form.text) == form
    assert form.window(WindowDefaults("UTC", "monday", 2, 0)) == Decay(name, half_life_ms)


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("decay", "a decay window has a half-life: write decay:6h"),
        ("decay:999ms", "expected a half-life from 1s to 36525d, got 999ms"),
        ("decay:0h", "expected a half-life from 1s to 36525d, got 0h"),
        ("decay:36526d", "expected a duration of at most 36525d"),
        ("decay:6", "expected a duration"),
        ("decay:6h,keep=3", "a window of type decay takes no keep"),
        ("decay:6h,grace=1m", "a window of type decay takes no grace"),
        ("day:half_life=6h", "a window of type day takes no half_life"),
        ({"type": "decay", "half_life": 1_000}, "expected half_life with a unit"),
    ],
)
def test_an_invalid_decay_window_is_refused(written: Any, fault: str) -> None:
    with pytest.raises(BoardInvalid) as refused:
        parse_window(written)
    [reported] = refused.value.errors
    assert fault in reported


def test_a_decay_window_cannot_take_the_name_of_another_type() -> None:
    with pytest.raises(InvalidName):
        parse_window("day=decay:6h")
