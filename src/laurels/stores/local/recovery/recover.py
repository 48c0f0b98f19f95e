"""Recovery: makes a fold from the newest valid snapshot and the log after it, or from the whole
log.

If the newest snapshot is damaged, the previous one is used; the log after the previous one is kept
for this case. If neither is valid and the log was trimmed, or if the log ends before a snapshot,
opening fails with an error that says what to do.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from laurels.core import record as records
from laurels.core.board_state import BoardState
from laurels.core.changes.recorder import ChangeRecorder
from laurels.core.fold import Fold
from laurels.core.index import Index
from laurels.core.payouts import PayoutBook
from laurels.errors import LogDamaged, SnapshotDamaged
from laurels.stores.local.log.base import Log
from laurels.stores.local.snapshot.files import SnapshotFile
from laurels.stores.local.snapshot.taking import opened

from .progress import current_report

_REPORT_EVERY = 64
"""The number of entries between two progress reports."""

NewIndex = Callable[[], Index]


class Recovered(Struct, frozen=True):
    """The result of a recovery: the fold, the snapshot from which it was made, the size in bytes of
    the log that was folded after the snapshot, and the damaged snapshots that were skipped."""

    fold: Fold
    snapshot: SnapshotFile | None
    log_bytes: int
    damaged: list[SnapshotFile]


class RecoveredRecorder(ChangeRecorder, Protocol):
    """A recorder whose kept changes survive a restart. So it may already have the changes of
    records that a recovery folds again. The recovery calls `begin` before it folds the log, and
    `settle` afterwards."""

    def begin(self, states: Iterable[BoardState]) -> None:
        """Called with the states of the boards before the log is folded."""

    def settle(self, states: Iterable[BoardState]) -> None:
        """Called with the states of the boards after the log was folded."""


def recover(
    log: Log,
    snapshots: Sequence[SnapshotFile],
    new_index: NewIndex,
    recorder: RecoveredRecorder | None = None,
    payouts: PayoutBook | None = None,
) -> Recovered:
    """Return the fold of a log, starting from the first of `snapshots` that is valid. `recorder`
    records the changes. Records of the log about payouts are applied to `payouts`.

    Raises LogDamaged if a part of the log is missing, FormatTooNew.
    """
    damaged: list[SnapshotFile] = []
    for snapshot in snapshots:
        if snapshot.offset > log.offset:
            raise LogDamaged(
                f"the log ends at entry {log.offset}, before the snapshot {snapshot.path.name}: "
                "entries are missing at its end"
            )
        try:
            fold = opened(snapshot.path, new_index())
        except SnapshotDamaged:
            damaged.append(snapshot)
            continue
        return Recovered(fold, snapshot, _follow(log, fold, recorder, payouts), damaged)
    if log.first > 1:
        names = ", ".join(snapshot.path.name for snapshot in damaged) or "no snapshot"
        raise LogDamaged(
            f"the log begins at entry {log.first}, and no valid snapshot has the entries before it "
            f"({names} found)"
        )
    fold = Fold(new_index())
    return Recovered(fold, None, _follow(log, fold, recorder, payouts), damaged)


def refold(log: Log, snapshots: Sequence[SnapshotFile], new_index: NewIndex) -> Fold:
    """Return a second fold of the log, for comparison. It starts at the beginning of the log. If
    the log was trimmed, it starts from the oldest snapshot."""
    if log.first == 1:
        return recover(log, [], new_index).fold
    return recover(log, snapshots[::-1], new_index).fold


def _follow(
    log: Log, fold: Fold, recorder: RecoveredRecorder | None, payouts: PayoutBook | None
) -> int:
    """Fold the entries of the log after the fold's offset. Return the size of these entries in
    bytes."""
    if recorder is not None:
        recorder.begin(_with_changes(fold))
        fold.recorder = recorder
    fold.payouts = payouts
    nbytes, start, report = 0, fold.offset, current_report()
    for offset, body in log.read(start):
        fold.entry = offset
        for record in records.decode(body):
            fold.apply(record)
        fold.offset = offset
        nbytes += len(body)
        if not offset % _REPORT_EVERY:
            report("reading the log", offset - start, log.offset - start)
    report("reading the log", log.offset - start, log.offset - start)
    fold.take_up_all()
    if recorder is not None:
        recorder.settle(_with_changes(fold))
    return nbytes


def _with_changes(fold: Fold) -> list[BoardState]:
    """Return all boards, and the deleted boards whose changes are kept."""
    return [*fold.boards.values(), *[deletion.state for deletion in fold.deletions]]
