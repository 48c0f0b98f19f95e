"""The format of the shared vectors, and how they are read.

`write_rule.json` has stories of one member on small boards: each event as it is given, the signed
words by which it is counted and its outcome, and finally the member's entry in each ranking.
`routing.json` says which shard a member, which scope a set of labels and which period or step an
instant belongs to. `sums.json` has batches, the sums of the events of each member, and the outcome
of each event.

All of it is computed by the plain Python of `plain`; `python -m tests.vectors.write` writes it
anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from tests.definitions import ColumnDef, Definition, WindowDef

FOLDER = Path(__file__).parent
NOW_MS = 1_800_000_000_000
"""Friday, 15 January 2027, 08:00 UTC: the time at which all events arrive."""
WINDOWS = (WindowDef("all"), WindowDef("day", grace="1d"))
"""The windows of a board that does not name its own: the board counts today and yesterday."""

T = TypeVar("T")
Words = tuple[int, ...]


class VectorBoard(Struct, frozen=True, omit_defaults=True):
    """A board of write_rule.json or sums.json."""

    columns: tuple[ColumnDef, ...]
    tie: str = "first"
    tie_resolution: str = "1ms"
    windows: tuple[WindowDef, ...] = WINDOWS

    def definition(self, name: str) -> Definition:
        """Return the board as the oracle takes it."""
        return Definition(name, self.columns, self.tie, self.tie_resolution, windows=self.windows)


class WriteEvent(Struct, frozen=True, array_like=True, omit_defaults=True):
    """The numbers as given, their time, their words, the outcome, and whether they set the
    score."""

    value: tuple[str, ...]
    at_ms: int
    words: Words
    outcome: str
    sets: bool = False


class WriteCase(Struct, frozen=True):
    """A story. `entries` has the words of the member by ranking (`all`, or the label of a day): the
    columns, the tie word, and the latest `at` if the tie word does not contain it."""

    says: str
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
    """The labels of a scope, those of an event, and the text of the scope the event counts in, None
    for no scope."""

    names: tuple[str, ...]
    labels: dict[str, str]
    text: str | None


class InstanceCase(Struct, frozen=True, array_like=True):
    """A window, the `at` of an event, the time of its arrival, the number and the label of the
    period or step it belongs to, and whether that still takes it."""

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
    """A member, the number that is added, the time (None: now), the outcome, and the member's total
    before, None if it had no total."""

    member: str
    value: int
    at_ms: int | None
    outcome: str
    before: int | None


class SumCase(Struct, frozen=True):
    """A batch. `base` is what members have before it. `added` is what the events of each member add
    up to: the sum, its least and greatest prefix and the greatest stamp, or None if these do not
    suffice to count the batch. `fits` says whether the batch may be counted by them. `entries` are
    the words afterwards."""

    says: str
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
