"""The protocol of an index on a server: rankings of boards that several processes share.

Every call is a coroutine and one atomic step on the server, so concurrent callers never see each
other's work half done. What a process knows of a board may be out of date, and so may its plans:
such a call is refused (`DefinitionOutdated`, `PlanExpired`, `StepNotReady`) without having done
anything, and is repeated.
"""

from array import array
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.changes.cursor import BlockPlace
from laurels.core.index import Offset, Outcomes
from laurels.core.lifecycle import Due, RefreshState, RollingState
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest, ReadResult
from laurels.core.stats import BoardLayout
from laurels.model.event import Batch
from laurels.model.labels import ALL
from laurels.model.rules import Rules
from laurels.stores.redis.sharding.feed import FeedPlace, Pending


class DefinitionOutdated(Exception):  # noqa: N818 (says what the caller is)
    """The board has another version there, or is none: read the definitions again."""


class PlanExpired(Exception):  # noqa: N818
    """A period or step that the caller counts on has ended: plan again, for `now_ms`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(f"it is {now_ms} there")
        self.now_ms = now_ms


class StepNotReady(Exception):  # noqa: N818
    """A rolling window is not at the running step: rotate it first, in these scopes (the empty one
    ranks all)."""

    def __init__(self, scopes: Iterable[str] = (ALL,)) -> None:
        self.scopes = tuple(dict.fromkeys(scopes))
        super().__init__(f"{len(self.scopes)} scopes are behind")


class ScopesNotReady(StepNotReady):
    """Stale scopes are to be listed: advance them first, since they may be empty by now."""


class FeedConflict(Exception):  # noqa: N818
    """Others have counted entries of feeds meanwhile: go on from these places, one of each
    feed."""

    def __init__(self, places: Iterable[FeedPlace]) -> None:
        self.places = list(places)
        super().__init__(f"it is at {self.places} there")


class RefreshChanged(Exception):  # noqa: N818
    """A refreshed window is not in the state that the caller expected: ask again."""


RefreshStates = dict[int, dict[str, RefreshState]]
"""The states of refreshed windows, by shard and window name."""


class Opened(Struct, frozen=True):
    """A board as a process knows it; of a board in several shards, one of them, or with `feeds`
    what follows so many of them."""

    number: int
    version: int
    rules: Rules
    shard: int = 0
    feeds: int = 0


class CallId(Struct, frozen=True):
    """Tells a call that is made again, since its answer was lost, from a new one.

    `token` is that of a process, `number` counts its calls for a board up. One of these is under
    way at a time: the index remembers the last one only.
    """

    token: str
    number: int


class Applied(Struct, frozen=True):
    """The result of counting a batch, as of an offset. The ranks are those of the events' members
    before and after it, from 0, -1 where not ranked, if they were requested and could be
    determined.

    `left` are the positions of events that were not counted because their shards refused them: all
    else is about the others, and a batch of these, even an empty one, is to be planned and applied
    again. None where nothing is left to do. `refresh_states` are those of the shards that counted,
    afterwards.
    """

    outcomes: Outcomes
    ranks_before: "array[int] | None"
    ranks_after: "array[int] | None"
    offset: Offset
    left: list[int] | None = None
    refresh_states: RefreshStates = {}


class ShardChanges(Struct, frozen=True):
    """Blocks of changes of a shard, in order: `floor` is the place before the oldest that is kept,
    `newest` that behind the newest."""

    floor: BlockPlace
    newest: BlockPlace
    blocks: list[Block]


class Reading(Struct, frozen=True, gc=False):
    """Results of reads, all from the state at one offset, with the refresh states at that time."""

    found: list[ReadResult]
    offset: Offset
    refresh_states: RefreshStates = {}


class RemoteIndex(Protocol):
    """All rankings, on a server. `due_ms` is when a plan or question ceases to hold."""

    async def open(
        self, board: Opened, recorded: WriteBlock | None = None, *, restart_tag: int = 0
    ) -> None:
        """Register a board, or its changed definition; idempotent. Where the board keeps changes,
        what is `recorded` becomes one, here and below. With a `restart_tag` it keeps none of those
        before, since it kept none for a while."""

    async def close(self, board: Opened) -> None:
        """Forget a board with all its data; idempotent."""

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
        """Count a batch as planned; `watch` is a place in the plan's routes.

        A call made again with the id it had, within a minute, counts nothing twice, and has the
        answer it had.
        """

    def read(
        self, board: Opened, asks: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Awaitable[Reading]:
        """Answer asks from one state."""

    async def rotate_step(self, board: Opened, roll: RollingState, now_ms: int, limit: int) -> bool:
        """Bring a rolling window to the step that runs; return False when `limit` members were not
        enough."""

    async def advance_pass(self, board: Opened, window: str, limit: int) -> int:
        """Do about `limit` members of the pass for the next step; return what is left."""

    async def remove(
        self, board: Opened, member: bytes, due: Due, recorded: WriteBlock | None = None
    ) -> bool:
        """Remove a member and its data from every ranking but those by a label; return whether it
        was in any. Where the board has scopes, that is not a single step: others may see it half
        done, and after an error the caller repeats it."""

    async def set_data(
        self,
        board: Opened,
        member: bytes,
        data: bytes | None,
        recorded: WriteBlock | None = None,
    ) -> None: ...

    async def set_position(
        self, board: Opened, source: str, text: str, recorded: WriteBlock | None = None
    ) -> None: ...

    async def position(self, board: Opened, source: str) -> str | None: ...

    async def time(self, board: Opened) -> int | None:
        """Return the latest time the board was written at, None before the first write."""

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """Return the rankings of all events with members, or with `empty` all that there should be;
        not those of scopes."""

    async def advance_scopes(
        self, board: Opened, scopes: Sequence[str], due: Due, limit: int, *, full: bool
    ) -> bool:
        """Turn the rolling windows of scopes, with `full` also forgets what they no longer keep and
        prepares their next steps; return False when `limit` members were not enough."""

    async def sweep(self, board: Opened, due: Due, limit: int) -> bool:
        """Advance about `limit` members' worth of stale scopes; return whether there are no
        others."""

    async def refresh(
        self, board: Opened, window: str, *, now_ms: int, due_ms: int
    ) -> tuple[int, RefreshStates]:
        """Go on with the refresh of a window, in every shard in which it is due; about how many
        members are left, 0 where nothing is left to do, and how the windows stand. Any number of
        processes may do so at once, and break off anywhere."""

    async def scope_count(self, board: Opened, form: str) -> int:
        """Return how many scopes of some labels (`RankingSpec.name`) there are, those included that
        hold nobody any more and that no sweep has come to yet."""

    async def scopes(self, board: Opened, form: str, after: str, limit: int) -> list[str]:
        """Return the next of these, behind one of them."""

    async def audit_scopes(self, board: Opened, *, mend: bool) -> tuple[int, int]:
        """`audit` of every ranking of every scope; how many there are, and their entries. Of a
        board in several shards a ranking counts in each of them."""

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Forget a share of the ids that are no longer remembered at `now_ms`."""

    async def expire(self, board: Opened, keys: Sequence[RankingKey], now_ms: int) -> None:
        """Set when rankings of periods expire by themselves, once they are neither read nor counted
        in. Does nothing unless the boards go by the clock of the server."""

    async def outlive(self, board: Opened, rules: Rules, now_ms: int) -> None:
        """Extend the expiry of the rankings of periods to what these rules need, before the rules
        take effect."""

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None: ...

    def keeps_layout(self, rules: Rules, changed: Rules) -> bool:
        """Return whether a board with these rules that changes to others can stay laid out as it
        is."""

    def layout(self, rules: Rules) -> BoardLayout:
        """Return the layout of a board with these rules, and what would make it cheaper."""

    def unverified(self, rules: Rules) -> list[str]:
        """Return, in sentences, what `audit` cannot check of a board with these rules."""

    async def offset(self, board: Opened) -> Offset:
        """Return how often a board has changed; it costs little to ask."""

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """About how much memory a ranking takes, in bytes."""

    async def audit(self, board: Opened, key: RankingKey, *, mend: bool) -> int:
        """Compare a ranking with what it follows from, and with `mend` puts it right; its entries.
        CheckFailed names the first difference."""


class FollowedIndex(RemoteIndex, Protocol):
    """An index that has each shard of a board as a board of its own, with a feed."""

    async def read_changes(
        self, board: Opened, after: Sequence[int], limit: int
    ) -> list[ShardChanges]:
        """Return the blocks of each shard behind those of these sequences, with these, until they
        have more than `limit` changes."""

    async def feed(self, board: Opened, now_ms: int) -> bool:
        """Count in the label replica what the shards had counted before this call; return False
        when that was not completed. Any number of processes may do so at once."""

    async def changes(self, board: Opened) -> int:
        """Return how often anything of a board has changed, its rankings by a label included; it
        costs little to ask."""

    async def left_out(self, board: Opened) -> int:
        """Return how many events count for their members and not for their labels, whose total
        would have left the range."""


class ShardIndex(RemoteIndex, Protocol):
    """One that has each shard of a board as a board of its own, and so what follows them."""

    async def read_changes(self, board: Opened, after: int, limit: int) -> ShardChanges:
        """Return the block `after`, where it is kept, and those behind it until they have more than
        `limit` changes."""

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
    ) -> Applied:
        """Count a batch as planned; `feed` is appended to the feed in the same step."""

    async def pending(self, board: Opened, after: FeedPlace, limit: int) -> Pending:
        """Return the next entries of a shard's feed; those up to that place are forgotten."""

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
        """Count a batch made of entries, by shard behind one and up to another, in one step with
        the note that they count. Raise FeedConflict where others have been there."""

    async def followed(self, board: Opened) -> list[FeedPlace]:
        """Return the last entry of each feed that counts."""

    async def left_out(self, board: Opened) -> int:
        """Return how many events of such batches would have left the range."""
