"""The protocol of an index: all rankings of all boards, kept current from the log.

An index knows boards by number, rankings by key and order by words; it knows neither calendars nor
clocks. Of a rolling window it keeps the tallies of the steps counted, the ranking of the running
step and the one it prepares for the next (`RollingState` says which step that is). An entry's
*words* are ascending integers: each column times its sign, then the tie stamp where arrival
decides. Positions and ranks in here start at 0.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from laurels.model.event import Batch
from laurels.model.rules import Rules

from .lifecycle import RollingState
from .plan import Plan
from .ranking_key import RankingKey

Offset = int | tuple[int, ...]
"""The state that an answer shows. A board in several shards has a number for each of them: two
answers agree when all of them are equal."""


def changes(offset: Offset) -> int:
    """Return how many changes an offset stands for."""
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
    """Column words of a run of events' members; `present[i]` is 0 where there was no entry."""

    present: bytearray
    words: list["array[int]"]


class BatchTrace(Struct, frozen=True):
    """The entries of a batch's members after each event: for each ranking that changes list, its
    index in the plan's `places` and the words, column by column. `added` is what absolute events
    added, as words."""

    rankings: list[tuple[int, list["array[int]"]]]
    added: list["array[int]"] | None = None


class Outcomes(Struct, frozen=True):
    """The outcomes of a batch, event by event; `before` and `after` in the watched window, and a
    trace where the board keeps changes."""

    codes: bytearray
    before: Scores | None = None
    after: Scores | None = None
    trace: BatchTrace | None = None

    @property
    def counted(self) -> int:
        """The number of events that counted."""
        return sum(map(self.codes.count, COUNTED))

    @property
    def refused(self) -> int:
        """The number of refused events."""
        return sum(map(self.codes.count, REFUSED))


class Slice(Struct, frozen=True, gc=False):
    """Consecutive entries of a ranking, in ranking order, the first at position `start`.

    `words` are all that is stored of each entry, those that decide the order first.
    """

    start: int
    members: list[str]
    ranks: Sequence[int]
    words: Sequence[Sequence[int]]


class Beside(Struct, frozen=True, gc=False):
    """A member's position, among so many, and its entry between those of its neighbours."""

    total: int
    position: int
    part: Slice


class Located(Struct, frozen=True, gc=False):
    """Positions of members, in the order requested; -1 where one is not ranked."""

    positions: Sequence[int]
    ranks: Sequence[int]
    words: list["array[int]"]


Section = tuple[bytes, bytes]
"""A piece of a copy: a kind, one byte, and a body."""
Describe = Callable[[int], bytes | None]
"""Returns the fold's description of a board; None when there is no such board."""


class Copy(Protocol):
    """A copy of an index taken in pieces while it changes; each call keeps commits out."""

    def step(self, describe: Describe) -> list[Section] | None:
        """Return the next piece; None when little enough is left for `finish`."""

    def finish(self, describe: Describe) -> list[Section]:
        """Return all that is left: with it the copy is the index as it is now."""


class Load(Protocol):
    """Loads a copy: `see` every section, have the boards `described` opened, `open`, `take` every
    section, `finish`. `see` may leave out sections of kinds that are not `seen`, and `take` those
    that are.

    Sections of different *lanes* may be taken by different threads at once, those of one lane one
    after another.
    """

    @property
    def seen(self) -> Collection[bytes]: ...

    def lane(self, kind: bytes, begins: bytes) -> int:
        """Return the lane of a section by the beginning of its body, which may be unverified."""

    def see(self, kind: bytes, body: bytes) -> None: ...

    def described(self) -> Iterable[tuple[int, bytes]]:
        """Return the boards by number, with the fold's description of each."""

    def open(self) -> None: ...

    def take(self, kind: bytes, body: bytes) -> None: ...

    def finish(self) -> None:
        """Raise SnapshotDamaged where the structures differ from their descriptions."""


class Index(Protocol):
    """All rankings. Calls are atomic one by one; the caller keeps reads out of a commit."""

    def open_board(self, number: int, rules: Rules) -> None:
        """Register a board, or its changed definition."""

    def close_board(self, number: int) -> None:
        """Forget a board with all its rankings, ids and member data."""

    def apply(self, batch: Batch, plan: Plan, watch: int | None = None) -> Outcomes:
        """Count a batch as planned, event by event; `watch` is an index into the plan's routes."""

    def remove(self, board: int, member: bytes, scopes: Iterable[str] = ()) -> bool:
        """Remove a member and its data from the ranking of all events and from those of these
        scopes; return whether it was in any."""

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None: ...

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]: ...

    def remembered(self, board: int, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""

    def rotate_step(self, roll: RollingState, limit: int | None = None) -> bool:
        """Rotate a rolling window to the running step: finish the pass for each step missed, and
        exchange the rankings. Return False when `limit` members were not enough."""

    def advance_pass(self, board: int, window: str, limit: int, scope: str = "") -> int:
        """Do about `limit` members of the pass that prepares a rolling window's next step; return
        what is left, as `pass_left`. May be interrupted and continued at any point."""

    def pass_left(self, board: int, window: str, scope: str = "") -> int:
        """About how many members that pass has still to visit; 0 when the next step is ready."""

    def begin_build(self, board: int, window: str) -> None:
        """Begin to build the next refresh of a window."""

    def build(self, board: int, window: str, limit: int, scope: str = "") -> int:
        """Add up about `limit` more cells of a scope for the next refresh; return what is left, as
        `build_left`. What is counted meanwhile is included. When a step passes, the build starts
        over."""

    def build_left(self, board: int, window: str, scope: str = "") -> int:
        """About how many cells a scope has still to add up; 0 when it is ready."""

    def refresh_cost(self, board: int, window: str, most: int) -> int:
        """Return about how many cells a refresh without a build would add up, over all scopes;
        counted no further than above `most`."""

    def refresh(self, board: int, window: str) -> bool:
        """Make a window show, in every scope, what its tallies add up to, after building what is
        missing; return whether it lists anybody. All scopes have been advanced. O(scopes)."""

    def show_built(self, board: int, window: str) -> bool:
        """Refresh a window of which `build` has left nothing in any scope. O(1): a scope takes up
        its new ranking when it is advanced or read."""

    def keys(self, board: int, scope: str = "") -> list[RankingKey]:
        """Return the rankings of a scope with members; of a rolling window that of the running
        step."""

    def tallies(self, board: int, scope: str = "") -> list[RankingKey]:
        """Return the tallies of a scope's rolling windows with members that still count."""

    def generation(self, board: int, scope: str) -> int:
        """Return the board's generation when a scope was last advanced; 0 for a new one."""

    def set_generation(self, board: int, scope: str, generation: int) -> None:
        """Note that a scope was advanced, and forget one that holds nobody."""

    def holding(self, board: int, member: bytes, scopes: Iterable[str]) -> list[str]:
        """Return the scopes in which a member is ranked. O(scopes)."""

    def next_scopes(
        self, board: int, place: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Return the next scopes with members, without that of all events, each as a place to
        continue from; None begins."""

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        """Return the next scopes of some labels (`RankingSpec.name`) with members after one, in the
        order of their texts."""

    def scope_count(self, board: int, form: str) -> int:
        """Return how many scopes of some labels have members."""

    def digest(self, key: RankingKey) -> tuple[int, int]:
        """Return the number of cells of a tally, and a sum over their hashes: equal for equal
        tallies of one process."""

    def drop(self, keys: Sequence[RankingKey]) -> None:
        """Remove rankings; `take_dropped` then returns them to the caller."""

    def take_dropped(self) -> list[object]:
        """Return what was dropped since the last call, for the caller to free where nobody waits:
        freeing the memory of a large ranking takes a while."""

    def size(self, key: RankingKey) -> int:
        """Return the number of members in a ranking; 0 for one that does not exist."""

    def nbytes(self, key: RankingKey) -> int:
        """Memory a ranking holds, in bytes."""

    def scopes_nbytes(self, board: int) -> int:
        """Memory of the rankings of all scopes but that of all, in bytes; an estimate by some of
        them where there are many."""

    def shared_nbytes(self) -> int:
        """Memory that all rankings share (the roster), in bytes."""

    def members(self) -> int:
        """Return how many members are known over all boards."""

    def position(self, key: RankingKey, member: bytes) -> int:
        """Return the position of a member, -1 where it is not ranked."""

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        """Return the ranks of members in the board's style, -1 for those that are not ranked."""

    def rank(self, key: RankingKey, member: str) -> int:
        """Return the rank of one member, as `ranks`."""

    def ranks_from(self, key: RankingKey, members: Sequence[str], first: int) -> list[int | None]:
        """Return ranks as `ranks`, counted from `first`, and None for members that are not
        ranked."""

    def locate(self, key: RankingKey, members: Sequence[str]) -> Located: ...

    def beside(self, key: RankingKey, member: str) -> "Beside | None":
        """Return a member with its neighbours; None where it is not ranked."""

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), cut to what there is."""

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        """Return how many entries have leading words (then member) below these; `right`: or
        equal."""

    def touch(self, board: int) -> None:
        """Note for a copy in progress that the fold's description of a board has changed."""

    def copy(self) -> "Copy":
        """Begin a copy of everything; there is one at a time."""

    def end_copy(self) -> None:
        """End it, finished or not."""

    def load(self) -> "Load":
        """Begin to load a copy; the index is empty."""

    def ids(self, board: int) -> list[tuple[bytes, int]]:
        """Return the remembered ids and when each was accepted, in that order."""

    def all_data(self, board: int) -> dict[bytes, bytes]: ...

    def check(self) -> None:
        """Assert every invariant of every structure; CheckFailed names the first broken one."""
