"""The writes of a store on an index server.

A write is accepted as in every store and planned from this process's copy of the definitions; then
a call carries it out. If the server refuses the plan as outdated, the write is planned again.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, partial
from math import inf
from typing import Any, TypeVar, Unpack

from msgspec.structs import replace

from laurels.core.commands import (
    Command,
    ConfirmPayout,
    CreateBoard,
    DefinitionCommand,
    DeleteBoard,
    DisqualifyMember,
    EraseMember,
    HideMember,
    Mend,
    ModeratingCommand,
    RemoveMember,
    SetData,
    ShowMember,
    Submit,
    SubmitMany,
    UndeleteBoard,
)
from laurels.core.receipt import Receipts
from laurels.core.removed_boards import RestorableBoard
from laurels.errors import NotReady, PositionMoved, UnknownBoard
from laurels.stores.intake.accept import SubmitOptions, batch_list
from laurels.stores.intake.commands import is_long, result_of, to_write
from laurels.stores.intake.deleted_positions import SinkMove, no_receipts, sink_move
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.writes import FoldedWrite
from laurels.stores.redis.connection.deadline import ends_in

from .accepting import KnownBoards, is_newer
from .erasing import ServerErasing
from .reading import RedisReads
from .undeleting import ServerUndeletions

T = TypeVar("T")


_CommandApart = ConfirmPayout | DisqualifyMember | EraseMember | UndeleteBoard


class RedisCommits(RedisReads):
    """Writes to boards on an index server."""

    def write(self, command: Command[T]) -> T:
        """Carry out a command. Return its result, or raise the error that it fails with."""
        if (change := _apart(command)) is not None:
            with self.answers.recording(command):
                changed: T = self.run(self._carry_out_apart(change))
            return changed
        if isinstance(command, ModeratingCommand):
            self.run(self._prepare_hiding(command))
        elif isinstance(command, DeleteBoard):
            self.run(self._erasing.complete())
        elif isinstance(command, CreateBoard):
            self.run(self._sealing_tasks.remove_paid())
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
        return KnownBoards(self._catalog).submission(board, batch, window, **options)

    async def write_async(self, command: Command[T]) -> T:
        """Carry out a command. Return its result, or raise the error that it fails with."""
        self.ensure_usable()
        if (change := _apart(command)) is not None:
            with self.answers.recording(command):
                changed: Any = await self._carry_out_apart(change)
            answer: T = changed
            return answer
        if (move := sink_move(command)) is not None:
            receipts: Any = await self._move_position(move, command)
            done: T = receipts
            return done
        with self.answers.recording(command):
            committed = await self.commit_async(await self._to_write(command))
        if isinstance(command, DefinitionCommand):
            committed = (await self.newest_async(command.defines)).board
        return result_of(command, committed)

    async def _carry_out_apart(self, command: _CommandApart) -> Any:
        """Carry out a command that changes a ledger."""
        if isinstance(command, EraseMember):
            return await self._erasing.erase(command)
        if isinstance(command, UndeleteBoard):
            board = await self._undeletions.undelete(command)
            await self._refresh_due_windows()
            return board
        with ends_in(inf, anew=True):
            changed: Any
            if isinstance(command, ConfirmPayout):
                changed, is_new = await self._payouts.confirm(command)
            else:
                await self._erasing.complete()
                changed, is_new = await self._corrections.disqualify(command), True
            if is_new:
                await self._refresh_due_windows()
            # the removal of a board waits until its last payout is confirmed or superseded
            await self._sealing_tasks.remove_paid()
            return changed

    @cached_property
    def _erasing(self) -> ServerErasing:
        return ServerErasing(
            self._catalog,
            self._ledgers,
            self._payouts,
            self._sealing_tasks,
            self._refresh_due_windows,
            self._erase_from_audit,
            self._elapsed_ns,
        )

    def ensure_erasable(self, command: EraseMember) -> None:
        """Seal what is due. If `write` would refuse to erase the member, raise its error."""
        self.run(self._erasing.ensure_erasable(command))

    async def _refresh_due_windows(self) -> None:
        await self._catalog.refresh_due_windows(paced=self.paced)

    async def _complete_erasure(self, members: Collection[str] | None = None) -> bool:
        return await self._erasing.complete(members)

    @cached_property
    def _undeletions(self) -> ServerUndeletions:
        return ServerUndeletions(
            self._catalog, self._sealing, self._sealing_tasks, self._erasing.complete
        )

    def restorable_boards(self) -> list[RestorableBoard]:
        """Return the removed boards that can be restored, in the order of their removal. Raises
        LedgerUnavailable."""
        restorable: list[RestorableBoard] = self.run(self._restorable())
        return restorable

    async def _restorable(self) -> list[RestorableBoard]:
        removed = await self._undeletions.removed()
        payouts = await self._payouts.counts() if removed else {}
        return [
            RestorableBoard(
                each.name, each.uid, each.removed_ms, each.periods, payouts.get(each.uid, 0)
            )
            for each in removed
        ]

    async def _finish(self) -> None:
        await self._erasing.stop()
        await super()._finish()

    async def _erase_from_audit(self, member: str, token: str) -> int:
        if self._audit is None:
            return self._memory_audit.erase(member, token)
        return await self._audit.erase(member, token)

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
        """If `move` is for the changes of a deleted board, move the position of the sink there, and
        return empty receipts. Otherwise do nothing, and return None."""
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
        if isinstance(command, ModeratingCommand):
            await self._prepare_hiding(command)
        elif isinstance(command, DeleteBoard):
            await self._erasing.complete()
        elif isinstance(command, CreateBoard):
            await self._sealing_tasks.remove_paid()
        elif isinstance(command, Submit):
            await self._find_labels(command.board, [command.event], command)
        elif isinstance(command, SubmitMany):
            events = batch_list(
                command.events
            )  # as a list, since an iterator could be read only once
            await self._find_labels(command.board, events, command)
            command = replace(command, events=events)
        elif isinstance(command, SetData | RemoveMember | Mend):
            await self.find_board(command.board)
        accept = partial(to_write, KnownBoards(self._catalog), command)
        return await asyncio.to_thread(accept) if is_long(command) else accept()

    async def _prepare_hiding(self, command: ModeratingCommand) -> None:
        """Read which members are hidden, since the effect and the result of the command depend on
        it."""
        await self._catalog.load()
        if isinstance(command, HideMember | ShowMember):
            await self._catalog.hidings.do_due_work(self._catalog.now())
            state = await self._catalog.read_hidden(command.board)
            await self._catalog.end_hidings(state)
            return
        # Periods that are final already are closed before the command changes who is hidden.
        await self._catalog.close_all_due()
        await self._catalog.hidings.do_due_work(self._catalog.now())

    async def _find_labels(
        self, board: str, events: Sequence[Any], options: Submit | SubmitMany
    ) -> None:
        if is_newer(await self.find_board(board), events, options.window, options.scope):
            await self.newest_async(board)


def _apart(command: Command[Any]) -> _CommandApart | None:
    """Return a command that is carried out in a ledger as well; None for other commands."""
    return command if isinstance(command, _CommandApart) else None
