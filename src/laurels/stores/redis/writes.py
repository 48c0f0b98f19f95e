"""Carries out writes: plans each from this process's copy of the definitions, and sends it to the
index.

If the index refuses the plan as outdated, the write is planned again.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import msgspec

from laurels.core.board_state import BoardState
from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.changes.confirmed import confirmed_sequences
from laurels.core.changes.record_blocks import position_block
from laurels.core.fold import Folded
from laurels.core.index import Offset
from laurels.core.plan import plan_expiry
from laurels.core.receipt_segment import Ranks
from laurels.errors import LaurelsError, NotReady, PartlyCounted
from laurels.model.batch import Batch
from laurels.model.validation import quoted
from laurels.stores.intake.mending import Mending, parts_of_mend
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.writes import FoldedWrite, Single
from laurels.stores.redis.connection.deadline import UPKEEP_SECONDS, VERB_SECONDS, ends_in
from laurels.timeline.instants import MIN_MS

from .catalog import ATTEMPTS, BoardCatalog
from .dividing import MAX_CALL_MEMBERS, calls_of
from .outdated import (
    ClosingsMoved,
    DefinitionOutdated,
    PeriodClosed,
    PlanExpired,
    StepNotReady,
)
from .record_writes import RecordWrites
from .remote import PositionWrite, opened_as
from .retry import Attempts, Calls, after
from .sealing import ServerSealing
from .sealing_tasks import SealingTasks

SWEEP = 200
"""The number of members that a sweep processes after each submission."""


class Writer(RecordWrites):
    """Carries out writes."""

    def __init__(
        self,
        catalog: BoardCatalog,
        calls: Calls,
        sealing: ServerSealing,
        sealing_tasks: SealingTasks,
    ) -> None:
        super().__init__(catalog, sealing, sealing_tasks)
        self._calls = calls
        self.paced = False
        """Whether a background task does the due work. If not, submissions do it."""

    async def carry_out(self, write: FoldedWrite) -> Any:
        """Carry out a write. Return the result of each write that is joined in it."""
        if isinstance(write, Submission):
            if write.board.hidden:
                await self._end_hidings(write.board)
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

    async def _end_hidings(self, state: BoardState) -> None:
        """Remove the hidings of a board that have ended."""
        with suppress(LaurelsError, DefinitionOutdated):  # after an error, the ends stay due
            await self._catalog.end_hidings(state)

    async def _follow_up(self, write: Submission) -> None:
        """Do a share of the due work after a submission. The events are already counted, so errors
        are ignored here, and the next read or write continues the work."""
        if write.board.rules.has_label_replica and any(batch.labels for batch in write.batches):
            with suppress(LaurelsError):
                await self._catalog.feed(write.board.board.name)
        if not self.paced:
            with suppress(LaurelsError, DefinitionOutdated):
                await self._share(write.board)
                await self._catalog.remove_gone()
        self._sealing_tasks.start()
        if write.board.closing:
            self._sealing.payouts.start()
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
            for share, call in calls_of(batch, write.board.rules):
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
            shows_ranks = ranks and not place.by
            hidden = state.hidden_at(batch.now_ms) if shows_ranks else None
            try:
                if batch.now_ms >= state.final_ms:
                    await self._catalog.closings.close_due(state, batch.now_ms)
                batch = msgspec.structs.replace(batch, weights={}).weighed(state.rules.weighings)
                plan = self._catalog.boards.plan(batch)
                apply = partial(
                    self._catalog.index.apply,
                    opened_as(state),
                    batch,
                    plan,
                    plan.specs.index(place),
                    ranks=ranks,
                    due_ms=plan_expiry(plan, state.rules, batch),
                    places=in_call,
                    hidden=hidden,
                )
                applied = await attempts.answer(apply)
            except DefinitionOutdated:
                await self._catalog.reload_board(state)
            except PlanExpired as error:
                self._catalog.note_time(state, error.now_ms)
                batch = batch.accepted_from(error.now_ms)
                if isinstance(error, PeriodClosed):
                    state.final_ms = MIN_MS
            except StepNotReady as error:
                await self._catalog.advance(state, batch.now_ms, error)
            except ClosingsMoved:  # raised by the read of the ranks before the batch
                await self._catalog.load_closings(state)
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
        """Replace entries of rankings. Each ranking is replaced by separate calls. If another
        process changes the board meanwhile, the entries of all rankings are replaced again."""
        for _ in range(ATTEMPTS):
            if self._catalog.event_time:
                await self._catalog.read_time(self._catalog.boards.named(write.name))
            write.done = 0
            self._catalog.set_gone()
            try:
                if (state := self._catalog.boards.named(write.name)).closing:
                    await self._catalog.closings.close_due(state, self._catalog.time_of(state))
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


def _created_again(name: str) -> NotReady:
    return NotReady(f"the board {quoted(name)} was created again meanwhile; send the events again")
