"""Calls about all boards of several stores, and the merging of their results."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from laurels.core.changes.answers import ChangedBoards, DeletedBoard
from laurels.core.clock_status import ClockStatus
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import NOTHING_COUNTED, HotReport
from laurels.core.removed_boards import RestorableBoard
from laurels.core.stats import CheckReport, Sealed, Stats, StoreFigures
from laurels.errors import InvalidClock, LaurelsError, NothingToBackUp, Unavailable
from laurels.model.board import Board
from laurels.wire.audit_entry import AuditStore
from laurels.wire.audit_page import AuditPage

from .cursor import decode_cursors, encode_cursors
from .deleted import deleted_boards
from .due_payouts import RoutedDuePayouts
from .merging import merged_figures, merged_reports, merged_stats
from .placed import PlacedStore, described
from .placed_stores import PlacedStores
from .placement import DEFAULT, Placement


class AllBoards(PlacedStores):
    """Several stores as one, for calls about all boards."""

    def __init__(self, stores: Sequence[PlacedStore], placement: Placement) -> None:
        super().__init__(stores, placement)
        default = stores[DEFAULT].opened
        assert default is not None
        self._audit_log = default.store.audit_log

    def definitions(self) -> list[Board]:
        """Return the definitions of all boards, in the order of their names. For a store that does
        not answer, they are the definitions that were last read from it."""
        self._ensure_open()
        boards = {
            board.name: board
            for number, store in enumerate(self._stores)
            for board in store.definitions()
            if self._placement.number_of(board.name) == number
        }
        return [boards[name] for name in sorted(boards)]

    def changed_boards(self, after: str | None) -> ChangedBoards:
        """Return the boards that have changes after a cursor. The cursor contains one cursor for
        each store. If a store does not answer, its cursor stays the same, and its boards are left
        out."""
        self._ensure_open()
        count = len(self._stores)
        cursors = decode_cursors(after, count)
        names: list[str] | None = []
        for number, store in enumerate(self._stores):
            try:
                changed = store.store.changed_boards(cursors[number])
            except Unavailable:
                continue
            cursors[number] = changed.cursor
            if names is None or changed.boards is None:
                names = None
            else:
                served = self._placement.number_of
                names += [name for name in changed.boards if served(name) == number]
        return ChangedBoards(names, encode_cursors(cursors))

    @property
    def due_payouts(self) -> RoutedDuePayouts:
        """The due payouts of all stores."""
        self._ensure_open()
        return RoutedDuePayouts(self._stores)

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        """Return the deleted boards of all stores that answer, in the order of their deletion."""
        self._ensure_open()
        return deleted_boards(self._stores, self._store_of, source)

    def restorable_boards(self) -> list[RestorableBoard]:
        """Return the removed boards that can be restored, of all stores, in the order of their
        removal. A board can only be restored under a name that points to its store. Raises
        IndexUnavailable if a store does not answer."""
        removed = [each for store in self._all() for each in store.restorable_boards()]
        return sorted(removed, key=lambda each: each.removed_ms)

    def stats(self) -> Stats:
        """Return the statistics of all boards. Raises IndexUnavailable if a store does not
        answer."""
        return merged_stats([store.stats() for store in self._all()])

    def check(self) -> CheckReport:
        """Check every store, one after the other."""
        return merged_reports([store.check() for store in self._all()])

    def rebuild(self) -> None:
        """Rebuild the rankings of every store, one after the other."""
        for store in self._all():
            store.rebuild()

    def snapshot(self) -> int:
        """Take a snapshot of every store that has files. Return the offset of the first of these
        snapshots. Raises NothingToBackUp if no store has files."""
        offsets, refused = list[int](), NothingToBackUp("no store has files")
        for store in self._all():
            try:
                offsets.append(store.snapshot())
            except NothingToBackUp as error:
                refused = error
        if not offsets:
            raise refused
        return offsets[0]

    def seal(self) -> Sealed:
        """Close and seal the due periods of every store, one after the other."""
        done = [store.seal() for store in self._all()]
        return Sealed(sum([each.closed for each in done]), sum([each.sealed for each in done]))

    def clock_status(self) -> ClockStatus:
        """Return the clock status of the first store whose clock has a problem or, if no clock has
        one, of the default store."""
        statuses = [
            each.opened.store.clock_status() for each in self._stores if each.opened is not None
        ]
        return next((status for status in statuses if status.problem), statuses[DEFAULT])

    def accept_clock(self) -> ClockStatus:
        """Make every store accept its current clock."""
        self._default.accept_clock()
        for store in self._all()[1:]:
            with suppress(InvalidClock):  # raised if the store has no clock guard
                store.accept_clock()
        return self.clock_status()

    def hidden_everywhere(self, after: str | None, limit: int) -> list[HiddenMember]:
        """Return the members that are hidden on all boards of the default store."""
        return self._default.hidden_everywhere(after, limit)

    def hot(self) -> HotReport:
        """Return an empty report: the service counts the queries, not its stores."""
        self._ensure_open()
        return NOTHING_COUNTED

    @property
    def audit_log(self) -> AuditStore:
        """The audit log, which is in the default store."""
        return self._audit_log

    def audit(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        """Return a page of the audit log, which is in the default store."""
        return self._default.audit(board, before, limit)

    @property
    def is_exact(self) -> bool:
        """Whether the change tokens of all stores are exact."""
        return not any(each.is_watched for each in self._stores) and all(
            store.is_exact for store in self._all()
        )

    @property
    def risks(self) -> Sequence[str]:
        """Sentences about how counted events may be lost, each with the name of the store
        concerned."""
        return [
            f"{each.name}: {risk}"
            for each in self._stores
            if each.opened is not None
            for risk in each.opened.store.risks
        ]

    @property
    def outages(self) -> Sequence[str]:
        """Sentences about the stores that do not answer or take no writes."""
        return described(self._stores)

    async def ensure_healthy(self) -> None:
        """Raise an error if the default store cannot be used. Problems of other stores are among
        the outages."""
        await self._default.ensure_healthy()
        for each in self._stores[DEFAULT + 1 :]:
            if not each.is_watched:
                try:
                    await each.store.ensure_healthy()
                except LaurelsError as error:
                    each.problem = error
                else:
                    each.problem = None

    async def figures(self, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        """Return the figures of all boards, or of the boards that `is_visible` accepts. Boards of a
        store that does not answer are left out."""
        self._ensure_open()
        figures = await asyncio.gather(
            *[self._figures(number, is_visible) for number in range(len(self._stores))]
        )
        answering = [(each.name, each.failure is None) for each in self._stores]
        return merged_figures(figures, answering)

    async def _figures(self, number: int, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        try:
            figures = await self._stores[number].store.figures(is_visible)
        except Unavailable:
            return StoreFigures(of_boards_only=is_visible is not None, answers=False)
        served = self._placement.number_of
        return replace(
            figures,
            boards=[each for each in figures.boards if served(each[0]) == number],
            scopes=[each for each in figures.scopes if served(each[0]) == number],
            scopes_memory=[each for each in figures.scopes_memory if served(each[0]) == number],
            changes_lost=[each for each in figures.changes_lost if served(each[0]) == number],
            changes_used=[each for each in figures.changes_used if served(each[0]) == number],
            unsealed=[each for each in figures.unsealed if served(each[0]) == number],
            unpaid=[each for each in figures.unpaid if served(each[0]) == number],
        )
