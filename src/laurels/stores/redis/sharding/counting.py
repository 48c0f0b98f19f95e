"""Count a batch of a board in several shards.

A batch is divided by its members: the *share* of a shard are the events of its members. Each shard
counts its share in one atomic step. No step spans several shards, so three rules are needed:

- A shard may refuse its share after other shards have counted theirs. The events that were not
  counted are then in `Applied.left`. The caller plans and sends them again, with their positions in
  the whole call, since rankings by a label count the events of a call in the order of the call. If
  a shard cannot be reached, the error says that the call may have been carried out, and the caller
  repeats it with the same id; shards that have counted their share return the same answer again. If
  the outcome is still unknown after that, or if another error occurs after some shards have
  counted, PartlyCounted is raised.
- Every shard stores a position together with its share; see positions.py. A caller that was
  interrupted reads the previous position and sends the same batch again, and the shards that have
  counted their share skip it. A batch that ends at another position raises PositionDiffers; a batch
  that follows a position which is no longer stored raises PositionMoved. If a shard lost writes,
  only batches with `behind` are counted; all others raise ShardsDiffer.
- The bound on remembered ids holds for the whole board. If all ids of a batch certainly fit within
  this bound, the shards count concurrently. Otherwise they count one after the other, in the order
  of the events.
"""

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from laurels.core.changes.blocks import WriteBlock
from laurels.core.changes.record_blocks import position_block
from laurels.core.index import COUNTED, Offset, Outcome, Outcomes, Scores, changes
from laurels.core.plan import Plan
from laurels.core.record import Position
from laurels.errors import AtomicAcrossShards, PartlyCounted, PositionMoved
from laurels.errors.index_server import IndexUnavailable
from laurels.model.batch import Batch
from laurels.stores.redis.remote import Applied, CallId, Opened, PositionWrite, RefreshStates

from .feed import encode_feed_payload
from .positions import StoredPositions, not_ready, stored_positions
from .shard_index import ShardIndex
from .shards import REFUSED, gather, shard_of, shards, worst


class MemberRanks(NamedTuple):
    """The ranks of a batch's members in the window whose ranks the caller requested (`watch`). If
    there are `highs`, these are the greatest possible ranks, and `ranks` are the least possible
    ones."""

    ranks: "array[int]"
    highs: "array[int] | None"

    @property
    def most(self) -> "array[int]":
        """The greatest possible ranks."""
        return self.ranks if self.highs is None else self.highs

    def select(self, events: Sequence[int]) -> "MemberRanks":
        """Return the ranks of the members of these events."""
        highs = None if self.highs is None else array("q", [self.highs[event] for event in events])
        return MemberRanks(array("q", [self.ranks[event] for event in events]), highs)


ReadRanks = Callable[[Batch, Plan, int], Awaitable[MemberRanks]]
"""A function that returns the ranks of a batch's members in the window with this index in the
plan's routes."""


class _Share:
    """The share of one shard in a batch, and the result of counting it."""

    def __init__(self, shard: int, events: list[int]) -> None:
        self.shard = shard
        self.events = events
        self.positions: PositionWrite | None = None
        self.already_counted = False
        self.applied: Applied | None = None
        self.error: BaseException | None = None
        self.done = False


class Counting:
    """Counts one batch in the shards of a board."""

    def __init__(
        self,
        index: ShardIndex,
        board: Opened,
        batch: Batch,
        plan: Plan,
        watch: int | None,
        call: CallId | None,
        places: Sequence[int] | None,
    ) -> None:
        self._index = index
        self._board = board
        self._shards = shards(board)
        self._batch = batch
        self._plan = plan
        self._watch = watch
        self._call = call
        self._number = 0 if call is None else call.number
        self._places = range(batch.size) if places is None else places
        count = len(self._shards)
        self._homes = [shard_of(member, count) for member in batch.member_list()]
        touched: dict[int, list[int]] = {}
        for event, shard in enumerate(self._homes):
            touched.setdefault(shard, []).append(event)
        if batch.atomic and len(touched) > 1:
            raise AtomicAcrossShards(
                f"the members of the batch are in {len(touched)} of the board's {count} shards"
            )
        self._shares = [_Share(shard, touched[shard]) for shard in sorted(touched)]
        self._stored: StoredPositions | None = None
        self._remembered = [0] * count
        self._capacity: int | None = None
        self._remeasures = False
        """Whether remembered ids can expire between the calls for two shares of the batch. If so,
        the capacity for further ids is measured again before each call."""

    async def apply(self, ranks: ReadRanks | None, due_ms: int) -> Applied:
        """Count the batch; see `RemoteIndex.apply`."""
        stages = await self._stages()
        before = None
        if ranks is not None and self._watch is not None:
            before = await ranks(self._batch, self._plan, self._watch)
        for stage in stages:
            await asyncio.gather(*[self._carry_out(share, due_ms) for share in stage])
            if any(share.error for share in stage) or self._rolled_back:
                break
        if self._stored is not None and self._rolled_back and not self._batch.behind:
            await self._stored.release_claim(self._index, self._shards)
        left = self._left()
        events = sorted(event for share in self._done for event in share.events)
        ranks_wanted = ranks if before is not None else None
        offset, after = await asyncio.gather(self._offset(), self._ranks_after(ranks_wanted))
        if left is not None:
            before = None if before is None else before.select(events)
            after = None if after is None else after.select(events)
        highs = None
        if before is not None and after is not None and (before.highs or after.highs):
            highs = before.most, after.most
        return Applied(
            self._outcomes(events),
            None if before is None else before.ranks,
            None if after is None else after.ranks,
            offset,
            left,
            self._refresh_states(),
            highs,
            passes_due=any(share.applied and share.applied.passes_due for share in self._shares),
        )

    # The order of the calls

    async def _stages(self) -> list[list[_Share]]:
        """Return the shards' shares in stages. The shares of one stage are counted concurrently,
        the stages one after the other."""
        ids = self._batch.ids
        wanted = 0 if ids is None else sum(id is not None for id in ids)
        if wanted:
            await self._measure_capacity(0)
        in_event_time = self._batch.nows is not None
        tight = self._capacity is not None and -in_event_time < self._capacity < wanted
        if self._batch.position is not None:
            *others, last = await self._assign_positions(*self._batch.position)
            if self._batch.behind:
                return self._lagging_stages(tight=tight)
            if self._is_counted:
                return [[last], others]
            if self._batch.atomic:
                bare = [share for share in others if not share.events]
                own = [share for share in others if share.events]
                return [own, bare, [last]] if own else [[last], bare]
            return [*([each] for each in others), [last]] if tight else [others, [last]]
        if tight:
            self._call = None  # a shard may get several calls, and remembers the id of only one
            runs = groupby(
                range(self._batch.size),
                key=lambda event: (self._homes[event], self._batch.accepted_at(event)),
            )
            self._shares = [_Share(shard, list(events)) for (shard, _), events in runs]
            self._remeasures = in_event_time
            return [[share] for share in self._shares]
        return [self._shares]

    def _lagging_stages(self, *, tight: bool) -> list[list[_Share]]:
        """Return the stages of a batch with `behind`. Each shard counts its share of such a batch
        independently. If the batch is all-or-nothing, the shards without events come last, since
        they must not store its position if it is refused."""
        if not self._batch.atomic:
            return [[share] for share in self._shares] if tight else [self._shares]
        bare = [share for share in self._shares if not share.events]
        return [[share for share in self._shares if share.events], bare]

    async def _measure_capacity(self, event: int) -> None:
        """Set the capacity: how many more ids can be remembered as of the time at which `event` was
        accepted."""
        now_ms = self._batch.accepted_at(event)
        self._remembered = await gather(
            self._index.remembered(shard, now_ms) for shard in self._shards
        )
        self._capacity = max(0, self._board.rules.dedupe_max - sum(self._remembered))

    async def _assign_positions(self, source: str, text: str) -> list[_Share]:
        """Claim the position that the batch follows. Return a share for every shard, with the
        positions to store there; the last share is the keeper's."""
        follows, behind = self._batch.follows, self._batch.behind
        stored = self._stored = await stored_positions(self._index, self._shards, source)
        if not behind:
            stored.ensure_level(follows)
            stored.ensure_none_in_part(text, follows)
            if follows is not None and not self._is_counted:
                await stored.take_claim(self._index, self._shards, text, follows)
        before = stored.before if follows is None else follows or None
        events = {share.shard: share.events for share in self._shares}
        shards = range(len(self._shards))
        order = [shard for shard in shards if shard != stored.keeper] + [stored.keeper]
        self._shares = [_Share(shard, events.get(shard, [])) for shard in order]
        if behind:
            own = stored.lagging_writes(text, follows or "")
            for share in self._shares:
                share.positions = own.get(share.shard)
                share.already_counted = share.positions is None
            return self._shares
        writes = stored.writes(text, follows)
        for share in self._shares:
            share.positions = writes[share.shard]
        for share in self._shares[:-1] if before != text else []:
            share.already_counted = stored.pair(share.shard) == (before, text)
        return self._shares

    @property
    def _is_counted(self) -> bool:
        """Whether the keeper already has the position of this batch. If so, the call is a
        repetition, and gets its first answer again as long as the shards remember that answer."""
        if self._stored is None or self._batch.position is None or self._batch.follows is None:
            return False
        return self._stored.before == self._batch.position[1]

    async def _carry_out(self, share: _Share, due_ms: int) -> None:
        if share.already_counted:
            share.done = True
            return
        try:
            if share.events:
                share.applied = await self._count_share(share, due_ms)
            elif share.positions is not None:
                await self._index.set_position(
                    self._shards[share.shard], share.positions, self._position_block(share)
                )
            share.done = True
        except PositionMoved as error:
            share.error = error
            if self._stored is not None and (self._batch.behind or not self._is_keeper(share)):
                share.error = not_ready(error, self._stored.source)
        except Exception as error:
            share.error = error

    def _is_keeper(self, share: _Share) -> bool:
        """Return whether this share is the keeper's, which stores the batch's position and records
        it as a change."""
        return self._stored is not None and share.shard == self._stored.keeper

    def _position_block(self, share: _Share) -> WriteBlock | None:
        """Return the change by which the keeper records the batch's position when its share has no
        events. Return None for other shards, and for a batch without a position."""
        batch, version = self._batch, self._board.version
        if batch.position is None or not self._is_keeper(share):
            return None
        moved = Position(batch.board, version, batch.now_ms, batch.position, batch.tag)
        return position_block(moved)

    async def _count_share(self, share: _Share, due_ms: int) -> Applied:
        board, batch, plan = self._shards[share.shard], self._batch, self._plan
        if self._remeasures:
            await self._measure_capacity(share.events[0])
        if len(share.events) < batch.size:
            batch, plan = batch.take(share.events), plan.select(share.events)
        # count as of the time of this share: as of later events, ids might expire too early
        if self._remeasures:
            batch = replace(batch, now_ms=self._batch.accepted_at(share.events[-1]))
        if self._capacity is not None:
            most = self._remembered[share.shard] + self._capacity
            board = replace(board, rules=replace(board.rules, dedupe_max=most))
        if not self._is_keeper(share):
            batch = replace(batch, position=None)
        places = [self._places[event] for event in share.events]
        feed = encode_feed_payload(board.rules, batch, plan, places, self._number)
        applied = await self._index.apply(
            board,
            batch,
            plan.without_labels() if board.rules.has_label_replica else plan,
            self._watch,
            ranks=False,
            due_ms=due_ms,
            call=self._call,
            feed=feed,
            positions=share.positions,
        )
        if self._capacity is not None and batch.ids is not None:
            codes = applied.outcomes.codes
            new = sum(
                id is not None and code in COUNTED
                for id, code in zip(batch.ids, codes, strict=True)
            )
            self._remembered[share.shard] += new
            self._capacity = max(0, self._capacity - new)
        return applied

    # The results

    @property
    def _done(self) -> list[_Share]:
        return [share for share in self._shares if share.done]

    @property
    def _rolled_back(self) -> bool:
        if not self._batch.atomic:
            return False
        return any(share.applied and share.applied.outcomes.refused for share in self._shares)

    def _left(self) -> list[int] | None:
        """Return the events that still have to be counted after some shards refused theirs; None if
        no shard failed. Raise the error of the shards if nothing was counted, or if it is unknown
        which events were counted. Raise PartlyCounted for any other error after which some events
        are counted."""
        if not (errors := [share.error for share in self._shares if share.error is not None]):
            return None
        error = worst(errors)
        if not any(share.events for share in self._done):
            raise error
        number = sum(len(share.events) for share in self._done)
        counted = f"{number} of {self._batch.size} events were counted"
        if isinstance(error, IndexUnavailable) and self._call is not None:
            error.may_have_applied, error.counted = True, counted
            raise error
        if not isinstance(error, REFUSED):
            raise PartlyCounted(counted) from error
        return sorted(e for share in self._shares if not share.done for e in share.events)

    def _outcomes(self, events: Sequence[int]) -> Outcomes:
        """Return the outcomes of these events. If a shard was skipped because an earlier call has
        counted its part of the batch, the events of that part are duplicates."""
        place = {event: i for i, event in enumerate(events)}
        rules = self._board.rules
        watched = None if self._watch is None else self._plan.specs[self._watch].window
        width = 0 if watched is None else rules.score_words(watched)
        codes = bytearray([Outcome.DUPLICATE]) * len(events)
        before, after = _no_scores(len(events), width), _no_scores(len(events), width)
        has_scores = False
        for share in self._done:
            if share.applied is None:
                continue
            places = [place[event] for event in share.events]
            outcomes = share.applied.outcomes
            for i, code in zip(places, outcomes.codes, strict=True):
                codes[i] = code
            if outcomes.before is not None and outcomes.after is not None:
                has_scores = True
                _store_scores(before, places, outcomes.before)
                _store_scores(after, places, outcomes.after)
        return Outcomes(codes, before, after) if has_scores else Outcomes(codes)

    async def _ranks_after(self, ranks: ReadRanks | None) -> MemberRanks | None:
        """Return the ranks after counting; None if they cannot be read. Reading them has no
        influence on what was counted."""
        if ranks is None or self._watch is None:
            return None
        try:
            return await ranks(self._batch, self._plan, self._watch)
        except Exception:
            return None

    def _refresh_states(self) -> RefreshStates:
        """Return the refresh states of those shards that counted."""
        states = [share.applied.refresh_states for share in self._done if share.applied is not None]
        return {shard: each for of_shard in states for shard, each in of_shard.items()}

    async def _offset(self) -> Offset:
        """Return the offsets of the shards. The offset is 0 for a shard that counted nothing and
        cannot be reached."""
        offsets = [0] * len(self._shards)
        for share in self._done:
            if share.applied is not None:
                offsets[share.shard] = changes(share.applied.offset)
        rest = [shard for shard in self._shards if not offsets[shard.shard]]
        calls = [self._index.offset(shard) for shard in rest]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for shard, offset in zip(rest, answers, strict=True):
            if not isinstance(offset, BaseException):
                offsets[shard.shard] = changes(offset)
        return tuple(offsets)


def _no_scores(size: int, width: int) -> Scores:
    return Scores(bytearray(size), [array("q", bytes(8 * size)) for _ in range(width)])


def _store_scores(scores: Scores, places: Sequence[int], shard_scores: Scores) -> None:
    for i, present in zip(places, shard_scores.present, strict=True):
        scores.present[i] = present
    for column, words in zip(scores.words, shard_scores.words, strict=True):
        for i, word in zip(places, words, strict=True):
            column[i] = word
