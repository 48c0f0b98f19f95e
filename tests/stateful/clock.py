"""The clock of an episode: a wall clock that can leap and be set back, behind the guard against
leaps that deployments use."""

from __future__ import annotations

import threading
from itertools import count

from laurels.timeline.clock_guard import ClockGuard, GuardedClock, Leap, Reference

MAX_STEP_MS = 3_600_000
HOLD_MS = 600_000
"""A leap of more than `MAX_STEP_MS` is followed only after it has lasted for `HOLD_MS`."""
_MS = 1_000_000


class EpisodeClock:
    """A guarded clock whose wall clock moves only when it is set. Any thread may read it."""

    def __init__(self, start_ms: int) -> None:
        self._lock = threading.Lock()
        self._boots = count()
        self._boot(start_ms)

    def _boot(self, wall_ms: int) -> None:
        """Start the machine anew, with another wall clock. After that nothing is left to compare
        the wall clock with."""
        self._boot_id = f"boot-{next(self._boots)}"
        self._wall_ms, self._boot_ms = wall_ms, 0
        self._saved: Reference | None = None
        self._start()

    def _start(self) -> None:
        """Begin to read the clock in a new process."""
        guard = ClockGuard(MAX_STEP_MS, self._boot_id, self._saved, self._save)
        self._guarded = GuardedClock(
            lambda: self._wall_ms * _MS, lambda: self._boot_ms * _MS, guard
        )

    def _save(self, reference: Reference) -> None:
        self._saved = reference

    # What deployments read

    def now_ms(self) -> int:
        with self._lock:
            return self._guarded.now_ms()

    @property
    def leaps(self) -> int:
        return self._guarded.leaps

    def source_ms(self) -> int:
        return self._guarded.source_ms()

    def leap(self) -> Leap | None:
        with self._lock:
            return self._guarded.leap()

    def accept(self) -> None:
        with self._lock:
            self._guarded.accept()

    # What happens to it

    def set(self, now_ms: int) -> None:
        """Let as much time pass as takes the clock to `now_ms`, if it is followed. Raise ValueError
        for a time before the current one."""
        with self._lock:
            by_ms = now_ms - self._guarded.now_ms()
            if by_ms < 0:
                raise ValueError(f"{now_ms} is {-by_ms} ms before the current time")
            self._wall_ms += by_ms
            self._boot_ms += by_ms

    def let_leap(self, by_ms: int) -> None:
        """Set the wall clock while the machine goes on."""
        with self._lock:
            self._wall_ms += by_ms

    def restart(self) -> None:
        """Begin to read the clock in a new process on the same machine."""
        with self._lock:
            self._start()

    def reboot(self, wall_ms: int) -> None:
        """Begin to read the clock after the machine was started anew with this wall clock."""
        with self._lock:
            self._boot(wall_ms)
