"""Statistics of boards, and checks of rankings against the data they are derived from."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from laurels.core.board_state import BoardState
from laurels.core.changes.answers import SINK_PREFIX, is_left_out
from laurels.core.changes.beginning import is_initial
from laurels.core.clock_status import clock_status
from laurels.core.index import changes
from laurels.core.lifecycle import next_boundary
from laurels.core.ranking_key import ranking_key
from laurels.core.requests import ReadRequest
from laurels.core.stats import BoardStats, CheckReport, Kept, Stats, WindowStats
from laurels.errors import (
    ChangesExpired,
    ChangesNotKept,
    CursorDiverged,
    InvalidCursor,
    UnknownBoard,
)
from laurels.timeline.instants import MIN_MS

from .catalog import BoardCatalog
from .changes import ChangeReader
from .index.names import without_boundaries
from .remote import opened_as
from .retry import read_only

MEASURED = 10
"""The number of scopes of a form that are sampled to estimate the memory of all its scopes."""

BOARDS_SHOWN = 1_000
"""The maximum number of boards whose lost and unsent changes are in the metrics of a service."""

AT_ONCE = 16
"""The number of boards whose statistics are computed at the same time."""

NAMED = 5
"""The maximum number of boards that one sentence in the report of a check names."""


class _Audited(NamedTuple):
    """The result of an audit of a board. `unverified` has sentences about data that an audit cannot
    check."""

    rankings: int
    entries: int
    offset: int
    unverified: list[str]


class BoardStatistics:
    """Computes the statistics of boards, and checks all boards in the index while other calls
    continue."""

    def __init__(self, catalog: BoardCatalog) -> None:
        self._catalog = catalog
        self._changes = ChangeReader(catalog)

    @read_only
    async def of_board(self, board: str) -> BoardStats:
        """Return the statistics of a board."""
        return await self._catalog.retry_outdated(board, self._board_stats)

    async def _board_stats(self, state: BoardState) -> BoardStats:
        opened, now_ms = opened_as(state), self._catalog.time_of(state)
        await self._catalog.rotate_step(state, now_ms)
        keys = await self._catalog.index.keys(opened)
        sizes = {key: await self._catalog.index.nbytes(opened, key) for key in keys}
        requests = [
            ReadRequest(ranking_key(state.number, window, window.period_at(now_ms)))
            for window in state.rules.windows.values()
        ]
        due_ms = next_boundary(state.rules, now_ms)
        read = await self._catalog.index.read(opened, requests, now_ms=now_ms, due_ms=due_ms)
        self._catalog.note_refresh_states(state, read.refresh_states)
        windows = [
            WindowStats(
                window=name,
                period=window.period_at(state.seen_ms(window, now_ms)).label or None,
                members=result.total,
                rankings=sum(key.window == name for key in keys),
                nbytes=sum(size for key, size in sizes.items() if key.window == name),
            )
            for (name, window), result in zip(
                state.rules.windows.items(), read.results, strict=True
            )
        ]
        scopes, scopes_nbytes = await self._scopes(state, now_ms)
        unsent = await self._unsent(state) if state.rules.changes_ms else 0
        return BoardStats(
            board=state.board.name,
            version=state.version,
            created_ms=state.created_ms,
            windows=windows,
            remembered=await self._catalog.index.remembered(opened, now_ms),
            nbytes=sum(sizes.values()) + scopes_nbytes,
            offset=read.offset,
            layout=self._catalog.index.layout(state.rules),
            left_out=await self._catalog.index.left_out(opened),
            scopes=scopes,
            scopes_nbytes=scopes_nbytes,
            now_ms=now_ms,
            event_time=self._catalog.event_time,
            changes_lost=await self._catalog.index.changes_lost(opened),
            changes_unsent=unsent,
            changes_used=unsent / state.rules.changes_max,
        )

    async def _unsent(self, state: BoardState) -> int:
        """Return the number of changes that the slowest registered sink has not confirmed yet."""
        positions, most = await self._catalog.index.positions(opened_as(state)), 0
        for source, text in positions.items():
            if source.startswith(SINK_PREFIX) and not is_initial(text):
                with suppress(ChangesExpired, CursorDiverged, InvalidCursor):
                    page = await self._changes.page(state.board.name, text, 1)
                    most = max(most, page.waiting + sum(not is_left_out(change) for change in page))
        return most

    async def _scopes(self, state: BoardState, now_ms: int) -> tuple[dict[str, int], int]:
        """Return the number of scopes of each form, and the approximate memory, in bytes, of the
        rankings in scopes and of the rankings by a label. The numbers include empty scopes that no
        sweep has removed yet."""
        opened, counts = opened_as(state), dict[str, int]()
        by_label = {spec.name for spec in state.rules.specs if spec.by}
        nbytes = sum([await self._nbytes(state, scope, now_ms) for scope in by_label])
        for form in [",".join(labels) for labels in state.rules.scopes if labels]:
            counts[form] = await self._catalog.index.scope_count(opened, form)
            if some := await self._catalog.index.scopes(opened, form, "", MEASURED):
                sampled = sum([await self._nbytes(state, scope, now_ms) for scope in some])
                nbytes += sampled * counts[form] // len(some)
        return counts, nbytes

    async def _nbytes(self, state: BoardState, scope: str, now_ms: int) -> int:
        """Return approximately how many bytes of memory the rankings of a scope take."""
        opened = opened_as(state)
        sizes = [
            await self._catalog.index.nbytes(
                opened, ranking_key(state.number, window, period, scope)
            )
            for window in state.rules.windows.values()
            for period in window.kept_periods(state.floors.get(window.name, MIN_MS), now_ms)
        ]
        return sum(sizes)

    async def of_changes(
        self, is_visible: Callable[[str], bool] | None
    ) -> list[tuple[str, int, float]]:
        """Return figures of up to BOARDS_SHOWN boards that keep changes and that `is_visible`
        accepts: the name of the board, the number of lost changes, and which fraction of
        `changes_max` the slowest registered sink has not sent yet."""
        names = [
            name
            for name in self._board_names()
            if self._catalog.boards.boards[name].rules.changes_ms
            and (is_visible is None or is_visible(name))
        ]
        figures = []
        for first in range(0, min(len(names), BOARDS_SHOWN), AT_ONCE):
            share = names[first : min(first + AT_ONCE, BOARDS_SHOWN)]
            figures += await asyncio.gather(*map(self._retention, share))
        return [each for each in figures if each is not None]

    @read_only
    async def _retention(self, board: str) -> tuple[str, int, float] | None:
        async def read(state: BoardState) -> tuple[str, int, float]:
            lost = await self._catalog.index.changes_lost(opened_as(state))
            unsent = await self._unsent(state) if state.rules.changes_ms else 0
            return board, lost, unsent / state.rules.changes_max

        with suppress(UnknownBoard, ChangesNotKept):  # the board was deleted or changed meanwhile
            return await self._catalog.retry_outdated(board, read)
        return None

    @read_only
    async def of_all(self) -> Stats:
        """Return the statistics of all boards."""
        await self._catalog.load()
        names, boards = self._board_names(), list[BoardStats]()
        for first in range(0, len(names), AT_ONCE):
            some = await asyncio.gather(*map(self._stats_of, names[first : first + AT_ONCE]))
            boards += [each for each in some if each is not None]
        return Stats(
            boards=len(boards),
            members=sum(max((w.members for w in each.windows), default=0) for each in boards),
            nbytes=sum(each.nbytes for each in boards),
            log_nbytes=0,
            offset=sum(changes(each.offset) for each in boards),
            now_ms=self._catalog.now(),
            kept=Kept(log_from=1),
            clock=clock_status(self._catalog.clock, self._catalog.latest_ms),
        )

    async def _stats_of(self, board: str) -> BoardStats | None:
        """Return the statistics of a board; None if it was deleted meanwhile."""
        with suppress(UnknownBoard):
            return await self._catalog.retry_outdated(board, self._board_stats)
        return None

    @read_only
    async def check(self) -> CheckReport:
        """Compare every ranking with the data it is derived from."""
        return await self.audit(repair=False)

    async def audit(self, *, repair: bool) -> CheckReport:
        """Compare every ranking with the data it is derived from, and with `repair` correct it.
        Boards that are deleted meanwhile are not in the report."""
        await self._catalog.load()

        async def audit_board(state: BoardState) -> _Audited:
            opened, rankings, entries = opened_as(state), 0, 0
            await self._catalog.rotate_step(state, self._catalog.time_of(state))
            keys = await self._catalog.index.keys(opened, empty=True)
            for key in without_boundaries(state.rules, keys):
                entries += await self._catalog.index.audit(opened, key, repair=repair)
                rankings += 1
            if state.rules.scoped:
                of_scopes = await self._catalog.index.audit_scopes(opened, repair=repair)
                rankings, entries = rankings + of_scopes[0], entries + of_scopes[1]
            offset = changes(await self._catalog.index.offset(opened))
            return _Audited(rankings, entries, offset, self._catalog.index.unverified(state.rules))

        audited: dict[str, _Audited] = {}
        for name in self._board_names():
            with suppress(UnknownBoard):
                audited[name] = await self._catalog.retry_outdated(name, audit_board)
        unverified: dict[str, list[str]] = {}
        for name, each in audited.items():
            for what in each.unverified:
                unverified.setdefault(what, []).append(name)
        return CheckReport(
            len(audited),
            sum(each.rankings for each in audited.values()),
            sum(each.entries for each in audited.values()),
            sum(each.offset for each in audited.values()),
            [f"{_listed(boards)}: {what}" for what, boards in unverified.items()],
        )

    def _board_names(self) -> list[str]:
        self._catalog.set_gone()
        return sorted(self._catalog.boards.boards)


def _listed(boards: list[str]) -> str:
    """Return a text with the names of the first few boards and the number of the other ones."""
    names = ", ".join(boards[:NAMED])
    return names if len(boards) <= NAMED else f"{names} and {len(boards) - NAMED} others"
