"""What an index on a server is: the rankings of boards that several processes share.

Every call is a coroutine and one atomic step on the server, so several callers never see half of
each other's work. What a process knows of a board may be old, and so may its plans be: such a call
is refused (`Stale`, `Behind`, `Unturned`) without having done anything, and is asked again.
"""

from array import array
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from laurels.event import Batch
from laurels.plan import Plan, RankingKey, Roll
from laurels.rules import Rules
from laurels.stats import BoardLayout

from .asking import Ask, Found
from .base import Offset, Outcomes


class Stale(Exception):  # noqa: N818 (says what the caller is)
    """The board has another version there, or is none: read the definitions again."""


class Behind(Exception):  # noqa: N818
    """A period or step that the caller counts on has ended: plan again, for `now_ms`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(f"it is {now_ms} there")
        self.now_ms = now_ms


class Unturned(Exception):  # noqa: N818
    """A rolling window has not been brought to the step that runs: turn it first."""


class Opened(Struct, frozen=True):
    """A board as a process knows it; of a board in several shards, one of them."""

    number: int
    version: int
    rules: Rules
    shard: int = 0


class CallId(Struct, frozen=True):
    """Tells a call that is made again, since its answer was lost, from a new one.

    `token` is that of a process, `number` counts its calls for a board up. One of these is under
    way at a time: the index remembers the last one only.
    """

    token: str
    number: int


class Applied(Struct, frozen=True):
    """What a batch did, as of an offset; ranks of its events' members before and after it, from 0,
    -1 where not ranked, if they were asked for and could be told.

    `left` are the places of events that were not counted because their shards refused them: all
    else is about the others, and a batch of these is to be planned and applied again, even an empty
    one. None where nothing is left to do.
    """

    outcomes: Outcomes
    ranks_before: "array[int] | None"
    ranks_after: "array[int] | None"
    offset: Offset
    left: list[int] | None = None


class Reading(Struct, frozen=True):
    """What was found, all of the state at an offset."""

    found: list[Found]
    offset: Offset


class RemoteIndex(Protocol):
    """All rankings, on a server. `due_ms` is when a plan or question ceases to hold."""

    async def open(self, board: Opened) -> None:
        """Makes a board known, or its changed definition; again does nothing."""

    async def close(self, board: Opened) -> None:
        """Forgets a board with all it holds; again does nothing."""

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
        """Counts a batch as planned; `watch` is a place in the plan's routes.

        A call made again with the id it had, within a minute, counts nothing twice, and has the
        answer it had.
        """

    async def read(
        self, board: Opened, asks: Sequence[Ask], *, now_ms: int, due_ms: int
    ) -> Reading:
        """Answers asks from one state."""

    async def turn(self, board: Opened, roll: Roll, now_ms: int, limit: int) -> bool:
        """Brings a rolling window to the step that runs; False when `limit` members were not
        enough."""

    async def advance(self, board: Opened, window: str, limit: int) -> int:
        """Does about `limit` members of the pass for the next step; what is left."""

    async def remove(self, board: Opened, member: bytes, now_ms: int) -> bool:
        """Takes a member and its data out of every ranking; whether it was in any."""

    async def set_data(self, board: Opened, member: bytes, data: bytes | None) -> None: ...

    async def set_position(self, board: Opened, source: str, text: str) -> None: ...

    async def position(self, board: Opened, source: str) -> str | None: ...

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """The rankings that hold anybody, or with `empty` all that there should be."""

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Forgets a share of the ids that are no longer remembered at `now_ms`."""

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None: ...

    def layout(self, rules: Rules) -> BoardLayout:
        """How a board with these rules is laid out, and what would make it cheaper."""

    async def offset(self, board: Opened) -> Offset:
        """How often a board has changed; it costs little to ask."""

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """How many event ids the board remembers at `now_ms`."""

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """About how much memory a ranking takes, in bytes."""

    async def audit(self, board: Opened, key: RankingKey, *, mend: bool) -> int:
        """Compares a ranking with what it follows from, and with `mend` puts it right; its
        entries. CheckFailed names the first difference."""
