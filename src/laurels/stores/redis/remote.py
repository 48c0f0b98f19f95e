"""The protocol of an index on a server: rankings of boards that several processes share.

Every call is a coroutine and one atomic step on the server, so concurrent callers never see each
other's work half done. A process's copy of a definition may be outdated, and so may its plans: such
a call is refused (`DefinitionOutdated`, `PlanExpired`, `StepNotReady`) without having changed
anything, and the caller repeats it with a new plan.
"""

from array import array
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

from msgspec import UNSET, Struct, UnsetType

from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.changes.cursor import BlockPlace
from laurels.core.index import Offset, Outcomes
from laurels.core.lifecycle import Due, RefreshState, RollingState
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.record import MendRanking
from laurels.core.requests import ReadRequest, ReadResult
from laurels.core.stats import BoardLayout
from laurels.model.event import Batch
from laurels.model.labels import ALL
from laurels.model.rules import Rules
from laurels.stores.redis.sharding.feed import FeedPlace, Pending


class DefinitionOutdated(Exception):  # noqa: N818 (names the state, as the following ones do)
    """On the server the board has another version, or does not exist: read the definitions
    again."""


class PlanExpired(Exception):  # noqa: N818
    """A period or step in the caller's plan has ended: plan again, for `now_ms`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(f"the plan has expired at the server's time {now_ms}")
        self.now_ms = now_ms


class StepNotReady(Exception):  # noqa: N818
    """A rolling window is not at the running step: rotate it first, in these scopes (the empty text
    is the scope of all events)."""

    def __init__(self, scopes: Iterable[str] = (ALL,)) -> None:
        self.scopes = tuple(dict.fromkeys(scopes))
        super().__init__(f"{len(self.scopes)} scopes are stale")


class ScopesNotReady(StepNotReady):
    """A list of scopes would contain stale ones: advance them first, since they may be empty by
    now."""


class FeedConflict(Exception):  # noqa: N818
    """Other processes have counted entries of the feeds meanwhile: continue from these places, one
    for each feed."""

    def __init__(self, places: Iterable[FeedPlace]) -> None:
        self.places = list(places)
        super().__init__(f"the feeds are counted up to {self.places}")


class RefreshChanged(Exception):  # noqa: N818
    """A refreshed window is not in the state that the caller expected: make the query again."""


RefreshStates = dict[int, dict[str, RefreshState]]
"""The states of refreshed windows, by shard and window name."""


class Opened(Struct, frozen=True):
    """A board as a process knows it, one of its shards, or, if `feeds` is not 0, its label replica,
    which follows that many shards."""

    number: int
    version: int
    rules: Rules
    shard: int = 0
    feeds: int = 0


class CallId(Struct, frozen=True):
    """The id of a call, which is repeated under the same id if its answer was lost.

    `token` identifies the process, `number` increases with its calls for a board. Only one of these
    is in progress at a time, since the index remembers only the last one.
    """

    token: str
    number: int


class PositionWrite(Struct, frozen=True):
    """Texts to store for sources, and those that must be stored before, "" for none; otherwise the
    call raises PositionMoved and changes nothing. With `behind`, shards that have something else
    stored are skipped instead."""

    stores: dict[str, str]
    follows: dict[str, str] = {}
    behind: bool = False


class Applied(Struct, frozen=True):
    """The result of counting a batch, as of an offset. The ranks are those of the events' members
    before and after it, from 0, or -1 for a member that is not ranked; None if they were not
    requested or could not be determined. With `highs` they are the lowest possible ranks, and
    `highs` the highest possible ones before and after.

    `left` are the positions of events that were not counted because their shards refused them. All
    other fields are about the other events, and a batch of those that are left has to be planned
    and applied again, even if it is empty. None if nothing is left to do. `refresh_states` are
    those of the shards that counted, afterwards. With `passes_due` the board has a head, and
    `advance_head` has work to do.
    """

    outcomes: Outcomes
    ranks_before: "array[int] | None"
    ranks_after: "array[int] | None"
    offset: Offset
    left: list[int] | None = None
    refresh_states: RefreshStates = {}
    highs: "tuple[array[int], array[int]] | None" = None
    passes_due: bool = False


class ShardChanges(Struct, frozen=True):
    """Blocks of changes of a shard, in order: `floor` is the place before the oldest kept block,
    `newest` the place after the newest, `waiting` the number of changes that sinks send from the
    first of the blocks to the newest."""

    floor: BlockPlace
    newest: BlockPlace
    blocks: list[Block]
    waiting: int


class Reading(Struct, frozen=True, gc=False):
    """Results of reads, all from the state at one offset, with the refresh states at that time."""

    results: list[ReadResult]
    offset: Offset
    refresh_states: RefreshStates = {}


class RemoteIndex(Protocol):
    """All rankings, on a server. `due_ms` is the time at which a plan or query becomes invalid."""

    async def open(
        self, board: Opened, recorded: WriteBlock | None = None, *, restart_tag: int = 0
    ) -> None:
        """Register a board, or its changed definition; idempotent. If the board keeps changes,
        `recorded` becomes one of them, here and in the other methods. With a `restart_tag` all
        earlier changes are removed, since the board kept none for a while."""

    async def close(self, board: Opened) -> None:
        """Remove a board with all its data; idempotent."""

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
    ) -> Applied:
        """Count a batch as planned; `watch` is an index into the plan's routes.

        A call that is repeated with the same id within a minute counts nothing twice, and returns
        the same answer.
        """

    def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Awaitable[Reading]:
        """Answer all requests from one state."""

    async def rotate_step(self, board: Opened, roll: RollingState, now_ms: int, limit: int) -> bool:
        """Rotate a rolling window to the running step; return False if `limit` members were not
        enough."""

    async def advance_pass(self, board: Opened, window: str, limit: int) -> int:
        """Prepare about `limit` members for the next step; return how many are left."""

    async def advance_head(self, board: Opened, limit: int) -> int:
        """Do about `limit` members of the passes that refill the head of a board and renew its
        grids; return about how many are left. Any number of processes may do this at once, and stop
        anywhere."""

    async def remove(
        self, board: Opened, member: bytes, due: Due, recorded: WriteBlock | None = None
    ) -> bool:
        """Remove a member and its data from every ranking but those by a label; return whether it
        was in any. On a board with scopes that is not a single step: other callers may see it half
        done, and after an error the caller repeats it."""

    async def mend(self, board: Opened, record: MendRanking, due: Due) -> int:
        """Replace entries of a ranking; return how many were replaced. Repeating it does no
        harm."""

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

    async def confirm(self, board: Opened, sink: str, confirmed: Sequence[int] | None) -> None:
        """Note up to which block of each shard a registered sink has confirmed the changes; None
        for a sink that is registered no longer."""

    async def changes_lost(self, board: Opened) -> int:
        """Return how many changes were removed before a registered sink had confirmed them."""

    async def latest_changes(self, after: int | None) -> tuple[int, list[int] | None]:
        """Return the newest sequence of changes of any board, and the numbers of the boards with
        changes after `after`; None if that is not known. The answer may be incomplete."""

    async def ensure_current(self, board: Opened) -> None:
        """Raise DefinitionOutdated unless the board exists with this version of its definition.
        Called after reads that do not check it themselves."""

    async def position(self, board: Opened, source: str) -> str | None:
        """Return the position of a source. Raises ShardsDiffer."""

    async def positions(self, board: Opened) -> dict[str, str]:
        """Return the positions of all sources."""

    async def time(self, board: Opened) -> int | None:
        """Return the latest time at which the board was written, None before the first write."""

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """Return the keys of the rankings of all events that have members, or with `empty` of all
        registered ones; without those of scopes."""

    async def advance_scopes(
        self, board: Opened, scopes: Sequence[str], due: Due, limit: int, *, full: bool
    ) -> bool:
        """Rotate the rolling windows of scopes; with `full` also drop the periods they no longer
        keep, and prepare their next steps. Return False if `limit` members were not enough."""

    async def sweep(self, board: Opened, due: Due, limit: int) -> bool:
        """Advance stale scopes until that has cost as much as `limit` members of a pass; return
        whether no others are left."""

    async def refresh(
        self, board: Opened, window: str, *, now_ms: int, due_ms: int
    ) -> tuple[int, RefreshStates]:
        """Continue the refresh of a window in every shard in which it is due. Return about how many
        members are left, 0 if it is done, and the states of the windows. Any number of processes
        may do this at once, and stop anywhere."""

    async def scope_count(self, board: Opened, form: str) -> int:
        """Return the number of scopes of a form (`RankingSpec.name`), including empty ones that no
        sweep has removed yet."""

    async def scopes(self, board: Opened, form: str, after: str, limit: int) -> list[str]:
        """Return the next scopes of a form, after one of them."""

    async def audit_scopes(self, board: Opened, *, repair: bool) -> tuple[int, int]:
        """Audit every ranking of every scope; return the number of rankings, and of their entries.
        On a board in several shards a ranking counts once for each shard."""

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Forget a share of the ids that are no longer remembered at `now_ms`."""

    async def expire(self, board: Opened, keys: Sequence[RankingKey], now_ms: int) -> None:
        """Set when the server removes rankings of periods that are neither read nor
        written. Has no effect unless the boards use the clock of the server."""

    async def outlive(self, board: Opened, rules: Rules, now_ms: int) -> None:
        """Extend the expiry of all keys to what these rules need, before the rules take effect."""

    async def expire_all(self, board: Opened, now_ms: int) -> None:
        """Set when all keys of a board expire: when it is removed, or very late if it stays. Has no
        effect unless the boards use the clock of the server."""

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None: ...

    def keeps_layout(self, rules: Rules, changed: Rules) -> bool:
        """Return whether the stored rankings stay valid when a board's rules are changed."""

    def layout(self, rules: Rules) -> BoardLayout:
        """Return the layout of a board with these rules, and what would make it cheaper."""

    def unverified(self, rules: Rules) -> list[str]:
        """Return sentences that describe what `audit` cannot check on a board with these rules."""

    async def offset(self, board: Opened) -> Offset:
        """Return the number of changes of a board; cheap enough to be polled."""

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """Return about how many bytes of memory a ranking takes."""

    async def audit(self, board: Opened, key: RankingKey, *, repair: bool) -> int:
        """Compare a ranking with the data it is derived from, and with `repair` correct it; return
        the number of its entries. CheckFailed names the first difference."""


class FollowedIndex(RemoteIndex, Protocol):
    """An index that has each shard of a board as a board of its own, with a feed."""

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
        """Count a batch as planned. `places` are the positions of its events in the whole call, if
        an earlier attempt has counted the others; rankings by a label count the events of a call in
        this order."""

    async def read_changes(
        self, board: Opened, after: Sequence[int], limit: int
    ) -> list[ShardChanges]:
        """Return, for each shard, the block with the sequence number in `after`, if it is kept, and
        those after it until they have more than `limit` changes."""

    async def feed(self, board: Opened, now_ms: int) -> bool:
        """Count in the label replica all events that the shards had counted before this call;
        return False if that did not finish. Any number of processes may do this at once."""

    async def changes(self, board: Opened) -> int:
        """Return the number of changes of a board, including its rankings by a label; cheap enough
        to be polled."""

    async def left_out(self, board: Opened) -> int:
        """Return the number of events that count in rankings of members but not in those by a
        label, because a label's total would have left the range."""


class ShardIndex(RemoteIndex, Protocol):
    """An index that treats each shard of a board, and its label replica, as a board of its own."""

    async def read_changes(self, board: Opened, after: int, limit: int) -> ShardChanges:
        """Return the block with the sequence number `after`, if it is kept, and those after it
        until they have more than `limit` changes."""

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
        feed: bytes | None = None,
        positions: PositionWrite | None = None,
    ) -> Applied:
        """Count a batch as planned; `feed` is appended to the feed, and `positions` are stored
        instead of that of the batch, in the same step. Raises PositionMoved."""

    async def pending(self, board: Opened, after: FeedPlace, limit: int) -> Pending:
        """Return the next entries of a shard's feed after a place; delete those up to it."""

    async def follow(
        self,
        board: Opened,
        batch: Batch,
        plan: Plan,
        *,
        due_ms: int,
        spans: Sequence[tuple[int, FeedPlace, FeedPlace]],
        baselines: Sequence[Sequence[int] | bool] | None,
    ) -> None:
        """Count a batch made from entries of feeds, and in the same step note these as counted.
        `spans` are (shard, place before the entries, place of the last). Raises FeedConflict if
        another process has counted some of them."""

    async def followed(self, board: Opened) -> list[FeedPlace]:
        """Return the place of the last counted entry of each feed."""

    async def left_out(self, board: Opened) -> int:
        """Return the number of events from feeds that were left out because a total would have left
        the range."""
