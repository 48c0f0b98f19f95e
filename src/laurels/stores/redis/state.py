"""The state of a store on an index server: its connection, its event loop, and the boards that this
process knows.

The coroutines of the store run on one event loop, either the caller's or one in a thread (`loop`).
The synchronous methods are for other threads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from laurels.core.board_state import BoardState
from laurels.errors import Closed, Forked, LaurelsError
from laurels.model.board import Board
from laurels.stores.answers.answer import CacheSettings
from laurels.stores.intake import forks
from laurels.stores.intake.pacing import Paced
from laurels.timeline.clock import Clock
from laurels.wire.audit_entry import AuditStore, MemoryAudit

from .answers import Answers
from .catalog import BoardCatalog
from .changes import ChangeReader
from .copies import ServerCopies
from .correcting import ServerCorrections
from .deletions import StoredDeletions
from .follow import Follower
from .index.audit import RedisAudit, ServerAudit
from .keys import ServerKeys
from .ledgers import ArchiveSettings, Ledgers
from .payout_lists import PayoutPlaces
from .payout_transfers import PayoutTransfers
from .payouts import ServerPayouts
from .protocols import FollowedIndex
from .query_runner import QueryRunner
from .registry import Registry
from .retry import Calls
from .sealing import ServerSealing
from .sealing_tasks import SealingTasks
from .season_copies import SeasonCopies
from .statistics import BoardStatistics
from .tracking import ServerContents
from .write_queues import WriteQueues
from .writes import Writer


class RedisState(Paced):
    """A connection to an index server.

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
        archive: ArchiveSettings,
        payout_places: PayoutPlaces,
        moment: Callable[[], int] | None = None,
    ) -> None:
        self._audit = audit
        self._elapsed_ns = elapsed_ns
        self._memory_audit = MemoryAudit()
        self.audit_log: AuditStore = (
            self._memory_audit if audit is None else ServerAudit(audit, self.run)
        )
        self.keys = keys
        self.risks = risks
        self.outages: Sequence[str] = ()
        self.is_exact = False
        self._catalog = BoardCatalog(index, registry, clock, deletions)
        self._ledgers = Ledgers(archive.urls)
        self._payouts = ServerPayouts(
            self._catalog, self._ledgers, payout_places, archive, elapsed_ns
        )
        self._corrections = ServerCorrections(self._catalog, self._ledgers, self._payouts, archive)
        self._sealing = ServerSealing(self._catalog, self._ledgers, self._payouts, archive)
        self._sealing_tasks = SealingTasks(self._catalog, self._sealing, elapsed_ns)
        self._queries = QueryRunner(self._catalog, self._ledgers, self._payouts)
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
        self._writer = Writer(self._catalog, calls, self._sealing, self._sealing_tasks)
        self.copies = ServerCopies(
            self._catalog,
            contents,
            self.run,
            self._sealing,
            SeasonCopies(self._ledgers),
            PayoutTransfers(self._payouts, self.run),
        )
        self._queues = WriteQueues(self._writer.carry_out)
        self._clock = clock
        self._loop = loop
        self._close = close
        self._on_close: list[Callable[[], None]] = []
        self._ended: str | None = None
        self._forks = forks.count

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine of this store for a caller outside of its loop, and return its result.

        Raises RuntimeError if it is called on the loop itself, where waiting would never end.
        """
        try:
            self.ensure_usable()
            if asyncio._get_running_loop() is self._loop:
                raise RuntimeError(
                    "expected a call from another thread: on the loop of the store, await the verb"
                )
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except (LaurelsError, RuntimeError):
            coroutine.close()
            raise
        try:
            return future.result()
        finally:
            future.cancel()

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
        await self._sealing_tasks.stop()
        await self._payouts.stop()
        stop = getattr(self._clock, "stop", None)
        if stop is not None:
            await stop()
        await self._close()
        self._ledgers.close()

    async def newest_async(self, board: str) -> BoardState:
        """Return the current state of a board on the server; see `newest`."""
        self.ensure_usable()
        await self._catalog.load()
        return self._catalog.boards.named(board)

    async def find_board(self, board: str) -> BoardState:
        """Return the board of that name."""
        return await self._catalog.find_board(board)
