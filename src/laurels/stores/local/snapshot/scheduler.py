"""Schedules snapshots: decides when one is due, and takes one at a time.

Due snapshots are taken in a separate thread, so no commit waits for a snapshot. A failed snapshot
(on a full disk, for example) only makes recovery longer. The statistics of the store show the
failure. The next attempt is made when the log has grown once more by the amount that makes a
snapshot due.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from laurels.core.stats import Kept
from laurels.errors import LaurelsError
from laurels.stores.local.recovery.recover import Recovered

from .files import SnapshotFile
from .taking import is_due, is_due_on_close


class SnapshotScheduler:
    """Decides when a store takes a snapshot, and takes due snapshots in a thread. `log_bytes` is
    the size, in bytes, of the log's entries after the newest snapshot."""

    def __init__(self, recovered: Recovered) -> None:
        self._newest = recovered.snapshot
        self._nbytes = recovered.snapshot.nbytes if recovered.snapshot is not None else 0
        self.log_bytes = recovered.log_bytes
        self._damaged = [snapshot.path.name for snapshot in recovered.damaged]
        self._failure: str | None = None
        self._lock = threading.Lock()

    def is_due(self) -> bool:
        """Return whether the log has grown enough for a snapshot to be worth its cost, and no
        snapshot is being taken."""
        if self._lock.locked():
            return False
        return is_due(self.log_bytes, self._nbytes)

    def is_due_on_close(self) -> bool:
        """Return whether a snapshot is worth its cost before the store is closed."""
        return is_due_on_close(self.log_bytes, self._nbytes)

    def start(self, take: Callable[[], int]) -> None:
        """Take a snapshot in a new thread; do nothing while another snapshot is being taken."""
        if not self._lock.acquire(blocking=False):
            return

        def run() -> None:
            try:
                take()
            except Exception as error:
                self._failure, self.log_bytes = str(error), 0
            finally:
                self._lock.release()

        try:
            threading.Thread(target=run, name="laurels-snapshot", daemon=True).start()
        except RuntimeError as error:
            self._failure, self.log_bytes = str(error), 0
            self._lock.release()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait until no snapshot is being taken, and let none start in this context."""
        with self._lock:
            yield

    def record(self, snapshot: SnapshotFile) -> None:
        """Record that a snapshot was taken."""
        self._newest, self.log_bytes, self._failure = snapshot, 0, None
        self._nbytes = snapshot.nbytes

    def newest_time(self) -> float | None:
        """Return the modification time of the newest snapshot's file; None if there is no
        snapshot."""
        if self._newest is None:
            return None
        with suppress(OSError):
            return self._newest.path.stat().st_mtime
        return None

    def wait(self) -> None:
        """Wait until no snapshot is being taken. A snapshot in progress fails soon, since the store
        is closed."""
        with suppress(LaurelsError), self._lock:
            pass

    def recovery_start(self, log_from: int, end_unverified: str | None) -> Kept:
        """Return the snapshot and log from which a recovery would start."""
        newest = self._newest
        return Kept(
            log_from,
            None if newest is None else newest.offset,
            None if newest is None else self._nbytes,
            self._damaged,
            self._failure,
            end_unverified,
        )
