"""Carries out writes: plans each from this process's copy of the definitions, and sends it to the
index.

If the index refuses the plan as outdated, the write is planned again. A write that changes a
definition first stores the new definition. This fails if another process has changed the definition
meanwhile (`registry`).
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import msgspec

from laurels.core import record as records
from laurels.core.board_record import BoardRecord
from laurels.core.board_state import BoardState, record_of, redefine
from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.changes.confirmed import confirmed_sequences
from laurels.core.changes.record_blocks import position_block, write_block
from laurels.core.fold import Folded
from laurels.core.index import Offset
from laurels.core.plan import plan_expiry
from laurels.core.receipt_segment import Ranks
from laurels.errors import (
    BatchTooLarge,
    BoardInvalid,
    LaurelsError,
    NotReady,
    PartlyCounted,
    Unavailable,
)
from laurels.model.batch import Batch
from laurels.model.board import Board
from laurels.model.rules import Rules
from laurels.model.validation import quoted
from laurels.stores.intake.copies import ensure_unarchived
from laurels.stores.intake.member_writes import DataChange
from laurels.stores.intake.mending import Mending, parts_of_mend
from laurels.stores.intake.shares import MAX_MEMBERS
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.writes import FoldedWrite, Single
from laurels.stores.redis.connection.deadline import UPKEEP_SECONDS, VERB_SECONDS, ends_in
from laurels.timeline.instants import MAX_MS, MIN_MS

from .catalog import ATTEMPTS, BoardCatalog
from .outdated import DefinitionOutdated, PlanExpired, StepNotReady
from .registered_boards import opened_as
from .remote import Opened, PositionWrite
from .retry import Attempts, Calls, after

MAX_CALL_MEMBERS = 1_000
"""The maximum number of members in one call."""
CALL_EVENTS = 10_000
SWEEP = 200
"""The number of members that a sweep processes after each submission."""


class Writer:
    """Carries out writes."""

    def __init__(self, catalog: BoardCatalog, calls: Calls) -> None:
        self._catalog = catalog
        self._calls = calls
        self.paced = False
        """Whether a background task does the due work. If not, submissions do it."""

    async def carry_out(self, write: FoldedWrite) -> Any:
        """Carry out a write. Return the result of each write that is joined in it."""
        if isinstance(write, Submission):
            offset = await self._submit(write)
            with ends_in(UPKEEP_SECONDS, anew=True):
                await self._follow_up(write)
            return write.results(offset)
        if isinstance(write, Mending):
            with ends_in(inf, anew=True):
                await self._mend(write)
            return write.results(0)
        assert isinstance(write, Single)
        with ends_in(inf, anew=True):  # on a board with many scopes one record may take many calls
            if await self._record(write):
                await self._catalog.refresh_due_windows(paced=self.paced)
        return write.results(0)

    async def _follow_up(self, write: Submission) -> None:
        """Do a share of the due work after a submission. The submission has already counted, so
        errors are ignored here, and the next read or write continues the work."""
        if write.board.rules.has_label_replica and any(batch.labels for batch in write.batches):
            with suppress(LaurelsError):
                await self._catalog.feed(write.board.board.name)
        if not self.paced:
            with suppress(LaurelsError):
                await self._share(write.board)
                await self._catalog.remove_gone()
        if write.batches or write.position_record is not None:
            await self._catalog.refresh_due_windows(paced=self.paced)

    async def _share(self, state: BoardState) -> None:
        """Do a share of the due work of a board."""
        now_ms = self._catalog.time_of(state)
        try:
            if state.due_ms <= now_ms:
                await self._catalog.pass_boundary(state, now_ms)
            await self._catalog.sweep(state, now_ms, SWEEP)
            await self._catalog.advance_head(state, SWEEP)
        except DefinitionOutdated:
            await self._catalog.reload_board(state)

    async def _submit(self, write: Submission) -> Offset:
        boards = self._catalog.boards
        await self._ensure_exists(write)
        if self._catalog.event_time:
            await self._catalog.read_time(boards.current(write.board))
        write.accept(boards, self._catalog.now())
        offset = (
            await self._catalog.index.offset(opened_as(write.board)) if not write.batches else 0
        )
        if write.position_record is not None:
            position_record = write.position_record
            source, text = position_record.position
            follows = {} if write.follows is None else {source: write.follows}
            stored = PositionWrite({source: text}, follows, write.behind)

            async def position(state: BoardState) -> None:
                if state.uid != write.board.uid:
                    raise _created_again(state.board.name)
                await self._catalog.index.set_position(
                    opened_as(state), stored, position_block(position_record)
                )
                if source.startswith(SINK_PREFIX) and state.rules.changes_ms:
                    confirmed = confirmed_sequences(text, state.uid)
                    await self._catalog.index.confirm(opened_as(state), source, confirmed)

            await self._catalog.retry_outdated(write.board.board.name, position)
        first, counted = 0, False
        for batch in write.batches:
            for share, call in _calls(batch, write.board.rules):
                places = [first + i for i in share] if first else share
                attempts = self._calls.next(write.board.number)
                with (
                    after(counted=counted),
                    attempts.reporting(),
                    ends_in(VERB_SECONDS, anew=counted),
                ):
                    offset = await self._count(write, call, places, attempts)
                counted = True
            first += batch.size
            self._catalog.note_time(write.board, batch.now_ms)
        return offset

    async def _ensure_exists(self, write: Submission) -> None:
        """Raise UnknownBoard if the board was deleted. Raise NotReady if a board of that name was
        created again, since the events were validated against the old definition."""
        self._catalog.set_gone()
        if self._catalog.boards.find_current(write.board) is not None:
            return
        name = write.board.board.name
        await self._catalog.find_board(name)
        raise _created_again(name)

    async def _count(
        self, write: Submission, batch: Batch, places: Sequence[int], attempts: Attempts
    ) -> Offset:
        """Count a part of a submission: the batch of its events at the positions `places`. Return
        the offset after the batch."""
        place, ranks = write.watched
        size = batch.size
        in_call: Sequence[int] = range(size)
        for _ in range(ATTEMPTS):
            await self._ensure_exists(write)
            state = write.board = self._catalog.boards.current(write.board)
            batch = msgspec.structs.replace(batch, weights={}).weighed(state.rules.weighings)
            plan = self._catalog.boards.plan(batch)
            try:
                apply = partial(
                    self._catalog.index.apply,
                    opened_as(state),
                    batch,
                    plan,
                    plan.specs.index(place),
                    ranks=ranks,
                    due_ms=plan_expiry(plan, state.rules, batch),
                    places=in_call,
                )
                applied = await attempts.answer(apply)
            except DefinitionOutdated:
                await self._catalog.reload_board(state)
            except PlanExpired as error:
                batch = batch.accepted_from(error.now_ms)
            except StepNotReady as error:
                await self._catalog.advance(state, batch.now_ms, error)
            else:
                if applied.passes_due:
                    self._catalog.note_passes_due(state)
                if state.rules.refreshed:
                    self._catalog.note_refresh_states(state, applied.refresh_states)
                    # The plan is made again, since a refresh may have changed which step is shown.
                    plan = self._catalog.boards.plan(batch)
                both_ranks = None
                if applied.ranks_before is not None and applied.ranks_after is not None:
                    both_ranks = Ranks(applied.ranks_before, applied.ranks_after, applied.highs)
                if applied.left is None:
                    write.add_result(Folded(batch, plan, applied.outcomes), both_ranks, places)
                    return applied.offset
                left = set(applied.left)
                done = [i for i in range(batch.size) if i not in left]
                folded = Folded(batch.take(done), plan.select(done), applied.outcomes)
                write.add_result(folded, both_ranks, [places[i] for i in done])
                places = [places[i] for i in applied.left]
                in_call = [in_call[i] for i in applied.left]
                batch = batch.take(applied.left)
        if batch.size < size:
            raise PartlyCounted(f"{batch.size} events of the batch were not counted")
        raise NotReady(
            f"the board {quoted(write.board.board.name)} kept changing while events were counted"
        )

    async def _mend(self, write: Mending) -> None:
        """Replace entries of rankings. Each ranking takes calls of its own. If another process
        changes the board meanwhile, the entries of all rankings are replaced again."""
        for _ in range(ATTEMPTS):
            if self._catalog.event_time:
                await self._catalog.read_time(self._catalog.boards.named(write.name))
            write.done = 0
            self._catalog.set_gone()
            try:
                for record in write.mends(self._catalog.boards, self._catalog.now()):
                    state = self._catalog.boards.by_number(record.board)
                    self._catalog.note_time(state, record.now_ms)
                    await self._catalog.pass_boundary(state, record.now_ms)
                    due = self._catalog.due_work(state, record.now_ms)
                    for part in parts_of_mend(record, MAX_CALL_MEMBERS):
                        write.done += await self._catalog.index.mend(opened_as(state), part, due)
                    self._note_passes_due(state)
            except DefinitionOutdated:
                await self._catalog.load()
            else:
                return
        raise NotReady(
            f"the board {quoted(write.name)} kept changing while its entries were replaced"
        )

    async def _record(self, write: Single) -> bool:
        """Carry out a write of one record. Return whether there was anything to do. If another
        process has changed the definitions, propose the record again. If the write is invalid
        according to an outdated copy of the definitions, validate it again with the current
        ones."""
        reread = False
        for _ in range(ATTEMPTS):
            self._catalog.set_gone()
            try:
                proposed = write.records(self._catalog.boards, self._catalog.now())
                if not proposed or await self._done(write, proposed[0]):
                    return bool(proposed)
            except DefinitionOutdated:
                await self._catalog.load()
            except Unavailable:
                raise
            except LaurelsError:
                if reread or not await self._catalog.load():
                    raise
                reread = True
        raise NotReady("the definitions of boards kept changing during this write")

    async def _done(self, write: Single, record: records.Record) -> bool:
        """Carry out a record. Return False if it has to be proposed again."""
        match record:
            case records.Create():
                return await self._create(record)
            case records.Redefine():
                return await self._change(record)
            case records.Delete():
                state, deleted_ms = self._catalog.boards.by_number(record.board), record.now_ms
                if self._catalog.event_time:
                    await self._catalog.read_time(state)
                    deleted_ms = max(deleted_ms, state.now_ms)
                if not await self._catalog.deletions.delete(state, deleted_ms, record.tag):
                    return False
                await self._catalog.remove_deleted()
            case records.Remove():
                state = self._catalog.boards.by_number(record.board)
                await self._catalog.pass_boundary(state, record.now_ms)
                current = self._catalog.boards.find_current(state)
                if current is None:
                    return False
                opened = opened_as(current)
                due = self._catalog.due_work(
                    current, max(record.now_ms, self._catalog.time_of(current))
                )
                block = write_block(record, "remove", record.member)
                write.settle(await self._catalog.index.remove(opened, record.member, due, block))
                self._note_passes_due(current)
            case records.MemberData():
                opened = opened_as(self._catalog.boards.by_number(record.board))
                block = write_block(record, "data", record.member, record.data)
                assert isinstance(write, DataChange)
                await self._catalog.index.set_data(
                    opened, record.member, record.data, block, write.expected
                )
        return True

    def _note_passes_due(self, state: BoardState) -> None:
        """Record that a pass may be due, since a write may have taken members out of the head of a
        board. The answer to this write does not say whether one is due."""
        if state.rules.head:
            self._catalog.note_passes_due(state)

    async def _create(self, record: records.Create) -> bool:
        board = Board.from_json(record.definition)
        ensure_unarchived(board)
        await self._catalog.remove_gone()
        kept = BoardRecord(
            number=record.board,
            definition=record.definition,
            version=record.version,
            created_ms=record.now_ms,
            floors={},
            positions={},
            due_ms=MIN_MS,
            uid=record.uid,
        )
        if not await self._catalog.registry.create(kept, board.name):
            return False
        opened = Opened(record.board, record.version, board.rules(), uid=record.uid)
        block = write_block(record, "create", None, record.definition)
        await self._catalog.index.open(opened, block)
        return True

    async def _change(self, record: records.Redefine) -> bool:
        state = self._catalog.boards.by_number(record.board)
        changed = msgspec.structs.replace(state)
        board = Board.from_json(record.definition)
        ensure_unarchived(board)
        if not self._catalog.index.keeps_layout(state.rules, board.rules()):
            raise BoardInvalid(
                "with these windows the board would need another layout on the index server: "
                "create another board with them"
            )
        now_ms = self._catalog.now()
        await self._catalog.index.outlive(opened_as(state), board.rules(), now_ms)
        redefine(changed, board, record.version, record.now_ms)
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


def _created_again(name: str) -> NotReady:
    return NotReady(f"the board {quoted(name)} was created again meanwhile; send the events again")


def _expires_later_or_earlier(before: Rules, after: Rules) -> bool:
    """Return whether the keys of a board expire at another time by other rules."""
    if before.gone_ms != after.gone_ms:
        return True
    return after.gone_ms < MAX_MS and before.changes_ms != after.changes_ms


def _calls(batch: Batch, rules: Rules) -> list[tuple[Sequence[int], Batch]]:
    """Divide a batch into the calls that count it, each with the positions of its events.

    A long call would block the server for all clients, so a large batch is sent in several calls. A
    batch that is all-or-nothing or has a position must be sent in one call. The cost of a call
    depends mostly on the number of members in each scope, so this number is limited. The number of
    events of a member is not limited.
    """
    scopes = len(rules.scopes) + len(rules.rank_by)
    most = MAX_CALL_MEMBERS // scopes
    whole = range(batch.size)
    if batch.size <= most:
        return [(whole, batch)]
    if batch.atomic or batch.position is not None:
        if batch.size > CALL_EVENTS // scopes:
            raise BatchTooLarge(
                f"expected at most {CALL_EVENTS // scopes:,} events in a batch that is all or "
                f"nothing or has a position, on an index server"
                + (f" where each event counts in {scopes} scopes" if scopes > 1 else "")
                + f", got {batch.size:,}"
            )
        return [(whole, batch)]
    slots: dict[bytes, int] = {}
    event_members = [slots.setdefault(member, len(slots)) for member in batch.member_list()]
    ordered = rules.rank_by or batch.ids is not None
    shares = (
        _in_order(event_members, most)
        if ordered
        else _by_member(event_members, -(-len(slots) // most))
    )
    pieces = [
        share[first : first + CALL_EVENTS]
        for share in shares
        for first in range(0, len(share), CALL_EVENTS)
    ]
    if len(pieces) == 1:
        return [(whole, batch)]
    return list(zip(pieces, batch.taken(pieces), strict=True))


def _by_member(event_members: Sequence[int], count: int) -> list[list[int]]:
    """Divide the positions of events into `count` shares by their members, so that all events of a
    member are counted together. The order of different members' events may change, since it does
    not affect the results."""
    shares: list[list[int]] = [[] for _ in range(count)]
    for place, member in enumerate(event_members):
        shares[member % count].append(place)
    return shares


def _in_order(event_members: Sequence[int], most: int) -> list[range]:
    """Divide the positions of events into shares of at most `most` members, keeping their order.
    The order matters on a board that ranks labels, since events of several members change the same
    label's score. It also matters for events with ids: if there is not room for all ids, those of
    the first events are remembered."""
    shares: list[range] = []
    first, seen = 0, set[int]()
    for place, member in enumerate(event_members):
        if member not in seen and len(seen) == most:
            shares.append(range(first, place))
            first, seen = place, set()
        seen.add(member)
    return [*shares, range(first, len(event_members))]
