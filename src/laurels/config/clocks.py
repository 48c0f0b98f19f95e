"""The clock of this machine, guarded against leaps."""

import time
from pathlib import Path

from laurels.errors import BoardInvalid, InvalidClock
from laurels.model.durations import duration_ms
from laurels.model.validation import safe_repr
from laurels.stores.local.files.clock_file import ClockFile
from laurels.timeline.clock_guard import DEFAULT_MAX_STEP_MS, ClockGuard, GuardedClock

CLOCKS = ("system", "event")
MIN_STEP_MS = 1_000
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def guarded_clock(max_step_ms: int, file: ClockFile | None) -> GuardedClock:
    """Return the clock of this machine, checked against the time since boot."""
    saved = None if file is None else file.load()
    guard = ClockGuard(max_step_ms, _boot_id(), saved, None if file is None else file.save)
    return GuardedClock(time.time_ns, boot_ns, guard)


def boot_ns() -> int:
    """Return the nanoseconds since boot, including the time in suspension. macOS has no
    CLOCK_BOOTTIME; there the monotonic clock is used, which includes suspension, too."""
    return time.clock_gettime_ns(_BOOT_CLOCK)


def _boot_id() -> str:
    """Return an identifier of this boot of this machine; "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def parse_max_step(max_clock_step: str | int | None) -> int:
    """Parse `max_clock_step`, the largest leap of the clock that is followed at once, and return it
    in milliseconds. A larger leap is followed after it has lasted for a while, or when an operator
    accepts it."""
    if max_clock_step is None:
        return DEFAULT_MAX_STEP_MS
    try:
        step_ms = duration_ms(max_clock_step)
    except BoardInvalid as error:
        raise InvalidClock(f"max_clock_step: {error.what}") from error
    if step_ms < MIN_STEP_MS:
        raise InvalidClock(
            f"expected 1s or more for max_clock_step, got {safe_repr(max_clock_step)}"
        )
    return step_ms
