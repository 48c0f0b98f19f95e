"""The upkeep of boards in several shards: the end of steps, passes over rankings, expiry,
audits."""

from collections.abc import Sequence

from laurels.core.lifecycle import Due, RollingState
from laurels.core.ranking_key import RankingKey
from laurels.core.stats import BoardLayout
from laurels.model.labels import is_by
from laurels.model.rules import Rules
from laurels.stores.redis.remote import Opened, RefreshStates

from .label_replicator import LabelReplicator
from .shard_index import ShardIndex
from .shards import gather, label_replica, parts_of, shards


class ShardedUpkeep:
    """Calls that do due work in every shard, or look after its data."""

    def __init__(self, index: ShardIndex) -> None:
        self._index = index
        self._replicator = LabelReplicator(index)

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
        """Continue the passes that refill the heads of a board and renew its grids, by about
        `limit` members in all shards together. Return approximately how many members are left."""
        each = max(1, limit // board.rules.shards)
        return sum(await gather(self._index.advance_head(part, each) for part in shards(board)))

    def archived_positions(self, head: int) -> int:
        """Return how many positions of a ranking are archived on a board with this head, provided
        that it has so many members."""
        return self._index.archived_positions(head)

    async def extend_head(self, board: Opened, key: RankingKey, wanted: int) -> None:
        """Let the next passes extend the head of a ranking in every shard to at least `wanted`
        entries."""
        await gather(self._index.extend_head(shard, key, wanted) for shard in shards(board))

    async def advance_scopes(
        self, board: Opened, scopes: Sequence[str], due: Due, limit: int, *, full: bool
    ) -> bool:
        """Advance scopes in every shard, and rankings by a label in the label replica. Do the
        work of about `limit` members in each of them; return False if more is needed."""
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
        """Continue the refresh of a window in every shard in which it is due. Return the number of
        members left, and the states of the refresh."""
        results = await gather(
            self._index.refresh(part, window, now_ms=now_ms, due_ms=due_ms)
            for part in parts_of(board)
        )
        refresh_states: RefreshStates = {}
        for _, of_shard in results:
            refresh_states |= of_shard
        return sum(left for left, _ in results), refresh_states

    async def audit_scopes(self, board: Opened, *, repair: bool) -> tuple[int, int]:
        """Audit every ranking of every scope in every shard."""
        counts = await gather(
            self._index.audit_scopes(part, repair=repair) for part in parts_of(board)
        )
        return sum(rankings for rankings, _ in counts), sum(entries for _, entries in counts)

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Remove a share of the event ids that are no longer remembered at `now_ms`."""
        await gather(self._index.forget(shard, now_ms) for shard in shards(board))

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """Return the keys of the rankings with members in any shard or, with `empty`, of all
        registered rankings."""
        parts = parts_of(board) if empty else shards(board)  # a copy registers periods in each part
        by_shard = await gather(self._index.keys(part, empty=empty) for part in parts)
        return list(dict.fromkeys(key for keys in by_shard for key in keys))

    async def expire(self, board: Opened, keys: Sequence[RankingKey], now_ms: int) -> None:
        """Set the expiry of the rankings of periods, if the server's clock is used."""
        await gather(self._index.expire(shard, keys, now_ms) for shard in shards(board))

    async def outlive(self, board: Opened, rules: Rules, now_ms: int) -> None:
        """Extend the expiry of all keys as far as these rules need."""
        await gather(self._index.outlive(part, rules, now_ms) for part in parts_of(board))

    async def expire_all(self, board: Opened, now_ms: int, *, settled: bool = False) -> None:
        """Set the expiry of all keys of a board; see `RemoteIndex`."""
        await gather(
            self._index.expire_all(part, now_ms, settled=settled) for part in parts_of(board)
        )

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None:
        await gather(self._index.drop(part, keys) for part in parts_of(board))

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

    async def time(self, board: Opened) -> int | None:
        """Return the time of the latest write to any shard; None if there was no write."""
        times = await gather(self._index.time(shard) for shard in shards(board))
        return max((now_ms for now_ms in times if now_ms is not None), default=None)
