"""Does due work in shares: rotates windows, advances scopes, refreshes windows, forgets ids."""

from collections.abc import Sequence

from laurels.core.lifecycle import Due, RollingState, rolling_state
from laurels.core.ranking_key import RankingKey
from laurels.stores.redis.remote import Opened, RefreshStates

from .calls import ShardCalls
from .coding import decode_refresh_states, encode_due, encode_rolling_state
from .names import name_of

_CELLS = 2_500
"""The number of cells that one call of a refresh processes, which takes 1 to 2 ms."""
_SCOPES = 1_000
"""The maximum number of scopes that one call advances."""
_FORGET_CALLS = 20
_HEAD_MEMBERS = 1_000
"""The number of members that one call of a pass over a ranking with a head visits, which takes
about 1 ms."""


class Upkeep(ShardCalls):
    """The calls of the index that do due work."""

    async def rotate_step(self, board: Opened, roll: RollingState, now_ms: int, limit: int) -> bool:
        """Rotate a rolling window to the running step. Do at most the work of about `limit`
        members; return False if more is needed."""
        arguments = {"window": encode_rolling_state(roll), "now": now_ms, "limit": self.share}
        for _ in range(0, limit, self.share):
            if await self._operate("rotate_step", board, **arguments):
                return True
        return False

    async def advance_pass(self, board: Opened, window: str, limit: int) -> int:
        """Prepare about `limit` members for a window's next step. Return how many members are
        left."""
        left = 0
        for _ in range(0, limit, self.share):
            rolling = {"name": window, "steps": board.rules.windows[window].steps}
            left = int(await self._operate("advance_pass", board, window=rolling, limit=self.share))
            if left == 0:
                break
        return left

    async def advance_head(self, board: Opened, limit: int) -> int:
        """Continue the passes over rankings with a head by about `limit` members, or fewer if the
        server is slow. Return about how many members are left."""
        left = 0
        for _ in range(0, limit, _HEAD_MEMBERS):
            most = min(limit, _HEAD_MEMBERS)
            left = int(await self._operate("advance_head", board, limit=most))
            if left == 0:
                break
        return left

    def archived_positions(self, head: int) -> int:
        """Return how many positions of each ranking are archived on a board with this head. A
        ranking with fewer members is archived whole."""
        return self.head_sizes.archived(head)

    async def extend_head(self, board: Opened, key: RankingKey, wanted: int) -> None:
        """Let the next passes extend the head of a ranking to at least `wanted` entries."""
        await self._operate("extend_head", board, name=name_of(key), wanted=wanted)

    async def advance_scopes(
        self, board: Opened, scopes: Sequence[str], due: Due, limit: int, *, full: bool
    ) -> bool:
        """Advance scopes to the current time. Do at most the work of about `limit` members; return
        False if more is needed."""
        arguments = {**encode_due(due), "full": full, "limit": self.share}
        left = list(dict.fromkeys(scopes))
        for _ in range(0, limit, self.share):
            if not left:
                break
            done = await self._operate("advance_scopes", board, scopes=left[:_SCOPES], **arguments)
            left = left[done:]
        return not left

    async def sweep(self, board: Opened, due: Due, limit: int) -> bool:
        """Advance a share of the stale scopes. Return whether no stale scope is left."""
        arguments = {**encode_due(due), "limit": self.share}
        for _ in range(0, limit, self.share):
            if not await self._operate("sweep", board, **arguments):
                return True
        return False

    async def refresh(
        self, board: Opened, window: str, *, now_ms: int, due_ms: int
    ) -> tuple[int, RefreshStates]:
        """Continue the refresh of a window by one call. Return about how many members are left, and
        the refresh states of all windows."""
        refreshed = board.rules.refreshed[window]
        roll = rolling_state(board.number, refreshed, now_ms)
        assert roll is not None
        left, refresh_states = await self._operate(
            "refresh",
            board,
            rolling=[encode_rolling_state(roll)],
            now=now_ms,
            due=due_ms,
            before=refreshed.due_by(now_ms),
            forms=list(dict.fromkeys(spec.name for spec in board.rules.specs if spec.name)),
            limit=_CELLS,
        )
        return int(left), decode_refresh_states(board, refresh_states)

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Remove a share of the event ids that are no longer remembered at `now_ms`."""
        for _ in range(_FORGET_CALLS):
            if await self._operate("forget", board, before=now_ms - board.rules.dedupe_ms) == 0:
                return
