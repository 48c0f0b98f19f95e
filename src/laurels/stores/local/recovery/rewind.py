"""Rewinds a folder whose newest records are ahead of the clock.

Time in a store never goes back. So if a folder was written while the clock was days ahead, the
store's time does not advance until those days have passed. Rewinding rewrites the log as if the
clock had stopped at an instant: afterwards no record and no event has a later time. The records
keep their order and their offsets, so the rankings are still a function of the log and the time.
Later snapshots are set aside, and the log is folded again from an earlier snapshot.

Periods that are not final at that instant are closed later, when they are final.

Each event keeps its member, value, id and labels. Only times after the instant change. Three things
depend on these times: the period in which an event counts, the event's weight in a window with
decay, and whether a window refuses the event as late.
"""

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from laurels.core import record as records
from laurels.core.contents import decode_origin, encode
from laurels.core.event_columns import events_of, logged_batch
from laurels.errors import CannotRewind, SnapshotDamaged
from laurels.stores.local.files.clock_file import CLOCK_NAME
from laurels.stores.local.log.base import RewritableLog
from laurels.stores.local.snapshot.files import SnapshotFile, SnapshotFiles
from laurels.stores.local.snapshot.taking import read_head
from laurels.timeline.instants import MIN_MS


class Rewound(Struct, frozen=True):
    """The effect of rewinding to `until_ms`: the time of the newest record before rewinding, the
    number of changed entries of the log, and the snapshots that were set aside."""

    until_ms: int
    newest_ms: int
    entries: int
    snapshots: list[str]


def rewind(folder: Path, log: RewritableLog, until_ms: int, *, dry_run: bool) -> Rewound:
    """Rewind a locked folder to an instant. With `dry_run` only report what would change. An
    interrupted call can be repeated.

    Raises LogDamaged, StorageFailed, and CannotRewind in three cases: the log uses event time; the
    log no longer reaches back to that instant; or a member was erased from a period whose seal
    would be undone.
    """
    if log.note("clock") == "event":
        raise CannotRewind("the boards use event time, which does not follow a clock")
    _ensure_places_stay(log, until_ms)
    ahead = _snapshots_ahead(folder, log, until_ms)
    newest_ms = max([_latest_ms(body) for _, body in log.read(log.first - 1)], default=until_ms)
    changed = log.rewrite(_rewriting(until_ms), dry_run=True)
    rewound = Rewound(until_ms, newest_ms, changed, [each.path.name for each in ahead])
    if not dry_run:
        for snapshot in ahead:
            snapshot.path.replace(snapshot.path.with_suffix(".ahead"))
        log.rewrite(_rewriting(until_ms), dry_run=False)
        with suppress(OSError):
            (folder / CLOCK_NAME).unlink(missing_ok=True)
    return rewound


def _snapshots_ahead(folder: Path, log: RewritableLog, until_ms: int) -> list[SnapshotFile]:
    """Return the snapshots that are later than an instant. Raises CannotRewind if there is no
    earlier state to start from."""
    ahead: list[SnapshotFile] = []
    reaches_back = log.first == 1
    for snapshot in SnapshotFiles(folder).newest_first():
        try:
            snapshot_ms = read_head(snapshot.path).now_ms
        except SnapshotDamaged:
            continue
        if snapshot_ms > until_ms:
            ahead.append(snapshot)
        else:
            reaches_back |= snapshot.offset >= log.first - 1
    if not reaches_back:
        raise CannotRewind(
            f"the log begins at entry {log.first}, and every snapshot that it continues is "
            "later than the time to rewind to"
        )
    return ahead


def _ensure_places_stay(log: RewritableLog, until_ms: int) -> None:
    """Raise CannotRewind if a board would lose the seal of a period, and a member of its sealed
    periods was erased later. The period would be closed again without the member's entries, and the
    member's prizes would go to others."""
    unsealed: set[int] = set()
    for _, body in log.read(log.first - 1):
        for each in records.decode(body):
            if isinstance(each, records.Seal) and _is_undone(each, until_ms):
                unsealed.add(each.board)
            elif isinstance(each, records.Erase) and not unsealed.isdisjoint(each.archived):
                raise CannotRewind(
                    "a member was erased after the end of a period that is not final at the time "
                    "to rewind to, so that the standings of this period cannot be made again"
                )


def _is_undone(record: records.Close | records.Seal, until_ms: int) -> bool:
    """Return whether a period is not final at `until_ms`, and so is not closed at that time."""
    return record.now_ms > until_ms and record.final_ms > until_ms


def _latest_ms(body: bytes) -> int:
    return max([each.now_ms for each in records.decode(body)], default=MIN_MS)


def _rewriting(until_ms: int) -> Callable[[bytes], bytes | None]:
    """Return a function that rewrites an entry of the log as of `until_ms`, and returns None for an
    entry that does not change."""

    def rewritten(body: bytes) -> bytes | None:
        decoded = records.decode(body)
        if all(each.now_ms <= until_ms for each in decoded):
            return None
        earlier = _earlier(decoded, until_ms)
        own_times = any(isinstance(each, records.Events) and each.waits for each in decoded)
        return records.encode([records.encode_one(each) for each in earlier], own_times=own_times)

    return rewritten


def _earlier(decoded: list[records.Record], until_ms: int) -> Iterator[records.Record]:
    """Yield the records with all times after `until_ms` replaced by `until_ms`. Records that close
    or seal a period which is not final at that time, or that emit payouts, are left out."""
    for each in decoded:
        if each.now_ms <= until_ms:
            yield each
        elif isinstance(each, records.Close | records.Seal) and _is_undone(each, until_ms):
            continue
        elif isinstance(each, records.EmitPayouts):
            continue  # payouts that are due at that time are emitted again
        elif isinstance(each, records.Events):
            yield _earlier_events(each, until_ms)
        elif isinstance(each, records.Adopt):
            origin = decode_origin(each.origin)
            origin = replace(origin, now_ms=min(origin.now_ms, until_ms))
            yield replace(each, now_ms=until_ms, origin=encode(origin))
        else:
            yield replace(each, now_ms=until_ms)


def _earlier_events(record: records.Events, until_ms: int) -> records.Events:
    batch = logged_batch(record)
    ats = None if batch.ats is None else array("q", [min(at, until_ms) for at in batch.ats])
    nows = None if batch.nows is None else array("q", [min(now, until_ms) for now in batch.nows])
    judged_ms = None if batch.judged_ms is None else min(batch.judged_ms, until_ms)
    moved = replace(batch, now_ms=until_ms, ats=ats, nows=nows, judged_ms=judged_ms, weights={})
    return events_of(moved.weighed(sorted(batch.weights)), record.version)
