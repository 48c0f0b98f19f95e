"""Restores removed boards of an index server.

A removed board that can be restored still has its state in its keys (`removals.py`). It is restored
by the call that stores its definition again, with the next version. Like a definition after a
clearing (`clearing.py`), this definition says how each shard is registered: any process that finds
a shard without this version removes the members that are left, and lets the board go on. So a
process may end at any point: before that call nothing has changed, after it any process does the
rest.
"""

from collections.abc import Awaitable, Callable
from math import inf

from msgspec.structs import replace

from laurels.core.board_record import BoardRecord, Clearing, encode
from laurels.core.commands import UndeleteBoard
from laurels.errors import NotReady
from laurels.model.board import Board
from laurels.model.validation import quoted
from laurels.stores.intake.board_writes import (
    copy_in_the_way,
    ensure_name_free,
    not_restorable,
    restored_as,
)
from laurels.stores.intake.tags import new_tag
from laurels.stores.redis.connection.deadline import ends_in
from laurels.timeline.instants import MIN_MS

from .catalog import ATTEMPTS, BoardCatalog
from .copies import unfinished_of
from .outdated import DefinitionOutdated
from .registry import ERASED, RESTORING_FORMAT
from .remote import Opened, PositionWrite, opened_as
from .removals import RemovedListing
from .sealing import ServerSealing
from .sealing_tasks import SealingTasks


class ServerUndeletions:
    """Restores removed boards, and lists those that can be restored. `complete_erasure` completes
    the erasure that another process has left incomplete."""

    def __init__(
        self,
        catalog: BoardCatalog,
        sealing: ServerSealing,
        sealing_tasks: SealingTasks,
        complete_erasure: Callable[[], Awaitable[object]],
    ) -> None:
        self._catalog = catalog
        self._sealing = sealing
        self._sealing_tasks = sealing_tasks
        self._complete_erasure = complete_erasure

    async def removed(self) -> list[RemovedListing]:
        """Return the removed boards that can be restored, in the order of their removal. Boards
        whose `retain` is over are removed first, if all their payouts are confirmed."""
        with ends_in(inf, anew=True):
            await self._remove_ended()
            return await self._catalog.removals.all()

    async def undelete(self, command: UndeleteBoard) -> Board:
        """Restore a removed board, and return its definition. Raises NotRestorable, BoardExists,
        BoardInvalid, UnknownLedger, PeriodsUnsealed."""
        with ends_in(inf, anew=True):
            for _ in range(ATTEMPTS):
                await self._complete_erasure()
                board = await self._undelete(command)
                if board is not None:
                    return board
        raise NotReady(f"removed boards named {quoted(command.name)} kept changing")

    async def _remove_ended(self) -> None:
        await self._catalog.load()
        await self._catalog.remove_gone()
        await self._sealing_tasks.remove_paid()
        await self._catalog.remove_deleted()

    async def _undelete(self, command: UndeleteBoard) -> Board | None:
        """Restore a board. Return None if something has changed meanwhile, so that this has to be
        tried again."""
        catalog, name = self._catalog, command.defines
        erased = await catalog.registry.note(ERASED)
        await self._remove_ended()
        for each in {command.name, name}:
            await self._sealing_tasks.ensure_removed(each)
        removed = await catalog.removals.find(command.name, command.uid)
        if removed is None:
            raise not_restorable(command)
        unfinished = await self._unfinished_copies(removed, name)
        kept = await catalog.removals.kept(removed.uid)
        if kept is None:
            return None
        opened, record = kept
        try:
            restored = await self._restored(opened, record, name)
        except DefinitionOutdated as error:
            if await catalog.removals.kept(removed.uid) is None:  # it was restored meanwhile
                return None
            raise not_restorable(command) from error
        board = Board.from_json(restored.definition)
        self._sealing.ensure_ledger(board)
        if board.ledger and record.may_have_payouts:
            await self._sealing.payouts.expect(board)
        await self._return_positions(opened)
        await catalog.registry.require_format(RESTORING_FORMAT)
        body = encode(restored)
        if not await catalog.removals.stored.restore(removed.uid, name, body, unfinished, erased):
            return None
        await self._complete(restored.number)
        return board

    async def _unfinished_copies(self, removed: RemovedListing, name: str) -> list[str]:
        """Return the names under which no copy may be begun until the board is restored. Raises
        BoardExists if there is a board with the new name, or an unfinished copy of a board with
        this name or of the removed board."""
        ensure_name_free(self._catalog.boards, name)
        names = {name, removed.name}
        for copied, note in (await self._catalog.registry.unfinished_copies()).items():
            number, origin = unfinished_of(note)
            if self._catalog.boards.find_by_number(number) is not None:
                names.discard(copied)  # the copy is finished, and the note was left behind
            elif copied == name or origin.uid == removed.uid:
                raise copy_in_the_way(name)
        return sorted(names)

    async def _restored(self, opened: Opened, record: BoardRecord, name: str) -> BoardRecord:
        """Return the definition of a restored board. Only the archive has the standings of its
        sealed periods. Raises DefinitionOutdated if the server does not have the state of the
        board."""
        catalog = self._catalog
        stored = await catalog.index.load_closings(opened, [*record.closing])
        if not stored.changes:
            raise DefinitionOutdated
        reached_ms = await catalog.index.time(opened)
        least_ms = MIN_MS if catalog.event_time else catalog.now()
        now_ms = max(least_ms, catalog.now() if reached_ms is None else reached_ms)
        board = restored_as(record.definition, name, now_ms, event_time=catalog.event_time)
        closing = {
            window: replace(each, cleared=stored.recorded.get(window, each.cleared))
            for window, each in record.closing.items()
        }
        definition, version = board.to_json(), record.version + 1
        cleared = Clearing(version, now_ms, new_tag(), definition)
        return replace(
            record, definition=definition, version=version, closing=closing, cleared=cleared
        )

    async def _return_positions(self, opened: Opened) -> None:
        """Store the positions that sinks have reached in the changes of a removed board with the
        board again."""
        positions = await self._catalog.deletions.sink_positions(opened.uid)
        for sink, text in positions.items():
            await self._catalog.index.set_position(opened, PositionWrite({sink: text}))

    async def _complete(self, number: int) -> None:
        """Do what any process would do as well that finds the restored board."""
        await self._catalog.load()
        state = self._catalog.boards.find_by_number(number)
        if state is None:  # it was deleted meanwhile
            return
        await self._catalog.index.open(opened_as(state))
        await self._sealing.payouts.ensure_named(state)
        if self._catalog.boards.everywhere.stored_version:
            await self._catalog.read_hidden(state.board.name)
