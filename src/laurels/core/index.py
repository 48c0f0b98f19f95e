"""What an index is: all rankings of all boards, kept current from the log.

An index knows boards by number, rankings by key and order by words; it knows neither calendars
nor clocks. Of a rolling window it keeps the tallies of the steps counted, the ranking of the step
that runs and the one it prepares for the next (`RollingState` says which step that is). An entry's
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
"""Which state an answer shows. A board in several shards has a number for each of them: two answers
agree when all of them are equal."""


def changes(offset: Offset) -> int:
    """Return how many changes an offset stands for."""
    return offset if isinstance(offset, int) else sum(offset)


class Outcome(IntEnum):
    """What became of one event."""

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


class Outcomes(Struct, frozen=True):
    """What became of a batch, event by event; `before` and `after` in the watched window."""

    codes: bytearray
    before: Scores | None = None
    after: Scores | None = None

    @property
    def refused(self) -> int:
        """How many events were refused."""
        return sum(map(self.codes.count, REFUSED))


class Slice(Struct, frozen=True, gc=False):
    """Entries of a ranking side by side, in standing order, the first at position `start`.

    `words` are all that is kept of each entry, those that decide the order first.
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
    """Where members stand, in the order asked; position -1 where one is not ranked."""

    positions: Sequence[int]
    ranks: Sequence[int]
    words: list["array[int]"]


Section = tuple[bytes, bytes]
"""A piece of a copy: a kind, one byte, and a body."""
Describe = Callable[[int], bytes | None]
"""What the fold says of a board; None when there is no such board."""


class Copy(Protocol):
    """A copy of an index taken in pieces while it changes; each call keeps commits out."""

    def step(self, describe: Describe) -> list[Section] | None:
        """Return the next piece; None when little enough is left for `finish`."""

    def finish(self, describe: Describe) -> list[Section]:
        """Return all that is left: with it the copy is the index as it is now."""


class Load(Protocol):
    """A copy taken in again: `see` every section, have the boards `described` opened, `open`,
    `take` every section, `finish`. `see` may leave out sections of kinds that are not `seen`, and
    `take` those that are.

    Sections of different *lanes* may be taken by different threads at once, those of one lane one
    after another."""

    @property
    def seen(self) -> Collection[bytes]: ...

    def lane(self, kind: bytes, begins: bytes) -> int:
        """Return the lane of a section by what its body begins with, which need not be verified."""

    def see(self, kind: bytes, body: bytes) -> None: ...

    def described(self) -> Iterable[tuple[int, bytes]]:
        """Return the boards there are, by number, with what was said of each."""

    def open(self) -> None: ...

    def take(self, kind: bytes, body: bytes) -> None: ...

    def finish(self) -> None:
        """Raise SnapshotDamaged where what came is not what was said."""


class Index(Protocol):
    """All rankings. Calls are atomic one by one; the caller keeps reads out of a commit."""

    def open_board(self, number: int, rules: Rules) -> None:
        """Make a board known, or its changed definition."""

    def close_board(self, number: int) -> None:
        """Forget a board with all its rankings, ids and member data."""

    def apply(self, batch: Batch, plan: Plan, watch: int | None = None) -> Outcomes:
        """Count a batch as planned, event by event; `watch` is a place in the plan's routes."""

    def remove(self, board: int, member: bytes, scopes: Iterable[str] = ()) -> bool:
        """Take a member and its data out of the rankings of all and of these scopes; return whether
        it was in any."""

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None: ...

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]: ...

    def remembered(self, board: int, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""

    def rotate_step(self, roll: RollingState, limit: int | None = None) -> bool:
        """Bring a rolling window to the step that runs: finishes the pass for each step missed and
        changes the rankings' places. False when `limit` members were not enough."""

    def advance_pass(self, board: int, window: str, limit: int, scope: str = "") -> int:
        """Do about `limit` members of the pass that prepares a rolling window's next step; return
        what is left, as `pass_left`. May be broken off and begun again anywhere."""

    def pass_left(self, board: int, window: str, scope: str = "") -> int:
        """About how many members that pass has still to visit; 0 when the next step is ready."""

    def begin_build(self, board: int, window: str) -> None:
        """Begin to build what the next refresh of a window will show."""

    def build(self, board: int, window: str, limit: int, scope: str = "") -> int:
        """Add up about `limit` more cells of a scope for that; return what is left, as
        `build_left`. What is counted meanwhile is counted in it. A step that passes has it begin
        anew."""

    def build_left(self, board: int, window: str, scope: str = "") -> int:
        """About how many cells a scope has still to add up; 0 when it is ready."""

    def refresh_cost(self, board: int, window: str, most: int) -> int:
        """About how many cells a refresh from nothing would add up, over all scopes; not counted
        further when it is above `most`."""

    def refresh(self, board: int, window: str) -> bool:
        """Have a window show, in every scope, what its tallies add up to, and builds first what is
        not built of that; return whether it lists anybody. All scopes have been brought.
        O(scopes)."""

    def show_built(self, board: int, window: str) -> bool:
        """As `refresh`, where `build` has left nothing in any scope. O(1): what a scope shows is
        another ranking from now on, which it takes up when it is brought or asked."""

    def keys(self, board: int, scope: str = "") -> list[RankingKey]:
        """Return the rankings of a scope that hold anybody; of a rolling window the running
        step's."""

    def tallies(self, board: int, scope: str = "") -> list[RankingKey]:
        """Return the tallies of a scope's rolling windows that hold anybody and still count."""

    def generation(self, board: int, scope: str) -> int:
        """Return the board's generation when a scope was last advanced; 0 for a new one."""

    def set_generation(self, board: int, scope: str, generation: int) -> None:
        """Note that a scope was advanced, and forget one that holds nobody."""

    def holding(self, board: int, member: bytes, scopes: Iterable[str]) -> list[str]:
        """Return those of the scopes in which a member is ranked. O(scopes)."""

    def next_scopes(
        self, board: int, place: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Return the next scopes that hold anybody, but that of all, each as a place to go on from;
        None begins."""

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        """Return the next scopes of some labels (`Place.name`) that hold anybody, in the order of
        their texts, behind one."""

    def scope_count(self, board: int, form: str) -> int:
        """Return how many scopes of some labels hold anybody."""

    def digest(self, key: RankingKey) -> tuple[int, int]:
        """Return the cells of a tally: how many, and a sum over their hashes; alike for alike
        tallies of one process."""

    def drop(self, keys: Sequence[RankingKey]) -> None:
        """Take rankings away; `take_dropped` then gives them to the caller."""

    def take_dropped(self) -> list[object]:
        """What was dropped since the last call, for the caller to forget where nobody waits for
        it: giving back the memory of a large ranking takes a while."""

    def size(self, key: RankingKey) -> int:
        """Members in a ranking; 0 for one that has none."""

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
        """Return where a member stands, -1 for one that is not ranked."""

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        """Return the ranks of members in the board's style, -1 for those that are not ranked."""

    def rank(self, key: RankingKey, member: str) -> int:
        """As `ranks`, of one member."""

    def ranks_from(self, key: RankingKey, members: Sequence[str], first: int) -> list[int | None]:
        """As `ranks`, counted from `first`, and None for those that are not ranked."""

    def locate(self, key: RankingKey, members: Sequence[str]) -> Located: ...

    def beside(self, key: RankingKey, member: str) -> "Beside | None":
        """A member with who is next to it; None for one that is not ranked."""

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), cut to what there is."""

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        """Return how many entries have leading words (then member) below these; `right`: or
        equal."""

    def touch(self, board: int) -> None:
        """Tell a copy under way that what the fold knows of a board has changed."""

    def copy(self) -> "Copy":
        """Begin a copy of everything; there is one at a time."""

    def end_copy(self) -> None:
        """End it, finished or not."""

    def load(self) -> "Load":
        """Begin to take in a copy; the index is empty."""

    def ids(self, board: int) -> list[tuple[bytes, int]]:
        """Return the remembered ids and when each was accepted, in that order."""

    def all_data(self, board: int) -> dict[bytes, bytes]: ...

    def check(self) -> None:
        """Assert every invariant of every structure; CheckFailed names the first broken one."""
