"""Importing one source into one board, counting each line once even if the import is interrupted.

With every batch the board commits a `SourcePosition`: how much of the source is counted, and a
digest of that part. The next import finds the position and skips this part, provided that its bytes
are the same. Lines that were appended in the meantime are counted, so an import that is run
repeatedly follows a growing file.

The source is read in *sections*. In the order of the source, a section is the lines of the next
batch; in time order, it is the whole rest of the source, sorted by `at`. If a section takes more
than one commit, the position has the number of the section's events that are already counted.

An import in time order (a *replay*) may pause at an instant: the events after it are left to the
next run, as after an interruption.

A board that already remembers its maximum number of ids refuses an event, but may accept it later.
Therefore the event is not rejected: the events before it are counted, the import ends there, and it
can be run again later.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

import laurels
from laurels.cli.errors import SourceChanged, Usage
from laurels.cli.interrupts import Interrupts
from laurels.errors import BatchRefused
from laurels.timeline.instants import MAX_MS

from .id_budget import IdBudget
from .lateness import CommitSizes, LateEvents
from .lines import Lines
from .progress import Section, SourcePosition, Tally, Watcher
from .reading import Reject, SourceRow, in_time_order
from .rejects import RejectsFile
from .source_rows import divided, refused, rows_until_error, stopped, time_of

MAX_EXAMPLES = 5
"""The maximum number of rejects that are shown to the user; the rejects file has all of them."""


class ImportSettings(Struct, frozen=True):
    """How a source is counted: `batch` is the number of lines in a commit.

    `latest_ms` returns the latest time that an event may have at present. If `late_ok` is false, a
    source with events that are too late for a window is refused, and the error suggests another
    command line: the text `replay`, with which the source is counted in time order. An import in
    time order leaves events after `until_ms` to the next run.
    """

    batch: int
    latest_ms: Callable[[], int]
    late_ok: bool
    replay: str
    until_ms: int = MAX_MS


class SourceImport:
    """Imports one source. Its position is stored under `key`; without a key, every run counts the
    source from its beginning."""

    def __init__(
        self,
        lb: laurels.Leaderboards,
        board: str,
        lines: Lines,
        rows: Iterable[SourceRow | Reject],
        *,
        key: str | None,
        rejects: RejectsFile,
        interrupts: Interrupts,
        watcher: Watcher,
        settings: ImportSettings,
    ) -> None:
        self.tally = Tally()
        self._lb = lb
        self._board = board
        self._lines = lines
        self._rows = rows
        self._key = key
        self._rejects = rejects
        self._batch = settings.batch
        self._interrupts = interrupts
        self._watcher = watcher
        self._latest_ms = settings.latest_ms
        self._late_ok = settings.late_ok
        self._replay_command = settings.replay
        self._late: LateEvents | None = None
        self._in_time_order = False
        self._until_ms = settings.until_ms
        self._id_budget = IdBudget(lb, board)
        self._commit_sizes = CommitSizes(lb, board)
        self._position = self._stored()

    def check_ahead(self, lines: Lines, rows: Iterable[SourceRow | Reject]) -> None:
        """Raise Usage if events that are not counted yet would be late. The check reads the source
        to its end, so `lines` and `rows` must come from opening the source a second time."""
        if self._position is not None:
            if self._position.section is not None:  # the run that began the section made the check
                return
            lines.skip_to(self._position.offset, self._position.line)
        self._late = LateEvents(self._lb, self._board)
        self._late.add(rows_until_error(rows, self._latest_ms()))
        self._ensure_none_late(self._late)
        self._late_ok = True

    def run_as_written(self) -> None:
        """Count the lines in the order of the source, one batch after the other."""
        self._begin(as_written=True)
        rows = iter(self._rows)
        line, offset = self._lines.line, self._lines.offset
        while rows_read := list(islice(rows, self._batch)):
            self.tally.lines += len(rows_read)
            latest_ms = self._latest_ms()
            accepted, rejects = divided(rows_read, latest_ms)
            self._reject(rejects)
            self._ensure_in_time(accepted)
            section = Section(line, offset, 0, len(accepted), True, latest_ms)
            # No position is stored before an event is counted, so that until then the source can be
            # imported again with other options.
            if accepted:
                self._replay(accepted, self._current_position(), section)
            elif self._position is not None:
                self._commit([], self._current_position())
            self._watcher.read(self.tally.lines)
            line, offset = self._lines.line, self._lines.offset

    def run_in_time_order(self) -> None:
        """Count the rest of the source in the order of `at`; events with equal times keep their
        order.
        """
        self._in_time_order = True
        self._begin(as_written=False)
        if self.tally.left:
            return
        line, offset = self._lines.line, self._lines.offset
        latest_ms = self._latest_ms()
        timed, rejects = self._read_section(latest_ms)
        self._ensure_in_time(timed)
        self._reject(rejects)
        section = Section(line, offset, 0, len(timed), latest_ms=latest_ms)
        self._replay(timed, self._current_position(), section, self._watcher.replayed)

    def _stored(self) -> SourcePosition | None:
        text = self._lb.position(self._board, self._key) if self._key is not None else None
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=SourcePosition)
        except msgspec.MsgspecError as error:
            raise Usage(
                f"expected the position of a file under {self._key!r}, got another kind of source: "
                "choose another name with --source"
            ) from error

    def _begin(self, *, as_written: bool) -> None:
        """Skip what is already counted, and finish an interrupted section."""
        if (position := self._position) is None:
            self._rejects.keep_to(0)
        elif position.section is None:
            self._skip(position)
        elif as_written and not position.section.as_written:
            raise Usage("the source is partly imported in time order: continue with --clock event")
        else:
            self._finish(position, position.section)

    def _skip(self, position: SourcePosition) -> None:
        self._lines.skip_to(position.offset, position.line)
        self._verify(position)
        self.tally.resumed_after = position.line
        self._rejects.keep_to(position.line)

    def _finish(self, position: SourcePosition, section: Section) -> None:
        """Count the rest of an interrupted section, whose rejects are already written."""
        self._lines.skip_to(section.offset, section.line)
        self._lines.end = position.offset
        if section.as_written:
            rows, _ = divided(self._rows, section.latest_ms)
        else:
            rows, _ = self._read_section(section.latest_ms)
        self._lines.end = None
        self._verify(position)
        if len(rows) != section.size:
            raise Usage(
                f"expected {section.size:,} events in the part of the source that is partly "
                f"counted, got {len(rows):,}: continue with the options of the interrupted import"
            )
        self.tally = Tally(resumed_after=section.line, lines=section.size - section.applied)
        self._rejects.keep_to(position.line)
        self._replay(rows, msgspec.structs.replace(position, section=None), section)

    def _ensure_in_time(self, rows: Sequence[SourceRow]) -> None:
        """Raise Usage, before these events are counted, if some of them would be late."""
        if not self._late_ok:
            self._late = self._late or LateEvents(self._lb, self._board)
            self._late.add(rows)
            self._ensure_none_late(self._late)

    def _ensure_none_late(self, late: LateEvents) -> None:
        """Raise Usage if events are late. The message has the number of late events, and tells how
        all events can be counted."""
        if late.first is None:
            return
        if self._in_time_order:
            remedy = (
                f"the board {self._board!r} has already counted later events: import the earliest "
                f"events first; to start over, delete the board (laurels board delete "
                f"{self._board}), create it again, and import everything"
            )
        elif late.event_time:
            remedy = f"import the file in time order: {self._replay_command}"
        else:
            remedy = (
                f"to count each event as if it arrived at its time, run {self._replay_command} "
                "with a new folder"
            )
        raise Usage(
            f"{late.sentence}; {remedy}; or give --late ok, and these windows do not count them"
        )

    def _verify(self, position: SourcePosition) -> None:
        if self._lines.offset != position.offset or self._lines.digest() != position.digest:
            raise SourceChanged(
                f"its first {position.line:,} lines differ from the lines imported before"
            )

    def _current_position(self) -> SourcePosition:
        return SourcePosition(self._lines.line, self._lines.offset, self._lines.digest())

    def _read_section(self, latest_ms: int) -> tuple[list[SourceRow], list[Reject]]:
        """Read the rest of the section. Return its events in time order, and rejects for the lines
        that have no valid event, no time, or a time after `latest_ms`."""
        rows, rejects = divided(self._watched(), latest_ms)
        timed, untimed = in_time_order(rows)
        return timed, sorted([*rejects, *untimed])

    def _watched(self) -> Iterator[SourceRow | Reject]:
        for row in self._rows:
            self.tally.lines += 1
            if not self.tally.lines % self._batch:
                self._watcher.read(self.tally.lines)
            yield row

    def _replay(
        self,
        rows: Sequence[SourceRow],
        end: SourcePosition,
        section: Section,
        watch: Callable[[int, int], None] | None = None,
    ) -> None:
        """Count the rows of a section, except the first `section.applied`, which are already
        counted.

        `end` is the position after the section.
        """
        stop = len(rows)
        if not section.as_written:
            stop = bisect_right(rows, self._until_ms, section.applied, key=time_of)
        self.tally.left = len(rows) - stop

        def position(applied: int) -> SourcePosition:
            if applied == len(rows):
                return end
            interrupted = msgspec.structs.replace(section, applied=applied)
            return msgspec.structs.replace(end, section=interrupted)

        first, commit_sizes = section.applied, self._commit_sizes
        while first < stop:
            part = rows[first : min(first + self._batch, stop)]
            part = part[: commit_sizes.next(part)]
            fitting = self._id_budget.fitting(part)
            if fitting:
                self._commit(part[:fitting], position(first + fitting))
            for place, row in enumerate(part[fitting:], first + fitting + 1):
                self._commit([row], position(place), may_be_full=True)
            first += len(part)
            if watch is not None:
                watch(first, len(rows))

    def _commit(
        self, rows: Sequence[SourceRow], position: SourcePosition, *, may_be_full: bool = False
    ) -> None:
        """Submit events to the board together with the position after them.

        `may_be_full` says that the board may already remember its maximum number of ids; `rows` is
        a single row then. If the board refuses this row but may accept it later, nothing is
        committed, not even the position, and an error is raised.
        """
        stored = None if self._key is None else (self._key, msgspec.json.encode(position).decode())
        with self._interrupts.deferred():
            receipts = self._submitted(rows, stored, may_be_full=may_be_full)
            self._position = position
            self.tally.applied += receipts.applied
            self.tally.unchanged += receipts.unchanged
            self.tally.duplicates += receipts.duplicates
            self.tally.late.update(receipts.late)
            if receipts.refused:
                self._reject(refused(rows, receipts))

    def _submitted(
        self, rows: Sequence[SourceRow], stored: tuple[str, str] | None, *, may_be_full: bool
    ) -> laurels.Receipts:
        events = [row.event for row in rows]
        if may_be_full:
            try:
                return self._lb.submit_many(
                    self._board, events, position=stored, all_or_nothing=True
                )
            except BatchRefused as refused:
                error = refused.receipts.error(0)
                if error is not None and error.retryable:
                    raise stopped(rows[0], error, resumed=stored is not None) from refused
        return self._lb.submit_many(self._board, events, position=stored)

    def _reject(self, rejects: Sequence[Reject]) -> None:
        tally = self.tally
        tally.reasons.update(reject.code for reject in rejects)
        tally.first_rejects += rejects[: MAX_EXAMPLES - len(tally.first_rejects)]
        self._rejects.write(rejects)
