"""Imports a sorted set into a board: sets the total of each member to its score in the set.

The set is scanned in batches. Each batch is committed together with the cursor after it, so an
interrupted import continues there. If the Redis server was restarted in between, the cursor is
invalid, and the import begins again. No member is counted twice, since totals are set and not
added.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

import laurels
from laurels.cli.errors import Usage
from laurels.cli.importing.reading import Reject
from laurels.cli.importing.rejects import RejectsFile
from laurels.cli.interrupts import Interrupts
from laurels.errors.sources import SourceUnavailable

from .sorted_set_rows import Ranked, member_data, ranked, same_data
from .source import BEGINNING, RedisSource
from .totals import AT_ONCE, MemberState, Refused, SetTotalsResult, Totals

MAX_EXAMPLES = 5
_SCAN = 1_000

T = TypeVar("T")


class ScanPosition(Struct, frozen=True):
    """The position in a sorted set: the id of the server process, the cursor of the scan, and the
    number of members read."""

    process: str
    cursor: int
    read: int


class TakeoverResult(Struct):
    """The counts of the members of a sorted set in this run.

    `unchanged` members already had their score. `disturbed` members had another score directly
    after they were set, since another client is writing to the board. `data` is the number of
    members whose data was set, `data_left` the number of members whose data the board refuses.
    """

    resumed_after: int = 0
    read: int = 0
    applied: int = 0
    unchanged: int = 0
    disturbed: int = 0
    data: int = 0
    data_left: int = 0
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    first_rejects: list[Reject] = msgspec.field(default_factory=list)

    @property
    def rejected(self) -> int:
        """The number of members that were not imported."""
        return self.reasons.total() - self.data_left


class TakeoverWatcher(Protocol):
    """Receives the progress of a scan, as a number of members."""

    def __call__(self, done: int) -> None: ...


class Takeover:
    """Imports a sorted set. Its position is stored under `key`."""

    def __init__(
        self,
        lb: laurels.Leaderboards,
        board: str,
        source: RedisSource,
        totals: Totals,
        *,
        key: str,
        rejects: RejectsFile,
        batch: int,
        interrupts: Interrupts,
        watch: TakeoverWatcher,
    ) -> None:
        self.tally = TakeoverResult()
        self._lb = lb
        self._board = board
        self._source = source
        self._totals = totals
        self._key = key
        self._rejects = rejects
        self._batch = batch
        self._interrupts = interrupts
        self._watch = watch

    def run(self) -> None:
        """Read the rest of the set, and set every member's total."""
        start = self._begin()
        self.tally.resumed_after = start.read
        self._rejects.keep_to(start.read)
        line = start.read
        for entries, cursor in scanned(self._source, start, self._batch):
            position = ScanPosition(start.process, cursor, line + len(entries))
            if cursor == BEGINNING:
                position = ScanPosition(start.process, BEGINNING, 0)
            parts = list(_parts(entries, AT_ONCE)) or [[]]
            for place, part in enumerate(parts, 1):
                self._take(line, part, position if place == len(parts) else None)
                line += len(part)
                self._watch(line)

    def _begin(self) -> ScanPosition:
        """Return the position to resume from: the stored one if its cursor is still valid,
        otherwise the beginning."""
        process = self._source.process()
        text = self._lb.position(self._board, self._key)
        if text is not None:
            try:
                stored = msgspec.json.decode(text, type=ScanPosition)
            except msgspec.MsgspecError as error:
                raise Usage(
                    f"expected the position of a sorted set under {self._key!r}, got another kind "
                    "of source: choose another name with --source"
                ) from error
            if stored.process == process:
                return stored
        return ScanPosition(process, BEGINNING, 0)

    def _take(
        self, line: int, entries: Sequence[tuple[bytes, float]], position: ScanPosition | None
    ) -> None:
        rows_or_rejects = [
            ranked(number, member, score, self._totals)
            for number, (member, score) in enumerate(entries, line + 1)
        ]
        accepted = {row.member: row for row in rows_or_rejects if isinstance(row, Ranked)}
        rejects = [row for row in rows_or_rejects if isinstance(row, Reject)]
        states = self._totals.read(list(accepted))
        data, data_rejects = missing_data(self._source, list(accepted.values()), states)
        stored = None if position is None else (self._key, msgspec.json.encode(position).decode())
        with self._interrupts.deferred():
            self._reject(sorted([*rejects, *data_rejects]))
            self._totals.set_data(data)
            done = self._totals.set(
                {row.member: row.units for row in accepted.values()}, states, stored
            )
            self._count(len(entries), len(accepted), done)
            self.tally.data += len(data)
            self.tally.data_left += len(data_rejects)
            self._reject([_refused(accepted[each.member], each) for each in done.refused])

    def _count(self, read: int, accepted: int, done: SetTotalsResult) -> None:
        tally = self.tally
        tally.read += read
        tally.applied += done.applied
        tally.unchanged += accepted - done.applied - len(done.refused)
        tally.disturbed += done.disturbed

    def _reject(self, rejects: Sequence[Reject]) -> None:
        tally = self.tally
        tally.reasons.update(reject.code for reject in rejects)
        tally.first_rejects += rejects[: MAX_EXAMPLES - len(tally.first_rejects)]
        self._rejects.write(rejects)


def scanned(
    source: RedisSource, start: ScanPosition, batch: int
) -> Iterator[tuple[list[tuple[bytes, float]], int]]:
    """Yield the rest of a set in batches of about `batch` members, each with the cursor after it.

    Raises SourceUnavailable at the end if the server was restarted meanwhile, since members may
    have been skipped.
    """
    cursor, entries = start.cursor, list[tuple[bytes, float]]()
    while True:
        scan = source.scan(cursor, min(_SCAN, batch))
        entries += scan.entries
        cursor = scan.cursor
        ends = cursor == BEGINNING
        if ends and source.process() != start.process:
            raise SourceUnavailable("the server was restarted while the set was read")
        if ends or len(entries) >= batch:
            yield entries, cursor
            entries = []
        if ends:
            return


def missing_data(
    source: RedisSource, rows: Sequence[Ranked], states: dict[str, MemberState]
) -> tuple[dict[str, Any], list[Reject]]:
    """Return the data that the board does not have yet, by member, and rejects for data that it
    does not accept."""
    texts = source.data([row.member for row in rows])
    missing: dict[str, Any] = {}
    data_rejects: list[Reject] = []
    for row, text in zip(rows, texts, strict=True):
        if text is None:
            continue
        data = member_data(row.line, row.member, text)
        if isinstance(data, Reject):
            data_rejects.append(data)
        elif data is not None and not _has_data(states.get(row.member), data):
            missing[row.member] = data
    return missing, data_rejects


def _refused(row: Ranked, refused: Refused) -> Reject:
    return Reject(row.line, refused.code, refused.message, row.raw)


def _has_data(state: MemberState | None, data: Any) -> bool:
    return state is not None and same_data(state.data, data)


def _parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
