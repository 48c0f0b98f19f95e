"""Times in the forms that files use."""

import pytest

from laurels.cli.errors import Usage
from laurels.cli.times import time_reader
from laurels.errors import InvalidAt
from laurels.timeline.zones import zone

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "tz", "expected"),
    [
        ("1970-01-01", "UTC", 0),
        ("1970-01-01", "Asia/Shanghai", -8 * HOUR),
        ("19700102", "UTC", 24 * HOUR),
        ("1970-01-01T01:00:00.5", "UTC", HOUR + 500),
        ("1970-01-01 01:00", "UTC", HOUR),
        (" 1970-01-01T01:00:00Z ", "Asia/Shanghai", HOUR),
        ("1970-01-01T01:00:00+01:00", "Asia/Shanghai", 0),
        ("1969-12-31T23:59:59.999999", "UTC", -1),
        # Clocks in Berlin went back at 03:00, so 02:30 occurred twice. The first of the two is
        # used.
        ("2026-10-25T02:30", "Europe/Berlin", 1_792_888_200_000),
        # Clocks in Sao Paulo skipped midnight, so the day began at 03:00 UTC.
        ("2018-11-04", "America/Sao_Paulo", 1_541_300_400_000),
    ],
)
def test_iso_times_are_read(text: str, tz: str, expected: int) -> None:
    assert time_reader("iso", zone(tz))(text) == expected


def test_the_iso_form_takes_whole_numbers_in_json_as_milliseconds() -> None:
    assert time_reader("iso", zone("UTC"))(631_152_000_000) == 631_152_000_000


@pytest.mark.parametrize(
    "value",
    [*(0, 1234, 1_614_556_800, 631_151_999_999, -5), "1614556800", "1612012800000", "1614.5", "-1"],
)
def test_numbers_that_may_be_seconds_are_refused(value: object) -> None:
    with pytest.raises(InvalidAt, match="--at-format s"):
        time_reader("iso", zone("UTC"))(value)


@pytest.mark.parametrize("pattern", ["%Y-%Y", "%Q", "%Y%", "%G-%V"])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Usage):
        time_reader(pattern, zone("UTC"))


@pytest.mark.parametrize("pattern", ["%d.%m.%y %H:%M:%S.%f", "%Y-%m-%dT%H:%M%z", "%G-W%V-%u", "%j"])
def test_a_valid_pattern_is_accepted(pattern: str) -> None:
    time_reader(pattern, zone("UTC"))


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("ms", "1234", 1234),
        ("ms", 1234, 1234),
        ("ms", "-1.5", -2),
        ("s", "1.2349", 1234),
        ("s", 2, 2000),
        ("s", "-0.0001", -1),
        ("ms", f"1.{'9' * 60}", 1),
        ("s", "-1e-999999", -1),
        ("%Y%m%d", "19700102", 24 * HOUR),
        ("%Y%m%d", 19700102, 24 * HOUR),
        ("%d.%m.%Y %H:%M %z", "01.01.1970 01:00 +0100", 0),
    ],
)
def test_times_may_have_other_forms(form: str, value: object, expected: int) -> None:
    assert time_reader(form, zone("UTC"))(value) == expected


@pytest.mark.parametrize("form", ["iso", "ms", "s", "%Y%m%d"])
@pytest.mark.parametrize(
    "value",
    ["", "soon", "NaN", "Infinity", "1e1000000", "2021-13-01", "0001-01-01T00:00", None, True, [1]],
)
def test_invalid_times_are_refused(form: str, value: object) -> None:
    read = time_reader(form, zone("Asia/Shanghai"))
    if form == "iso" and value == "0001-01-01T00:00":
        assert read(value) == -62_135_596_800_000 - (8 * HOUR + 343_000)
    else:
        with pytest.raises(InvalidAt):
            read(value)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(Usage):
        time_reader("unix", zone("UTC"))
