"""The wall clock leaps while a server is running. The server does not follow it, and reports the
leap until an operator accepts it."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

import laurels
from laurels.errors import InvalidClock
from laurels.timeline.clock import ManualClock
from laurels.timeline.clock_guard import ClockGuard, GuardedClock
from tests.serving import Served

MS = 1_000_000
DAY = 86_400_000
NOON = 1_795_176_000_000


class Machine:
    """A wall clock that a test sets, and the time since boot, which a test can only move on."""

    def __init__(self) -> None:
        self.boot = 1_000_000
        self.offset = NOON - self.boot
        self.clock = GuardedClock(
            lambda: (self.boot + self.offset) * MS, lambda: self.boot * MS, ClockGuard()
        )


def _metric(url: str, name: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def _submit(url: str, member: str) -> None:
    event = {"member": member, "value": 5}
    httpx.post(f"{url}/v1/boards/b/scores", json=event).raise_for_status()


def test_a_clock_leap_is_reported_and_can_be_accepted(tmp_path: Path) -> None:
    machine = Machine()
    with Served(tmp_path / "boards", machine.clock) as server:
        httpx.put(f"{server.url}/v1/boards/b", json={"windows": ["day"]}).raise_for_status()
        _submit(server.url, "a")
        assert httpx.get(f"{server.url}/readyz").text == "ready\n"

        machine.offset += 3 * DAY
        _submit(server.url, "b")
        ready = httpx.get(f"{server.url}/readyz")
        assert ready.status_code == 200, "a server with correct answers stays in service"
        assert "leapt by +259,200 s" in ready.text
        assert "laurels clock accept" in ready.text
        assert _metric(server.url, "laurels_clock_leap_seconds") == 3 * 86_400
        assert _metric(server.url, "laurels_clock_leaps_total") == 1
        status = httpx.get(f"{server.url}/v1/clock").json()
        assert (status["now_ms"], status["leap_ms"]) == (NOON, 3 * DAY)
        assert httpx.get(f"{server.url}/v1/boards/b/top").json()["total"] == 2, "the day continues"

        with laurels.open(server.url) as lb:
            accepted = lb.accept_clock()
            assert (accepted.now_ms, accepted.leap_ms) == (NOON + 3 * DAY, 0)
            assert lb.clock_status() == accepted
            assert lb.top("b").total == 0
        assert httpx.get(f"{server.url}/readyz").text == "ready\n"


def test_a_folder_ahead_of_the_clock_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with laurels.open(tmp_path, clock=ManualClock(NOON + 3 * DAY)) as lb:
        lb.create(laurels.Board("b"))
        lb.submit("b", "a", 1)
    assert caplog.records == []
    machine = Machine()
    with laurels.open(tmp_path, clock=machine.clock) as lb:
        stats = lb.stats()
        assert stats.clock is not None
        assert (stats.clock.ahead_ms, stats.now_ms) == (3 * DAY, NOON + 3 * DAY)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "259,200 s ahead" in line
    assert "laurels clock rewind" in line


def test_only_a_leap_of_the_system_clock_can_be_accepted() -> None:
    with laurels.open("memory:", clock=ManualClock(NOON)) as lb, pytest.raises(InvalidClock):
        lb.accept_clock()


def test_the_clock_of_the_machine_is_guarded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "laurels"):
        for _ in range(2):
            with laurels.open(tmp_path / "boards", max_clock_step="2h") as lb:
                lb.create(laurels.Board("b"), exist_ok=True)
                status = lb.accept_clock()
                assert (status.leap_ms, status.leaps) == (0, 0)
    assert [r.getMessage() for r in caplog.records] == [
        "the clock was accepted: the store follows it from now on"
    ] * 2


@pytest.mark.parametrize("step", ["soon", "999ms", -1, 0])
def test_a_wrong_bound_is_refused(step: str | int) -> None:
    with pytest.raises(InvalidClock, match="max_clock_step"):
        laurels.open("memory:", max_clock_step=step)
