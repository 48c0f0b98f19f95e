"""Sealed periods and payouts of a board, fetched from its store for a ledger.

When a change says that a period was sealed or corrected, the standings are read from the archive of
the store, page by page, and each page is written to the ledger in a transaction. The period stays
invisible until a later transaction writes the change, moves the position, and makes the period
visible. So readers of the ledger see the whole period or nothing of it, however large it is.
Payouts are written as they are in the store.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.archived import SealedInfo
from laurels.core.changes.answers import Change
from laurels.core.sealed_contents import SealedRevision
from laurels.errors import (
    NotSealed,
    PeriodExpired,
    UnknownBoard,
    UnknownPeriod,
    UnknownRevision,
    UnknownWindow,
)
from laurels.model.board import Board
from laurels.model.rules import Rules
from laurels.sql.dialects import Dialect, Row
from laurels.sql.final_reading import FinalReader
from laurels.sql.final_tables import FinalTables
from laurels.sql.final_writing import FinalWriter, PeriodWriter
from laurels.timeline.instants import MIN_MS

from .payouts import payout_rows

T = TypeVar("T")
InTransaction = Callable[[Callable[[Any], T]], Awaitable[T]]
"""Calls a function with the connection, in a transaction of its own."""
PAYOUTS = 2_000
PIECES = 10_000
LISTED = 1_000
GONE = (NotSealed, PeriodExpired, UnknownBoard, UnknownPeriod, UnknownRevision, UnknownWindow)
"""The errors of a period that has left the archive, or of a board that was deleted meanwhile."""


class PeriodName(Struct, frozen=True):
    """A revision of a period: its window, its label and the number of the revision."""

    window: str
    period: str
    revision: int


class Staged(Struct):
    """The data that was fetched for a page of changes: periods that are not visible yet, and the
    windows and instances of periods that the archive no longer has."""

    uid: str
    periods: list[PeriodWriter] = []
    gone: list[tuple[str, int]] = []
    closed: list[tuple[str, str]] = []
    """The periods, by window and label, that were closed before the sink started over."""


class SeasonsOfBoard:
    """Fetches the sealed periods and payouts that the changes of one board announce."""

    def __init__(
        self,
        boards: AsyncLeaderboards,
        dialect: Dialect,
        prefix: str,
        board: Board,
        now_ms: Callable[[], int],
    ) -> None:
        self._boards = boards
        self._dialect = dialect
        self._prefix = prefix
        self._board = board
        self._now_ms = now_ms
        self._rules: Rules = board.rules()

    async def stage(self, changes: Sequence[Change], run: "InTransaction[Any]") -> Staged | None:
        """Fetch the sealed periods and payouts that a page of changes announces, and all of the
        board if the page ends the initial load. Return None if there is nothing to fetch."""
        recorded = [each for each in changes if each.kind in ("seal", "disqualify", "initial_end")]
        if not recorded or not (self._rules.closing or any(map(_is_sealed, recorded))):
            return None
        staged = Staged(recorded[-1].id.partition("/")[0])
        if any(each.kind == "initial_end" for each in recorded):
            await self._stage_all(staged, run)
            staged.closed = await self._closed(recorded[-1].at_ms)
            recorded = [each for each in recorded if each.kind != "initial_end"]
        for name in dict.fromkeys(map(_name_of, recorded)):
            await self._stage_period(staged, name, run)
            await self._write_payouts(staged.uid, run, name.window, name.period)
        return staged

    async def unsealed(self, window: str) -> list[str]:
        """Return the labels of the periods of a window that are not sealed yet."""
        try:
            periods = await self._boards.periods(self._board.name, window=window)
        except (UnknownBoard, UnknownWindow):
            return []
        return [each.label for each in periods if each.state != "sealed"]

    async def _closed(self, before_ms: int) -> list[tuple[str, str]]:
        """Return the periods that were closed before an instant and may have entries."""
        closed = []
        for name in self._rules.closing:
            window = self._rules.windows[name]
            try:
                periods = await self._boards.periods(self._board.name, window=name)
            except (UnknownBoard, UnknownWindow):
                continue
            for each in periods:
                if each.state in ("closed", "sealed"):
                    period = window.period(each.label) if each.label else window.period_at(0)
                    if window.closes_after(period) < before_ms:
                        closed.append((name, each.label))
        return closed

    async def _stage_all(self, staged: Staged, run: "InTransaction[Any]") -> None:
        """Fetch all sealed periods that the ledger lacks, and all payouts."""
        listed = await self._listed()
        oldest: dict[str, int] = {}
        for info in listed:
            window = self._rules.windows[info.window]
            period = window.period(info.period) if info.period else window.period_at(0)
            instance = window.instance_of(period)
            oldest[info.window] = min(instance, oldest.get(info.window, instance))
            for revision in range(info.revision + 1):
                name = PeriodName(info.window, info.period, revision)
                await self._stage_period(staged, name, run)
        stored = await run(lambda connection: self._reader(connection).periods(staged.uid))
        places = {(each.revision.window, each.revision.instance) for each in stored}
        # The oldest periods leave an archive first, so periods before the oldest listed one have
        # left it. A later period that is not listed was sealed after the listing, by a board whose
        # archive is in this database, too.
        staged.gone = sorted([each for each in places if each[1] < oldest.get(each[0], MIN_MS)])
        await self._write_payouts(staged.uid, run)

    async def _listed(self) -> list[SealedInfo]:
        listed: list[SealedInfo] = []
        while True:
            try:
                page = await self._boards.archived(
                    self._board.name, limit=LISTED, offset=len(listed)
                )
            except UnknownBoard:
                return []
            listed += page
            if len(page) < LISTED:
                return listed

    async def _stage_period(
        self, staged: Staged, name: PeriodName, run: "InTransaction[Any]"
    ) -> None:
        """Write a revision of a period to the ledger, invisible for now. Do nothing if the ledger
        has it already."""
        after, writer = None, None
        while writer is None or after is not None:
            try:
                page = await self._boards.archive_pieces(
                    self._board.name,
                    name.window,
                    name.period or None,
                    revision=name.revision,
                    after=after,
                    limit=PIECES,
                )
            except GONE:
                return
            after, pieces = page.next, page.pieces
            if writer is None:
                revision = pieces.pop(0)
                assert isinstance(revision, SealedRevision), "a period begins with its revision"
                if revision.uid != staged.uid:
                    return  # the board was created again, and this period is in the new one
                writer = await run(partial(self._begin, revision))
                if writer is None:
                    return
            await run(partial(_add, writer, pieces))
        staged.periods.append(writer)

    def _begin(self, revision: SealedRevision, connection: Any) -> PeriodWriter | None:
        """Begin to write a period; None if the ledger has it already."""
        key = (revision.uid, revision.window, revision.instance, revision.revision)
        stored = self._reader(connection).period(*key)
        if stored is not None and stored.revision.seal.digest == revision.seal.digest:
            return None
        writer = FinalWriter(self._dialect, self._prefix, connection)
        closed_ms = self._closed_ms(connection, revision)
        return writer.begin(
            revision, self._board.name, self._board.to_json(), self._rules, closed_ms
        )

    def _closed_ms(self, connection: Any, revision: SealedRevision) -> int | None:
        """Return when a period was closed; None if the ledger does not know it."""
        label = self._rules.windows[revision.window].period_of(revision.instance).label
        row = self._dialect.execute(
            connection,
            f"SELECT closed_at FROM {self._prefix}closed_periods "
            "WHERE board = %s AND window_name = %s AND period = %s",
            (self._board.name, revision.window, label),
        ).fetchone()
        return None if row is None else row[0]

    def _reader(self, connection: Any) -> FinalReader:
        return FinalReader(self._dialect, self._prefix, connection)

    async def _write_payouts(
        self,
        uid: str,
        run: "InTransaction[Any]",
        window: str | None = None,
        period: str | None = None,
    ) -> None:
        """Write the payouts of a period, or of all periods, as they are in the store."""
        after: str | None = None
        while True:
            try:
                page = await self._boards.payouts(
                    self._board.name, window=window, period=period, after=after, limit=PAYOUTS
                )
            except (UnknownBoard, UnknownWindow):
                return
            own = [payout for payout in page if payout.id.startswith(f"{uid}/")]
            rows = payout_rows(own, {self._board.name: self._board}, self._now_ms())
            if rows:
                await run(partial(self._upsert_payouts, rows))
            if (after := page.next) is None:
                return

    def _upsert_payouts(self, rows: list[Row], connection: Any) -> None:
        tables = FinalTables(self._dialect, self._prefix)
        name = tables.name("payouts")
        self._dialect.upsert(connection, name, tables.payouts, 1, rows)


def complete(staged: Staged, dialect: Dialect, prefix: str, connection: Any, rules: Rules) -> None:
    """Make staged periods visible, and remove those that the archive no longer has, in a
    transaction of the caller."""
    for period in staged.periods:
        period.on(connection).complete()
    writer = FinalWriter(dialect, prefix, connection)
    gone = [*staged.gone, *_trimmed(staged.uid, dialect, prefix, connection, rules)]
    for window, instance in gone:
        writer.remove(staged.uid, window, instance)


def _trimmed(
    uid: str, dialect: Dialect, prefix: str, connection: Any, rules: Rules
) -> Iterator[tuple[str, int]]:
    """Yield the periods that are older than those that their windows keep in the archive."""
    for window, closing in rules.closing.items():
        if not closing.archive:
            continue
        rows = dialect.execute(
            connection,
            f"SELECT DISTINCT instance FROM {prefix}final_periods WHERE uid = %s "
            "AND window_name = %s AND is_complete = 1 ORDER BY instance DESC",
            (uid, window),
        ).fetchall()
        yield from [(window, int(instance)) for (instance,) in rows[closing.archive :]]


def _is_sealed(change: Change) -> bool:
    return change.kind != "initial_end"


def _name_of(change: Change) -> PeriodName:
    data = change.data
    return PeriodName(data["window"], data["period"] or "", data["revision"])


def _add(writer: PeriodWriter, pieces: Sequence[Any], connection: Any) -> None:
    own = writer.on(connection)
    own.hold()
    own.add(pieces)
