"""The store at a service: it sends queries and commands as requests."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from laurels.core.archived import VerifiedPeriod
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import Command, SubmitMany
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import HotReport
from laurels.core.query import Query
from laurels.core.removed_boards import RestorableBoard
from laurels.core.stats import BoardStats, CheckReport, Sealed, Stats
from laurels.errors import LaurelsError
from laurels.errors.service import NoSuchPath, ServiceOutdated
from laurels.model.board import Board
from laurels.stores.intake.commands import is_long
from laurels.wire.audit_page import AuditPage

from . import calls
from .copies import RemoteCopies
from .due_payouts import RemoteDuePayouts
from .transport import AsyncWire, Wire

T = TypeVar("T")


class RemoteStore:
    """Boards at a service, with the answers and errors of every store. In addition, methods raise
    `ServerUnreachable`, `UnknownAnswer` and the errors of the service itself.

    A batch of more than 10,000 events is sent in several requests, each of which is one commit. If
    the batch must be one commit, BatchTooLong is raised. A write of events without ids is not
    repeated when its connection breaks: it raises ServerUnreachable, although the events may have
    counted.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def ask(self, board: str, query: Query[T]) -> T:
        return self.wire.answer(calls.query_call(board, query))

    def cached_view(self, *_: object) -> None:
        """Return None, since this process has no rankings of the boards at a service."""

    def write(self, command: Command[T]) -> T:
        result: Any
        if isinstance(command, SubmitMany):
            parts = calls.batch_calls(command)
            with parts.adding_local_errors():
                result = parts.join([self.wire.answer(call) for call in parts.calls])
        else:
            result = self.wire.answer(calls.command_call(command))
        done: T = result
        return done

    def definition(self, name: str) -> Board:
        return self.wire.answer(calls.definition(name))

    def definitions(self) -> list[Board]:
        return self.wire.answer(calls.definitions())

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        return self.wire.answer(calls.changes(board, after, limit, initial=initial))

    def changed_boards(self, after: str | None) -> ChangedBoards:
        try:
            return self.wire.answer(calls.changed_boards(after))
        except LaurelsError as error:
            if error.code != NoSuchPath.code:
                raise
            raise ServiceOutdated(
                "the service has no GET /v1/changes, which lists the boards with new changes"
            ) from error

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        try:
            return self.wire.answer(calls.deleted_boards(source))
        except LaurelsError as error:
            if error.code != NoSuchPath.code:
                raise
            raise ServiceOutdated(
                "the service has no GET /v1/changes/deleted, which lists the deleted boards"
            ) from error

    def restorable_boards(self) -> list[RestorableBoard]:
        return self.wire.answer(calls.restorable_boards())

    def position(self, board: str, source: str) -> str | None:
        return self.wire.answer(calls.position(board, source))

    def positions(self, board: str) -> dict[str, str]:
        return self.wire.answer(calls.positions(board))

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        return self.wire.answer(calls.board_stats(board))

    def stats(self) -> Stats:
        return self.wire.answer(calls.stats())

    def check(self) -> CheckReport:
        return self.wire.answer(calls.check())

    def rebuild(self) -> None:
        return self.wire.answer(calls.rebuild())

    def snapshot(self) -> int:
        return self.wire.answer(calls.snapshot())

    def seal(self) -> Sealed:
        return self.wire.answer(calls.seal())

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        return self.wire.answer(calls.verify_period(board, window, period))

    def clock_status(self) -> ClockStatus:
        return self.wire.answer(calls.clock_status())

    def accept_clock(self) -> ClockStatus:
        return self.wire.answer(calls.accept_clock())

    def audit(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        return self.wire.answer(calls.audit(board, before, limit))

    def hidden_everywhere(self, after: str | None, limit: int) -> list[HiddenMember]:
        return self.wire.answer(calls.hidden_everywhere(after, limit))

    def hot(self) -> HotReport:
        return self.wire.answer(calls.hot())

    @property
    def due_payouts(self) -> RemoteDuePayouts:
        """The due payouts at the service."""
        return RemoteDuePayouts(self.wire)

    @property
    def copies(self) -> RemoteCopies:
        """Access to whole boards, for copies."""
        return RemoteCopies(self.wire)

    def close(self) -> None:
        self.wire.close()


class AsyncRemoteStore(RemoteStore):
    """A `RemoteStore` that tasks of event loops can use as well. It sends the queries and commands
    of tasks by the wire `on_loop`."""

    def __init__(self, wire: Wire, on_loop: AsyncWire) -> None:
        super().__init__(wire)
        self._on_loop = on_loop

    def start(self) -> None:
        """Do nothing, since the service itself does the due work."""

    async def ask_async(self, board: str, query: Query[T]) -> T:
        return await self._on_loop.answer(calls.query_call(board, query))

    async def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        return await self._on_loop.answer(calls.changes(board, after, limit, initial=initial))

    async def read_async(self, read: Callable[[bool], T]) -> T:
        return await asyncio.to_thread(read, True)

    async def write_async(self, command: Command[T]) -> T:
        result: Any
        if isinstance(command, SubmitMany):
            if is_long(command):
                parts = await asyncio.to_thread(calls.batch_calls, command)
            else:
                parts = calls.batch_calls(command)
            with parts.adding_local_errors():
                result = parts.join([await self._on_loop.answer(call) for call in parts.calls])
        else:
            result = await self._on_loop.answer(calls.command_call(command))
        done: T = result
        return done

    async def close_async(self) -> None:
        await self._on_loop.close()
        self.close()
