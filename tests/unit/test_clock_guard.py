"""A leap of the system's clock is followed only after it has lasted for some time, or after it was
accepted."""

from __future__ import annotations

import logging

import pytest

from laurels.timeline.clock_guard import HOLD_MS, ClockGuard, GuardedClock, Reference

MS = 1_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = 1_795_176_000_000


class Machine:
    """A machine with a wall clock that can be set, and with a time since boot that cannot."""

    def __init__(self) -> None:
        self.boot = 5_000_000
        self.offset = START - self.boot
        self.saved: list[Reference] = []
        self.clock = self.opened()

    def opened(self, boot_id: str = "one") -> GuardedClock:
        """Return the clock of a process that starts at this moment."""
        stored = self.saved[-1] if self.saved else None
        guard = ClockGuard(HOUR, boot_id, stored, self.saved.append)
        return GuardedClock(lambda: (self.boot + self.offset) * MS, lambda: self.boot * MS, guard)

    @property
    def true(self) -> int:
        """Return the time that the wall clock would show if nobody had set it."""
        return START - 5_000_000 + self.boot

    def pass_ms(self, ms: int, every_ms: int = MINUTE) -> None:
        """Let time pass. Read the clock every `every_ms`."""
        while ms > 0:
            self.boot += min(ms, every_ms)
            ms -= every_ms
            self.clock.now_ms()

    def set(self, by_ms: int) -> None:
        self.offset += by_ms


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_the_guard_follows_the_wall_clock_without_a_leap(machine: Machine) -> None:
    for ms in (0, 1, 999, 1_000, 5_000, DAY, 30 * DAY):
        machine.boot += ms
        assert machine.clock.now_ms() == machine.true
    assert (machine.clock.leap(), machine.clock.leaps) == (None, 0)


def test_a_glitch_is_not_followed_and_leaves_no_trace(machine: Machine) -> None:
    machine.set(3 * DAY)
    assert machine.clock.now_ms() == machine.true
    machine.pass_ms(9 * MINUTE)
    assert machine.clock.now_ms() == machine.true
    leap = machine.clock.leap()
    assert leap is not None
    assert (leap.by_ms, leap.follow_in_ms) == (3 * DAY, HOLD_MS - 9 * MINUTE)
    machine.set(-3 * DAY)
    assert machine.clock.now_ms() == machine.true
    assert (machine.clock.leap(), machine.clock.leaps) == (None, 1)


@pytest.mark.parametrize("by_ms", [HOUR + 1, 3 * DAY, 10_000 * DAY])
def test_a_leap_that_lasts_is_followed(machine: Machine, by_ms: int) -> None:
    machine.set(by_ms)
    machine.clock.now_ms()
    machine.pass_ms(HOLD_MS - 1, every_ms=HOLD_MS)
    assert machine.clock.now_ms() == machine.true
    machine.pass_ms(1)
    assert machine.clock.now_ms() == machine.true + by_ms
    assert machine.clock.leap() is None


def test_an_accepted_leap_is_followed_at_once(machine: Machine) -> None:
    machine.set(3 * DAY)
    assert machine.clock.now_ms() == machine.true
    machine.clock.accept()
    assert machine.clock.now_ms() == machine.true + 3 * DAY
    assert machine.clock.leap() is None
    machine.set(-3 * DAY)  # a step backwards is a leap, too
    machine.pass_ms(MINUTE)
    assert machine.clock.now_ms() == machine.true + 3 * DAY


def test_a_leap_backwards_is_not_followed_either(machine: Machine) -> None:
    machine.set(-3 * DAY)
    machine.pass_ms(HOLD_MS - MINUTE)
    assert machine.clock.now_ms() == machine.true
    before = machine.clock.now_ms()
    machine.pass_ms(2 * MINUTE)
    after = machine.clock.now_ms()
    assert before <= after <= machine.true
    machine.pass_ms(HOUR)
    assert machine.clock.now_ms() == after, "time stands still until the clock reaches it again"


def test_a_step_within_the_bound_is_followed(machine: Machine) -> None:
    machine.set(HOUR)
    assert machine.clock.now_ms() == machine.true + HOUR
    assert machine.clock.leaps == 0


@pytest.mark.parametrize("every_ms", [500, 1_000, 7_000, MINUTE])
def test_many_steps_below_the_bound_are_one_leap(machine: Machine, every_ms: int) -> None:
    for _ in range(72):
        machine.set(59 * MINUTE)
        machine.pass_ms(every_ms)
        passed_ms = machine.boot - 5_000_000
        bound = HOUR * (1 + passed_ms // HOLD_MS)
        assert machine.clock.now_ms() - machine.true <= bound
    assert machine.clock.leaps >= 1


def test_steps_below_a_second_are_added_up(machine: Machine) -> None:
    machine.pass_ms(MINUTE)
    for _ in range(20_000):  # the clock gains five hours, but no time passes
        machine.set(900)
        machine.clock.now_ms()
    assert machine.clock.now_ms() - machine.true <= HOUR + 1_000


def test_small_steps_that_each_last_are_not_a_leap(machine: Machine) -> None:
    for _ in range(100):
        machine.set(50 * MINUTE)
        machine.pass_ms(HOLD_MS + MINUTE)
        assert machine.clock.leap() is None


@pytest.mark.parametrize("parts_per_million", [-100_000, -500, 500, 100_000])
def test_slewing_is_followed_for_days(machine: Machine, parts_per_million: int) -> None:
    for _ in range(3 * 24 * 60):
        machine.pass_ms(MINUTE)
        machine.offset += MINUTE * parts_per_million // 1_000_000
        machine.clock.now_ms()
    assert (machine.clock.leap(), machine.clock.leaps) == (None, 0)


def test_a_second_leap_starts_its_own_ten_minutes(machine: Machine) -> None:
    machine.set(3 * DAY)
    machine.pass_ms(8 * MINUTE)
    machine.set(2 * DAY)
    machine.pass_ms(8 * MINUTE)
    assert machine.clock.now_ms() == machine.true
    machine.pass_ms(3 * MINUTE)
    assert machine.clock.now_ms() == machine.true + 5 * DAY


def test_suspension_is_not_a_leap(machine: Machine) -> None:
    # the time since boot includes the time during which the machine is suspended
    machine.boot += 5 * DAY
    assert machine.clock.now_ms() == machine.true
    assert machine.clock.leaps == 0


def test_a_restart_keeps_the_waiting_time_of_a_leap(machine: Machine) -> None:
    machine.set(3 * DAY)
    machine.pass_ms(6 * MINUTE)
    machine.clock = machine.opened()
    assert machine.clock.now_ms() == machine.true
    machine.pass_ms(3 * MINUTE)
    assert machine.clock.now_ms() == machine.true
    machine.pass_ms(2 * MINUTE)
    assert machine.clock.now_ms() == machine.true + 3 * DAY


def test_a_leap_while_nothing_ran_is_noticed_at_the_start(machine: Machine) -> None:
    machine.clock.accept()
    machine.boot += HOUR
    machine.set(3 * DAY)
    machine.clock = machine.opened()
    assert machine.clock.now_ms() == machine.true
    assert machine.clock.leap() is not None


def test_after_a_reboot_the_clock_is_trusted(machine: Machine) -> None:
    machine.set(3 * DAY)
    machine.pass_ms(MINUTE)
    machine.clock = machine.opened("two")
    assert machine.clock.now_ms() == machine.true + 3 * DAY


def test_an_oscillating_clock_logs_a_bounded_number_of_lines(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "laurels"):
        for _ in range(1_000):
            machine.set(3 * DAY)
            machine.pass_ms(30)
            machine.set(-3 * DAY)
            machine.pass_ms(30)
    assert machine.clock.now_ms() == machine.true
    assert len(caplog.records) <= 4
    assert machine.clock.leaps == 1_000
    assert len(machine.saved) <= 4


def test_the_logged_leap_names_the_command_to_accept_it(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set(3 * DAY)
    machine.pass_ms(MINUTE)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "+259200 s" in line
    assert "laurels clock accept" in line
