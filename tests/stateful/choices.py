"""Boards, events and clock moves, chosen by a seeded generator so that edges are common.

Everything takes a `random.Random`: the long run seeds one, hypothesis hands in its own.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from random import Random

from tests.calendar_by_scanning import HOUR, MINUTE, utc_ms
from tests.definitions import LIMIT, ColumnDef, Definition, Report, WindowDef
from tests.oracle_board import OracleBoard, OracleWindow

MEMBERS = ("a", "b", "ab", "a\x00", "é", "zoë", "B", "日本", "aa")
SHAPES = tuple(
    tuple(tuple(column.split("-")) for column in shape.split())
    for shape in (
        "sum-desc",
        "sum-asc",
        "last-desc",
        "last-asc",
        "best-desc",
        "best-asc",
        "sum-desc last-asc",
        "last-desc sum-asc",
        "best-desc best-asc",
        "best-asc best-desc best-desc",
        "sum-asc sum-desc last-desc",
        "last-asc last-desc",
        "sum-desc last-desc sum-asc last-asc",
        "best-desc best-desc best-asc best-asc",
    )
)
TIES = ("first", "last", "member")
RANKS = ("ordinal", "competition", "dense")
COMBINATIONS = tuple(product(SHAPES, TIES, RANKS))
DAY_MS = 24 * HOUR

STARTS = (
    ("America/New_York", datetime(2026, 11, 1, 4, 50, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 6, 50, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 12, 31, 22, 30, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 14, 20, tzinfo=UTC)),
    ("America/St_Johns", datetime(2006, 10, 29, 2, 0, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 2, 30, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, 9, 0, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2026, 2, 28, 18, 0, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 4, 23, 21, 30, tzinfo=UTC)),
    ("UTC", datetime(2024, 2, 29, 23, 50, tzinfo=UTC)),
)
"""Zones and instants, in UTC, shortly before their clocks or calendars do something odd."""


def definition(
    rng: Random, name: str, combination: tuple[tuple[tuple[str, ...], ...], str, str], tz: str
) -> Definition:
    """A board of this combination of columns, tie and rank style."""
    shape, tie, rank = combination
    return Definition(
        name=name,
        columns=tuple(column(rng, i, *part) for i, part in enumerate(shape)),
        tie=tie,
        tie_resolution=rng.choice(["1ms", "1ms", "1s", "1m"]),
        rank=rank,
        windows=windows(rng, tz),
        tz=rng.choice([tz, tz, "UTC"]),
        week_start=rng.choice(["monday", "sunday", "friday"]),
        grace=rng.choice(["0ms", "5s", "5m", "1h"]),
        dedupe=rng.choice(["1h", "2h"]),
        dedupe_max=rng.choice([3, 8, 1_000_000]),
        keep=rng.choice([1, 2, 3]),
    )


def column(rng: Random, i: int, op: str, order: str) -> ColumnDef:
    """A column, sometimes with decimal places and close bounds."""
    scale = rng.choice([0, 0, 2])
    low: int | Decimal | None = None
    high: int | Decimal | None = None
    if rng.random() < 0.4:
        low, high = rng.choice([(-4, 6), (0, 5), (-6, 0), (-1, 1)])
    return ColumnDef(f"c{i}", op, order, scale, low, high)


def windows(rng: Random, tz: str) -> tuple[WindowDef, ...]:
    """One to four windows of which most are calendars, `all` among them more often than not."""
    chosen = rng.sample(["hour", "day", "week", "month", "quarter", "year"], rng.randint(0, 3))
    found = [calendar(rng, unit, tz) for unit in chosen]
    if not found or rng.random() < 0.75:
        found.insert(rng.randint(0, len(found)), WindowDef(name=rng.choice([None, "ever"])))
    return tuple(found)


def calendar(rng: Random, unit: str, tz: str) -> WindowDef:
    """A calendar window with options of its own here and there."""
    keep = rng.choice([None, None, 1, 4])
    return WindowDef(
        unit,
        name=rng.choice([None, f"my-{unit}"]) if keep is None else f"my-{unit}",
        keep=keep,
        tz=rng.choice([None, None, tz]),
        week_start=rng.choice([None, "saturday"]) if unit == "week" else None,
        grace=rng.choice([None, None, "1m"]),
    )


def report(rng: Random, board: OracleBoard, now_ms: int, *, absolute: bool = False) -> Report:
    """An event: well-formed as a rule, now and then not."""
    definition = board.definition
    value: object = tuple(number(rng, column) for column in definition.columns)
    if len(definition.columns) == 1 and isinstance(value, tuple):
        value = value[0]
    id = rng.choice([None, None, None, *"uvwxyz"])
    event = Report(rng.choice(MEMBERS), value, instant(rng, board, now_ms), id, absolute)
    return malformed(rng, event) if rng.random() < 0.03 else event


def malformed(rng: Random, event: Report) -> Report:
    """The same event with one thing wrong."""
    wrong = [
        replace(event, member=""),
        replace(event, member="m" * 129),
        replace(event, member="\ud800"),
        replace(event, value="1.23456789012345678"),
        replace(event, value=1.5),
        replace(event, value=Decimal("nan")),
        replace(event, value=(1,) * 5),
        replace(event, at="yesterday"),
        replace(event, id=""),
        replace(event, value=str(2**60)),
    ]
    return rng.choice(wrong)


def number(rng: Random, column: ColumnDef) -> int | Decimal | str:
    """A value of a column, small so that members tie, or at the edge of what fits."""
    if rng.random() < 0.03:
        edge = rng.choice([LIMIT, -LIMIT, LIMIT - 1]) // 10**column.scale
        return edge if rng.random() < 0.5 else str(edge)
    small: int = rng.choice([0, 0, 1, 1, 2, 3, -1, -2, 5])
    if column.scale and rng.random() < 0.5:
        return Decimal(small) / 4 if rng.random() < 0.5 else f"{small}e-1"
    return small


def instant(rng: Random, board: OracleBoard, now_ms: int) -> int | None:
    """An `at`: none, close to now, close to a boundary, late, or ahead."""
    kind = rng.randint(0, 9)
    if kind <= 3:
        return None
    if kind <= 5:
        return now_ms - rng.choice([0, 1, 2, 999, 1000, 1001, MINUTE])
    if kind <= 8:
        return now_ms - _distance(rng, board, now_ms)
    return now_ms + rng.choice([1, 5_000, 5_001, -30 * DAY_MS, -200 * DAY_MS])


def _distance(rng: Random, board: OracleBoard, now_ms: int) -> int:
    """How long ago a period of one of the board's windows began, give or take a moment."""
    calendars = [w for w in board.windows.values() if w.calendar is not None]
    if not calendars:
        return rng.choice([HOUR, DAY_MS])
    start_ms = rng.choice(rng.choice(calendars).kept(now_ms)).start_ms
    return max(0, now_ms - start_ms + rng.choice([-1, 0, 1, 500]))


def later(rng: Random, board: OracleBoard, now_ms: int) -> int:
    """Where the clock moves: a moment on, to the edge of a period or of its grace, or far."""
    kind = rng.randint(0, 9)
    if kind <= 4:
        return now_ms + rng.choice([0, 1, 2, 400, 1000, 3_000, MINUTE, 20 * MINUTE])
    calendars = [w for w in board.windows.values() if w.calendar is not None]
    if kind <= 8 and calendars:
        edge_ms = _edge(rng, rng.choice(calendars), now_ms)
        return max(now_ms, edge_ms) if edge_ms - now_ms < 40 * DAY_MS else now_ms + HOUR
    return now_ms + rng.choice([HOUR, HOUR - 1, 90 * MINUTE, 7 * HOUR, DAY_MS, 8 * DAY_MS])


def _edge(rng: Random, window: OracleWindow, now_ms: int) -> int:
    spans = window.kept(now_ms)[:2]
    grace_ms = rng.choice([0, window.grace_ms])
    return rng.choice(spans).end_ms + grace_ms + rng.choice([-1, 0, 1])


def start(rng: Random) -> tuple[str, int]:
    """A zone and an instant to begin at."""
    tz, begin = rng.choice(STARTS)
    return tz, utc_ms(begin)
