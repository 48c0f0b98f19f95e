"""Carries out the writes of one record, such as a change of a definition.

A write that changes a definition first stores the new definition. This fails if another process has
changed the definition meanwhile (`registry`).
"""

from collections.abc import Sequence

import msgspec

from laurels.core import record as records
from laurels.core.board_record import BoardRecord
from laurels.core.board_state import BoardState, record_of, redefine
from laurels.core.changes.record_blocks import write_block
from laurels.core.closing import WindowClosing
from laurels.core.hiding import EVERYWHERE
from laurels.errors import BoardInvalid, LaurelsError, NotReady, Unavailable
from laurels.model.board import Board
from laurels.model.rules import Rules
from laurels.stores.intake.board_writes import ensure_end_open
from laurels.stores.intake.copies import unfinished_copy
from laurels.stores.intake.member_writes import DataChange
from laurels.stores.intake.shares import MAX_MEMBERS
from laurels.stores.intake.writes import Single
from laurels.timeline.instants import MAX_MS, MIN_MS

from .catalog import ATTEMPTS, BoardCatalog
from .clearing import ServerClearings
from .closing import ensure_ledger_stays, first_closings
from .outdated import DefinitionOutdated, PlanExpired
from .registry import copy_note
from .remote import Opened, opened_as
from .sealing import ServerSealing
from .sealing_tasks import SealingTasks


class RecordWrites:
    """Carries out writes of one record."""

    def __init__(
        self, catalog: BoardCatalog, sealing: ServerSealing, sealing_tasks: SealingTasks
    ) -> None:
        self._catalog = catalog
        self._sealing = sealing
        self._sealing_tasks = sealing_tasks
        self._clearings = ServerClearings(catalog, sealing)

    def _note_passes_due(self, state: BoardState) -> None:
        """Record that a board's heads may have to be refilled, since a write may have taken members
        out of them. The answer to such a write, unlike that to a batch, does not say whether this
        is due."""
        if state.rules.head:
            self._catalog.note_passes_due(state)

    async def _record(self, write: Single) -> bool:
        """Carry out a write of one record. Return whether there was anything to do. If another
        process has changed the definitions, propose the record again. If the write is invalid
        according to an outdated copy of the definitions, validate it again with the current
        ones."""
        reread = False
        for _ in range(ATTEMPTS):
            self._catalog.set_gone()
            proposed: list[records.Record] = []
            try:
                proposed = write.records(self._catalog.boards, self._catalog.now())
                if not proposed or await self._done(write, proposed[0]):
                    return bool(proposed)
            except DefinitionOutdated:
                await self._reload(proposed)
            except Unavailable:
                raise
            except LaurelsError:
                if reread or not await self._catalog.load():
                    raise
                reread = True
        raise NotReady("the definitions of boards kept changing during this write")

    async def _reload(self, proposed: Sequence[records.Record]) -> None:
        """Read the definitions again, and the hidden members of the board of a record."""
        await self._catalog.load()
        for record in proposed:
            if isinstance(record, records.Hide | records.Show) and record.board != EVERYWHERE:
                state = self._catalog.boards.find_by_number(record.board)
                if state is not None:
                    await self._catalog.reload_board(state)

    async def _done(self, write: Single, record: records.Record) -> bool:
        """Carry out a record. Return False if it has to be proposed again."""
        match record:
            case records.Create():
                return await self._create(record)
            case records.Redefine():
                return await self._change(record)
            case records.Delete():
                state, deleted_ms = self._catalog.boards.by_number(record.board), record.now_ms
                if not record.tag:  # after a move: the new store has the payouts
                    await self._catalog.closings.ensure_loaded(state)
                    await self._sealing.payouts.keep_archive(state)
                    await self._sealing.payouts.forget(state)
                elif state.cleared is not None:  # the clearing may not be complete in all shards
                    await self._catalog.index.open(opened_as(state))
                if self._catalog.event_time:
                    await self._catalog.read_time(state)
                    deleted_ms = max(deleted_ms, state.now_ms)
                if record.tag and state.closing and not await self._settle(state, deleted_ms):
                    return False
                if not await self._catalog.deletions.delete(state, deleted_ms, record.tag):
                    return False
                await self._forget_copy(state)
                await self._catalog.remove_deleted()
            case records.Clear():
                return await self._clearings.clear(record)
            case records.Remove():
                state = self._catalog.boards.by_number(record.board)
                await self._catalog.closings.close_due(state, record.now_ms)
                await self._catalog.pass_boundary(state, record.now_ms)
                current = self._catalog.boards.find_current(state)
                if current is None:
                    return False
                opened = opened_as(current)
                due = self._catalog.due_work(
                    current, max(record.now_ms, self._catalog.time_of(current))
                )
                block = write_block(record, "remove", record.member)
                try:
                    found = await self._catalog.index.remove(opened, record.member, due, block)
                except PlanExpired as error:  # the clock of this process is behind
                    self._catalog.note_time(current, error.now_ms)
                    return False
                write.settle(found)
                self._note_passes_due(current)
            case records.MemberData():
                opened = opened_as(self._catalog.boards.by_number(record.board))
                block = write_block(record, "data", record.member, record.data)
                assert isinstance(write, DataChange)
                await self._catalog.index.set_data(
                    opened, record.member, record.data, block, write.expected
                )
            case records.Hide() | records.Show():
                if not await self._hide(record):
                    return False
                write.settle(True)
        return True

    async def _settle(self, state: BoardState, now_ms: int) -> bool:
        """Seal the closed periods of a board that is about to be deleted, and let no other process
        close a period until then. Return False if the board has changed meanwhile."""
        await self._sealing.settle(state)
        return await self._clearings.fence(state, now_ms)

    async def _hide(self, record: records.Hide | records.Show) -> bool:
        """Hide a member, or show it again. Return False if the record has to be proposed again."""
        if not await self._catalog.hidings.carry_out(record):
            return False
        for state in self._catalog.boards.boards.values():
            if record.board in (EVERYWHERE, state.number):
                self._note_passes_due(state)
        return True

    async def _forget_copy(self, state: BoardState) -> None:
        """Remove the note about the copy of a deleted board, which a killed process may have left
        behind when the copy was finished."""
        note = await self._catalog.registry.note(copy_note(state.board.name))
        if note is not None and note.startswith(f"{state.number}:"):
            await self._catalog.registry.clear_note(copy_note(state.board.name), note)

    async def _create(self, record: records.Create) -> bool:
        board = Board.from_json(record.definition)
        rules = board.rules()
        if await self._catalog.registry.note(copy_note(board.name)):
            raise unfinished_copy(board.name)
        self._sealing.ensure_ledger(board)
        await self._sealing.payouts.register(board)
        await self._catalog.remove_gone()
        await self._sealing_tasks.ensure_removed(board.name)
        kept = BoardRecord(
            number=record.board,
            definition=record.definition,
            version=record.version,
            created_ms=record.now_ms,
            floors={},
            positions={},
            due_ms=MIN_MS,
            uid=record.uid,
            closing={name: WindowClosing() for name in rules.closing},
            may_have_payouts=bool(board.prizes()),
        )
        if not await self._catalog.registry.create(kept, board.name):
            return False
        closings = 0 if rules.closing else None
        opened = Opened(record.board, record.version, rules, uid=record.uid, closings=closings)
        block = write_block(record, "create", None, record.definition)
        await self._catalog.index.open(opened, block)
        if self._catalog.boards.everywhere.stored_version:
            await self._catalog.read_hidden(board.name)
        return True

    async def _change(self, record: records.Redefine) -> bool:
        state = self._catalog.boards.by_number(record.board)
        board = Board.from_json(record.definition)
        self._sealing.ensure_ledger(board, state.board)
        await self._sealing.payouts.register(board)
        if not self._catalog.index.keeps_layout(state.rules, board.rules()):
            raise BoardInvalid(
                "with these windows the board would need another layout on the index server: "
                "create another board with them"
            )
        now_ms = self._catalog.now()
        if state.closing:
            await self._catalog.closings.close_due(state, record.now_ms)
            await self._catalog.closings.find_open(state)
            ensure_end_open(state, board)
            ensure_ledger_stays(state, board)
        await self._catalog.index.outlive(opened_as(state), board.rules(), now_ms)
        changed = msgspec.structs.replace(state)
        redefine(changed, board, record.version, record.now_ms)
        changed.closing = first_closings(state)
        for name in changed.rules.closing.keys() - state.rules.closing.keys():
            changed.closing[name] = WindowClosing(record.now_ms)
        changed.may_have_payouts = state.may_have_payouts or bool(board.prizes())
        if not await self._catalog.registry.change(state, record_of(changed)):
            return False
        block = write_block(record, "change", None, record.definition)
        restarts = board.rules().changes_ms > 0 and not state.rules.changes_ms
        await self._catalog.index.open(
            opened_as(changed), block, restart_tag=record.tag if restarts else 0
        )
        if _expires_later_or_earlier(state.rules, changed.rules):
            await self._catalog.index.expire_all(opened_as(changed), now_ms)
        if (board.head, board.hide_zero) != (state.rules.head, state.rules.hide_zero):
            self._catalog.note_passes_due(changed)
            await self._catalog.advance_head(changed, MAX_MEMBERS)
        return True


def _expires_later_or_earlier(before: Rules, after: Rules) -> bool:
    """Return whether a change of a board's rules changes the time at which its keys expire."""
    if before.gone_ms != after.gone_ms:
        return True
    return after.gone_ms < MAX_MS and before.changes_ms != after.changes_ms
