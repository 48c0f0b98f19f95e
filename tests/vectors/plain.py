"""The rules in plain Python, by which the vectors are computed without any code of laurels.

`tests.oracle` gives the outcomes of events; only this file and `write` import it.
`tests.engine.plain_fold` gives the words of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.calendar_by_scanning import Calendar, span_at
from tests.definitions import (
    ALL,
    LIMIT,
    ColumnDef,
    Definition,
    Refusal,
    Report,
    WindowDef,
    duration_ms,
)
from tests.engine.plain_fold import Event, PlainFold
from tests.oracle import Oracle
from tests.oracle_calendar import CalendarWindow
from tests.oracle_forms import FIRST_MS
from tests.oracle_rolling import RollingWindow
from tests.oracle_windows import window_of
from tests.steps_by_scanning import step_span
from tests.vectors.cases import NOW_MS, VectorBoard, Words

OPS = {"sum": 0, "last": 1, "best": 2}
TIES = {"first": 1, "last": -1, "member": 0}
OUTCOMES = {1: "applied", 2: "unchanged", 3: "out_of_range"}
RANGE = {"value_out_of_range", "total_out_of_range"}
DAY = Calendar("day", "UTC")


# The write rule


@dataclass(frozen=True)
class Shaped:
    """The properties of a board that the write rule uses."""

    ops: list[int]
    lows: list[int]
    highs: list[int]
    tie: int
    resolution_ms: int
    stamped: bool


def sign(column: ColumnDef) -> int:
    """Return 1 or -1, by which the units of a column are multiplied so that the better value is
    smaller."""
    return -1 if column.order == "desc" else 1


def shaped(board: VectorBoard) -> Shaped:
    """Return the properties for the write rule. If a higher value is better in a column, its values
    are stored negated, so its range is negated, too."""
    ends = [sorted((sign(c) * c.low, sign(c) * c.high)) for c in board.columns]
    tie, resolution_ms = TIES[board.tie], duration_ms(board.tie_resolution)
    last = any(column.op == "last" for column in board.columns)
    return Shaped(
        [OPS[column.op] for column in board.columns],
        [low for low, _ in ends],
        [high for _, high in ends],
        tie,
        resolution_ms,
        last and (tie == 0 or resolution_ms != 1),
    )


def words_of(board: VectorBoard, value: Sequence[str]) -> Words:
    """Return a score as words: an integer for each column, of which the smaller is better."""
    return tuple(
        [
            int(sign(c) * Fraction(part) * 10**c.scale)
            for c, part in zip(board.columns, value, strict=True)
        ]
    )


def day_of(at_ms: int) -> str:
    """Return the label of the day that contains an instant."""
    return span_at(DAY, at_ms).label


Numbers = tuple[tuple[str, ...], int, bool]
"""The numbers of an event, its time, and whether it sets the score."""


def outcomes_and_entries(
    board: VectorBoard, events: Iterable[Numbers]
) -> tuple[list[str], dict[str, Words | None]]:
    """Return the outcome of each event, and the entries after all events, as the plain fold
    computes them."""
    shape = shaped(board)
    fold = PlainFold(shape.ops, shape.lows, shape.highs, shape.tie, all_window=0)
    rankings = {"all": 0}
    outcomes = []
    for value, at_ms, sets in events:
        day = rankings.setdefault(day_of(at_ms), len(rankings))
        event = Event(
            0,
            words_of(board, value),
            at_ms,
            at_ms // shape.resolution_ms,
            absolute=sets,
            rankings=(0, day),
        )
        outcomes.append(OUTCOMES[fold.count(event)])
    return outcomes, {name: _entry(fold, i, shape) for name, i in rankings.items()}


def _entry(fold: PlainFold, ranking: int, shape: Shaped) -> Words | None:
    kept = fold.kept(ranking, 0)
    if kept is None:
        return None
    words = list(kept.columns)
    if shape.tie:
        words.append(shape.tie * kept.stamp)
    if shape.stamped:
        words.append(kept.newest_at)
    return tuple(words)


class Played:
    """A board of the oracle to which events are submitted one by one."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.oracle = Oracle(lambda: NOW_MS)
        self.oracle.create(definition)

    def submit(self, member: str, value: Sequence[str], at_ms: int | None, *, sets: bool) -> str:
        """Count an event, and return its outcome."""
        at = None if sets and at_ms == NOW_MS else at_ms
        report = Report(member, tuple(value), at, absolute=sets)
        try:
            return self.oracle.submit(self.definition.name, report).status
        except Refusal as refusal:
            if refusal.code not in RANGE:
                raise
            return "out_of_range"

    def words(self, window: str, period: str | None = None) -> dict[str, Words]:
        """Return the columns and the tie word of each member in a ranking."""
        tie, signs = TIES[self.definition.tie], [sign(c) for c in self.definition.columns]
        words_of_members = {}
        for place in self.oracle.places(self.definition.name, window, period, ALL):
            words = [each_sign * part for each_sign, part in zip(signs, place.score, strict=True)]
            words_of_members[place.member] = (
                (*words, tie * place.row.stamp) if tie else tuple(words)
            )
        return words_of_members


# Routing


def crc32(text: bytes) -> int:
    """Return the CRC-32 of some bytes, bit by bit (polynomial 0xEDB88320)."""
    crc = 0xFFFFFFFF
    for byte in text:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def shard_of(member: str, shards: int) -> int:
    """Return the number of a member's shard."""
    return crc32(member.encode()) % shards


def instance(window: WindowDef, at_ms: int, now_ms: int) -> tuple[int, str, bool]:
    """Return the number and the label of an event's period or step, and whether the window takes
    the event."""
    oracle_window = window_of(window, Definition(windows=(window,)))
    taken = oracle_window.takes(at_ms, now_ms)
    if isinstance(oracle_window, RollingWindow):
        number = oracle_window.instance(at_ms)
        return number, step_span(oracle_window.cut, number).label, taken
    if isinstance(oracle_window, CalendarWindow):
        span = span_at(oracle_window.calendar, at_ms)
        return span.start_ms, span.label, taken
    return FIRST_MS, "", taken


def ranking_name(window: str, scope: str, number: int) -> str:
    """Return the name of a ranking on an index server, without the board."""
    return f"{window}\x1f{scope}:{number}" if scope else f"{window}:{number}"


# Sums


def added_up(
    events: Iterable[tuple[str, int, int]],
) -> dict[str, tuple[int, int, int, int]] | None:
    """Return for each member the sums of its events (member, value, stamp). Return None if the sums
    do not suffice to count the events, because a value is 0 or a partial sum is too large to be
    exact in a script."""
    own: dict[str, list[tuple[int, int]]] = {}
    for member, value, stamp in events:
        if value == 0:
            return None
        own.setdefault(member, []).append((value, stamp))
    sums = {}
    for member, pairs in own.items():
        prefixes = [sum(value for value, _ in pairs[: i + 1]) for i in range(len(pairs))]
        if max(map(abs, prefixes)) > LIMIT:
            return None
        stamp = max(stamp for _, stamp in pairs)
        sums[member] = (prefixes[-1], min(prefixes), max(prefixes), stamp)
    return sums
