"""The records of the oracle: boards, events as callers send them, and answers.

No laurels module is imported here. Scores are tuples of integers, one per column, in units of
10^-scale of that column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from tests.prize_definitions import PrizesDef

LIMIT = 2**53 - 1

Score = tuple[int, ...]


class Unchanging:
    """A value that never changes, so that a deep copy of it is the value itself."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


class DecayedScore(Score):
    """A decayed score, in units with six more decimal places than the column has."""


@dataclass(frozen=True)
class ColumnDef:
    """One component of a score."""

    name: str = "score"
    op: str = "sum"
    order: str = "desc"
    scale: int = 0
    min: int | Decimal | None = None
    max: int | Decimal | None = None
    measures: dict[str, int | Decimal] = field(default_factory=dict)

    @property
    def low(self) -> int:
        return -LIMIT if self.min is None else int(Fraction(self.min) * 10**self.scale)

    @property
    def high(self) -> int:
        return LIMIT if self.max is None else int(Fraction(self.max) * 10**self.scale)


@dataclass(frozen=True)
class WindowDef:
    """A window; a field that is None takes the board's value. A rolling window has a `span` and a
    `step`, a window with decay has a `half_life`, a rolling window that is refreshed has a
    `refresh`, and one that is archived an `archive_every`."""

    unit: str = "all"
    name: str | None = None
    keep: int | None = None
    tz: str | None = None
    week_start: str | None = None
    grace: str | None = None
    span: str = ""
    step: str = ""
    half_life: str = ""
    refresh: str | None = None
    archive: str | int | None = None
    archive_every: str | None = None
    prizes: PrizesDef | None = None

    @property
    def text(self) -> str:
        """Return the text form of the window without its own name."""
        if self.half_life and not self.closes:
            return self._kind
        settings = [
            ("keep", self.keep),
            ("tz", self.tz),
            ("week_start", self.week_start),
            ("grace", self.grace),
            ("refresh", self.refresh),
            ("archive", self.archive),
            ("archive_every", self.archive_every),
            ("prizes", None if self.prizes is None else self.prizes.text),
        ]
        options = ",".join(f"{key}={value}" for key, value in settings if value is not None)
        comma = "," if self.span or self.half_life else ":"
        return f"{self._kind}{comma}{options}" if options else self._kind

    @property
    def closes(self) -> bool:
        """Return whether the window closes its periods."""
        return self.archive is not None or self.prizes is not None

    @property
    def _kind(self) -> str:
        """Return the text form of the window without its name and its options."""
        if self.half_life:
            return f"{self.unit}:{self.half_life}"
        return f"{self.unit}:{self.span}/{self.step}" if self.span else self.unit

    @property
    def called(self) -> str:
        return self._kind if self.name is None else self.name

    @property
    def definition(self) -> str:
        """Return the window as a board's definition contains it."""
        return self.text if self.name is None else f"{self.name}={self.text}"


@dataclass(frozen=True)
class Definition:
    """A board; durations are in text form, such as `5m`."""

    name: str = "board"
    columns: tuple[ColumnDef, ...] = (ColumnDef(),)
    tie: str = "first"
    tie_resolution: str = "1ms"
    rank: str = "ordinal"
    windows: tuple[WindowDef, ...] = (WindowDef(),)
    tz: str = "UTC"
    week_start: str = "monday"
    grace: str = "5m"
    dedupe: str = "1h"
    dedupe_max: int = 1_000_000
    keep: int = 2
    shards: int = 1
    title: str = ""
    scopes: tuple[tuple[str, ...], ...] = ((),)
    rank_by: tuple[str, ...] = ()
    changes: str = ""
    changes_max: int = 10_000_000
    head: int = 0
    hide_zero: bool = False
    starts: int | str = ""
    ends: int | str = ""
    retain: int | str = ""
    ledger: str = ""

    @property
    def has_prizes(self) -> bool:
        """Return whether any window has prizes."""
        return any(window.prizes is not None for window in self.windows)

    @property
    def labels(self) -> set[str]:
        """Return the names of all labels that its events may have."""
        return {label for labels in self.scopes for label in labels} | {*self.rank_by}

    def scopes_of(self, labels: Sequence[tuple[str, str]]) -> tuple[Scope, ...]:
        """Return the scopes in which events with these labels count."""
        carried = dict(labels)
        scopes = [
            Scope(tuple((name, carried[name]) for name in names))
            for names in self.scopes
            if all(name in carried for name in names)
        ]
        return (*scopes, *(Scope(by=by) for by in self.rank_by if by in carried))

    def misses(self, at_ms: int) -> str | None:
        """Return the error code for an event of that time, None if the board takes it."""
        if isinstance(self.starts, int) and at_ms < self.starts:
            return "board_not_started"
        return "board_ended" if isinstance(self.ends, int) and at_ms >= self.ends else None

    def is_gone(self, now_ms: int) -> bool:
        """Return whether the board has been removed, because `retain` has passed since its end."""
        if not isinstance(self.ends, int) or not isinstance(self.retain, int):
            return False
        return now_ms - self.ends >= self.retain

    @property
    def best(self) -> bool:
        return self.columns[0].op == "best"


@dataclass(frozen=True)
class Report:
    """An event as a caller sends it; `absolute` is true for the verb `set`."""

    member: object
    value: object
    at: object = None
    id: object = None
    absolute: bool = False
    labels: object = None


@dataclass(frozen=True)
class Scope(Unchanging):
    """The scope of a ranking: the events with these labels, or the values of the label `by`.
    Without labels and `by`, it is the scope of all events."""

    labels: tuple[tuple[str, str], ...] = ()
    by: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments by which a query names this scope."""
        return {"labels": dict(self.labels)} if self.by is None else {"by": self.by}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.labels)


ALL = Scope()


@dataclass(frozen=True)
class Accepted:
    """An event that is well-formed."""

    member: str
    values: Score
    at_ms: int
    id: str | None
    absolute: bool
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Counted(Unchanging):
    """An event as a window counts it, in the rankings of `scopes`. For `set`, `values` is the
    difference to the previous total. In a window with decay, `decay` has the half-life and the time
    of the query."""

    member: str
    values: Score
    at_ms: int
    order: int
    labels: tuple[tuple[str, str], ...] = ()
    scopes: tuple[Scope, ...] = (ALL,)
    decay: tuple[int, int] | None = None


@dataclass(frozen=True)
class Row:
    """A member in a ranking: its score, and the time at which it reached the score, in units of the
    tie resolution. In a window with decay, rows are ordered by `place`, which is made from the
    stored total."""

    member: str
    score: Score
    stamp: int
    place: tuple[int, int] | None = None


@dataclass(frozen=True)
class Place:
    """A row with its position: `position` counts from 1, `rank` follows the rank style."""

    row: Row
    position: int
    rank: int

    @property
    def member(self) -> str:
        return self.row.member

    @property
    def score(self) -> Score:
        return self.row.score


@dataclass(frozen=True)
class Card:
    """A member's standing, with the members next above and below it and the gaps to them."""

    place: Place
    total: int
    above: tuple[Place, Score] | None
    below: tuple[Place, Score] | None
    percent: Fraction


@dataclass(frozen=True)
class Verdict:
    """The result of an event; the ranks are None unless they were requested."""

    member: object
    status: str
    reason: str | None = None
    period: str | None = None
    previous_score: Score | None = None
    score: Score | None = None
    previous_rank: int | None = None
    rank: int | None = None
    refused_windows: tuple[str, ...] = ()
    labels: dict[str, str] | None = None


Hiding = tuple[str, int, int | None]
"""Why, since when and until when a member is hidden."""


@dataclass(frozen=True)
class Changed(Unchanging):
    """The change that an event or another write made to a member. `values` is what was added or
    stored. `entries` has, for each window, period and labels, the member's row after the change and
    the time of the newest event in the row. `hidings` are those of the member after the change, on
    the board and on all boards, even if their ends have passed; a change of no kind has only
    these, as of the creation of the board or its restoration."""

    kind: str
    member: str
    at_ms: int
    id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    values: Score | None = None
    entries: dict[tuple[str, str | int | None, tuple[tuple[str, str], ...]], tuple[Row, int]] = (
        field(default_factory=dict)
    )
    data: object = None
    hidings: tuple[Hiding | None, Hiding | None] = (None, None)


class Refusal(Exception):  # noqa: N818
    """An error of the oracle; `code` is the stable error code."""

    def __init__(self, code: str, verdicts: tuple[Verdict, ...] = ()) -> None:
        super().__init__(code)
        self.code = code
        self.verdicts = verdicts


def duration_ms(text: str) -> int:
    """Return the milliseconds of `500ms`, `5s`, `5m`, `1h` or `7d`."""
    number = text.rstrip("dhms")
    unit = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    return int(number) * unit[text[len(number) :]]
