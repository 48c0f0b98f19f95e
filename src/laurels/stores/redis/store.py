"""The store on an index server: boards on a Redis or Valkey server that several processes share.

Its coroutines run on one event loop, either the caller's or one in a thread (`loop`); the
synchronous methods are for other threads. A write is accepted as in every store and planned from
this process's copy of the definitions; then a call carries it out. If the server refuses the plan
as outdated, the write is planned again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack

from msgspec.structs import replace

from laurels.core.archived import VerifiedPeriod
from laurels.core.board_state import BoardState
from laurels.core.changes import beginning
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.clock_status import ClockStatus, SharedSource, accept_clock, clock_status
from laurels.core.commands import (
    Command,
    DefinitionCommand,
    HideEverywhere,
    HideMember,
    Mend,
    RemoveMember,
    SetData,
    ShowEverywhere,
    ShowMember,
    Submit,
    SubmitMany,
)
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import NOTHING_COUNTED, HotReport
from laurels.core.named_windows import window_named
from laurels.core.query import Query
from laurels.core.receipt import Receipts
from laurels.core.stats import BoardStats, CheckReport, Sealed, Stats, StoreFigures
from laurels.errors import (
    Closed,
    Forked,
    LaurelsError,
    NothingToBackUp,
    NotReady,
    NotSealed,
    PositionMoved,
    Unavailable,
    UnknownBoard,
    UnknownWindow,
)
from laurels.errors.index_server import NotOnIndexServer
from laurels.model.board import Board
from laurels.model.labels import has_scope
from laurels.model.validation import quoted
from laurels.stores.answers.answer import CacheSettings
from laurels.stores.intake import forks
from laurels.stores.intake.accept import SubmitOptions, batch_list, submission
from laurels.stores.intake.commands import is_long, result_of, to_write
from laurels.stores.intake.deleted_positions import SinkMove, no_receipts, sink_move
from laurels.stores.intake.pacing import Paced
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.writes import FoldedWrite
from laurels.timeline.clock import Clock
from laurels.wire.audit_entry import AuditStore, MemoryAudit
from laurels.wire.audit_page import AuditPage, about, page_of
from laurels.wire.queries import decode_answer

from .answers import Answers
from .catalog import BoardCatalog, opened_as
from .changes import ChangeReader
from .copies import ServerCopies
from .deletions import StoredDeletions
from .follow import Follower
from .index.audit import RedisAudit, ServerAudit
from .keys import ServerKeys
from .query_runner import QueryRunner
from .registry import Registry
from .remote import FollowedIndex
from .retry import Calls, read_only
from .statistics import BoardStatistics
from .tracking import ServerContents
from .write_queues import WriteQueues
from .writes import Writer

T = TypeVar("T")


def is_newer(
    state: BoardState, events: Sequence[Any], window: str | None, scope: Sequence[str] | None
) -> bool:
    """Return whether the arguments name a window, label or scope that is missing in this process's
    copy of the board, since another process may have added it."""
    rules = state.rules
    try:
        window_named(rules, window)
    except UnknownWindow:
        return True
    if scope is not None and not has_scope(rules, scope):
        return True
    labels = {*rules.labels}
    longer = (event for event in events if type(event) is not tuple or len(event) > 4)
    return any(not labels.issuperset(each) for each in map(_labels_of, longer) if each)


def _labels_of(event: Any) -> Any:
    """Return the labels of an event; None if its labels are not a dict. An event that is a tuple
    must have at least 5 items."""
    if type(event) is tuple:
        labels = event[4]
    else:
        labels = event.get("labels") if isinstance(event, dict) else getattr(event, "labels", None)
    return labels if isinstance(labels, dict) else None


class _Known:
    """The boards as this process knows them. Unlike the methods of the store, these methods send
    nothing to the server, so that they may be called on the store's event loop."""

    def __init__(self, catalog: BoardCatalog) -> None:
        self._catalog = catalog

    def named(self, board: str) -> BoardState:
        """Return the board of that name. Raises UnknownBoard."""
        return self._catalog.boards.named(board)

    def submission(
        self, board: str, events: Any, window: str | None, **options: Unpack[SubmitOptions]
    ) -> Submission:
        """Accept events: check their form and turn them into columns."""
        is_replay = self._catalog.event_time
        return submission(self.named(board), events, window, event_time=is_replay, **options)


class RedisStore(Paced):
    """The store of boards on an index server.

    `keys` stores the keys of a service that serves this store; `risks` are sentences about how the
    server may lose counted events. With `is_session` the store belongs to the program that opened
    the boards, whose answers never go back; otherwise it belongs to a service, which has a session
    for each connection.
    """

    def __init__(
        self,
        index: FollowedIndex,
        registry: Registry,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        close: Callable[[], Awaitable[None]],
        keys: ServerKeys,
        calls: Calls,
        contents: ServerContents,
        risks: Sequence[str] = (),
        audit: RedisAudit | None = None,
        *,
        cache: CacheSettings,
        elapsed_ns: Callable[[], int],
        is_session: bool,
        deletions: StoredDeletions,
        moment: Callable[[], int] | None = None,
    ) -> None:
        self.audit_log: AuditStore = (
            MemoryAudit() if audit is None else ServerAudit(audit, self.run)
        )
        self.keys = keys
        self.risks = risks
        self.outages: Sequence[str] = ()
        self.is_exact = False
        self._catalog = BoardCatalog(index, registry, clock, deletions)
        self._queries = QueryRunner(self._catalog)
        self.answers = Answers(
            self._catalog,
            self._queries,
            cache,
            elapsed_ns,
            is_session=is_session,
            moment=moment,
        )
        self._changes = ChangeReader(self._catalog)
        self._statistics = BoardStatistics(self._catalog)
        self._follower = Follower(self._catalog)
        self._writer = Writer(self._catalog, calls)
        self.copies = ServerCopies(self._catalog, contents, self.run)
        self._queues = WriteQueues(self._writer.carry_out)
        self._clock = clock
        self._loop = loop
        self._close = close
        self._on_close: list[Callable[[], None]] = []
        self._ended: str | None = None
        self._forks = forks.count

    @property
    def paced(self) -> bool:
        """Whether a background task does the due work. If not, submissions do it."""
        return self._writer.paced

    @paced.setter
    def paced(self, paced: bool) -> None:
        self._writer.paced = paced

    # Methods for other threads than that of the loop

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine of this store for a caller outside of its loop, and return its result.

        Raises RuntimeError if it is called on the loop itself, where waiting would never end.
        """
        try:
            self.ensure_usable()
            if asyncio._get_running_loop() is self._loop:
                raise RuntimeError("expected a call from outside the loop: await the verb")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except (LaurelsError, RuntimeError):
            coroutine.close()
            raise
        try:
            return future.result()
        finally:
            future.cancel()

    def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board, made from a single state of it. The answer is
        cached if `max_age` permits it."""
        self.ensure_usable()
        kept = self.answers.find_own(board, query)
        if kept is not None:
            return decode_answer(query, kept)
        answer: T = self.run(self.answers.ask(board, query))
        return answer

    def cached_view(self, _board: str, _window: str | None, _look: Callable[..., T]) -> T | None:
        """Return None, since no view of a ranking on an index server is cached."""
        return None

    def write(self, command: Command[T]) -> T:
        """Carry out a command. Return its result, or raise the error that it fails with."""
        _ensure_possible(command)
        if (move := sink_move(command)) is not None:
            receipts: T = self.run(self._move_position(move, command))
            return receipts
        with self.answers.recording(command):
            committed = self.commit(to_write(self, command))
        if isinstance(command, DefinitionCommand):
            committed = self.definition(command.defines)
        return result_of(command, committed)

    def commit(self, write: FoldedWrite) -> Any:
        """Carry out a write. Return its result, or raise the error that it fails with."""
        return self.run(self.commit_async(write))

    def named(self, board: str) -> BoardState:
        """Return the board of that name."""
        self._catalog.set_gone()
        if board not in self._catalog.boards.boards:
            self.run(self._catalog.load())
        return self._catalog.boards.named(board)

    def newest(self, board: str) -> BoardState:
        """Return the current state of the board of that name on the server, including changes by
        other processes."""
        self.run(self._catalog.load())
        return self._catalog.boards.named(board)

    def definition(self, name: str) -> Board:
        """Return the current definition of a board on the server."""
        return self.newest(name).board

    def definitions(self) -> list[Board]:
        """Return all current definitions on the server, ordered by name."""
        self.run(self._catalog.load())
        boards = self._catalog.boards.boards
        return [boards[name].board for name in sorted(boards)]

    def submission(
        self,
        board: str,
        events: Iterable[Any],
        window: str | None,
        **options: Unpack[SubmitOptions],
    ) -> Submission:
        """Accept events: check their form and turn them into columns."""
        batch = batch_list(events)
        if is_newer(self.named(board), batch, window, options.get("scope")):
            self.newest(board)
        return _Known(self._catalog).submission(board, batch, window, **options)

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes after a cursor. With `initial`, the first pages have all current
        entries, and the next pages have the changes since then."""
        page: ChangePage = self.run(self.changes_async(board, after, limit, initial=initial))
        return page

    def changed_boards(self, after: str | None) -> ChangedBoards:
        """Return the boards that have changes after a cursor, by one call."""
        changed: ChangedBoards = self.run(self._changes.changed_boards(after))
        return changed

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        """Return the deleted boards whose changes are kept, with the positions of a source."""
        deleted: list[DeletedBoard] = self.run(self._changes.deleted_boards(source))
        return deleted

    def position(self, board: str, source: str) -> str | None:
        """Return the last committed position of a source."""
        position: str | None = self.run(self._position(board, source))
        return position

    @read_only
    async def _position(self, board: str, source: str) -> str | None:
        async def read(state: BoardState) -> str | None:
            position: str | None = await self._catalog.index.position(opened_as(state), source)
            await self._catalog.index.ensure_current(opened_as(state))
            return position

        return await self._catalog.retry_outdated(board, read)

    def positions(self, board: str) -> dict[str, str]:
        """Return the last committed positions of all sources."""
        positions: dict[str, str] = self.run(self._positions(board))
        return {source: positions[source] for source in sorted(positions) if positions[source]}

    @read_only
    async def _positions(self, board: str) -> dict[str, str]:
        async def read(state: BoardState) -> dict[str, str]:
            positions: dict[str, str] = await self._catalog.index.positions(opened_as(state))
            await self._catalog.index.ensure_current(opened_as(state))
            return positions

        return await self._catalog.retry_outdated(board, read)

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        """Return the statistics of a board."""
        stats: BoardStats = self.run(self._statistics.of_board(board))
        return stats

    def stats(self) -> Stats:
        """Return the statistics of all boards."""
        stats: Stats = self.run(self._statistics.of_all())
        return stats

    def check(self) -> CheckReport:
        """Check every ranking against the data it is derived from, in shares; writes continue."""
        report: CheckReport = self.run(self._statistics.check())
        return report

    def rebuild(self) -> None:
        """Rebuild every ranking from the data it is derived from, in shares; writes continue."""
        self.run(self._statistics.audit(repair=True))

    def snapshot(self) -> int:
        """Raise NothingToBackUp: the server stores the data itself."""
        raise NothingToBackUp("the boards are on an index server, which stores them itself")

    def seal(self) -> Sealed:
        """Return that nothing was sealed: boards on an index server have no archive."""
        self.ensure_usable()
        return Sealed(0, 0)

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        """Raise NotSealed: boards on an index server have no archive."""
        chosen = window_named(self.definition(board).rules(), window)
        raise NotSealed(
            f"the period {period or 'that runs'} of the window {quoted(chosen.name)} is not sealed"
        )

    def audit(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        """Return a page of the audit log."""
        self.ensure_usable()
        return page_of(self.audit_log, about(board), before, limit)

    def hidden_everywhere(self, _after: str | None, _limit: int) -> list[HiddenMember]:
        """Return no members, since boards on an index server cannot hide members."""
        self.ensure_usable()
        return []

    def hot(self) -> HotReport:
        """Return an empty report: only a service counts queries."""
        self.ensure_usable()
        return NOTHING_COUNTED

    def work(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work. Return about how much work is left, and in how many
        milliseconds more work falls due."""
        done: tuple[int, int] = self.run(self._catalog.work(limit))
        return done

    def pace(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work; see `Paced.pace`."""
        return self.work(limit)

    def ensure_usable(self) -> None:
        """Raise Forked in a child of the process that opened this store, Closed after `close`."""
        if self._forks != forks.count:
            raise Forked("the boards were opened by the process that this one was forked from")
        if self._ended is not None:
            raise Closed(self._ended)

    def close(self) -> None:
        """Carry out all queued writes and close the connection. A second call does nothing."""
        if self._ended is None:
            self.run(self._finish())
            for action in self._on_close:
                action()

    def on_close(self, action: Callable[[], None]) -> None:
        """Call `action` when this store is closed. It is called after the connection was closed."""
        self._on_close.append(action)

    async def _finish(self) -> None:
        self._ended = "the store is closed"
        await self._queues.finish()
        stop = getattr(self._clock, "stop", None)
        if stop is not None:
            await stop()
        await self._close()

    # Methods for a service that serves this store

    def note(self, key: str) -> str | None:
        """Return a note: a small text that is stored beside the definitions."""
        note: str | None = self.run(read_only(self._catalog.registry.note)(key))
        return note

    def set_note(self, key: str, value: str) -> None:
        """Store a note beside the definitions."""
        self.run(self._catalog.registry.set_note(key, value))

    async def figures(self, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        """Return the statistics that are cheap to read, for the metrics of a service: the number of
        boards that this process knows, whether the server answers, and the lost and unsent changes
        of boards. `stats` returns the more expensive ones."""
        count = len(self._catalog.boards.boards)
        try:
            await self.ensure_healthy()
            changes = await self._statistics.of_changes(is_visible)
        except Unavailable:
            return StoreFigures(of_boards_only=is_visible is not None, count=count, answers=False)
        return StoreFigures(
            of_boards_only=is_visible is not None,
            changes_lost=[(board, lost) for board, lost, _ in changes if lost],
            changes_used=[(board, used) for board, _, used in changes if used],
            count=count,
            answers=True,
            clock=self.clock_status(),
        )

    def observe(self, observer: Callable[[int, float], None], clock: Callable[[], float]) -> None:
        """Call `observer` after each write that the store has carried out. Its arguments are the
        number of events in the write and the seconds it took by `clock`."""
        self._queues.observed = observer, clock

    def change_token(self, board: str) -> tuple[int, int, int, bool]:
        """Return a token that changes whenever the board's lists may have changed. It shows the
        state at the last call of `follow`."""
        return self._follower.change_token(board)

    async def follow(self, boards: Collection[str]) -> None:
        """Update the change tokens of boards concurrently; unknown boards are skipped."""
        self.ensure_usable()
        await self._follower.poll(boards)

    def clock_status(self) -> ClockStatus:
        """Return this process's time, and by how much it differs from the clock of the index
        server."""
        self.ensure_usable()
        return clock_status(self._clock, self._catalog.latest_ms)

    def accept_clock(self) -> ClockStatus:
        """Make all processes accept the current clock of the index server, even if the clock has
        leapt far. This process accepts it at once. The other processes accept it within some
        seconds, when they next sample the clock."""
        accept_clock(self._clock)
        if isinstance(self._clock, SharedSource):
            self.run(self._clock.announce_acceptance())
        return self.clock_status()

    async def ensure_healthy(self) -> None:
        """Raise an error if the index server does not answer."""
        self.ensure_usable()
        await self._catalog.registry.answers()

    # Coroutines that run on the loop

    async def newest_async(self, board: str) -> BoardState:
        """Return the current state of a board on the server; see `newest`."""
        self.ensure_usable()
        await self._catalog.load()
        return self._catalog.boards.named(board)

    async def find_board(self, board: str) -> BoardState:
        """Return the board of that name."""
        return await self._catalog.find_board(board)

    async def ask_async(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board; see `ask`."""
        self.ensure_usable()
        kept = self.answers.find_own(board, query)
        return await self.answers.ask(board, query) if kept is None else decode_answer(query, kept)

    async def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes; see `changes`."""
        self.ensure_usable()
        if not initial and not beginning.is_initial(after):
            return await self._changes.page(board, after, limit)
        end = "" if beginning.is_initial(after) else await self._changes.end(board)
        cursor = beginning.cursor_of(after, lambda: end)
        state, deletion = await self._changes.followed(board, cursor.changes)
        if deletion is not None:  # the entries are gone, the changes are not
            return ChangePage([], cursor.changes, more=True)
        beginning.ensure_same_board(board, state.uid, cursor)
        steps = beginning.page(board, state.uid, state.rules, cursor, limit)
        page = await beginning.run_async(steps, partial(self._queries.ask, board))
        if not beginning.is_last(page):
            return page
        positions = read_only(self._catalog.index.positions)
        return beginning.completed(page, await positions(opened_as(state)), ())

    async def read_async(self, read: Callable[[bool], T]) -> T:
        """Run in a thread a read that waits for the server. Return its result."""
        self.ensure_usable()
        return await asyncio.to_thread(read, True)

    async def write_async(self, command: Command[T]) -> T:
        """Carry out a command. Return its result, or raise the error that it fails with."""
        self.ensure_usable()
        if (move := sink_move(command)) is not None:
            receipts: Any = await self._move_position(move, command)
            done: T = receipts
            return done
        with self.answers.recording(command):
            committed = await self.commit_async(await self._to_write(command))
        if isinstance(command, DefinitionCommand):
            committed = (await self.newest_async(command.defines)).board
        return result_of(command, committed)

    async def _move_position(self, move: SinkMove, command: Command[Any]) -> Any:
        """Move the position of a sink in the changes of a board, or of a deleted board."""
        if (receipts := await self._move_in_deleted(move)) is not None:
            return receipts
        try:
            return await self.commit_async(await self._to_write(command))
        except (UnknownBoard, NotReady, PositionMoved):  # the board may have been deleted
            await self._catalog.load()
            if (receipts := await self._move_in_deleted(move)) is None:
                raise
            return receipts

    async def _move_in_deleted(self, move: SinkMove) -> Receipts | None:
        """Move the position of a sink if it is in the changes of a deleted board, and return the
        receipts of the submission; None if it is not."""
        current = self._catalog.boards.boards.get(move.board)
        if current is None or current.uid != move.uid:
            deletion = await self._catalog.find_deletion(move.board, move.uid)
            if deletion is not None:
                await self._catalog.deletions.move_position(move)
                return no_receipts(deletion.state, 0)
        return None

    async def commit_async(self, write: FoldedWrite) -> Any:
        """Carry out a write. Return its result, or raise the error that it fails with."""
        self.ensure_usable()
        return await self._queues.write(write)

    async def submit_one(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> tuple[Receipts, int]:
        """Submit an event, which may be counted in one call with others. Return the receipts of the
        write, and the index of the event among them, which is 0."""
        command = SubmitMany(board, [event], window, ranks=True, scope=scope)
        with self.answers.recording(command):
            return await self.commit_async(await self._to_write(command)), 0

    async def _to_write(self, command: Command[Any]) -> FoldedWrite:
        """Return the write that carries out a command, validated as far as possible. If the command
        names something that is missing in this process's copy of the board, read the definition
        again first."""
        _ensure_possible(command)
        if isinstance(command, Submit):
            await self._find_labels(command.board, [command.event], command)
        elif isinstance(command, SubmitMany):
            events = batch_list(
                command.events
            )  # as a list, since an iterator could be read only once
            await self._find_labels(command.board, events, command)
            command = replace(command, events=events)
        elif isinstance(command, SetData | RemoveMember | Mend):
            await self.find_board(command.board)
        accept = partial(to_write, _Known(self._catalog), command)
        return await asyncio.to_thread(accept) if is_long(command) else accept()

    async def _find_labels(
        self, board: str, events: Sequence[Any], options: Submit | SubmitMany
    ) -> None:
        if is_newer(await self.find_board(board), events, options.window, options.scope):
            await self.newest_async(board)


def _ensure_possible(command: Command[Any]) -> None:
    """Raise NotOnIndexServer for a command that boards on an index server do not support."""
    if isinstance(command, HideEverywhere | ShowEverywhere):
        raise NotOnIndexServer("its boards cannot hide members")
    if isinstance(command, HideMember | ShowMember):
        raise NotOnIndexServer(f"the board {quoted(command.board)} cannot hide members")
