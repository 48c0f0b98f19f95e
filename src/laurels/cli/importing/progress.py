"""How far a source is imported; see `source.py`."""

from collections import Counter
from typing import Protocol

import msgspec
from msgspec import Struct

from laurels.timeline.instants import MAX_MS

from .reading import Reject


class Section(Struct, frozen=True, omit_defaults=True):
    """A part of a source that is counted in one or more commits. Of its `size` events, `applied`
    are already counted.

    The part begins after `line`, at `offset`. It is counted in the order of the source if
    `as_written` is true, otherwise in time order. Events later than `latest_ms` are rejected.
    """

    line: int
    offset: int
    applied: int
    size: int
    as_written: bool = False
    latest_ms: int = MAX_MS


class SourcePosition(Struct, frozen=True, omit_defaults=True):
    """How far a source is counted. All lines before `offset` are counted, unless they end with an
    interrupted `section`: of this section only the first `applied` events are counted."""

    line: int
    offset: int
    digest: str
    section: Section | None = None


class Tally(Struct):
    """The counts of the lines of one source in this run.

    `late` has, for each window, the number of events that were too late for it, even if other
    windows counted them. `left` is the number of events that a paused replay leaves to the next
    run.
    """

    left: int = 0
    resumed_after: int = 0
    lines: int = 0
    applied: int = 0
    unchanged: int = 0
    duplicates: int = 0
    late: Counter[str] = msgspec.field(default_factory=Counter)
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    first_rejects: list[Reject] = msgspec.field(default_factory=list)

    @property
    def rejected(self) -> int:
        return self.reasons.total()


class Watcher(Protocol):
    """Receives the progress of an import."""

    def read(self, lines: int) -> None: ...

    def replayed(self, events: int, of: int) -> None: ...
