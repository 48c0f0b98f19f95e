"""Erases a member from a store on an index server: from all boards, and then from the ledgers and
the audit log.

A note beside the definitions says that an erasure is not complete. It is stored first, and removed
last; all steps in between may be repeated. So any process can complete the erasure of a process
that has ended. There is one such note: the next erasure first completes the one before.

In a ledger a token takes the place of the member, in each period that was sealed before the member
was removed from the boards. What the same id wins later belongs to a new member.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.core import record as records
from laurels.core.board_record import BoardRecord
from laurels.core.board_state import BoardState
from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.changes.record_blocks import erase_block
from laurels.core.closing import ClosedPeriod, SealedPeriod
from laurels.core.commands import EraseMember
from laurels.core.erasing import Erasure, Remaining
from laurels.core.hiding import EVERYWHERE
from laurels.errors import Closed, LaurelsError, UnknownBoard
from laurels.errors.payouts import PayoutsOpen
from laurels.model.event import member_bytes
from laurels.model.validation import quoted
from laurels.sql.final_erasing import ErasedFinals, FinalEraser
from laurels.sql.final_periods import FinalPeriod
from laurels.stores.intake.confirming import ensure_short_text
from laurels.stores.intake.tags import new_tag
from laurels.stores.redis.connection.deadline import ends_in

from .catalog import BoardCatalog
from .closing import archived_only
from .ledgers import Ledger, Ledgers
from .outdated import DefinitionOutdated
from .payouts import ServerPayouts
from .registry import ERASED, ERASING
from .remote import Opened, opened_as
from .sealing_tasks import SealingTasks

RETRY_NS = 10_000_000_000
"""The interval at which the process looks for an erasure that is not complete, in nanoseconds."""

_log = logging.getLogger("laurels")


class NotedErasure(Struct, frozen=True):
    """An erasure that is not complete. `removed_ms` is the time at which the member was removed
    from all boards; None before. `boards` are the names of those that had it; before, the board
    from whose hidden members it is being removed. `was_hidden` is whether it was hidden on all
    boards."""

    member: str
    token: str
    reason: str
    began_ms: int
    removed_ms: int | None = None
    boards: list[str] = []
    was_hidden: bool = False


class ServerErasing:
    """Erases members. `refresh` refreshes the windows that are due. `erase_audit` puts a token in
    the place of a member in the audit log, and returns how many entries named the member."""

    def __init__(
        self,
        catalog: BoardCatalog,
        ledgers: Ledgers,
        payouts: ServerPayouts,
        sealing_tasks: SealingTasks,
        refresh: Callable[[], Awaitable[None]],
        erase_audit: Callable[[str, str], Awaitable[int]],
        elapsed_ns: Callable[[], int],
    ) -> None:
        self._catalog = catalog
        self._ledgers = ledgers
        self._payouts = payouts
        self._sealing_tasks = sealing_tasks
        self._refresh = refresh
        self._erase_audit = erase_audit
        self._elapsed_ns = elapsed_ns
        self._next_ns = 0
        self._task: asyncio.Task[None] | None = None

    async def erase(self, command: EraseMember) -> Erasure:
        """Erase a member. Raises PayoutsOpen, LedgerUnavailable; after the latter, the next call
        completes the erasure."""
        with ends_in(inf, anew=True):
            member = await self._erasable(command)
            noted = NotedErasure(member, command.token, command.reason, self._catalog.now())
            text = msgspec.json.encode(noted).decode()
            while (stored := await self._catalog.registry.first_note(ERASING, text)) != text:
                done = await self._carry_out(msgspec.json.decode(stored, type=NotedErasure))
                if done.token == command.token:
                    return done
            return await self._carry_out(noted)

    async def ensure_erasable(self, command: EraseMember) -> None:
        """Seal all periods that are due, and complete the erasure before. Raise the errors with
        which `erase` fails before it changes anything: PayoutsOpen, LedgerUnavailable."""
        with ends_in(inf, anew=True):
            await self._erasable(command)
            await self.complete()

    async def _erasable(self, command: EraseMember) -> str:
        """Seal all periods that are due. Return the member of a command. Raises PayoutsOpen."""
        ensure_short_text(command.reason, "reason")
        member = member_bytes(command.member).decode()
        sealed = await self._sealing_tasks.seal()
        if sealed.closed or sealed.sealed:
            await self._refresh()
        if count := await self._payouts.open_of(member):
            raise _payouts_open(member, count)
        return member

    async def complete(self, members: Collection[str] | None = None) -> bool:
        """Complete the erasure that another process has not completed, and return whether there was
        one; with `members` only if it is the erasure of one of them. If there is none, this costs
        one call."""
        stored = await self._catalog.registry.note(ERASING)
        if stored is None:
            return False
        noted = msgspec.json.decode(stored, type=NotedErasure)
        if members is not None and noted.member not in members:
            return False
        with ends_in(inf, anew=True):
            await self._carry_out(noted)
        return True

    def start(self) -> None:
        """Do in the background what `complete` does, unless that was tried a short time ago."""
        if self._elapsed_ns() < self._next_ns or (self._task and not self._task.done()):
            return
        self._next_ns = self._elapsed_ns() + RETRY_NS
        self._task = asyncio.get_running_loop().create_task(self._complete_in_background())

    async def stop(self) -> None:
        """End the work in the background."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _complete_in_background(self) -> None:
        try:
            await self.complete()
        except Closed:
            return
        except LaurelsError as error:
            _log.warning("an erasure is not complete, which is tried again: %s", error)

    async def _carry_out(self, noted: NotedErasure) -> Erasure:
        """Erase a member, as far as that was not done before."""
        await self._catalog.load()
        if noted.removed_ms is None:
            await self._catalog.registry.set_note(ERASED, noted.token)
            noted = await self._show_everywhere(noted)
            boards = await self._remove_from_boards(noted)
            await self._sealing_tasks.seal()  # a period may have been closed with the member
            noted = replace(noted, removed_ms=self._catalog.now(), boards=boards)
            await self._note(noted)
            await self._refresh()
        periods, payouts = await self._erase_from_ledgers(noted)
        entries = await self._erase_audit(noted.member, noted.token)
        remains = [place async for place in self._remaining(noted, payouts)]
        await self._catalog.registry.clear_note(ERASING, msgspec.json.encode(noted).decode())
        at_ms, count = self._catalog.now(), len(noted.boards)
        return Erasure(noted.token, at_ms, count, periods, payouts, entries, remains)

    async def _note(self, noted: NotedErasure) -> None:
        """Replace the note about an erasure that is not complete."""
        await self._catalog.registry.set_note(ERASING, msgspec.json.encode(noted).decode())

    # Boards

    async def _show_everywhere(self, noted: NotedErasure) -> NotedErasure:
        """Remove a member from the list of those hidden on all boards. Return the note, which has
        whether the member was in it."""
        catalog, member = self._catalog, noted.member.encode()
        if await catalog.registry.load_pending() is not None:
            await catalog.hidings.spread()
        if catalog.boards.everywhere.stored(member) is not None:
            noted = replace(noted, was_hidden=True)
            await self._note(noted)
            await catalog.hidings.forget_everywhere(member, catalog.now())
        return noted

    async def _remove_from_boards(self, noted: NotedErasure) -> list[str]:
        """Remove a member from all boards. Return the names of those that had it, or whose changes
        name it as hidden."""
        member, names = noted.member.encode(), list[str]()
        for name in sorted(self._catalog.boards.boards):
            try:
                had = await self._catalog.retry_outdated(name, partial(self._remove_from, noted))
            except UnknownBoard:  # the board was deleted meanwhile
                continue
            if had:
                names.append(name)
        await self._catalog.remove_deleted()
        for each in await self._catalog.removals.all():
            kept = await self._catalog.removals.kept(each.uid)
            if kept is not None:
                with suppress(DefinitionOutdated):  # the server has lost the state of the board
                    await self._forget_in_removed(*kept, member)
        return names

    async def _forget_in_removed(self, opened: Opened, record: BoardRecord, member: bytes) -> None:
        """Remove a member from the lists of hidden members of a removed board. No board is restored
        meanwhile."""
        await self._catalog.index.forget_hidden(opened, member, self._catalog.now())
        stored = await self._catalog.index.load_closings(opened, [*record.closing])
        await self._show_in_sealed(opened, stored.records, member)

    async def _remove_from(self, noted: NotedErasure, state: BoardState) -> bool:
        """Remove a member from a board. Return whether the board had it."""
        catalog, member, name = self._catalog, noted.member.encode(), state.board.name
        await catalog.hidings.update(state)
        was_hidden = name in noted.boards
        if state.hidden.stored(member) is not None:
            was_hidden = True
            await self._note(replace(noted, boards=[name]))
            await catalog.hidings.forget(state, member, catalog.time_of(state))
            state = catalog.boards.current(state)
        is_hidden_in_changes = noted.was_hidden and state.rules.changes_ms > 0
        await catalog.closings.close_due(state, catalog.time_of(state))
        is_archived = await self._forget_archived(state, member)
        state = catalog.boards.current(state)
        await catalog.pass_boundary(state, catalog.time_of(state))
        now_ms = catalog.time_of(state)
        opened, due = opened_as(state), catalog.due_work(state, now_ms)
        record = records.Erase(
            EVERYWHERE, 0, now_ms, member, noted.token, noted.reason, [], new_tag()
        )
        had_ids = await catalog.index.forget_ids(opened, member) > 0
        had = await catalog.index.remove(
            opened,
            member,
            due,
            erase_block(record),
            archived=archived_only(state),
            forced=was_hidden or is_hidden_in_changes or is_archived or had_ids,
        )
        await catalog.index.forget_names(opened, member)
        if state.rules.head:
            catalog.note_passes_due(state)
        return had

    async def _forget_archived(self, state: BoardState, member: bytes) -> bool:
        """If rankings of sealed periods on the index server may have the member, let only the
        archive answer queries about sealed periods, so that the member can be removed from these
        rankings. Then remove it from the lists of hidden members of sealed periods. Return whether
        it was in the archive or in such a list."""
        if not state.closing or not state.board.ledger:
            return False
        catalog = self._catalog
        await catalog.closings.load(state)
        ledger, uid = self._ledgers.named(state.board.ledger), state.uid
        is_listed = bool(_hiding(_records_of(state), member))
        is_archived: bool = await ledger.read(
            lambda connection: _eraser(ledger, connection).has(uid, member.decode())
        )
        if is_listed or is_archived or _may_have_others(state):
            await catalog.answer_from_archive(state)
        if is_listed:
            current = catalog.boards.current(state)
            await self._show_in_sealed(opened_as(current), _records_of(current), member)
            await catalog.closings.load(current)
        return is_listed or is_archived

    async def _show_in_sealed(
        self,
        opened: Opened,
        records_of: Mapping[tuple[str, int], ClosedPeriod | SealedPeriod],
        member: bytes,
    ) -> None:
        """Each sealed period has a list of the members that were hidden when it was closed. Remove
        the member from these lists."""
        for (window, instance), sealed in _hiding(records_of, member).items():
            hidden = tuple([each for each in sealed.hidden if each != member])
            await self._catalog.index.record_seal(
                opened, window, instance, sealed, replace(sealed, hidden=hidden), None
            )

    # Ledgers

    async def _erase_from_ledgers(self, noted: NotedErasure) -> tuple[int, int]:
        """Put the token in the places of the member in all ledgers of the store. Return the numbers
        of sealed periods and payouts that have it."""
        uids: dict[str, set[str]] = {}
        for state in self._catalog.boards.boards.values():
            if state.board.ledger and state.closing:
                uids.setdefault(state.board.ledger, set()).add(state.uid)
        for uid, name in (await self._payouts.archives()).items():
            uids.setdefault(name, set()).add(uid)
        for name, paid in (await self._payouts.boards()).items():
            uids.setdefault(name, set()).update(paid)
        periods = payouts = 0
        for name in sorted(uids):
            ledger = self._ledgers.named(name)
            for uid in sorted(uids[name]):
                erased = await ledger.write(partial(_erase, ledger, uid, noted))
                periods, payouts = periods + erased.periods, payouts + erased.payouts
        return periods, payouts

    # What remains

    async def _remaining(self, noted: NotedErasure, payouts: int) -> AsyncIterator[Remaining]:
        """Yield the places that may still name the member."""
        yield Remaining("memory", "the processes of the store end")
        saved = "the index server has saved its data anew, by BGSAVE or BGREWRITEAOF"
        yield Remaining("snapshots", saved)
        boards = self._catalog.boards.boards
        states = [boards[name] for name in noted.boards if name in boards]
        deleted = [each.state for each in await self._catalog.deletions.all()]
        for place in _remaining_changes([*states, *deleted], self._catalog.now()):
            yield place
        sources = set[str]()
        for state in states:
            sources.update(await self._catalog.index.positions(opened_as(state)))
        if payouts:
            sources.update(name.partition(" ")[0] for name in await self._payouts.positions())
        sinks = sorted(
            source.removeprefix(SINK_PREFIX) for source in sources if source.startswith(SINK_PREFIX)
        )
        if sinks:
            until = "their targets have carried out the change `erase`"
            yield Remaining("sinks", until, None, sinks)
        yield Remaining("backups", "they are removed")


def _records_of(state: BoardState) -> dict[tuple[str, int], SealedPeriod]:
    """Return the seals of a board by window and instance."""
    return {
        (window, instance): sealed
        for window, closing in state.closing.items()
        for instance, sealed in closing.sealed.items()
    }


def _may_have_others(state: BoardState) -> bool:
    """Return whether rankings of sealed periods on the index server may have members that the
    archive does not have, and that are in no list of hidden members: those below the head, or those
    whose score was 0."""
    return any(
        (sealed.hide_zero or state.rules.head > 0)
        and (closing.cleared is None or closing.cleared < instance)
        for closing in state.closing.values()
        for instance, sealed in closing.sealed.items()
    )


def _hiding(
    records_of: Mapping[tuple[str, int], ClosedPeriod | SealedPeriod], member: bytes
) -> dict[tuple[str, int], SealedPeriod]:
    """Return the seals of periods that were closed while the member was hidden."""
    return {
        place: record
        for place, record in records_of.items()
        if isinstance(record, SealedPeriod) and member in record.hidden
    }


def _remaining_changes(states: list[BoardState], now_ms: int) -> Iterator[Remaining]:
    """Yield the boards whose changes may still name the member."""
    keeping = [state for state in states if state.rules.changes_ms]
    if keeping:
        until_ms = now_ms + max([state.rules.changes_ms for state in keeping])
        names = sorted({state.board.name for state in keeping})
        yield Remaining("changes", "the boards no longer keep them", until_ms, names)


def _eraser(ledger: Ledger, connection: Any) -> FinalEraser:
    return FinalEraser(ledger.dialect, ledger.prefix, connection)


def _erase(ledger: Ledger, uid: str, noted: NotedErasure, connection: Any) -> ErasedFinals:
    """Erase a member from the sealed periods and payouts of a board, in a transaction of its
    own."""
    ledger.locked_writer(connection)
    kept = {
        (period.revision.window, _label(period))
        for period in ledger.reader(connection).periods(uid)
        if noted.removed_ms is not None and period.revision.seal.sealed_ms > noted.removed_ms
    }
    eraser = _eraser(ledger, connection)
    if count := eraser.open_payouts(uid, noted.member, kept):
        raise _payouts_open(noted.member, count)
    return eraser.erase(uid, noted.member, noted.token, kept, is_listed=True)


def _payouts_open(member: str, count: int) -> PayoutsOpen:
    return PayoutsOpen(
        f"{quoted(member)} has payouts that are not confirmed: {count}; to waive one, confirm it "
        "with a reference that says so"
    )


def _label(period: FinalPeriod) -> str:
    revision = period.revision
    return period.rules().windows[revision.window].period_of(revision.instance).label
