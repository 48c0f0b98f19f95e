"""Reads of boards in several shards, whose answers are merged from those of the shards."""

from array import array
from collections.abc import Awaitable, Sequence

from laurels.core.hidden import Exclusion
from laurels.core.index import Offset, changes
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest, ReadResult
from laurels.core.zeros import zeros_of
from laurels.errors import NotReady
from laurels.model.batch import Batch
from laurels.model.labels import is_by
from laurels.stores.redis.remote import Opened, Reading, RefreshStates

from .counting import MemberRanks
from .merged_requests import merged, next_of
from .merging import NEAR
from .seeking import seek
from .shards import gather, shards
from .upkeep import ShardedUpkeep

ROUNDS = 40
"""The maximum number of rounds of reads for one request, after which it raises NotReady."""
LISTED = 2_000
"""The number of scopes that one call lists when scopes are counted."""


class ShardedReads(ShardedUpkeep):
    """Calls that read the rankings of every shard."""

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
            offset = offset_vector([reading.offset for reading in readings])
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
        self,
        board: Opened,
        due_ms: int,
        hidden: Exclusion | None,
        batch: Batch,
        plan: Plan,
        watch: int,
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
                hidden=hidden,
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


def offset_vector(offsets: Sequence[Offset]) -> Offset:
    """Return the offset of a board in several shards."""
    return tuple([changes(offset) for offset in offsets])
