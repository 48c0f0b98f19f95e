"""The protocol of an index: all rankings of all boards, kept current from the log.

An index knows boards by number, rankings by key, and the order of entries by their words; it knows
neither calendars nor clocks. For a rolling window it stores the tallies of the counted steps, the
ranking of the running step (see `RollingState`), and the ranking prepared for the next step. An
entry's *words* are integers that sort in ascending order: each column times its sign, then the tie
stamp if the time decides between equal scores. Positions and ranks in an index start at 0.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from laurels.model.batch import Batch
from laurels.model.rules import Rules

from .contents import ChangedIndexPiece, IndexPiece
from .entry_columns import EntryColumns
from .lifecycle import RollingState
from .plan import Plan
from .ranking_key import RankingKey
from .record import MendRanking

Offset = int | tuple[int, ...]
"""The type of the offset in an answer. For a board in several shards it is a tuple with a number
for each shard. Two answers show the same state if their offsets are equal."""


def changes(offset: Offset) -> int:
    """Return the number of changes up to an offset."""
    return offset if isinstance(offset, int) else sum(offset)


class Outcome(IntEnum):
    """The outcome of one event."""

    APPLIED = 1
    UNCHANGED = 2
    OUT_OF_RANGE = 3
    DUPLICATE = 4
    TOO_LATE = 5
    DEDUPE_FULL = 6
    ROLLED_BACK = 7


COUNTED = (Outcome.APPLIED, Outcome.UNCHANGED)
REFUSED = tuple(sorted({*Outcome} - {*COUNTED, Outcome.DUPLICATE}))


class Scores(Struct, frozen=True):
    """The scores of the members of consecutive events as integers, column by column; `present[i]`
    is 0 if the member of event i had no entry."""

    present: bytearray
    words: list["array[int]"]


class BatchTrace(Struct, frozen=True):
    """For each event of a batch, the entries of its member as the event left them. `rankings` has
    an item for each recorded ranking spec: its index in the plan's `specs`, and the entries as
    integers, column by column. `added` has, for each event with an absolute score, the amount by
    which the event changed the score."""

    rankings: list[tuple[int, list["array[int]"]]]
    added: list["array[int]"] | None = None


class Outcomes(Struct, frozen=True):
    """The outcomes of a batch, event by event. `before` and `after` are the members' scores in the
    ranking that `watch` selects (see `Index.apply`), just before and just after each event. There
    is a `trace` if the board keeps changes."""

    codes: bytearray
    before: Scores | None = None
    after: Scores | None = None
    trace: BatchTrace | None = None

    @property
    def counted(self) -> int:
        """The number of events of the batch that counted."""
        return sum(map(self.codes.count, COUNTED))

    @property
    def refused(self) -> int:
        """The number of refused events."""
        return sum(map(self.codes.count, REFUSED))


class Slice(Struct, frozen=True, gc=False):
    """Consecutive entries of a ranking, in ranking order. The first one is at position `start`.

    `words` are all stored words of each entry, beginning with those that decide the order.
    """

    start: int
    members: list[str]
    ranks: Sequence[int]
    words: Sequence[Sequence[int]]


class Neighbourhood(Struct, frozen=True, gc=False):
    """A member's position, the size of the ranking, and the member's entry between those of its
    neighbours."""

    total: int
    position: int
    part: Slice


class Located(Struct, frozen=True, gc=False):
    """Positions of members, in the order requested; -1 for a member that is not ranked.

    If ranks are estimated, `highs` has the greatest possible ranks, and `positions` and `ranks`
    have the least possible ones.
    """

    positions: Sequence[int]
    ranks: Sequence[int]
    words: list["array[int]"]
    highs: Sequence[int] | None = None


Section = tuple[bytes, bytes]
"""A section of a copy of the index, as in a snapshot: a kind of one byte, and a body."""
Describe = Callable[[int], bytes | None]
"""A function that returns the fold's description of a board, None if there is no such board."""


class Copy(Protocol):
    """A copy of an index, made section by section. The index may change between two calls, but no
    commit may run during a call."""

    def step(self, describe: Describe) -> list[Section] | None:
        """Return the next sections, None when so little is left that `finish` can return it."""

    def finish(self, describe: Describe) -> list[Section]:
        """Return the last sections. With these, the copy has the current state of the index."""


class Load(Protocol):
    """Loads a copy. Its user calls `see` with each section whose kind is in `seen`, opens the
    boards that `described` returns, calls `open`, calls `take` with every other section, and then
    calls `finish`.

    Different threads may take sections of different *lanes* concurrently. The sections of one lane
    are taken one after another.
    """

    @property
    def seen(self) -> Collection[bytes]: ...

    def lane(self, kind: bytes, begins: bytes) -> int:
        """Return the lane of a section. `begins` is the beginning of the section's body, whose
        checksum may not be verified yet.
        """

    def see(self, kind: bytes, body: bytes) -> None: ...

    def described(self) -> Iterable[tuple[int, bytes]]:
        """Return the number and the fold's description of each board."""

    def open(self) -> None: ...

    def take(self, kind: bytes, body: bytes) -> None: ...

    def finish(self) -> None:
        """Raise SnapshotDamaged if the structures differ from their descriptions."""


class RankingIndex(Protocol):
    """The rankings of an index as readers see them, perhaps without some entries. The methods are
    those of `Index`."""

    def size(self, key: RankingKey) -> int: ...

    def position(self, key: RankingKey, member: bytes) -> int: ...

    def positions(self, key: RankingKey, members: Sequence[bytes]) -> list[int]: ...

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]: ...

    def locate(
        self, key: RankingKey, members: Sequence[str], *, whole: bool = False
    ) -> Located: ...

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice: ...

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int: ...

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]: ...

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]: ...


class Index(Protocol):
    """All rankings. Each call is atomic; the caller ensures that no read runs during a commit."""

    def open_board(self, number: int, rules: Rules) -> None:
        """Register a new board, or the changed definition of a known board."""

    def close_board(self, number: int) -> None:
        """Remove a board with all its rankings, ids and member data."""

    def apply(self, batch: Batch, plan: Plan, watch: int | None = None) -> Outcomes:
        """Count a batch as planned, event by event. `watch` is the index of a ranking spec in the
        plan; the outcomes have the members' scores in its ranking."""

    def remove(self, board: int, member: bytes, scopes: Iterable[str] = ()) -> bool:
        """Remove a member and its data from the ranking of all events and from the rankings of
        `scopes`. Return whether the member was in any of them."""

    def mend(self, key: RankingKey, record: MendRanking) -> bytearray:
        """Replace entries of a ranking. Return a byte for each member: 1 if it was changed, 0 if
        its current entry is not the expected one."""

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None: ...

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]: ...

    def remembered(self, board: int, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""

    def rotate_step(
        self, roll: RollingState, limit: int | None = None, copied: Collection[int] = ()
    ) -> bool:
        """Rotate a rolling window to the running step, one step after another: finish the pass for
        the step, and swap the rankings. If this needs visits of more than `limit` members, return
        False; the window is then not at the running step yet. The ranking at the end of each step
        in `copied` is copied. The copy is read under the key of that step, until it is dropped."""

    def advance_pass(self, board: int, window: str, limit: int, scope: str = "") -> int:
        """Visit about `limit` members in the pass that prepares a rolling window's next step;
        return the number of members left, like `pass_left`. The pass may be interrupted and
        continued at any point."""

    def pass_left(self, board: int, window: str, scope: str = "") -> int:
        """Return about how many members the pass for the next step still has to visit; 0 if the
        next step is ready."""

    def begin_build(self, board: int, window: str) -> None:
        """Begin to build the next refresh of a window."""

    def build(self, board: int, window: str, limit: int, scope: str = "") -> int:
        """Add up about `limit` more cells of a scope for the next refresh; return the number of
        cells left, like `build_left`. Events counted meanwhile are included. A new step starts the
        build over."""

    def build_left(self, board: int, window: str, scope: str = "") -> int:
        """Return about how many cells of a scope are still to be added up for the next refresh; 0
        if it is ready."""

    def refresh_cost(self, board: int, window: str, most: int) -> int:
        """Return about how many cells of all scopes a refresh would add up if nothing was built
        before it. A result above `most` may be too small, since the count stops there."""

    def refresh(self, board: int, window: str) -> bool:
        """Refresh a window in every scope from its tallies. Builds that are incomplete are
        completed first. Return whether the window has members. All scopes must have been advanced.
        O(scopes)."""

    def switch_to_built(self, board: int, window: str) -> bool:
        """Refresh a window whose build is complete in all scopes. Return whether the window has
        members. O(1), since each scope switches to its new ranking only when it is advanced or
        read."""

    def keys(self, board: int, scope: str = "") -> list[RankingKey]:
        """Return the keys of a scope's rankings that have members. For a rolling window, this is
        the ranking of the running step."""

    def tallies(self, board: int, scope: str = "") -> list[RankingKey]:
        """Return the keys of the tallies of a scope's rolling windows, for the steps that still
        count and have members."""

    def generation(self, board: int, scope: str) -> int:
        """Return the generation that the board had when a scope was last advanced; 0 for a new
        scope."""

    def set_generation(self, board: int, scope: str, generation: int) -> None:
        """Record that a scope was advanced to a generation, and remove the scope if it is empty."""

    def scopes_with_member(self, board: int, member: bytes, scopes: Iterable[str]) -> list[str]:
        """Return the scopes in which a member is ranked. O(scopes)."""

    def next_scopes(
        self, board: int, place: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Return the next scopes that have members, except the scope of all events. To continue
        after a returned scope, pass it as `place`; None begins with the first scope."""

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        """Return the next scopes with the label names of `form` (`RankingSpec.name`) that have
        members, in the order of their texts. The first one is after the scope `after`."""

    def scope_count(self, board: int, form: str) -> int:
        """Return the number of scopes with members that have the label names of a form."""

    def digest(self, key: RankingKey) -> tuple[int, int]:
        """Return the number of cells of a tally, and the sum of their hashes. Within a process
        equal tallies have equal digests."""

    def drop(self, keys: Sequence[RankingKey]) -> None:
        """Remove rankings, but keep their memory until the next `take_dropped` returns them."""

    def freeze(self, board: int, window: str, instance: int) -> None:
        """Freeze the rankings of a period in all scopes: nothing is removed from them any more.
        O(1)."""

    def thaw(self, board: int, window: str, before: int) -> None:
        """Forget that instances of a window before a given one are frozen, since their rankings are
        dropped."""

    def take_dropped(self) -> list[object]:
        """Return the objects dropped since the last call. Freeing the memory of a large ranking
        takes a while, so the caller frees them when no other thread waits."""

    def size(self, key: RankingKey) -> int:
        """Return the number of members in a ranking; 0 if it does not exist."""

    def filled_scope(self, board: int, window: str, instance: int, likely: str) -> str | None:
        """Return a scope, advanced or not, in which the ranking of a period has a member, of a
        window without a refresh; None if there is none. O(scopes); O(1) if `likely` is one."""

    def nbytes(self, key: RankingKey) -> int:
        """Return the memory of a ranking, in bytes."""

    def scopes_nbytes(self, board: int) -> int:
        """Return the memory of the rankings of all scopes except the scope of all events, in bytes.
        For many scopes it is estimated from a sample."""

    def shared_nbytes(self) -> int:
        """Return the memory that all rankings use together (the roster), in bytes."""

    def members(self) -> int:
        """Return the number of known members of all boards."""

    def position(self, key: RankingKey, member: bytes) -> int:
        """Return the position of a member, -1 if it is not ranked."""

    def positions(self, key: RankingKey, members: Sequence[bytes]) -> list[int]:
        """Return the positions of members, -1 for those that are not ranked."""

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        """Return the ranks of members in the board's style, -1 for those that are not ranked."""

    def rank(self, key: RankingKey, member: str) -> int:
        """Return the rank of one member, like `ranks`."""

    def ranks_from(self, key: RankingKey, members: Sequence[str], first: int) -> list[int | None]:
        """Return ranks like `ranks`, but counted from `first`, and None for members that are not
        ranked."""

    def locate(
        self, key: RankingKey, members: Sequence[str], *, whole: bool = False
    ) -> Located: ...

    def cells(self, key: RankingKey, members: Sequence[str]) -> Located:
        """Return the words of members' cells in the tally of a step. Cells have no order, so the
        position and the rank are 0 for each member with a cell, and -1 for any other."""

    def neighbourhood(self, key: RankingKey, member: str) -> "Neighbourhood | None":
        """Return a member with its neighbours, None if it is not ranked."""

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), as far as they exist."""

    def export_entries(self, key: RankingKey, start: int, stop: int) -> EntryColumns:
        """Return the entries that `slice` would return, without ranks. At most MAX_EXPORTED entries
        are returned."""

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        """Return the number of entries that sort before the given leading words and member. With
        `right`, equal entries are counted, too."""

    def touch(self, board: int) -> None:
        """Tell a copy in progress that the fold's description of a board has changed."""

    def copy(self) -> "Copy":
        """Begin a copy of everything; only one can be in progress."""

    def end_copy(self, limit: int) -> bool:
        """End the copy, whether it is finished or not. Free a share of its memory, in about `limit`
        steps, and return whether nothing is left."""

    def load(self) -> "Load":
        """Begin to load a copy into this index, which has to be empty."""

    def contents(self, board: int) -> Iterator[IndexPiece]:
        """Yield the whole state of a board. The board and all its scopes must have been advanced,
        and must not change meanwhile."""

    def track(self, board: int, owner: str) -> None:
        """Begin to track which members' rows and data the writes of a board change. Tracking that
        this owner began earlier ends. Raises BoardMoving if another owner tracks the board."""

    def untrack(self, board: int, owner: str) -> bool:
        """End tracking by an owner. Return False if another owner tracks the board."""

    def tracking_owner(self, board: int) -> str | None:
        """Return the owner that tracks a board; None if it is not tracked."""

    def scan(self, board: int) -> Iterator[IndexPiece]:
        """Yield the whole state of a board like `contents`. The board may change meanwhile; the
        pieces have all rows that do not change."""

    def changed_pieces(self, board: int, owner: str, from_ms: int) -> Iterator[ChangedIndexPiece]:
        """Yield the current rows and data of the members whose changes were tracked since the last
        call, and the event ids accepted from `from_ms` on. Raises BoardChanging if the owner does
        not track the board."""

    def restore(self, board: int, piece: ChangedIndexPiece) -> None:
        """Write a piece of the state of a board that has no readers and counts no events yet. A
        piece that is written again has no effect."""

    def restored(self, board: int) -> None:
        """Derive the state that the pieces leave out. This is called after the last piece."""

    def ids(self, board: int) -> list[tuple[bytes, int]]:
        """Return the remembered ids, each with the time it was accepted, in the order of these
        times."""

    def ids_of(
        self, board: int, member: bytes, place: int, limit: int
    ) -> tuple[list[bytes], int | None]:
        """Search about `limit` remembered ids, from a place on, for those of a member; the first
        place is 0. Return them in the form of `forget_ids`, and the next place, None at the end.
        Nothing may be counted between the calls."""

    def forget_ids(self, board: int, ids: Sequence[bytes]) -> None:
        """Forget remembered event ids. O(number of different times at which the remembered ids were
        accepted); O(1) if `ids` is empty."""

    def clear(self, board: int) -> None:
        """Remove all members of a board with their data. The remembered event ids stay. No copy may
        be in progress. O(1)."""

    def erase(self, board: int, member: bytes, scopes: Iterable[str]) -> set[tuple[str, int]]:
        """Remove a member with its data from rankings, those that are frozen included. Return the
        windows and instances of the frozen rankings that had it."""

    def all_data(self, board: int) -> dict[bytes, bytes]: ...

    def check(self, unfinished: Collection[int] = ()) -> None:
        """Check every invariant of every structure. Boards that are not restored yet are left out.
        Raises CheckFailed, which names the first broken invariant."""
