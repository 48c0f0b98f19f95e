"""What an index is: all rankings of all boards, kept current from the log.

An index knows boards by number, rankings by key and order by words; it knows neither calendars
nor clocks. Of a rolling window it keeps the tallies of the steps counted, the ranking of the step
that runs and the one it prepares for the next (`Roll` says which step that is). An entry's
*words* are ascending integers: each column times its sign, then the tie stamp where arrival
decides. Positions and ranks in here start at 0.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from laurels.event import Batch
from laurels.plan import Plan, RankingKey, Roll
from laurels.rules import Rules

Offset = int | tuple[int, ...]
"""Which state an answer shows. A board in several shards has a number for each of them: two answers
agree when all of them are equal."""


def changes(offset: Offset) -> int:
    """How many changes an offset stands for."""
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

    def at(self, i: int) -> tuple[int, ...] | None:
        return tuple(column[i] for column in self.words) if self.present[i] else None


class Outcomes(Struct, frozen=True):
    """What became of a batch, event by event; `before` and `after` in the watched window."""

    codes: bytearray
    before: Scores | None = None
    after: Scores | None = None

    @property
    def refused(self) -> int:
        """How many events were refused."""
        return sum(map(self.codes.count, REFUSED))


class Slice(Struct, frozen=True):
    """Entries of a ranking side by side, in standing order, the first at position `start`.

    `words` are all that is kept of each entry, those that decide the order first.
    """

    start: int
    members: list[str]
    ranks: "array[int]"
    words: list["array[int]"]


class Located(Struct, frozen=True):
    """Where members stand, in the order asked; position -1 where one is not ranked."""

    positions: "array[int]"
    ranks: "array[int]"
    words: list["array[int]"]


Section = tuple[bytes, bytes]
"""A piece of a copy: a kind, one byte, and a body."""
Describe = Callable[[int], bytes | None]
"""What the fold says of a board; None when there is no such board."""


class Copy(Protocol):
    """A copy of an index taken in pieces while it changes; each call keeps commits out."""

    def step(self, describe: Describe) -> list[Section] | None:
        """The next piece; None when little enough is left for `finish`."""

    def finish(self, describe: Describe) -> list[Section]:
        """All that is left: with it the copy is the index as it is now."""


class Load(Protocol):
    """A copy taken in again: `see` every section, have the boards `described` opened, `open`,
    `take` every section again, `finish`."""

    def see(self, kind: bytes, body: bytes) -> None: ...

    def described(self) -> Iterable[tuple[int, bytes]]:
        """The boards there are, by number, with what was said of each."""

    def open(self) -> None: ...

    def take(self, kind: bytes, body: bytes) -> None: ...

    def finish(self) -> None:
        """Raises SnapshotDamaged where what came is not what was said."""


class Index(Protocol):
    """All rankings. Calls are atomic one by one; the caller keeps reads out of a commit."""

    def open_board(self, number: int, rules: Rules) -> None:
        """Makes a board known, or its changed definition."""

    def close_board(self, number: int) -> None:
        """Forgets a board with all its rankings, ids and member data."""

    def apply(self, batch: Batch, plan: Plan, watch: int | None = None) -> Outcomes:
        """Counts a batch as planned, event by event; `watch` is a place in the plan's routes."""

    def remove(self, board: int, member: bytes) -> bool:
        """Takes a member and its data out of every ranking; whether it was in any."""

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None: ...

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]: ...

    def remembered(self, board: int, now_ms: int) -> int:
        """How many event ids the board remembers at `now_ms`."""

    def turn(self, roll: Roll, limit: int | None = None) -> bool:
        """Brings a rolling window to the step that runs: finishes the pass for each step missed
        and changes the rankings' places. False when `limit` members were not enough."""

    def advance(self, board: int, window: str, limit: int) -> int:
        """Does about `limit` members of the pass that prepares a rolling window's next step;
        what is left, as `pass_left`. May be broken off and begun again anywhere."""

    def pass_left(self, board: int, window: str) -> int:
        """About how many members that pass has still to visit; 0 when the next step is ready."""

    def keys(self, board: int) -> list[RankingKey]:
        """The rankings of a board that hold anybody; of a rolling window the running step's."""

    def tallies(self, board: int) -> list[RankingKey]:
        """The tallies of a board's rolling windows that hold anybody and still count."""

    def digest(self, key: RankingKey) -> tuple[int, int]:
        """The cells of a tally: how many, and a sum over their hashes; alike for alike tallies of
        one process."""

    def drop(self, keys: Sequence[RankingKey]) -> None:
        """Takes rankings away; `let_go` then gives them to the caller."""

    def let_go(self) -> list[object]:
        """What was dropped since the last call, for the caller to forget where nobody waits for
        it: giving back the memory of a large ranking takes a while."""

    def size(self, key: RankingKey) -> int:
        """Members in a ranking; 0 for one that has none."""

    def nbytes(self, key: RankingKey) -> int:
        """Memory a ranking holds, in bytes."""

    def shared_nbytes(self) -> int:
        """Memory that all rankings share (the roster), in bytes."""

    def members(self) -> int:
        """How many members are known over all boards."""

    def position(self, key: RankingKey, member: bytes) -> int:
        """Where a member stands, -1 for one that is not ranked."""

    def ranks(self, key: RankingKey, members: Sequence[bytes]) -> "array[int]":
        """The ranks of members in the board's style, -1 for those that are not ranked."""

    def locate(self, key: RankingKey, members: Sequence[str]) -> Located: ...

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        """The entries at positions start to stop (exclusive), cut to what there is."""

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        """How many entries have leading words (then member) below these; `right`: or equal."""

    def touch(self, board: int) -> None:
        """Tells a copy under way that what the fold knows of a board has changed."""

    def copy(self) -> "Copy":
        """Begins a copy of everything; there is one at a time."""

    def end_copy(self) -> None:
        """Ends it, finished or not."""

    def load(self) -> "Load":
        """Begins to take in a copy; the index is empty."""

    def ids(self, board: int) -> list[tuple[bytes, int]]:
        """The remembered ids and when each was accepted, in that order."""

    def all_data(self, board: int) -> dict[bytes, bytes]: ...

    def check(self) -> None:
        """Asserts every invariant of every structure; CheckFailed names the first broken one."""
