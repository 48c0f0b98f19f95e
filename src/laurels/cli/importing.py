"""One source into one board, each line counted once however often the import is interrupted.

With every batch the board commits a `Position`: how much of the source the batches so far have
read, and the digest of it. An import that begins finds the position and passes over what it
covers, provided those bytes are the same. What was appended since is the rest, so an import
run again and again follows a growing file.

As written, a batch is the next lines of the source. In time order, the whole rest of the source
is read (one *section*), sorted by `at` and replayed; the position then says how many events of
the section in that order are done.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import msgspec
from msgspec import Struct

import laurels

from .failures import SourceChanged, Usage
from .interrupts import Interrupts
from .lines import Lines
from .reading import Reject, Row, in_time_order
from .rejects import RejectsFile

SHOWN_REJECTS = 5
"""Rejects kept for showing; the rejects file has all."""


class Section(Struct, frozen=True):
    """A part of a source being replayed in time order: where it begins, `applied` of `size`."""

    line: int
    offset: int
    applied: int
    size: int


class Position(Struct, frozen=True, omit_defaults=True):
    """What of a source is counted: all before `offset`, or of the last section only a part."""

    line: int
    offset: int
    digest: str
    section: Section | None = None


class Tally(Struct):
    """What became of the lines of one source in this run.

    `late` counts by window the events that came too late for it, whatever other windows did.
    """

    resumed_after: int = 0
    lines: int = 0
    applied: int = 0
    unchanged: int = 0
    duplicates: int = 0
    late: Counter[str] = msgspec.field(default_factory=Counter)
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    first_rejects: list[Reject] = msgspec.field(default_factory=list)

    @property
    def rejected(self) -> int:
        return self.reasons.total()


class Watcher(Protocol):
    """Is told how far an import is."""

    def read(self, lines: int) -> None: ...

    def replayed(self, events: int, of: int) -> None: ...


class SourceImport:
    """Imports one source. `key` names its position; without one a run counts from the start."""

    def __init__(
        self,
        lb: laurels.Leaderboards,
        board: str,
        lines: Lines,
        rows: Iterable[Row | Reject],
        *,
        key: str | None,
        rejects: RejectsFile,
        batch: int,
        interrupts: Interrupts,
        watcher: Watcher,
    ) -> None:
        self.tally = Tally()
        self._lb = lb
        self._board = board
        self._lines = lines
        self._rows = rows
        self._key = key
        self._rejects = rejects
        self._batch = batch
        self._interrupts = interrupts
        self._watcher = watcher
        self._position = self._stored()

    def run_as_written(self) -> None:
        """Counts the lines in the order of the source, batch by batch."""
        if self._position is not None and self._position.section is not None:
            raise Usage("the source is half imported in time order: go on with --clock event")
        self._begin()
        rows = iter(self._rows)
        while found := list(islice(rows, self._batch)):
            self.tally.lines += len(found)
            good, rejects = _sifted(found)
            self._reject(rejects)
            # A source of which nothing was counted yet may be tried again with other options.
            if good or self._position is not None:
                self._commit(good, self._here())
            self._watcher.read(self.tally.lines)

    def run_in_time_order(self) -> None:
        """Counts what is left of the source by `at`, equal times in the order of the source."""
        if (position := self._position) is not None and position.section is not None:
            self._finish(position, position.section)
        else:
            self._begin()
        line, offset = self._lines.line, self._lines.offset
        timed, rejects = self._read_section()
        self._reject(rejects)
        self._replay(timed, self._here(), Section(line, offset, 0, len(timed)))

    def _stored(self) -> Position | None:
        text = self._lb.position(self._board, self._key) if self._key is not None else None
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=Position)
        except msgspec.MsgspecError as error:
            raise Usage(
                f"{self._key!r} marks the position of something else: give another --source"
            ) from error

    def _begin(self) -> None:
        """Passes over what is counted already."""
        if (position := self._position) is None:
            self._rejects.keep_to(0)
            return
        self._lines.skip_to(position.offset, position.line)
        self._verify(position)
        self.tally.resumed_after = position.line
        self._rejects.keep_to(position.line)

    def _finish(self, position: Position, section: Section) -> None:
        """Replays what an interruption left of a section; its rejects were written then."""
        self._lines.skip_to(section.offset, section.line)
        self._lines.end = position.offset
        timed, _ = self._read_section()
        self._lines.end = None
        self._verify(position)
        self.tally = Tally(resumed_after=section.line, lines=section.size - section.applied)
        self._rejects.keep_to(position.line)
        self._replay(timed, msgspec.structs.replace(position, section=None), section)

    def _verify(self, position: Position) -> None:
        if self._lines.offset != position.offset or self._lines.digest() != position.digest:
            raise SourceChanged(f"its first {position.line:,} lines are not those imported before")

    def _here(self) -> Position:
        return Position(self._lines.line, self._lines.offset, self._lines.digest())

    def _read_section(self) -> tuple[list[Row], list[Reject]]:
        """All rows from here on in time order, and the rejects."""
        rows, rejects = _sifted(self._watched())
        timed, untimed = in_time_order(rows)
        return timed, sorted([*rejects, *untimed])

    def _watched(self) -> Iterator[Row | Reject]:
        for row in self._rows:
            self.tally.lines += 1
            if not self.tally.lines % self._batch:
                self._watcher.read(self.tally.lines)
            yield row

    def _replay(self, timed: Sequence[Row], end: Position, section: Section) -> None:
        for done in range(section.applied, len(timed), self._batch):
            rows = timed[done : done + self._batch]
            applied = done + len(rows)
            if applied == len(timed):
                self._commit(rows, end)
            else:
                begun = msgspec.structs.replace(section, applied=applied)
                self._commit(rows, msgspec.structs.replace(end, section=begun))
            self._watcher.replayed(applied, len(timed))

    def _commit(self, rows: Sequence[Row], position: Position) -> None:
        """Hands events to the board, and with them how far the source is read."""
        mark = None if self._key is None else (self._key, msgspec.json.encode(position).decode())
        with self._interrupts.held():
            receipts = self._lb.submit_many(self._board, [row.event for row in rows], position=mark)
            self._position = position
            self.tally.applied += receipts.applied
            self.tally.unchanged += receipts.unchanged
            self.tally.duplicates += receipts.duplicates
            self.tally.late.update(receipts.late)
            if receipts.refused:
                self._reject(_refused(rows, receipts))

    def _reject(self, rejects: Sequence[Reject]) -> None:
        tally = self.tally
        tally.reasons.update(reject.code for reject in rejects)
        tally.first_rejects += rejects[: SHOWN_REJECTS - len(tally.first_rejects)]
        self._rejects.write(rejects)


def _sifted(found: Iterable[Row | Reject]) -> tuple[list[Row], list[Reject]]:
    rows: list[Row] = []
    rejects: list[Reject] = []
    for row in found:
        if isinstance(row, Row):
            rows.append(row)
        else:
            rejects.append(row)
    return rows, rejects


def _refused(rows: Sequence[Row], receipts: laurels.Receipts) -> list[Reject]:
    """The rows the board refused, with its reasons."""
    return [
        Reject(row.line, receipt.reason or "", receipt.message or "", row.raw)
        for row, receipt in zip(rows, receipts, strict=True)
        if receipt.status == "refused"
    ]
