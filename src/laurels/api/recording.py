"""Records administrative calls in the audit log of a store.

A service records the calls of its clients itself, with their keys. A program that opens the boards
without a service passes its administrative verbs through a `Recorded` store, so that each of them
is recorded. These verbs are `rebuild`, `accept_clock` and the commands in `call_of`.
"""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, structs

from laurels.core.clock_status import ClockStatus
from laurels.core.commands import (
    ChangeBoard,
    ClearBoard,
    Command,
    ConfirmPayout,
    CreateBoard,
    DeleteBoard,
    DisqualifyMember,
    EraseMember,
    HideEverywhere,
    HideMember,
    Mend,
    RemoveMember,
    ShowEverywhere,
    ShowMember,
    Submit,
    UndeleteBoard,
)
from laurels.errors import Closed, Forked, LaurelsError, NotInAuditLog
from laurels.model.board import Board
from laurels.stores.base import AsyncStore, Store
from laurels.wire.audit_entry import MAX_REQUEST_BYTES, AuditEntry, AuditStore, is_recorded

T = TypeVar("T")

DONE, MAYBE_DONE = 200, 500
_EVENT_FIELDS = ("member", "value", "at", "id", "labels")


class AdministrativeCall(Struct, frozen=True):
    """An administrative call to be recorded: its verb, its board or other target, its arguments,
    and its reason if it takes one."""

    verb: str
    board: str | None = None
    target: str | None = None
    request: Any = None
    reason: str | None = None


def call_of(command: Command[Any]) -> AdministrativeCall | None:
    """Return the audit record of a command, with the arguments as in the body of an HTTP request;
    None if commands of this kind are not recorded."""
    match command:
        case Submit(board, event, absolute=True):
            fields = zip(_EVENT_FIELDS, event, strict=True)
            request = {name: value for name, value in fields if value is not None}
            return AdministrativeCall("set", board, request=request)
        case RemoveMember(board, member):
            return AdministrativeCall("remove", board, request={"member": member})
        case HideMember(board, member, reason, until_ms):
            hidden = {"member": member, "reason": reason, "until": until_ms}
            given = reason if isinstance(reason, str) else None
            return AdministrativeCall("hide", board, request=hidden, reason=given)
        case HideEverywhere(member, reason, until_ms):
            hidden = {"member": member, "reason": reason, "until": until_ms}
            given = reason if isinstance(reason, str) else None
            return AdministrativeCall("hide_everywhere", request=hidden, reason=given)
        case EraseMember(_, reason, token):
            given = reason if isinstance(reason, str) else None
            return AdministrativeCall("erase", request={"token": token}, reason=given)
        case ShowEverywhere(member):
            return AdministrativeCall("show_everywhere", request={"member": member})
        case ShowMember(board, member):
            return AdministrativeCall("show", board, request={"member": member})
        case Mend(board, rankings, at_ms):
            return AdministrativeCall("mend", board, request={"rankings": rankings, "at_ms": at_ms})
        case ConfirmPayout(board, payout, reference):
            request = {"payout": payout, "reference": reference}
            return AdministrativeCall("confirm", board, request=request)
        case DisqualifyMember(board, reason=reason):
            given = reason if isinstance(reason, str) else None
            request = _named_fields(command)
            return AdministrativeCall("disqualify", board, request=request, reason=given)
        case CreateBoard(defined):
            return AdministrativeCall("create", defined.name, request=defined)
        case ChangeBoard(name, changes):
            return AdministrativeCall("change", name, request=changes)
        case ClearBoard(name):
            return AdministrativeCall("clear", name)
        case UndeleteBoard(name, new_name, uid):
            return AdministrativeCall("undelete", name, request={"name": new_name, "uid": uid})
        case DeleteBoard(name):
            return AdministrativeCall("delete", name)
    return None


def _named_fields(command: DisqualifyMember) -> dict[str, Any]:
    """Return the arguments of a disqualification, without its board and without those that are
    None."""
    fields = structs.asdict(command)
    return {name: each for name, each in fields.items() if name != "board" and each is not None}


_REBUILD = AdministrativeCall("rebuild")
_ACCEPT_CLOCK = AdministrativeCall("accept_clock")


class Recorder:
    """Writes entries to an audit log in the name of this program. If `log` is None, it writes
    nothing.

    `by` names the program, and `now_ms` is the clock of the machine. A refused call is not
    recorded. If an entry cannot be written, there is a warning NotInAuditLog but no error, since
    the call itself was carried out.
    """

    def __init__(self, log: AuditStore | None, by: str, now_ms: Callable[[], int]) -> None:
        self.log = log
        self._by = by
        self._now_ms = now_ms

    @contextmanager
    def call(self, call: AdministrativeCall) -> Iterator[None]:
        """Record the call that is made in the `with` block; the entry is durable at the end of the
        block."""
        try:
            yield
        except BaseException as error:
            self._add(call, error)
            raise
        self._add(call, None)

    def _add(self, call: AdministrativeCall, error: BaseException | None) -> None:
        entry = self.entry(call, error)
        if self.log is None or entry is None:
            return
        try:
            self.log.add([entry])
        except LaurelsError as failed:
            warn_of_missing([entry], failed)

    def entry(self, call: AdministrativeCall, error: BaseException | None) -> AuditEntry | None:
        """Return the audit entry of a call that raised `error`, or that succeeded if `error` is
        None. Return None if the call was certainly not carried out."""
        status = _status(error)
        if not is_recorded(status):
            return None
        return AuditEntry(
            at_ms=self._now_ms(),
            by=self._by,
            verb=call.verb,
            board=call.board,
            target=call.target,
            reason=call.reason,
            status=status,
            request=_bounded(call.request),
        )


def _status(error: BaseException | None) -> int:
    """Return the HTTP status for a call that ended with `error`; for None, the status of a success.
    In a child of the process that opened the store a call fails with Forked. It gets the status of
    a closed store, so that it is not recorded: the child has carried out nothing, and must not
    touch the files."""
    if error is None:
        return DONE
    if isinstance(error, Forked):
        return Closed.status
    return error.status if isinstance(error, LaurelsError) else MAYBE_DONE


def _bounded(request: Any) -> Any:
    """Return the arguments of a call as a JSON document or, if they are long, only their length in
    bytes. Return None if there are none, or if JSON cannot express them."""
    if request is None:
        return None
    try:
        if isinstance(request, Board):
            written = request.to_json()
        else:
            written = msgspec.json.encode(request, enc_hook=str)
    # the arguments of a refused call may be values that JSON cannot express
    except (TypeError, ValueError, RecursionError):
        return None
    if len(written) > MAX_REQUEST_BYTES:
        return {"bytes": len(written)}
    return msgspec.json.decode(written)


def warn_of_missing(entries: Sequence[AuditEntry], error: Exception) -> None:
    """Warn about entries that could not be written."""
    for entry in entries:
        what = " ".join(str(error).split())
        warnings.warn(
            f"`{entry.verb}` is not in the audit log: {what}", NotInAuditLog, stacklevel=7
        )


class BatchedAudit:
    """An audit log for the tasks of an event loop. Entries that are added at the same time share
    one write, so recording a `set` takes little additional time.

    Entries that could not be stored are passed to `failed` with the error.
    """

    def __init__(
        self, store: AuditStore, failed: Callable[[Sequence[AuditEntry], Exception], None]
    ) -> None:
        self._store = store
        self._failed = failed
        self._waiting: list[AuditEntry] = []
        self._writing: asyncio.Task[None] | None = None
        self._written: asyncio.Future[None] | None = None

    async def add(self, entry: AuditEntry) -> None:
        """Add an entry. On return it is durable, or it was passed to `failed`."""
        self._waiting.append(entry)
        loop = asyncio.get_running_loop()
        if self._written is None:
            self._written = loop.create_future()
        written = self._written
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write())
        await asyncio.shield(written)

    async def _write(self) -> None:
        while self._waiting:
            entries, self._waiting = self._waiting, []
            written, self._written = self._written, None
            try:
                await asyncio.to_thread(self._store.add, entries)
            except Exception as error:
                # The loop calls `failed` later, so that an error in it does not keep the callers
                # waiting.
                asyncio.get_running_loop().call_soon(self._failed, entries, error)
            if written is not None:
                written.set_result(None)

    async def close(self) -> None:
        """Write the waiting entries."""
        if self._writing is not None:
            await self._writing


class Administration(Protocol):
    """The methods of a store that can be recorded."""

    def write(self, command: Command[T]) -> T: ...

    def rebuild(self) -> None: ...

    def accept_clock(self) -> ClockStatus: ...


class Recorded:
    """Passes calls to a store and records those that are administrative."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._store = store
        self._recorder = recorder

    def write(self, command: Command[T]) -> T:
        call = call_of(command)
        if call is None:
            return self._store.write(command)
        with self._recorder.call(call):
            return self._store.write(command)

    def rebuild(self) -> None:
        with self._recorder.call(_REBUILD):
            self._store.rebuild()

    def accept_clock(self) -> ClockStatus:
        with self._recorder.call(_ACCEPT_CLOCK):
            return self._store.accept_clock()


class AsyncRecorded:
    """Like `Recorded` for the tasks of an event loop: its methods return awaitables."""

    def __init__(self, store: AsyncStore, recorder: Recorder) -> None:
        self._store = store
        self._recorder = recorder
        log = recorder.log
        self._log = None if log is None else BatchedAudit(log, warn_of_missing)

    def write(self, command: Command[T]) -> Awaitable[T]:
        call = call_of(command)
        if call is None:
            return self._store.write_async(command)
        return self._recorded(call, lambda: self._store.write_async(command))

    def rebuild(self) -> Awaitable[None]:
        return self._recorded(_REBUILD, lambda: asyncio.to_thread(self._store.rebuild))

    def accept_clock(self) -> Awaitable[ClockStatus]:
        return self._recorded(_ACCEPT_CLOCK, lambda: asyncio.to_thread(self._store.accept_clock))

    async def _recorded(self, call: AdministrativeCall, act: Callable[[], Awaitable[T]]) -> T:
        try:
            result = await act()
        except (Exception, asyncio.CancelledError) as error:
            await self._add(call, error)
            raise
        await self._add(call, None)
        return result

    async def _add(self, call: AdministrativeCall, error: BaseException | None) -> None:
        entry = self._recorder.entry(call, error)
        if self._log is not None and entry is not None:
            await self._log.add(entry)

    async def close(self) -> None:
        """Write the waiting entries."""
        if self._log is not None:
            await self._log.close()
