"""Opens stores in this process: the log in a folder or in memory, the index in memory."""

import secrets
import time
from collections.abc import Callable
from functools import partial
from os import PathLike, fspath

from laurels.errors import InvalidClock
from laurels.model.validation import safe_repr
from laurels.stores.intake.tags import new_secret
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import FolderSegments
from laurels.stores.local.changes.file import ChangeFile
from laurels.stores.local.files.audit import FolderAudit
from laurels.stores.local.files.clock_file import ClockFile
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.log.base import Log
from laurels.stores.local.log.folder import Folder
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.stores.local.payouts.table import PayoutTable
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.store import Service
from laurels.timeline.clock import Clock, EventClock

from .clocks import CLOCKS, guarded_clock, parse_max_step
from .urls import folder_path

CHANGES_NAME = "changes.db"
ARCHIVE_NAME = "archive"


def connect(
    url: str | PathLike[str],
    clock: str | Clock | None,
    *,
    create: bool,
    log_keep: bool | None = None,
    max_clock_step: str | int | None = None,
) -> Service:
    """Open the store of a URL in this process, recovered from its snapshots and its log."""
    max_step_ms = parse_max_step(max_clock_step)
    url = fspath(url) if isinstance(url, PathLike) else url
    if url == "memory:":
        return _compose(MemoryLog(), clock, None, partial(guarded_clock, max_step_ms, None))
    folder = Folder(folder_path(url), create=create)
    try:
        log = SqliteLog(folder.log_path)
        try:
            if log_keep is not None:
                log.set_note("log_keep", "all" if log_keep else "snapshots")
            snapshots = SnapshotFiles(folder.path)
            snapshots.clear_unfinished()
            guarded = partial(guarded_clock, max_step_ms, ClockFile(folder.path))
            changes = ChangeFile(folder.path / CHANGES_NAME)
            audit_log = FolderAudit(folder.path)
            archive = Archive(FolderSegments(folder.path / ARCHIVE_NAME), new_secret)
            payouts = PayoutTable(folder.path)
            service = _compose(log, clock, snapshots, guarded, changes, audit_log, archive, payouts)
        except BaseException:
            log.close()
            raise
    except BaseException:
        folder.close()
        raise
    service.on_close(folder.close)
    return service


def _compose(
    log: Log,
    clock: str | Clock | None,
    snapshots: SnapshotFiles | None,
    system_clock: Callable[[], Clock],
    changes: ChangeFile | None = None,
    audit_log: FolderAudit | None = None,
    archive: Archive | None = None,
    payouts: PayoutTable | None = None,
) -> Service:
    """Return a `Service` on the requested clock or, by default, on the kind of clock with which the
    log was last written.

    Boards can change to event time only while the log is empty. Later, such a change would set
    their time back.
    """
    if isinstance(clock, Clock) and not isinstance(clock, type):
        return Service(
            log,
            _new_index,
            clock,
            snapshots=snapshots,
            rest=_rest,
            stopwatch=time.perf_counter,
            changes=changes,
            audit_log=audit_log,
            archive=archive,
            payouts=payouts,
        )
    kept = log.note("clock")
    name = clock or kept or "system"
    if not isinstance(name, str) or name not in CLOCKS:
        raise InvalidClock(f"expected system or event as the clock, got {safe_repr(name)}")
    chosen = system_clock() if name == "system" else EventClock()
    service = Service(
        log,
        _new_index,
        chosen,
        name,
        snapshots,
        _rest,
        time.perf_counter,
        changes,
        audit_log,
        archive,
        payouts,
    )
    if name == "event" and kept != "event" and service.has_records:
        service.close()
        raise InvalidClock("the boards already run on another clock")
    return service


def _rest() -> None:
    """Let other threads run, by sleeping. It is not enough to release the interpreter lock, since
    this thread would take the lock again at once."""
    time.sleep(0.0005)


def _new_index() -> MemoryIndex:
    return MemoryIndex(secrets.randbits(64))
