"""A guard against leaps of the system's clock.

A wall clock may be wrong for a moment: set by an operator, by a time server, or when the host wakes
up. Time in a store never goes back, so one write under a clock that is three days ahead would end
the current day, and the events of the next three days would be refused as late.

The guard compares the wall clock with a clock that cannot be set: the time since the machine was
started, including time in suspension. Their difference, the *offset*, changes only when the wall
clock is set or slewed. The guard keeps three offsets:

- the *base*, an offset that has lasted for `HOLD_MS`. Each reading of the clock is compared with
  the base;
- the *followed* offset, from which the time of the store is computed. It differs from the base by
  at most `max_step_ms`;
- the *candidate* for the next base, the offset of an earlier reading. No later reading has differed
  from it by more than `TOLERANCE_MS`. After `HOLD_MS` the newest offset becomes the base.

So within any `HOLD_MS` the time of the store leaps by at most `max_step_ms`, all leaps together. A
larger leap is not followed until it has lasted for `HOLD_MS`, or an operator accepts it.
Until then, time continues as before the leap. When the clock is slewed, the base moves with it.

By a stored `Reference`, a process judges the clock as the process before it did, as long as the
machine was not rebooted. After a reboot there is no reference, and the clock is trusted.
"""

import logging
import threading
from collections.abc import Callable

from msgspec import Struct

HOLD_MS = 600_000
TOLERANCE_MS = 60_000
DEFAULT_MAX_STEP_MS = 3_600_000
_MS = 1_000_000
_SECOND_MS = 1_000
_LOG_EVERY_MS = 60_000
_log = logging.getLogger("laurels")


class Reference(Struct, frozen=True):
    """Offsets of a guard. They are valid until the machine is booted again."""

    boot_id: str
    base_ms: int
    candidate_ms: int
    since_ms: int


class Leap(Struct, frozen=True):
    """A leap that is not followed yet. The clock is `by_ms` ahead of the store's time, or behind it
    if `by_ms` is negative. The leap will be followed after another `follow_in_ms`."""

    by_ms: int
    follow_in_ms: int


class ClockGuard:
    """Decides which changes of the wall clock's offset from the time since boot are followed.
    `leaps` counts the leaps beyond `max_step_ms` since the start. `save` stores the guard's offsets
    as a `Reference`, with which the next process continues. Not thread-safe."""

    def __init__(
        self,
        max_step_ms: int = DEFAULT_MAX_STEP_MS,
        boot_id: str = "",
        reference: Reference | None = None,
        save: Callable[[Reference], None] | None = None,
    ) -> None:
        self.max_step_ms = max_step_ms
        self.leaps = 0
        self._boot_id = boot_id
        self._save = save
        self._tolerance_ms = min(TOLERANCE_MS, max_step_ms)
        self._reference = (
            reference
            if reference is not None and boot_id and reference.boot_id == boot_id
            else None
        )
        self._begun = self._leaping = self._logged = False
        self._base = self._candidate = self._followed = self._since = self._latest = 0
        self._saved_base: int | None = None
        self._logged_at: int | None = None

    def leap(self) -> Leap | None:
        """Return the leap that is not followed yet, None while the clock is followed."""
        if not self._leaping:
            return None
        lasted_ms = self._latest - self._since
        return Leap(self._candidate - self._followed, max(0, HOLD_MS - lasted_ms))

    def follow(self, offset_ms: int, boot_ms: int) -> int:
        """Judge a reading of the clock, and return the offset to use. `boot_ms` is the time since
        boot at the reading, and `offset_ms` how far the clock was ahead of it."""
        self._latest = boot_ms
        if not self._begun:
            self._begin(offset_ms, boot_ms)
        if abs(offset_ms - self._candidate) > self._tolerance_ms:
            self._candidate, self._since = offset_ms, boot_ms
        elif boot_ms - self._since >= HOLD_MS:
            self._become_base(offset_ms, boot_ms)
        leaping = abs(offset_ms - self._base) > self.max_step_ms
        if not leaping:
            self._followed = offset_ms
        if leaping is not self._leaping:
            self._leaping = leaping
            self._note(offset_ms)
        return self._followed

    def accept(self, offset_ms: int, boot_ms: int) -> None:
        """Follow the clock from now on, however far it has leapt."""
        self._begun = True
        self._candidate = self._followed = offset_ms
        self._become_base(offset_ms, boot_ms)
        self._leaping = False

    def _begin(self, offset_ms: int, boot_ms: int) -> None:
        """Begin with the reference of the previous process or, without one, with the current
        clock."""
        self._begun = True
        reference = self._reference
        if reference is None or reference.since_ms > boot_ms:
            self._candidate, self._followed = offset_ms, offset_ms
            self._become_base(offset_ms, boot_ms)
            return
        self._base = self._followed = reference.base_ms
        self._candidate, self._since = reference.candidate_ms, reference.since_ms

    def _become_base(self, offset_ms: int, boot_ms: int) -> None:
        self._base, self._candidate, self._since = offset_ms, offset_ms, boot_ms
        if self._saved_base is None or abs(offset_ms - self._saved_base) > _SECOND_MS:
            self._keep()

    def _note(self, offset_ms: int) -> None:
        """Count and log the beginning of a leap, or log the end of one. The log gets at most one
        beginning a minute, however often the clock leaps."""
        self.leaps += self._leaping
        if not self._leaping:
            if self._logged:
                _log.warning("the clock is followed again")
            self._logged = False
        elif self._logged_at is None or self._latest - self._logged_at >= _LOG_EVERY_MS:
            self._logged, self._logged_at = True, self._latest
            _log.error(
                "the clock leapt by %+d s and is not followed: if it is right, wait %d minutes or "
                "run `laurels clock accept`; if it is wrong, set it right",
                round((offset_ms - self._base) / _SECOND_MS),
                HOLD_MS // 60_000,
            )
            self._keep()

    def _keep(self) -> None:
        self._saved_base = self._base
        if self._boot_id and self._save is not None:
            self._save(Reference(self._boot_id, self._base, self._candidate, self._since))


class GuardedClock:
    """The wall clock without the leaps that its guard does not follow. Its time never goes back.

    `boot_ns` returns the time since boot, including suspension. While the wall clock is followed,
    the guard checks a reading only if the clock has gone back, or has advanced by a second or more,
    since the last check. So most readings cost one extra comparison, and no leap of a second or
    more is missed.
    """

    def __init__(
        self, wall_ns: Callable[[], int], boot_ns: Callable[[], int], guard: ClockGuard
    ) -> None:
        self._wall_ns = wall_ns
        self._boot_ns = boot_ns
        self._guard = guard
        self._lock = threading.Lock()
        self._judged_ms = self._latest_ms = self._judge(self.source_ms())

    def now_ms(self) -> int:
        wall_ms = self._wall_ns() // _MS
        if not 0 <= wall_ms - self._judged_ms < _SECOND_MS:
            wall_ms = self._judge(wall_ms)
        if wall_ms > self._latest_ms:
            self._latest_ms = wall_ms
        return self._latest_ms

    @property
    def leaps(self) -> int:
        """The number of leaps since the start that were not followed at once."""
        return self._guard.leaps

    def source_ms(self) -> int:
        """Return the wall clock, whether or not it is followed."""
        return self._wall_ns() // _MS

    def leap(self) -> Leap | None:
        """Return the leap of the wall clock that is not followed yet, None while the clock is
        followed."""
        self.now_ms()
        with self._lock:
            return self._guard.leap()

    def accept(self) -> None:
        """Follow the wall clock from now on, however far it has leapt."""
        with self._lock:
            boot_ms, wall_ms = self._boot_ns() // _MS, self.source_ms()
            self._guard.accept(wall_ms - boot_ms, boot_ms)
            self._judged_ms = wall_ms

    def _judge(self, wall_ms: int) -> int:
        """Return the guarded time when the wall clock shows `wall_ms`."""
        with self._lock:
            boot_ms = self._boot_ns() // _MS
            now_ms = self._guard.follow(wall_ms - boot_ms, boot_ms) + boot_ms
            self._judged_ms = wall_ms if now_ms == wall_ms else _NEVER
            return now_ms


_NEVER = -(1 << 62)
"""A value so far from every reading that the guard always checks the next one."""
