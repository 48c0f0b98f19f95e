"""Boards and events, chosen by a seeded generator so that edge cases are common.

All functions take a `random.Random`. The long run seeds one, and hypothesis passes its own.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from random import Random

from tests.calendar_by_scanning import utc_ms
from tests.definitions import LIMIT, ColumnDef, Definition, Report, Scope
from tests.oracle_board import OracleBoard
from tests.stateful.moments import instant
from tests.stateful.window_choices import archived, calendar, dedupe, prized, windows

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
RANGES = ((-4, 6), (0, 5), (-6, 0), (-1, 1), (-30, 20), (-10, 60), (0, None), (None, 0))
LABELS = ("room", "team", "zone")
VALUES = ("1", "1", "1", "2", "2", "a", "a,b", "x=y", "%", "%2C", "é", "日本", "{} @:\x00\x7f", "b")
"""Values of labels. Some of them are also ids of members."""
SCOPES: tuple[tuple[tuple[str, ...], ...], ...] = (
    ((), ("room",)),
    ((), ("room",), ("zone",), ("room", "zone")),
    (("zone",), ("room", "zone")),
    (("room",), ()),
    (("team", "zone"), ("room",)),
    ((),),
)
RANK_BY: tuple[tuple[str, ...], ...] = ((), (), ("room",), ("room", "zone"))
MOST_PLACES = 64
SCOPED = 1 / 3
HIDDEN = 1 / 3
ARCHIVED = 1 / 2
PRIZED = 1 / 2
COMBINATIONS = tuple(product(SHAPES, TIES, RANKS))

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
"""Time zones with instants in UTC. Shortly after each instant, the clocks or the calendar of the
zone are irregular."""


CHANGES = "36500d"
"""A retention of changes that is so long that no episode loses a change, even if its clock moves
far."""


def definition(
    rng: Random,
    name: str,
    combination: tuple[tuple[tuple[str, ...], ...], str, str],
    tz: str,
    *,
    refreshing: bool = False,
    archiving: bool = False,
    ledger: str = "",
) -> Definition:
    """Return a board with this combination of columns, tie rule and rank style. A third of the
    boards have scopes, and a third do not rank members whose score is 0. With `archiving`, half of
    the boards have windows whose periods are archived, and half have prizes. With a `ledger`, only
    boards that rank all events together have these."""
    shape, tie, rank = combination
    fading = [part[0] for part in shape] == ["sum"]
    chosen = windows(rng, tz, fading=fading, refreshing=refreshing)
    grace = rng.choice(["0ms", "5s", "5m", "1h"])
    scopes, rank_by = SCOPES[-1], RANK_BY[0]
    if rng.random() < SCOPED:
        scopes, rank_by = rng.choice(SCOPES), rng.choice(RANK_BY)
    if archiving and (not ledger or () in scopes) and rng.random() < ARCHIVED:
        chosen = tuple([archived(rng, window) for window in chosen])
    columns = tuple(column(rng, i, *part) for i, part in enumerate(shape))
    if archiving and (not ledger or () in scopes) and rng.random() < PRIZED:
        if not any(window.unit in {"hour", "day"} for window in chosen):
            chosen = (*chosen, calendar(rng, rng.choice(["hour", "day"]), tz))
        chosen = tuple([prized(rng, window, columns, scopes) for window in chosen])
    return Definition(
        name=name,
        columns=columns,
        tie=tie,
        tie_resolution=rng.choice(["1ms", "1ms", "1s", "1m"]),
        rank=rank,
        windows=chosen,
        tz=rng.choice([tz, tz, "UTC"]),
        week_start=rng.choice(["monday", "sunday", "friday"]),
        grace=grace,
        dedupe=dedupe(rng, chosen, grace),
        dedupe_max=rng.choice([3, 20, 1_000_000, 1_000_000]),
        keep=rng.choice([1, 2, 3]),
        scopes=scopes,
        rank_by=rank_by,
        changes=rng.choice(["", CHANGES]),
        hide_zero=rng.random() < HIDDEN,
        ledger=ledger,
    )


def column(rng: Random, i: int, op: str, order: str) -> ColumnDef:
    """Return a column, sometimes with decimal places and close bounds."""
    scale = rng.choice([0, 0, 2])
    low: int | Decimal | None = None
    high: int | Decimal | None = None
    if rng.random() < 0.4:
        low, high = rng.choice(RANGES)
    return ColumnDef(f"c{i}", op, order, scale, low, high)


def report(rng: Random, board: OracleBoard, now_ms: int, *, absolute: bool = False) -> Report:
    """Return an event. Usually it is well-formed, and sometimes it is malformed."""
    definition = board.definition
    value: object = tuple(number(rng, column) for column in definition.columns)
    if len(definition.columns) == 1 and isinstance(value, tuple):
        value = value[0]
    id = rng.choice([None, None, None, *"uvwxyz"])
    event = Report(rng.choice(MEMBERS), value, instant(rng, board, now_ms), id, absolute)
    if definition.labels:
        event = replace(event, labels=labels(rng, definition))
    return malformed(rng, event) if rng.random() < 0.03 else event


def labels(rng: Random, definition: Definition) -> object:
    """Return the labels of an event: usually most labels of its board, sometimes others."""
    if rng.random() < 0.03:
        wrong = [{"room": ""}, {"room": 1}, {"nope": "x"}, ["room"], {"zone": "z" * 129}]
        return rng.choice([*wrong, {"room": "\ud800"}, {"team": None}, None])
    chosen = {name: rng.choice(VALUES) for name in sorted(definition.labels) if rng.random() < 0.75}
    return chosen or None


def some_scope(rng: Random, board: OracleBoard) -> Scope:
    """Return a scope that can be read from a board, mostly a scope that has or had members."""
    scopes = board.known_scopes()
    if scopes and (not board.definition.labels or rng.random() < 0.8):
        return rng.choice(scopes) if len(scopes) > 1 else scopes[0]
    names = rng.choice(board.definition.scopes)
    return Scope(tuple((name, rng.choice(VALUES)) for name in names))


def malformed(rng: Random, event: Report) -> Report:
    """Return the same event with one invalid field."""
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
    """Return a value for a column. It is small, so that members tie, or close to a limit of the
    range."""
    if rng.random() < 0.03:
        limit = LIMIT // rng.choice([1, 1, 2, 3, 7, 50])
        edge = rng.choice([limit, -limit, limit - 1, limit + 1]) // 10**column.scale
        return edge if rng.random() < 0.5 else str(edge)
    small: int = rng.choice([0, 0, 1, 1, 2, 3, -1, -2, 5])
    if column.scale and rng.random() < 0.5:
        return Decimal(small) / 4 if rng.random() < 0.5 else f"{small}e-1"
    return small


def start(rng: Random) -> tuple[str, int]:
    """Return a time zone and a start time."""
    tz, begin = rng.choice(STARTS)
    return tz, utc_ms(begin)
