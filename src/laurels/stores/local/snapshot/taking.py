"""Takes a snapshot of a store in use, and opens a snapshot."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from threading import get_ident

import msgspec

from laurels.core.board_record import HEAD, Head, encode, head
from laurels.core.fold import Fold
from laurels.core.index import Index, Load, Section
from laurels.errors import LogDamaged, SnapshotDamaged
from laurels.stores.intake.shares import SHARE
from laurels.stores.local.recovery.progress import current_report

from .files import SnapshotFile, SnapshotFiles
from .form import FORMAT, PLAIN, FilePosition
from .reading import Sections, side_by_side

MIN_LOG_BYTES = 64 << 20
SECOND_OF_LOG = 2 << 20
"""How many bytes of the log are folded in about a second. Measurements gave one to six MiB,
depending on the windows of the boards."""
WRITTEN_WHILE_FOLDING = 16
"""In the time that it takes to fold one byte of the log, at least this many bytes of a snapshot are
written."""


def is_due(log_bytes: int, snapshot_bytes: int) -> bool:
    """Return whether the log has grown so much since the last snapshot that folding it would take
    longer than reading a new snapshot."""
    return log_bytes > max(MIN_LOG_BYTES, snapshot_bytes)


def is_due_on_close(log_bytes: int, snapshot_bytes: int) -> bool:
    """Return whether a snapshot is worth its cost before a store is closed: whether folding the log
    would delay the next start by more than about a second, and would take longer than writing the
    snapshot."""
    return log_bytes > max(SECOND_OF_LOG, snapshot_bytes // WRITTEN_WHILE_FOLDING)


def take(
    files: SnapshotFiles,
    fold: Fold,
    still: Callable[[], AbstractContextManager[object]],
    rest: Callable[[], None],
    before_end: Callable[[], None] = lambda: None,
) -> SnapshotFile:
    """Write a snapshot of a fold while the fold continues to apply commits.

    `still` returns a context in which no commit runs. Each piece of the copy is read in such a
    context, and written outside of it. `rest` is called after each piece and lets other threads
    run. `before_end` is called when everything is copied, before the snapshot becomes valid. If the
    disk refuses a write, nothing is changed, and StorageFailed is raised.
    """
    heads: list[Head] = []
    needs_latest = False

    def described(number: int) -> bytes | None:
        nonlocal needs_latest
        needs_latest = needs_latest or fold.needs_latest_form(number)
        return fold.describe(number)

    def needed_format() -> int:
        return FORMAT if needs_latest or heads[0].hidden or heads[0].erasing else PLAIN

    with still():
        copy = fold.index.copy()

    def sections() -> Iterator[Section]:
        while True:
            with still():
                # Boards record the hidings on all boards first, since a snapshot does not store
                # which of them have done so.
                fold.take_up_share(SHARE)
                piece = [] if fold.has_untaken else copy.step(described)
                if piece is None:
                    piece = copy.finish(described)
                    heads.append(fold.head())
                    fold.index.end_copy(0)
            rest()
            yield from piece
            if heads:
                before_end()
                yield HEAD, encode(heads[0])
                return

    try:
        return files.write(sections(), lambda: heads[0].offset, needed_format)
    finally:
        is_ended = False
        while not is_ended:
            with still():
                is_ended = fold.index.end_copy(SHARE)
            rest()


def read_head(path: Path) -> Head:
    """Return the offset and time of a snapshot. Raises SnapshotDamaged, FormatTooNew."""
    try:
        with closing(Sections(path)) as sections:
            for place in sections.places:
                if place.kind == HEAD:
                    return head(sections.body(place))
    except msgspec.MsgspecError as error:
        raise SnapshotDamaged(f"the content of {path} is inconsistent: {error}") from error
    raise SnapshotDamaged(f"{path} lacks its offset and time")


def opened(path: Path, index: Index) -> Fold:
    """Load the state in a snapshot into an empty index, and return the fold of that state. Raises
    SnapshotDamaged, FormatTooNew."""
    fold = Fold(index)
    loading = index.load()
    try:
        with closing(Sections(path)) as sections:
            snapshot_head = _first_pass(sections, loading)
            fold.restore(snapshot_head, loading.described())
            loading.open()
            _second_pass(sections, loading)
            loading.finish()
    except (msgspec.MsgspecError, LogDamaged, ValueError, IndexError, KeyError) as error:
        raise SnapshotDamaged(f"the content of {path} is inconsistent: {error}") from error
    fold.resume_passes()
    return fold


def _first_pass(sections: Sections, loading: Load) -> Head:
    snapshot_head: Head | None = None
    for place in sections.places:
        if place.kind == HEAD:
            snapshot_head = head(sections.body(place))
        elif place.kind in loading.seen:
            loading.see(place.kind, sections.body(place))
    if snapshot_head is None:
        raise SnapshotDamaged(f"{sections.path} lacks its offset and time")
    return snapshot_head


def _second_pass(sections: Sections, loading: Load) -> None:
    """Load the sections that the first pass has not loaded, so that every section is read and
    verified."""
    lanes: dict[int, list[FilePosition]] = {}
    caller = get_ident()
    for place in sections.places:
        if place.kind != HEAD and place.kind not in loading.seen:
            lanes.setdefault(loading.lane(place.kind, place.begins), []).append(place)

    report, done = current_report(), 0
    total = sum(place.length for lane in lanes.values() for place in lane)

    def taken(lane: list[FilePosition]) -> Iterator[None]:
        nonlocal done
        for place in lane:
            loading.take(place.kind, sections.body(place))
            done += place.length
            if get_ident() == caller:
                report("reading the snapshot", done, total)
            yield

    def nbytes(lane: list[FilePosition]) -> int:
        return sum(place.length for place in lane)

    longest_first = sorted(lanes.values(), key=nbytes, reverse=True)
    side_by_side([taken(lane) for lane in longest_first])
    report("reading the snapshot", total, total)
