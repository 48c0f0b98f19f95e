"""An index whose boards may be divided into shards. It wraps an index that stores each shard as a
separate board.

It does not depend on how the wrapped index stores boards. Calls for a board in one shard are passed
on. A call that changes several shards calls each shard, concurrently. Batches follow the rules of
`counting`; repeating any other change has no effect.
"""

from array import array
from collections.abc import Awaitable, Sequence
from functools import partial

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.changes.blocks import WriteBlock
from laurels.core.index import Offset, changes
from laurels.core.lifecycle import Due, RollingState
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.record import MendRanking
from laurels.core.requests import ReadRequest, ReadResult
from laurels.core.stats import BoardLayout
from laurels.core.zeros import zeros_of
from laurels.errors import NotReady, PositionMoved
from laurels.model.batch import Batch
from laurels.model.labels import is_by
from laurels.model.rules import Rules
from laurels.stores.redis.protocols import ShardIndex
from laurels.stores.redis.remote import (
    Applied,
    CallId,
    Opened,
    PositionWrite,
    Reading,
    RefreshStates,
    ShardChanges,
)

from .counting import Counting, MemberRanks
from .label_replicator import LabelReplicator
from .merging import NEAR, merged, next_of
from .positions import (
    CLAIM,
    StoredPositions,
    level_text,
    not_ready,
    position_shard,
    stored_positions,
)
from .seeking import seek
from .shards import gather, home, label_replica, mends_by_shard, parts_of, shards

LISTED = 2_000
"""The number of scopes that one call lists when scopes are counted."""
ROUNDS = 40
"""The maximum number of rounds of reads for one request, after which it raises NotReady."""


class ShardedIndex:
    """Implementation of `FollowedIndex` over an index that stores each shard as a separate
    board."""

    def __init__(self, index: ShardIndex) -> None:
        self._index = index
        self._replicator = LabelReplicator(index)

    async def open(
        self, board: Opened, recorded: WriteBlock | None = None, *, restart_tag: int = 0
    ) -> None:
        """Register a board, or its changed definition. Record this among the changes of the board's
        first shard. Repeating it has no effect."""
        await gather(
            self._index.open(
                part,
                recorded if not (part.shard or part.feeds) else None,
                restart_tag=restart_tag,
            )
            for part in parts_of(board)
        )

    async def end_changes(self, board: Opened, recorded: WriteBlock, until_ms: int) -> None:
        """End the changes of a board that is deleted. The deletion is recorded among the changes of
        the board's first shard, when no shard counts any more."""
        first, *others = parts_of(board)
        await gather(self._index.end_changes(part, None, until_ms) for part in [first, *others])
        await self._index.end_changes(first, recorded, until_ms)

    async def forget_changes(self, board: Opened) -> None:
        """Remove the changes of a deleted board."""
        await gather(map(self._index.forget_changes, parts_of(board)))

    async def close(self, board: Opened) -> None:
        """Remove a board with all its data. Repeating it has no effect."""
        await gather(map(self._index.close, parts_of(board)))
        self._replicator.forget(board)

    async def apply(
        self,
        board: Opened,
        batch: Batch,
        plan: Plan,
        watch: int | None,
        *,
        ranks: bool,
        due_ms: int,
        call: CallId | None = None,
        places: Sequence[int] | None = None,
    ) -> Applied:
        """Count a batch as planned. `watch` is the index, in the plan's routes, of the window whose
        scores and ranks are reported. Every shard recognizes a repeated call by its id, and returns
        the first answer again. `places` are the positions of the events in the whole call. They are
        needed if an earlier attempt has counted other events of the call.

        To determine ranks, all shards are read in two rounds before the batch and in two rounds
        after it. So the ranks may include the writes of other callers in this time.
        """
        if board.rules.shards == 1:
            return await self._index.apply(
                board, batch, plan, watch, ranks=ranks, due_ms=due_ms, call=call
            )
        counting = Counting(self._index, board, batch, plan, watch, call, places)
        return await counting.apply(partial(self._ranks, board, due_ms) if ranks else None, due_ms)

    def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Awaitable[Reading]:
        """Return the results of all requests, from one state of each shard. Rankings by a label are
        read from the label replica. Before that, the label replica counts all events that the
        shards have counted."""
        if board.rules.shards == 1:
            return self._index.read(board, requests, now_ms=now_ms, due_ms=due_ms)
        if board.rules.has_label_replica and any(is_by(request.key.scope) for request in requests):
            return self._replicator.read(board, requests, now_ms=now_ms, due_ms=due_ms)
        return self._merged(board, requests, now_ms, due_ms)

    async def rotate_step(self, board: Opened, roll: RollingState, now_ms: int, limit: int) -> bool:
        """Rotate a rolling window to the running step. Do at most the work of about `limit`
        members; return False if more is needed."""
        each = max(1, limit // board.rules.shards)
        rotated = await gather(
            self._index.rotate_step(shard, roll, now_ms, each) for shard in shards(board)
        )
        return all(rotated)

    async def advance_pass(self, board: Opened, window: str, limit: int) -> int:
        """Prepare about `limit` members for a window's next step. Return how many members are
        left."""
        each = max(1, limit // board.rules.shards)
        return sum(
            await gather(self._index.advance_pass(shard, window, each) for shard in shards(board))
        )

    async def advance_head(self, board: Opened, limit: int) -> int:
        """Continue the passes over rankings with a head by about `limit` members. Return about how
        many members are left."""
        each = max(1, limit // board.rules.shards)
        return sum(await gather(self._index.advance_head(part, each) for part in shards(board)))

    async def advance_scopes(
        self, board: Opened, scopes: Sequence[str], due: Due, limit: int, *, full: bool
    ) -> bool:
        """Advance scopes in every shard, and rankings by a label in the label replica. Do at most
        the work of about `limit` members in each; return False if more is needed."""
        apart = [scope for scope in scopes if board.rules.has_label_replica and is_by(scope)]
        rest = [scope for scope in scopes if scope not in apart]
        calls = [
            self._index.advance_scopes(shard, rest, due, limit, full=full)
            for shard in shards(board)
            if rest
        ]
        if apart:
            calls.append(
                self._index.advance_scopes(label_replica(board), apart, due, limit, full=full)
            )
        return all(await gather(calls))

    async def sweep(self, board: Opened, due: Due, limit: int) -> bool:
        """Advance a share of the stale scopes. Return whether no stale scope is left."""
        each = max(1, limit // board.rules.shards)
        return all(await gather(self._index.sweep(part, due, each) for part in parts_of(board)))

    async def refresh(
        self, board: Opened, window: str, *, now_ms: int, due_ms: int
    ) -> tuple[int, RefreshStates]:
        """Continue the refresh of a window in every shard in which it is due."""
        results = await gather(
            self._index.refresh(part, window, now_ms=now_ms, due_ms=due_ms)
            for part in parts_of(board)
        )
        refresh_states: RefreshStates = {}
        for _, of_shard in results:
            refresh_states |= of_shard
        return sum(left for left, _ in results), refresh_states

    async def scope_count(self, board: Opened, form: str) -> int:
        """Return the number of scopes of a form. The scopes are listed and counted, since a scope
        may be in several shards. O(scopes), in calls that list LISTED scopes each."""
        if board.rules.shards == 1:
            return await self._index.scope_count(board, form)
        count, page = 0, await self.scopes(board, form, "", LISTED)
        while page:
            count += len(page)
            page = await self.scopes(board, form, page[-1], LISTED)
        return count

    async def scopes(self, board: Opened, form: str, after: str, limit: int) -> list[str]:
        """Return up to `limit` scopes of a form, in any shard, that follow the scope `after`."""
        scopes = await gather(
            self._index.scopes(shard, form, after, limit) for shard in shards(board)
        )
        return next_of(scopes, limit)

    async def audit_scopes(self, board: Opened, *, repair: bool) -> tuple[int, int]:
        """Audit every ranking of every scope in every shard."""
        counts = await gather(
            self._index.audit_scopes(part, repair=repair) for part in parts_of(board)
        )
        return sum(rankings for rankings, _ in counts), sum(entries for _, entries in counts)

    async def remove(
        self, board: Opened, member: bytes, due: Due, recorded: WriteBlock | None = None
    ) -> bool:
        """Remove a member and its data from every ranking except those by a label."""
        if board.rules.has_label_replica:
            await self._index.set_data(label_replica(board), member, None)
        return await self._index.remove(home(board, member), member, due, recorded)

    async def mend(self, board: Opened, record: MendRanking, due: Due) -> int:
        """Replace entries of a ranking, in the shards of their members."""
        parts = mends_by_shard(record, board.rules.shards)
        return sum(
            await gather(
                self._index.mend(replace(board, shard=shard), part, due)
                for shard, part in parts.items()
            )
        )

    async def set_data(
        self,
        board: Opened,
        member: bytes,
        data: bytes | None,
        recorded: WriteBlock | None = None,
        before: bytes | UnsetType | None = UNSET,
    ) -> None:
        """Set the data of a member in its shard. If the board has a label replica, also set the
        data there, as the member's id may be a label's value."""
        await self._index.set_data(home(board, member), member, data, recorded, before)
        if board.rules.has_label_replica:
            await self._index.set_data(label_replica(board), member, data)

    async def set_position(
        self, board: Opened, write: PositionWrite, recorded: WriteBlock | None = None
    ) -> None:
        """Set the position of a source, first in the other shards, then in its keeper. A position
        that follows another one is set like a batch without events; a position that follows none is
        simply stored in all shards. Raises PositionMoved. Raises PositionDiffers if a batch that
        ends at another position was counted in part, since that part would be counted again. Raises
        ShardsDiffer if a shard lost writes and the position follows another one."""
        ((source, text),) = write.stores.items()
        follows = write.follows.get(source)
        parts = shards(board)
        stored = await stored_positions(self._index, parts, source)
        if write.behind:
            await self._set_in_lagging(board, stored, text, follows or "", recorded)
            return
        if follows is not None:
            stored.ensure_level(follows)
        if not stored.differ:
            stored.ensure_none_in_part(text, follows)
        writes = stored.writes(text, follows)
        others = [shard for shard in parts if shard.shard != stored.keeper]
        if follows is None:
            level = PositionWrite({source: level_text(text)})
            await gather(self._index.set_position(shard, level) for shard in others)
        else:
            await stored.take_claim(self._index, parts, text, follows)
            left = [part for part in others if stored.pair(part.shard) != (follows or None, text)]
            try:
                await gather(self._index.set_position(shard, writes[shard.shard]) for shard in left)
            except PositionMoved as error:
                raise not_ready(error, source) from error
        await self._index.set_position(parts[stored.keeper], writes[stored.keeper], recorded)

    async def _set_in_lagging(
        self,
        board: Opened,
        stored: StoredPositions,
        text: str,
        follows: str,
        recorded: WriteBlock | None,
    ) -> None:
        """Set the position in the shards that are still at the position `follows`, because they
        lost writes."""
        parts, source = shards(board), stored.source
        try:
            await gather(
                self._index.set_position(
                    parts[shard], write, recorded if shard == stored.keeper else None
                )
                for shard, write in stored.lagging_writes(text, follows).items()
            )
        except PositionMoved as error:
            raise not_ready(error, source) from error

    async def confirm(self, board: Opened, sink: str, confirmed: Sequence[int] | None) -> None:
        """Store the newest block of each shard that a registered sink has confirmed; see
        `RemoteIndex`."""
        parts = shards(board)
        blocks = confirmed if confirmed is not None and len(confirmed) == len(parts) else None
        await gather(self._index.confirm(shard, sink, blocks) for shard in parts)

    async def changes_lost(self, board: Opened) -> int:
        """Return how many changes were removed before a registered sink had confirmed them."""
        return sum(await gather(self._index.changes_lost(shard) for shard in shards(board)))

    async def ensure_current(self, board: Opened) -> None:
        """Raise DefinitionOutdated unless the board exists with this version of its definition."""
        await self._index.ensure_current(replace(board, shard=0))

    async def position(self, board: Opened, source: str) -> str | None:
        """Return the position of a source. Raises ShardsDiffer if a shard lost writes."""
        if board.rules.shards == 1 or source.startswith(SINK_PREFIX):
            keeper = position_shard(source, board.rules.shards)
            return await self._index.position(replace(board, shard=keeper), source)
        stored = await stored_positions(self._index, shards(board), source)
        stored.ensure_level()
        return stored.texts[stored.keeper]

    async def positions(self, board: Opened) -> dict[str, str]:
        """Return the positions of all sources. Each is read from the source's keeper."""
        by_shard = await gather(self._index.positions(shard) for shard in shards(board))
        return {
            source: text
            for shard, positions in enumerate(by_shard)
            for source, text in positions.items()
            if position_shard(source, len(by_shard)) == shard and not source.startswith(CLAIM)
        }

    async def time(self, board: Opened) -> int | None:
        """Return the time of the latest write to any shard; None if there was no write."""
        times = await gather(self._index.time(shard) for shard in shards(board))
        return max((now_ms for now_ms in times if now_ms is not None), default=None)

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Remove a share of the event ids that are no longer remembered at `now_ms`."""
        await gather(self._index.forget(shard, now_ms) for shard in shards(board))

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """Return the keys of the rankings with members in any shard or, with `empty`, of all
        registered rankings."""
        by_shard = await gather(self._index.keys(shard, empty=empty) for shard in shards(board))
        return list(dict.fromkeys(key for keys in by_shard for key in keys))

    async def expire(self, board: Opened, keys: Sequence[RankingKey], now_ms: int) -> None:
        """Set the expiry of the rankings of periods, if the server's clock is used."""
        await gather(self._index.expire(shard, keys, now_ms) for shard in shards(board))

    async def outlive(self, board: Opened, rules: Rules, now_ms: int) -> None:
        """Extend the expiry of all keys to what these rules need."""
        await gather(self._index.outlive(part, rules, now_ms) for part in parts_of(board))

    async def expire_all(self, board: Opened, now_ms: int) -> None:
        """Set the expiry of all keys of a board to the time at which the board is removed. If the
        board is never removed, set it to a very late time."""
        await gather(self._index.expire_all(part, now_ms) for part in parts_of(board))

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None:
        await gather(self._index.drop(shard, keys) for shard in shards(board))

    def keeps_layout(self, rules: Rules, changed: Rules) -> bool:
        """Return whether the rankings of every shard stay valid when the rules of a board
        change."""
        return self._index.keeps_layout(rules, changed)

    def layout(self, rules: Rules) -> BoardLayout:
        """Return the layout of a board with these rules. It is the same in every shard."""
        return self._index.layout(rules)

    def unverified(self, rules: Rules) -> list[str]:
        """Return sentences about data that `audit` cannot check on a board with these rules."""
        return self._index.unverified(rules)

    async def offset(self, board: Opened) -> Offset:
        """Return the number of changes of each shard."""
        if board.rules.shards == 1:
            return await self._index.offset(board)
        return _vector(await gather(map(self._index.offset, shards(board))))

    async def changes(self, board: Opened) -> int:
        """Return the number of changes of a board, including its label replica."""
        return sum(map(changes, await gather(map(self._index.offset, parts_of(board)))))

    async def read_changes(
        self, board: Opened, after: Sequence[int], limit: int, *, deleted: bool = False
    ) -> list[ShardChanges]:
        """Return the changes of every shard, from the block with the sequence number in `after` on;
        see `FollowedIndex`."""
        return await gather(
            self._index.read_changes(shard, place, limit, deleted=deleted)
            for shard, place in zip(shards(board), after, strict=True)
        )

    async def latest_changes(self, after: int | None) -> tuple[int, list[int] | None]:
        """Return the sequence number of the newest change to any board, and the numbers of the
        boards that have changes after the sequence number `after`; see `RemoteIndex`."""
        return await self._index.latest_changes(after)

    async def feed(self, board: Opened, now_ms: int) -> bool:
        """Count in the rankings by a label all events that the shards had counted before this call.
        Return False if some events are left."""
        return not board.rules.has_label_replica or await self._replicator.feed(board, now_ms)

    async def left_out(self, board: Opened) -> int:
        """Return how many events are counted in rankings of members but not in rankings by a
        label."""
        return (
            await self._index.left_out(label_replica(board)) if board.rules.has_label_replica else 0
        )

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""
        return sum(await gather(self._index.remembered(each, now_ms) for each in shards(board)))

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """Return the approximate number of bytes of memory that a ranking takes."""
        return sum(await gather(self._index.nbytes(shard, key) for shard in shards(board)))

    async def audit(self, board: Opened, key: RankingKey, *, repair: bool) -> int:
        """Compare a ranking with the data it is derived from, and with `repair` correct it. Return
        the number of its entries. Raises CheckFailed, which names the first member that differs."""
        return sum(
            await gather(self._index.audit(shard, key, repair=repair) for shard in shards(board))
        )

    async def _merged(
        self,
        board: Opened,
        requests: Sequence[ReadRequest],
        now_ms: int,
        due_ms: int,
        *,
        lenient: bool = False,
    ) -> Reading:
        """Answer requests for a board in several shards."""
        parts = shards(board)
        merging = [
            merged(request, board.rules, len(parts), lenient=lenient) for request in requests
        ]
        offset: Offset = ()
        refresh_states: RefreshStates = {}

        async def read(by_shard: list[list[ReadRequest]]) -> list[Sequence[ReadResult]]:
            nonlocal offset, refresh_states
            readings = await gather(
                self._index.read(shard, of_shard, now_ms=now_ms, due_ms=due_ms)
                for shard, of_shard in zip(parts, by_shard, strict=True)
            )
            offset = _vector([reading.offset for reading in readings])
            refresh_states = {
                shard: each for of in readings for shard, each in of.refresh_states.items()
            }
            return [reading.results for reading in readings]

        for _ in range(ROUNDS):
            results = await read(
                [[each.of_shard(i) for each in merging] for i in range(len(parts))]
            )
            answers = [
                each.answer([part[place] for part in results]) for place, each in enumerate(merging)
            ]
            whole = [answer for answer in answers if answer is not None]
            if len(whole) == len(requests):
                return Reading(whole, offset, refresh_states)
            for each in merging:
                for span, (low, _) in each.far.items():
                    width = board.rules.order_words(each.request.key.window)
                    place = await seek(read, each.request, width, len(parts), low, NEAR // 4)
                    each.near(span, *place)
        raise NotReady("the requested members kept changing while they were read")

    async def _ranks(
        self, board: Opened, due_ms: int, batch: Batch, plan: Plan, watch: int
    ) -> MemberRanks:
        """Return the ranks of a batch's members in the window whose ranks the caller requested
        (`watch`). The rank of a member that is not ranked is -1.

        Also read the rolling windows of the scopes in which the batch will count. So if one of
        these windows is not at the running step in some shard, this is detected before any shard
        has counted.
        """
        members = [member.decode() for member in batch.member_list()]
        targets = [plan.ranking(watch, event) for event in range(batch.size)]
        named: dict[RankingKey, dict[str, int]] = {}
        for target, member in zip(targets, members, strict=True):
            if target is not None:
                of_ranking = named.setdefault(target.key, {})
                of_ranking.setdefault(member, len(of_ranking))
        requests = [
            ReadRequest(
                key,
                members=tuple(places),
                zeros=zeros_of(board.rules, key.window, batch.now_ms),
            )
            for key, places in named.items()
        ]
        requests += [ReadRequest(key) for key in _rolling(plan) - named.keys()]
        read = await self._merged(board, requests, batch.now_ms, due_ms, lenient=True)
        located = {
            request.key: result.located
            for request, result in zip(requests, read.results, strict=True)
            if result.located is not None
        }
        ranks, highs = array("q"), array("q")
        for target, member in zip(targets, members, strict=True):
            if target is None:
                ranks.append(-1)
                highs.append(-1)
                continue
            found, place = located[target.key], named[target.key][member]
            ranks.append(found.ranks[place])
            highs.append((found.ranks if found.highs is None else found.highs)[place])
        return MemberRanks(ranks, highs if any(each.highs for each in located.values()) else None)


def _rolling(plan: Plan) -> set[RankingKey]:
    """Return the keys of the live rankings of rolling windows, in the scopes in which the events of
    a batch will count. The scope of all events is not among these scopes."""
    rolls = {roll.ranking.key.window: roll for roll in plan.rolling if roll is not None}
    return {
        rolls[target.key.window].in_scope(target.key.scope).key
        for target in plan.targets
        if target.key.scope and target.key.window in rolls
    }


def _vector(offsets: Sequence[Offset]) -> Offset:
    return tuple([changes(offset) for offset in offsets])
