"""The arguments and results of calls to an index on a server; see `protocols.py`."""

from array import array

from msgspec import Struct

from laurels.core.board_record import Clearing
from laurels.core.board_state import BoardState
from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.changes.cursor import BlockPlace
from laurels.core.closing import ClosedPeriod, SealedPeriod
from laurels.core.hiding import Hiding
from laurels.core.index import Offset, Outcomes
from laurels.core.lifecycle import RefreshState
from laurels.core.requests import ReadResult
from laurels.model.rules import Rules

from .sharding.feed import FeedPlace

RefreshStates = dict[int, dict[str, RefreshState]]
"""The states of refreshed windows, by shard and window name."""


class Opened(Struct, frozen=True):
    """The target of a call: a board, a shard of it, or its label replica, with the version and the
    rules that the process knows. `feeds` is the number of shards from which a label replica is
    updated, and 0 for other targets. `closings` shows which state of the closed and sealed periods
    the process knows: it is the number of changes that led to this state, None on a board that
    closes no periods. `hidden` is the version of the hidden members that the process knows
    (`HiddenMembers.stored_text`); on a board with a head, `hides` is their number. `cleared` is the
    last clearing of the board, if there was one. `is_kept` means that the board was removed, and
    that its state is kept so that it can be restored."""

    number: int
    version: int
    rules: Rules
    shard: int = 0
    feeds: int = 0
    uid: str = ""
    closings: int | None = None
    hidden: str = ""
    hides: int = 0
    cleared: Clearing | None = None
    is_kept: bool = False

    @property
    def version_text(self) -> str:
        """The version as it is stored. It has the unique id of the board, since after the server
        was emptied another board may get the same number and version."""
        return f"{self.version}.{self.uid}" if self.uid else str(self.version)


def opened_as(state: BoardState) -> Opened:
    """Return a board with its versions and rules, in the form that calls of the index take."""
    hidden = state.hidden
    return Opened(
        state.number,
        state.version,
        state.rules,
        uid=state.uid,
        closings=state.closings if state.closing else None,
        hidden=hidden.stored_text,
        hides=len(hidden.own) + len(hidden.shared) if state.rules.head else 0,
        cleared=state.cleared,
    )


class Registered(Struct, frozen=True):
    """The answer of a shard in which a board was registered. `is_fenced` means that a process is,
    or was, about to clear the board at this version. `cut` is the place of the last entry that the
    feed of the shard had when the board was last cleared."""

    is_fenced: bool
    cut: FeedPlace


class Tracking(Struct, frozen=True):
    """The tracking of a shard's changes for a copy: the number of the copy, and the random token of
    the move that it belongs to."""

    number: str
    owner: str


class CallId(Struct, frozen=True):
    """The id of a call. If the answer is lost, the call is repeated with the same id.

    `token` identifies the process; `number` increases with each of its calls for a board. A process
    makes only one such call for a board at a time, since the index remembers only the last one.
    """

    token: str
    number: int


class PositionWrite(Struct, frozen=True):
    """Positions to store. For each source, `stores` has the new text, and `follows` the text that
    is expected to be stored so far; "" means that none is. If another text is stored, the call
    raises PositionMoved and changes nothing. With `behind`, shards with another text are skipped
    instead."""

    stores: dict[str, str]
    follows: dict[str, str] = {}
    behind: bool = False


class Applied(Struct, frozen=True):
    """The result of counting a batch, as of an offset.

    `ranks_before` and `ranks_after` are the ranks of the events' members before and after the
    batch, from 0; -1 for a member that is not ranked. Both are None if ranks were not requested or
    could not be determined. If they are not exact, they are the least possible ranks, and `highs`
    are the greatest possible ranks before and after the batch.

    `left` has the positions of events that were not counted because their shards refused them. All
    other fields are about the counted events. If `left` is not None, the caller has to plan and
    apply these events again. This holds even for an empty list, since the batch's position may
    still have to be stored. `refresh_states` has the refresh states of the shards that counted, as
    of the time after counting. `passes_due` means that the board has a head and that `advance_head`
    has work to do.
    """

    outcomes: Outcomes
    ranks_before: "array[int] | None"
    ranks_after: "array[int] | None"
    offset: Offset
    left: list[int] | None = None
    refresh_states: RefreshStates = {}
    highs: "tuple[array[int], array[int]] | None" = None
    passes_due: bool = False


class StoredHidings(Struct, frozen=True):
    """The hidden members of a board as stored. `own` is the version of the board's own hidings, and
    `everywhere` the version up to which the board follows the list of members that are hidden on
    all boards. `unrecorded` has, by id, the changes of the board's own hidings that the shards of
    the members still have to record."""

    own: int
    everywhere: int
    hidings: dict[bytes, Hiding]
    unrecorded: dict[int, WriteBlock] = {}


class ShardChanges(Struct, frozen=True):
    """Blocks of changes of a shard, in order. `floor` is the `BlockPlace` just before the oldest
    kept block, `newest` the one at the end of the newest block. `waiting` is the number of changes
    for sinks in the first of these blocks and in all later blocks of the shard. `clears` has, for
    each block, how often the board had been cleared when the shard recorded the block."""

    floor: BlockPlace
    newest: BlockPlace
    blocks: list[Block]
    waiting: int
    clears: list[int]


class StoredClosings(Struct, frozen=True):
    """The closed and sealed periods of a board, as they are stored: their records by window and
    instance. `changes` is the number of their changes so far. `recorded` has, by window, the
    instance up to which periods need no further record of their closing; `trimmed` has, by window,
    the newest instance whose record was removed. `unexpired` has the sealed periods whose keys are
    not known to expire."""

    changes: int
    records: dict[tuple[str, int], ClosedPeriod | SealedPeriod]
    recorded: dict[str, int]
    trimmed: dict[str, int]
    unexpired: frozenset[tuple[str, int]] = frozenset()


class Reading(Struct, frozen=True, gc=False):
    """The results of reads from one state, with the offset and the refresh states of this state."""

    results: list[ReadResult]
    offset: Offset
    refresh_states: RefreshStates = {}
