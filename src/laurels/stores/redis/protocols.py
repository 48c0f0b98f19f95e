"""The protocols of an index on a server, with the rankings of boards that several processes share.

Every call is a coroutine and one atomic step on the server, so callers never see an incomplete
change. A process's copy of a definition, and plans made from it, may be outdated. The server then
refuses the call without changing anything (`DefinitionOutdated`, `PlanExpired`, `StepNotReady`),
and the caller repeats the call with a new plan.
"""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.closing import ClosedPeriod, SealedPeriod
from laurels.core.hidden import Exclusion
from laurels.core.hiding import Hiding
from laurels.core.index import Offset
from laurels.core.lifecycle import Due, RollingState
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.record import MendRanking
from laurels.core.requests import ReadRequest
from laurels.core.stats import BoardLayout
from laurels.model.batch import Batch
from laurels.model.rules import Rules

from .remote import (
    Applied,
    CallId,
    Opened,
    PositionWrite,
    Reading,
    RefreshStates,
    ShardChanges,
    StoredClosings,
    StoredHidings,
)


class RemoteIndex(Protocol):
    """An index on a server, which has all rankings of all boards. `due_ms` is the time at which a
    plan or query expires."""

    async def close(self, board: Opened, *, forgotten: bool = False) -> None:
        """Remove a board with all its data, except the changes that `end_changes` keeps and, if the
        board is kept, the state from which it can be restored. This state is removed by a call that
        names the board as not kept and as `forgotten`. Repeating the call has no effect."""

    async def forget_changes(self, board: Opened) -> None:
        """Remove the changes of a deleted board, unless it was restored meanwhile."""

    async def kept_nbytes(self, board: Opened) -> int:
        """Return the approximate number of bytes of memory that the state of a removed board
        takes."""

    async def fence(self, board: Opened) -> bool:
        """Set the fence, so that no period is recorded as closed until the board has another
        version: then the board can be cleared. Return False, without a fence, if a closed period is
        not sealed yet. Raises ClosingsMoved."""

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
        hidden: Exclusion | None = None,
    ) -> Applied:
        """Count a batch as planned. `watch` is the index, in the plan's routes, of the window whose
        scores and ranks are reported. The `hidden` members get no ranks, and the ranks of others do
        not count them.

        If a call is repeated with the same id within a minute, the index counts nothing again, and
        returns the first answer.
        """

    def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Awaitable[Reading]:
        """Return the results of all requests, from one state."""

    async def rotate_step(self, board: Opened, roll: RollingState, now_ms: int, limit: int) -> bool:
        """Rotate a rolling window to the running step. Do at most the work of about `limit`
        members; return False if more is needed."""

    async def advance_pass(self, board: Opened, window: str, limit: int) -> int:
        """Prepare about `limit` members for a window's next step. Return how many members are
        left."""

    async def advance_head(self, board: Opened, limit: int) -> int:
        """Continue the passes that refill the head of a board and renew its grids, by about `limit`
        members. Return approximately how many members are left. Any number of processes may call
        this at the same time, and any of them may stop at any point."""

    def archived_positions(self, head: int) -> int:
        """Return how many positions of each ranking are archived on a board with this head. A
        ranking with fewer members is archived whole."""

    async def extend_head(self, board: Opened, key: RankingKey, wanted: int) -> None:
        """Let the next passes extend the head of a ranking to at least `wanted` entries, as far as
        there are so many members. No effect on a ranking without a head."""

    async def remove(
        self,
        board: Opened,
        member: bytes,
        due: Due,
        recorded: WriteBlock | None = None,
        *,
        archived: Mapping[str, int] | None = None,
        forced: bool = False,
    ) -> bool:
        """Remove a member and its data from every ranking except those by a label. Return whether
        the member was in any ranking. On a board with scopes the removal takes several steps. Other
        callers may see a part of the removal, and after an error the caller has to repeat it.

        The rankings of closed periods stay as they are, unless only the archive answers queries
        about them: `archived` has, by window, the newest instance of which this is true. With
        `archived` the result is also True if the member only had data. With `forced` the removal is
        recorded, and the result is True, even if the member was in no ranking."""

    async def forget_ids(self, board: Opened, member: bytes) -> int:
        """Remove the event ids of a member. Return how many there were. O(event ids)."""

    async def forget_hidden(self, board: Opened, member: bytes, at_ms: int) -> None:
        """Remove a member from the hidden members of a removed board that is kept. Repeating it has
        no effect."""

    async def forget_names(self, board: Opened, member: bytes) -> None:
        """Remove the member from the streams in which the shards list their latest changes."""

    async def mend(self, board: Opened, record: MendRanking, due: Due) -> int:
        """Replace entries of a ranking. Return how many were replaced. Repeating the call has no
        effect."""

    async def set_data(
        self,
        board: Opened,
        member: bytes,
        data: bytes | None,
        recorded: WriteBlock | None = None,
        before: bytes | UnsetType | None = UNSET,
    ) -> None: ...

    async def set_position(
        self, board: Opened, write: PositionWrite, recorded: WriteBlock | None = None
    ) -> None:
        """Store the position of a source. Raises PositionMoved, ShardsDiffer."""

    async def freeze(self, board: Opened, floors: Mapping[str, int], now_ms: int) -> None:
        """Freeze periods: of each window in `floors` all periods up to the instance that it has
        there. From then on nothing changes their rankings in any scope. Repeating the call has no
        effect."""

    async def load_closings(self, board: Opened, windows: Sequence[str]) -> StoredClosings:
        """Return the closed and sealed periods of these windows."""

    async def record_close(
        self, board: Opened, window: str, instance: int, closed: ClosedPeriod, recorded: WriteBlock
    ) -> bool:
        """Record that a frozen period is closed. Return False if that was recorded before."""

    async def record_floors(self, board: Opened, floors: Mapping[str, int]) -> None:
        """Record, for each window in `floors`, that the closings of all its periods up to this
        instance are recorded. Periods without entries get no record of their own."""

    async def restore_closings(
        self,
        board: Opened,
        sealed: Mapping[tuple[str, int], SealedPeriod],
        recorded: Mapping[str, int],
        trimmed: Mapping[str, int],
    ) -> None:
        """Write the records of the sealed periods of a copied board, by window and instance.
        By window, `recorded` has the instance up to which all periods are closed, and `trimmed` the
        newest instance that has left the archive. A second call has no effect."""

    async def record_seal(
        self,
        board: Opened,
        window: str,
        instance: int,
        before: ClosedPeriod | SealedPeriod,
        sealed: SealedPeriod,
        recorded: Block | None,
        trimmed: Collection[int] = (),
    ) -> bool:
        """Replace the record of a period by the record of its seal or of a new revision. Remove the
        records of the `trimmed` instances. Return False if the period has another record than
        `before`."""

    async def record_note(self, board: Opened, number: int, recorded: Block) -> bool:
        """Add a block to the changes of a board: what the note `number` of its ledger says. Return
        False if this was already done for this note, or for one with a greater number."""

    async def take_lease(self, board: Opened, token: str, ms: int) -> bool:
        """Take or renew the lease to seal periods of a board for some milliseconds, or end it if
        `ms` is 0. Return False if another process has it."""

    async def hide(
        self, board: Opened, member: bytes, hiding: Hiding | None, recorded: WriteBlock
    ) -> None:
        """Hide a member, or replace its hiding. With None as `hiding`, show the member again.
        Raises DefinitionOutdated if the stored hidden members are not those that the caller
        knows."""

    async def take_up(
        self,
        board: Opened,
        stored: StoredHidings,
        version: int,
        recorded: Sequence[WriteBlock],
    ) -> None:
        """Store that the board has taken up the given version of the list of members hidden on all
        boards, and record the blocks in `recorded`. Raises DefinitionOutdated if the stored
        versions are no longer those in `stored`."""

    async def hidings(self, board: Opened) -> StoredHidings:
        """Return the hidden members of a board."""

    async def confirm(self, board: Opened, sink: str, confirmed: Sequence[int] | None) -> None:
        """Store which blocks of changes a registered sink has confirmed: for each shard the
        sequence number of the newest one. None means that the sink is no longer registered."""

    async def changes_lost(self, board: Opened) -> int:
        """Return how many changes were removed before a registered sink had confirmed them."""

    async def latest_changes(self, after: int | None) -> tuple[int, list[int] | None]:
        """Return the newest sequence number of a change to any board, and the numbers of the boards
        that have changes after the sequence number `after`. A board is missing if the process that
        changed it ended before it could note the change. None in place of the numbers means that
        they cannot be determined: `after` is None or too old, or the server has lost its list."""

    async def ensure_current(self, board: Opened) -> None:
        """Raise DefinitionOutdated unless the board exists with this version of its definition.
        Call it after reads that do not check the version themselves."""

    async def position(self, board: Opened, source: str) -> str | None:
        """Return the position of a source; None if it has none. Raises ShardsDiffer."""

    async def positions(self, board: Opened) -> dict[str, str]:
        """Return the positions of all sources."""

    async def time(self, board: Opened) -> int | None:
        """Return the time of the board's latest write; None if there was no write."""

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """Return the keys of the rankings of all events. Rankings without members are included only
        with `empty`. Rankings in scopes are never included."""

    async def advance_scopes(
        self, board: Opened, scopes: Sequence[str], due: Due, limit: int, *, full: bool
    ) -> bool:
        """Rotate the rolling windows of scopes. With `full` also drop the scopes' expired periods,
        and prepare their next steps. Do the work of about `limit` members; return False if more is
        needed."""

    async def sweep(self, board: Opened, due: Due, limit: int) -> bool:
        """Advance stale scopes until this has cost as much as `limit` members of a pass. Return
        whether no stale scope is left."""

    async def refresh(
        self, board: Opened, window: str, *, now_ms: int, due_ms: int
    ) -> tuple[int, RefreshStates]:
        """Continue the refresh of a window in every shard in which it is due. Return approximately
        how many members are left, which is 0 when the refresh is done, and the refresh states of
        all windows. Any number of processes may call this at the same time, and any of them may
        stop at any point."""

    async def scope_count(self, board: Opened, form: str) -> int:
        """Return the number of scopes of a form (`RankingSpec.name`), including empty scopes that
        no sweep has removed yet."""

    async def scopes(self, board: Opened, form: str, after: str, limit: int) -> list[str]:
        """Return up to `limit` scopes of a form that follow the scope `after`."""

    async def audit_scopes(self, board: Opened, *, repair: bool) -> tuple[int, int]:
        """Audit every ranking of every scope. Return the number of rankings, and the number of
        entries in them. On a board in several shards a ranking counts once for each shard."""

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Remove a share of the event ids that are no longer remembered at `now_ms`."""

    async def expire(self, board: Opened, keys: Sequence[RankingKey], now_ms: int) -> None:
        """Set the expiry of rankings of periods, so that the server removes rankings that can no
        longer be read or written. In a window that closes periods, the periods must be sealed
        already. Has no effect unless the store uses the server's clock."""

    async def expire_sealed(self, board: Opened, window: str, instance: int, now_ms: int) -> None:
        """Set the expiry of the rankings of a sealed period in all scopes. Has no effect unless the
        store uses the server's clock."""

    async def record_expiry(self, board: Opened, window: str, instance: int) -> None:
        """Record that the keys of a sealed period expire."""

    async def set_stale(self, board: Opened, now_ms: int) -> None:
        """Mark all scopes as stale, since a period was sealed that is no longer kept."""

    async def outlive(self, board: Opened, rules: Rules, now_ms: int) -> None:
        """Extend the expiry of all keys as far as new rules need, before the rules take effect."""

    async def expire_all(self, board: Opened, now_ms: int, *, settled: bool = False) -> None:
        """Set the expiry of all keys of a board to the time at which the board is removed. If the
        board is never removed, or has periods that are not sealed, set it to a very late time.
        `settled` is whether all its periods are sealed. Has no effect unless the store uses the
        server's clock."""

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None: ...

    def keeps_layout(self, rules: Rules, changed: Rules) -> bool:
        """Return whether the rankings in the present layout stay valid when the rules of a board
        change."""

    def layout(self, rules: Rules) -> BoardLayout:
        """Return the layout of a board with these rules, and advice on how to get a cheaper
        layout."""

    def unverified(self, rules: Rules) -> list[str]:
        """Return sentences about data that `audit` cannot check on a board with these rules."""

    async def offset(self, board: Opened) -> Offset:
        """Return the number of changes of a board. The call is cheap enough for polling."""

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """Return the approximate number of bytes of memory that a ranking takes."""

    async def audit(self, board: Opened, key: RankingKey, *, repair: bool) -> int:
        """Compare a ranking with the data it is derived from, and with `repair` correct it. Return
        the number of its entries. Raises CheckFailed, which names the first member that differs."""


class FollowedIndex(RemoteIndex, Protocol):
    """An index for boards in several shards, whose rankings by a label follow the shards' feeds."""

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
        hidden: Exclusion | None = None,
        places: Sequence[int] | None = None,
    ) -> Applied:
        """Count a batch as planned. If an earlier attempt has counted some events of the caller's
        batch, `batch` has only the others, and `places` has their positions in the caller's batch:
        rankings by a label count the events of a caller's batch in order. None means that `batch`
        is the caller's batch."""

    async def open(
        self, board: Opened, recorded: WriteBlock | None = None, *, restart_tag: int = 0
    ) -> bool:
        """Register a board or its changed definition in all shards. If the board was cleared, first
        remove the members that shards still have from before the clearing. Repeating the call has
        no effect. If the board keeps changes, `recorded` is added to them, here and in other
        methods. With a `restart_tag` (not 0) all earlier changes are removed, since the board kept
        no changes for some time. Return whether a process has set a fence at this version of the
        board."""

    async def read_changes(
        self, board: Opened, after: Sequence[int], limit: int, *, deleted: bool = False
    ) -> list[ShardChanges]:
        """Return, for each shard, the block with the sequence number in `after`, if it is still
        kept, and the blocks after it. Stop when the blocks after it have more than `limit` changes.
        With `deleted`, raise DefinitionOutdated if `end_changes` was not called yet."""

    async def end_changes(self, board: Opened, recorded: WriteBlock, until_ms: int) -> None:
        """End the changes of a board that is deleted: refuse all further writes, record the
        deletion, and keep the changes until `until_ms`. Repeating the call has no effect."""

    async def feed(self, board: Opened, now_ms: int) -> bool:
        """Count in the label replica all events that the shards had counted before this call.
        Return False if some events are left. Any number of processes may call this at the same
        time."""

    async def changes(self, board: Opened) -> int:
        """Return the number of changes of a board, including its rankings by a label. The call is
        cheap enough for polling."""

    async def left_out(self, board: Opened) -> int:
        """Return the number of events that are counted in rankings of members only: in a ranking by
        a label, each would have taken a total out of range."""
