"""Compare the sealed periods, the payouts and the hidden members of a board with its ledger.

Only the ledger is mended, never the store: sealed standings in a store do not change, the store
makes the payouts, and members are hidden by a verb. Data that only the ledger has are reported and
left there, since they may be the last copy.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import Change
from laurels.core.hiding import Hiding
from laurels.core.sealed_contents import (
    DigestOfPieces,
    SealedPiece,
    SealedRanking,
    SealedRevision,
    SealedRows,
)
from laurels.errors.ledger import FinalOvertaken
from laurels.model.board import Board
from laurels.sql import hidden_rows, payout_rows
from laurels.sql.dialects import Dialect, Row
from laurels.sql.final_reading import FinalReader
from laurels.sql.final_tables import FinalTables
from laurels.sql.final_writing import FinalWriter, PeriodWriter
from laurels.sql.payout_rows import payout_key

from .locked import LockedRows
from .payouts import payout_rows as rows_of_payouts
from .rounds import Sleep, changes_since, in_rounds

LISTED = 1_000
PAYOUTS = 2_000
PIECES = 10_000
VERSION = 1
"""The version in the rows that are built for the comparison, the same for both sides."""


class SeasonDifference(Struct, frozen=True):
    """A sealed period, a payout or a hidden member that differs: its `kind` and name, and a short
    text for each side, None if the side does not have it."""

    kind: str
    name: str
    ledger: str | None
    store: str | None


class SeasonReconciler:
    """Compares the sealed periods, payouts and hidden members of a board in a ledger with those in
    its store."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        dialect: Dialect,
        prefix: str,
        definition: Board,
        uid: str,
        rows: LockedRows,
    ) -> None:
        self._lb = lb
        self._board = definition
        self._rows = rows
        self._kinds = (
            _SealedPeriods(lb, dialect, prefix, definition, uid),
            _Payouts(lb, dialect, prefix, definition, uid),
            _Hidden(lb, dialect, prefix, definition, uid),
        )
        self.compared: dict[str, int] = {}
        self.differing: dict[tuple[str, str], SeasonDifference] = {}
        self.mended: set[tuple[str, str]] = set()

    async def run(self, mend: str | None, sleep: Sleep) -> list[str]:
        """Compare both sides, and mend the ledger if `mend` is "ledger". Return the names of the
        items that could not be checked."""
        undecided: list[str] = []
        for kind in self._kinds:
            store = await kind.of_store(None)
            await asyncio.to_thread(self._rows.open)
            ledger = await self._in_rows(kind.of_ledger)
            await asyncio.to_thread(self._rows.unlock)
            self.compared[kind.kind] = len(store)
            names = [each for each in ledger | store if ledger.get(each) != store.get(each)]

            async def check(group: Sequence[str], kind: "_Kind" = kind) -> list[str]:
                return await self._check(kind, group, mend)

            undecided += await in_rounds(names, check, sleep)
        return undecided

    async def _check(self, kind: "_Kind", names: Sequence[str], mend: str | None) -> list[str]:
        """Check items again, by their names, while the sink waits, and mend the differences. Return
        the names of items with changes that the sink has not written yet."""
        try:
            position = await asyncio.to_thread(self._rows.lock)
            ledger = await self._in_rows(kind.of_ledger)
            store = await kind.of_store(names)
            changes = await changes_since(self._lb, self._board.name, position)
            waiting = kind.changed(names, changes)
            differing: list[str] = []
            for name in names:
                key = kind.kind, name
                if key not in self.mended:
                    self.differing.pop(key, None)
                sides = ledger.get(name), store.get(name)
                if name in waiting or sides[0] == sides[1]:
                    continue
                differing.append(name)
                texts = [None if side is None else kind.text(side) for side in sides]
                self.differing[key] = SeasonDifference(kind.kind, name, texts[0], texts[1])
            wanted = [name for name in differing if mend == "ledger" and name in store]
            if wanted:
                await kind.mend(wanted, self._in_rows)
                self.mended.update([(kind.kind, name) for name in wanted])
        finally:
            await asyncio.to_thread(self._rows.unlock)
        return [name for name in names if name in waiting]

    async def _in_rows(self, work: Callable[[Any], Any]) -> Any:
        return await asyncio.to_thread(self._rows.run, work)


InRows = Callable[[Callable[[Any], Any]], Awaitable[Any]]


class _Kind(ABC):
    """One kind of compared items: how its items are read, compared and mended. Each item has a
    name."""

    kind = ""

    def __init__(
        self, lb: AsyncLeaderboards, dialect: Dialect, prefix: str, board: Board, uid: str
    ) -> None:
        self._lb = lb
        self._dialect = dialect
        self._tables = FinalTables(dialect, prefix)
        self._board = board
        self._uid = uid

    @abstractmethod
    async def of_store(self, names: Sequence[str] | None) -> Mapping[str, Any]:
        """Return the store's items with these names, or all of its items if `names` is None; by
        name."""

    @abstractmethod
    def of_ledger(self, connection: Any) -> Mapping[str, Any]:
        """Return all of the ledger's items, by name."""

    @abstractmethod
    def changed(self, names: Sequence[str], changes: Sequence[Change]) -> set[str]:
        """Return the names of items that the changes may concern."""

    @abstractmethod
    def text(self, side: Any) -> str:
        """Return a short text about an item of a side."""

    @abstractmethod
    async def mend(self, names: Sequence[str], run: InRows) -> None:
        """Write the store's items to the ledger."""

    def _select(self, connection: Any, statement: str, *row: Any) -> list[Row]:
        return list(self._dialect.execute(connection, statement, row).fetchall())


class _SealedPeriods(_Kind):
    """Revisions of sealed periods, compared by the digests of their entries. A name is `day
    2026-11-20 0`: the window, the period and the revision."""

    kind = "sealed"

    async def of_store(self, names: Sequence[str] | None) -> Mapping[str, str]:
        digests: dict[str, str] = {}
        offset = 0
        while True:
            page = await self._lb.archived(self._board.name, limit=LISTED, offset=offset)
            for info in page:
                digests[_name(info.window, info.period, info.revision)] = info.digest
                for revision in range(info.revision):
                    name = _name(info.window, info.period, revision)
                    if names is None or name in names:
                        digests[name] = await self._digest_of(info.window, info.period, revision)
            offset += len(page)
            if len(page) < LISTED:
                return digests

    async def _digest_of(self, window: str, period: str, revision: int) -> str:
        page = await self._lb.archive_pieces(
            self._board.name, window, period or None, revision=revision, limit=1
        )
        first = page.pieces[0]
        assert isinstance(first, SealedRevision), "a period begins with its revision"
        return first.seal.digest.hex()

    def of_ledger(self, connection: Any) -> Mapping[str, str]:
        reader = FinalReader(self._dialect, self._tables.prefix, connection)
        windows = self._board.rules().windows
        digests = {}
        for period in reader.periods(self._uid):
            revision = period.revision
            if (window := windows.get(revision.window)) is None:
                continue
            digest = DigestOfPieces()
            for piece in reader.pieces(period):
                digest.add(piece)
            label = window.period_of(revision.instance).label
            digests[_name(revision.window, label, revision.revision)] = digest.digest().hex()
        return digests

    def changed(self, names: Sequence[str], changes: Sequence[Change]) -> set[str]:
        if any(each.kind == "erase" for each in changes):
            return {*names}
        periods = {
            (each.data["window"], each.data["period"] or "")
            for each in changes
            if each.kind in ("seal", "disqualify")
        }
        return {name for name in names if _parts(name)[:2] in periods}

    def text(self, side: Any) -> str:
        return str(side)[:16]

    async def mend(self, names: Sequence[str], run: InRows) -> None:
        for name in names:
            window, period, revision = _parts(name)
            after: str | None = None
            writer: PeriodWriter | None = None
            while writer is None or after is not None:
                page = await self._lb.archive_pieces(
                    self._board.name,
                    window,
                    period or None,
                    revision=revision,
                    after=after,
                    limit=PIECES,
                )
                after, pieces = page.next, page.pieces
                if writer is None:
                    writer = await run(partial(self._begin, page.pieces[0]))
                rest = [each for each in pieces if not isinstance(each, SealedRevision)]
                await run(partial(_add, writer, rest))
            await run(partial(_complete, writer))

    def _begin(self, revision: SealedPiece, connection: Any) -> PeriodWriter:
        assert isinstance(revision, SealedRevision), "a period begins with its revision"
        if revision.uid != self._uid:
            raise FinalOvertaken("the board was created again")
        writer = FinalWriter(self._dialect, self._tables.prefix, connection)
        writer.lock()
        return writer.begin(
            revision, self._board.name, self._board.to_json(), self._board.rules(), None
        )


class _Payouts(_Kind):
    """Payouts, compared by their rows. A name is the id of a payout."""

    kind = "payout"

    async def of_store(self, names: Sequence[str] | None) -> Mapping[str, Row]:
        rows: dict[str, Row] = {}
        after: str | None = None
        while True:
            page = await self._lb.payouts(self._board.name, after=after, limit=PAYOUTS)
            own = [each for each in page if each.id.startswith(f"{self._uid}/")]
            stored = rows_of_payouts(own, {self._board.name: self._board}, VERSION)
            rows |= {each.id: row[1:] for each, row in zip(own, stored, strict=True)}
            if (after := page.next) is None:
                return rows

    def of_ledger(self, connection: Any) -> Mapping[str, Row]:
        rows = self._select(
            connection,
            f"SELECT {payout_rows.SELECTED} FROM {self._tables.name('payouts')} WHERE uid = %s",
            self._uid,
        )
        found = map(payout_rows.payout_of_row, rows)
        return {each.id: payout_rows.row_of_payout(each, VERSION)[1:] for each in found}

    def changed(self, names: Sequence[str], changes: Sequence[Change]) -> set[str]:
        if any(each.kind in ("seal", "disqualify", "erase") for each in changes):
            return {*names}
        confirmed = {each.data["payout"] for each in changes if each.kind == "confirm"}
        return confirmed & {*names}

    def text(self, side: Any) -> str:
        amount, superseded, reference = side[12], side[-4], side[-3]
        state = "superseded" if superseded is not None else "open"
        return f"{'-' if amount is None else amount} {reference or state}"

    async def mend(self, names: Sequence[str], run: InRows) -> None:
        store = await self.of_store(names)
        wanted: list[Row] = [(payout_key(name), *store[name]) for name in names]
        table = self._tables.name("payouts")

        def write(connection: Any) -> None:
            keys = [(row[0],) for row in wanted]
            self._dialect.delete(connection, table, ("payout",), keys)
            self._dialect.upsert(connection, table, self._tables.payouts, 1, wanted)

        await run(write)


class _Hidden(_Kind):
    """Hidden members, compared by the reason and the times. A name is a member."""

    kind = "hidden"

    async def of_store(self, names: Sequence[str] | None) -> Mapping[str, Hiding]:
        hidden: dict[str, Hiding] = {}
        after: str | None = None
        while page := await self._lb.hidden(self._board.name, after=after, limit=LISTED):
            hidden |= {
                each.member: Hiding(each.reason, each.since_ms, each.until_ms) for each in page
            }
            after = page[-1].member
        return hidden

    def of_ledger(self, connection: Any) -> Mapping[str, Hiding]:
        rows = self._select(
            connection,
            f"SELECT {hidden_rows.SELECTED} FROM {self._tables.name('hidden')} WHERE board = %s",
            self._board.name,
        )
        return dict(map(hidden_rows.hiding_of_row, rows))

    def changed(self, names: Sequence[str], changes: Sequence[Change]) -> set[str]:
        return {*names} & {each.member for each in changes if each.member is not None}

    def text(self, side: Any) -> str:
        return str(side.reason)

    async def mend(self, names: Sequence[str], run: InRows) -> None:
        store = await self.of_store(names)
        rows: list[Row] = [
            hidden_rows.row_of_hiding(self._board.name, name, store[name], VERSION)
            for name in names
        ]
        table = self._tables.name("hidden")

        def write(connection: Any) -> None:
            self._dialect.delete(connection, table, ("board", "member"), [row[:2] for row in rows])
            self._dialect.upsert(connection, table, self._tables.hidden, 2, rows)

        await run(write)


def _add(
    writer: PeriodWriter, pieces: Sequence[SealedRanking | SealedRows], connection: Any
) -> None:
    writer.on(connection).add(pieces)


def _complete(writer: PeriodWriter, connection: Any) -> None:
    writer.on(connection).complete()


def _name(window: str, period: str, revision: int) -> str:
    return f"{window} {period} {revision}"


def _parts(name: str) -> tuple[str, str, int]:
    window, period, revision = name.split(" ")
    return window, period, int(revision)
