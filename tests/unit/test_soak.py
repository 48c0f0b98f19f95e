"""The analysis of a soak test distinguishes a plateau of memory use from slow growth."""

from __future__ import annotations

import pytest
from scripts.soak_figures import PARTS, Sample, Tally, errors_of, growth_of, parts_of, slope_of

_MINUTES = 64


def _samples(rss_at: list[float], descriptors: int = 40) -> list[Sample]:
    """Return the samples of a run, one per minute. Each part of the run uses the given amount of
    memory."""
    return [
        Sample(
            seconds=60.0 * minute,
            rss_mib=rss_at[min(minute * PARTS // _MINUTES, PARTS - 1)],
            descriptors=descriptors,
            threads=8,
            disk_mib=100,
            log_mib=30,
            cpu_percent=50,
            events_per_second=8_000,
            requests_per_second=100,
            frames_per_second=100,
            slowest_ms=5,
            failures=0,
        )
        for minute in range(_MINUTES)
    ]


def test_a_soak_run_is_divided_into_equal_parts() -> None:
    parts = parts_of(_samples([80, 90, 100, 110, 120, 130, 140, 150]))
    assert len(parts) == PARTS
    assert [part.rss_mib for part in parts][:2] == [80, 90]
    assert parts[0].minutes == "0.0 to 7.0"


@pytest.mark.parametrize(
    ("rss", "grows"),
    [
        ([80, 160, 200, 190, 195, 200, 190, 205], False),
        ([80, 160, 200, 230, 190, 230, 180, 189], False),
        ([80, 100, 120, 140, 160, 180, 200, 220], True),
        ([80, 160, 200, 205, 210, 220, 230, 240], True),
    ],
)
def test_slow_growth_counts_as_growth(rss: list[float], grows: bool) -> None:
    assert bool(growth_of(parts_of(_samples(rss)))) is grows


def test_the_slope_is_per_hour() -> None:
    samples = [Sample(60.0 * i, 100 + i, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0) for i in range(40)]
    assert slope_of(samples) == pytest.approx(60)
    assert slope_of(samples[:1]) == 0


def test_failed_answers_and_a_bad_end_are_errors() -> None:
    tally = Tally()
    assert errors_of(tally, 0) == []
    tally.failures["GET /x: 500 internal"] += 2
    assert errors_of(tally, 1) == [
        "2 times GET /x: 500 internal",
        "the server ended with exit code 1",
    ]
