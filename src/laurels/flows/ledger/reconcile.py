"""Compare a ledger with the store whose changes it contains, and mend one with the other.

Entries that seem to differ are read again on both sides before anything is reported or written:
first the rows of the ledger, while the sink waits at its position, then the entries of the store,
then the changes of the store after that position. A member with such changes is checked again in
the next round, since the sink has yet to write it. A difference that remains is real. An entry of
the store is mended only if it has not changed since it was read; the ledger is mended while its
sink waits. The data of members and the positions of sources are compared in the same way.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.cursor import decode_cursor
from laurels.core.mending import StoredEntry
from laurels.sql.dialects import Dialect

from .comparing import Key, LedgerComparer
from .locked import LockedRows
from .member_data import DataDifference, DataReconciler
from .rounds import Sleep, in_rounds
from .season_differences import SeasonDifference, SeasonReconciler
from .sides import BoardSides
from .source_positions import PositionDifference, PositionReconciler

Side = Literal["ledger", "store"]
LISTED = 20
"""The maximum number of differences of each kind that are listed."""


class EntryDifference(Struct, frozen=True):
    """An entry that differs; `ledger` or `store` is None if that side does not have it."""

    member: str
    window: str
    period: str | None
    scope: str
    ledger: StoredEntry | None
    store: StoredEntry | None


class ReconcileResult(Struct, frozen=True):
    """The result for one board. `entries` is the number of entries in the store, `data` the number
    of members with data in the ledger. `differing`, `mended` and `waiting` count entries, data and
    positions of sources together: those that differed, those that were mended, and those that could
    not be checked because the sink has not yet written their latest changes. These three numbers
    also include sealed periods, payouts and hidden members. `sealed` is the number of sealed
    periods in the store, with each revision counted, and `payouts` the number of payouts there.
    `differences`, `data_differences`, `position_differences` and `season_differences` list the
    first differences of each kind."""

    board: str
    entries: int
    data: int = 0
    differing: int = 0
    mended: int = 0
    waiting: int = 0
    differences: tuple[EntryDifference, ...] = ()
    data_differences: tuple[DataDifference, ...] = ()
    position_differences: tuple[PositionDifference, ...] = ()
    sealed: int = 0
    payouts: int = 0
    season_differences: tuple[SeasonDifference, ...] = ()

    @property
    def remaining(self) -> int:
        """The number of differences that were not mended."""
        return self.differing - self.mended


class BoardReconciler:
    """Compares a board with its ledger, and mends the side that `mend` names; without `mend`
    neither side is changed."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        dialect: Dialect,
        prefix: str,
        mend: Side | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._lb = lb
        self._dialect = dialect
        self._prefix = prefix
        self._mend = mend
        self._sleep = sleep

    async def run(self, name: str) -> ReconcileResult:
        """Compare a board. Raises NoLedger, LedgerIncomplete, SinkBehind, ChangesNotKept."""
        definition = await self._lb.get(name)
        comparison = await LedgerComparer(self._lb, self._dialect, self._prefix, name).run()
        rows = LockedRows(self._dialect, self._prefix, name, definition.rules())
        sides = BoardSides(self._lb, self._dialect, definition, comparison.labels, rows)
        entries = _Entries(sides, self._mend)
        data = DataReconciler(self._lb, self._dialect, self._prefix, definition, rows)
        positions = PositionReconciler(self._lb, name, rows)
        uid = decode_cursor((await self._lb.changes(name, after="now", limit=1)).cursor).uid
        seasons = SeasonReconciler(self._lb, self._dialect, self._prefix, definition, uid, rows)
        try:
            undecided = await in_rounds(comparison.differing, entries.check, self._sleep)
            undecided_data = await data.run(self._mend, self._sleep)
            undecided_positions = await positions.run(self._mend, self._sleep)
            undecided_seasons = await seasons.run(self._mend, self._sleep)
        finally:
            await asyncio.to_thread(rows.close)
        return ReconcileResult(
            name,
            comparison.entries,
            data.compared,
            sum(len(each.differing) for each in (entries, data, positions, seasons)),
            sum(len(each.mended) for each in (entries, data, positions, seasons)),
            len([key for key in undecided if key not in entries.differing])
            + len([member for member in undecided_data if member not in data.differing])
            + len(undecided_positions)
            + len(undecided_seasons),
            tuple(entries.differing.values())[:LISTED],
            tuple(data.differing.values())[:LISTED],
            tuple(positions.differing.values())[:LISTED],
            seasons.compared["sealed"],
            seasons.compared["payout"],
            tuple(seasons.differing.values())[:LISTED],
        )


class _Entries:
    """The entries that differ, and those that were mended."""

    def __init__(self, board: BoardSides, mend: Side | None) -> None:
        self._board = board
        self._mend = mend
        self.differing: dict[Key, EntryDifference] = {}
        self.mended: set[Key] = set()

    async def check(self, keys: Sequence[Key]) -> list[Key]:
        """Check entries again, and mend the differences; return the entries that have to be checked
        once more."""
        board = self._board
        try:
            read = await board.read(keys)
            differing = [key for key in read.settled if board.differs(read, key)]
            for key in read.settled:
                if key not in differing and key not in self.mended:
                    self.differing.pop(key, None)
            for key in differing:
                member, (window, period, scope) = key
                self.differing[key] = EntryDifference(
                    *(member, window, period or None, scope),
                    read.ledger.get(key),
                    read.store.get(key),
                )
            if self._mend == "ledger" and differing:
                await board.mend_ledger(read, differing)
                self.mended.update(differing)
        finally:
            await board.unlock()
        if self._mend != "store" or not differing:
            return read.waiting
        mended = await board.mend_store(read, differing)
        self.mended.update(mended)
        return [*read.waiting, *[key for key in differing if key not in mended]]


def describe(result: ReconcileResult) -> str:
    """Return a sentence about the result."""
    compared = f"{result.entries:,} entries"
    if result.data:
        compared += f", the data of {result.data:,} members"
    if result.sealed:
        compared += f", {result.sealed:,} sealed periods"
    if result.payouts:
        compared += f", {result.payouts:,} payouts"
    parts = [f"{result.board}: {compared}, {result.differing:,} differ"]
    if result.differing:
        parts.append(f"{result.mended:,} mended")
    if result.waiting:
        parts.append(f"{result.waiting:,} could not be checked: the sink has not written them yet")
    return "; ".join(parts)
