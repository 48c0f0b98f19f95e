"""The format of the shared vectors, and the function that reads them.

`write_rule.json` has stories. A story is about one member on a small board. It has the events as
submitted, the signed words by which each event counts, and the outcome of each event; then the
member's entry in each ranking. `routing.json` has the shard of a member, the scope of a set of
labels, and the period or step of an instant. `sums.json` has batches, the sums of each member's
events, and the outcome of each event.

The plain Python in `plain` computes all of this, and `python -m tests.vectors.write` writes the
files again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from tests.definitions import ColumnDef, Definition, WindowDef

FOLDER = Path(__file__).parent
NOW_MS = 1_800_000_000_000
"""Friday, 15 January 2027, 08:00 UTC: the time of arrival of all events."""
WINDOWS = (WindowDef("all"), WindowDef("day", grace="1d"))
"""The windows of a board that does not define others. The window of days has a `keep` of 2: today
and yesterday."""

T = TypeVar("T")
Words = tuple[int, ...]


class VectorBoard(Struct, frozen=True, omit_defaults=True):
    """A board of write_rule.json or sums.json."""

    columns: tuple[ColumnDef, ...]
    tie: str = "first"
    tie_resolution: str = "1ms"
    windows: tuple[WindowDef, ...] = WINDOWS

    def definition(self, name: str) -> Definition:
        """Return the board as a definition for the oracle."""
        return Definition(name, self.columns, self.tie, self.tie_resolution, windows=self.windows)


class WriteEvent(Struct, frozen=True, array_like=True, omit_defaults=True):
    """An event: its numbers as submitted, its time, its words, its outcome, and whether it sets the
    score."""

    value: tuple[str, ...]
    at_ms: int
    words: Words
    outcome: str
    sets: bool = False


class WriteCase(Struct, frozen=True):
    """A story of one member. `entries` has the member's words by ranking: `all`, or the label of a
    day. The words are the columns, the tie word and, if the tie word does not contain it, the
    latest `at`."""

    description: str
    board: str
    events: tuple[WriteEvent, ...]
    entries: dict[str, Words | None]


class WriteVectors(Struct, frozen=True):
    """The file write_rule.json."""

    about: str
    boards: dict[str, VectorBoard]
    cases: tuple[WriteCase, ...]


class ShardCase(Struct, frozen=True, array_like=True):
    """A member, the number of shards of a board, and the shard of the member."""

    member: str
    shards: int
    shard: int


class ScopeCase(Struct, frozen=True, array_like=True):
    """The label names of a scope, the labels of an event, and the text of the scope in which the
    event counts, or None if it does not count there."""

    names: tuple[str, ...]
    labels: dict[str, str]
    text: str | None


class InstanceCase(Struct, frozen=True, array_like=True):
    """A window, and the `at` and the arrival of an event. Then the number and the label of the
    event's period or step, and whether the window still takes the event."""

    window: WindowDef
    at_ms: int
    now_ms: int
    instance: int
    label: str
    taken: bool


class NameCase(Struct, frozen=True, array_like=True):
    """A window, a scope, a period or step, and the name of their ranking on an index server."""

    window: str
    scope: str
    instance: int
    name: str


class RoutingVectors(Struct, frozen=True):
    """The file routing.json."""

    about: str
    shards: tuple[ShardCase, ...]
    scopes: tuple[ScopeCase, ...]
    instances: tuple[InstanceCase, ...]
    names: tuple[NameCase, ...]


class SumEvent(Struct, frozen=True, array_like=True):
    """An event: its member, the number to add, its time (None for now), its outcome, and the
    member's total before it, or None if the member had none."""

    member: str
    value: int
    at_ms: int | None
    outcome: str
    before: int | None


class SumCase(Struct, frozen=True):
    """A batch. `base` has the totals of members before the batch.

    `added` has for each member the sum of its events, the least and the greatest partial sum, and
    the greatest stamp. It is None if these do not suffice to count the batch. `fits` tells whether
    the batch can be counted by the sums. `entries` has the words after the batch.
    """

    description: str
    board: str
    base: dict[str, int]
    events: tuple[SumEvent, ...]
    added: dict[str, tuple[int, int, int, int]] | None
    fits: bool
    entries: dict[str, Words]


class SumVectors(Struct, frozen=True):
    """The file sums.json."""

    about: str
    boards: dict[str, VectorBoard]
    cases: tuple[SumCase, ...]


FILES: dict[str, type[Struct]] = {
    "write_rule": WriteVectors,
    "routing": RoutingVectors,
    "sums": SumVectors,
}


def read(name: str, kind: type[T]) -> T:
    """Read the vectors of a file."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=kind)
