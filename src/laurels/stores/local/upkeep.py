"""The upkeep of the local store: it takes snapshots, and checks and rebuilds its index."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from laurels.core.fold import Fold
from laurels.core.stats import (
    CheckReport,
)
from laurels.errors import (
    NothingToBackUp,
)
from laurels.stores.intake.writes import Task
from laurels.stores.local.recovery.recover import refold
from laurels.stores.local.recovery.verify import compare
from laurels.stores.local.snapshot.form import verify
from laurels.stores.local.snapshot.taking import take

from .committing import LocalCommits

_log = logging.getLogger("laurels")


class LocalUpkeep(LocalCommits):
    """The part of the store of one process that takes snapshots, and that checks and rebuilds the
    index."""

    def snapshot(self) -> int:
        """Take a snapshot while the store is in use, trim the log to the previous snapshot, and
        return the new snapshot's offset.

        Raises NothingToBackUp for a store without a folder, StorageFailed if the disk refuses a
        write.
        """
        self.ensure_usable()
        with self._snapshot_scheduler.exclusive():
            return self._snapshot_and_trim()

    def _snapshot_and_trim(self) -> int:
        """Take a snapshot, and keep only this one and the previous one. Trim the log to the
        previous one."""
        offset, until = self._take_snapshot()
        while until and self.commit(Task(partial(self._log.trim, until))):
            pass
        return offset

    def _take_snapshot(self) -> tuple[int, int]:
        """Take a snapshot, and keep only this one and the previous one. Return the offset of the
        snapshot, and the offset up to which the log may be trimmed; 0 means that it must not be
        trimmed."""
        if self._files is None:
            raise NothingToBackUp("the store is in memory: it has no snapshots")
        snapshot = take(self._files, self._fold, self.reading, self._rest, self._write_beside)
        self._files.prune()
        self._snapshot_scheduler.record(snapshot)
        kept = self._files.newest_first()
        trims = self._log.note("log_keep") != "all" and len(kept) > 1
        return snapshot.offset, kept[-1].offset if trims else 0

    def _write_beside(self) -> None:
        """Make the changes and the payouts durable before the snapshot becomes valid: they are
        stored beside it, and come from the same entries of the log."""
        self._changes.write(self._lock, self._times, self._rest)
        self.payouts.flush()

    def _snapshot_on_close(self) -> None:
        """Take a snapshot after the last commit, if the next start would otherwise have to fold the
        log for more than about a second. If the snapshot fails, the log is unchanged, and the next
        start takes longer."""
        if (
            self._files is None
            or self._unusable_reason is not None
            or not self._snapshot_scheduler.is_due_on_close()
        ):
            return
        try:
            with self._snapshot_scheduler.exclusive():
                if (
                    self._snapshot_scheduler.is_due_on_close()
                ):  # false if the snapshot thread took a snapshot while this thread waited
                    _, until = self._take_snapshot()
                    while until and self._log.trim(until):
                        pass
        except Exception as error:
            _log.warning("no snapshot was taken on close, so the next start is slower: %s", error)

    def check(self) -> CheckReport:
        """Check every structure, and compare the index with a second fold of the log. If the log
        was trimmed, the second fold starts from the oldest snapshot."""

        def compared() -> CheckReport:
            for snapshot in self._snapshots():
                verify(snapshot.path)
            with self._pausing():
                self._fold.index.check(self._fold.unfinished.states)
                return compare(self._fold, self._advance_to_own_time(self._refolded()))

        with self._snapshot_scheduler.exclusive():
            report: CheckReport = self.commit(Task(compared))
        return report

    def rebuild(self) -> None:
        """Replace the index by a fold of the log."""

        def exchange() -> None:
            with self._lock:  # the rebuilt fold records nothing, so its boards count as up to date
                self._fold.take_up_all()
            rebuilt = self._advance_to_own_time(self._refolded())
            with self._lock:
                rebuilt.recorder = self._changes
                self._fold = rebuilt

        with self._snapshot_scheduler.exclusive():
            self.commit(Task(exchange))

    def _refolded(self) -> Fold:
        return refold(self._log, self._snapshots(), self._new_index)

    def _advance_to_own_time(self, fold: Fold) -> Fold:
        """Advance another fold of the same log to the time of the store's fold, and return it. The
        payouts decide which boards stay after their `retain`."""
        fold.payouts = self.payouts
        fold.event_time = self._event_time
        fold.advance_clock(self._fold.clock_ms)
        for state in self._fold.boards.values():
            fold.move_time(fold.by_number(state.number), state.now_ms)
        fold.advance_all()
        return fold

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """Keep the index unchanged in this context, which is entered during a commit. First every
        board is advanced to the time of this commit, so that reads need not advance any board.
        Passes do not continue in the context."""
        with self._lock:
            self._advance_clock()
            self._fold.advance_all()
            self._paused = True
        try:
            yield
        finally:
            self._paused = False
