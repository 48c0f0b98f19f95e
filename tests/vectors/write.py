"""Write the files of vectors again: `python -m tests.vectors.write`.

Other languages and stored data depend on the vectors, so a commit that changes an existing line has
to say why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

from msgspec import Struct

from tests.calendar_by_scanning import HOUR
from tests.definitions import LIMIT, ColumnDef, WindowDef
from tests.vectors import plain
from tests.vectors.cases import (
    FOLDER,
    NOW_MS,
    SumCase,
    SumEvent,
    SumVectors,
    VectorBoard,
    WriteCase,
    WriteEvent,
    WriteVectors,
)
from tests.vectors.routing_cases import routing

# The write rule. Stories count points, and more points are better. If the column has a range, it is
# -60 to 100. If less is better in the column, the points are negated.

TIMES = {
    "then": NOW_MS - 9_500,
    "before": NOW_MS - 11_500,
    "just before": NOW_MS - 9_600,
    "after": NOW_MS - 7_500,
    "now": NOW_MS,
    "yesterday": NOW_MS - 10 * HOUR,
}
"""`just before` is in the same second as `then`. Yesterday ended 8 hours ago. A score can be set
only at `now`, because the verb takes no other time."""

Story = tuple[str, list[tuple[Any, ...]]]
"""A description, and events: (points, when[, True to set])."""

SUMS: list[Story] = [
    ("the first event", [(5, "then")]),
    ("a later event is added", [(5, "then"), (3, "after")]),
    ("an older event is added, and the stamp stays", [(5, "then"), (3, "before")]),
    ("an event of the same second is added", [(5, "then"), (3, "just before")]),
    ("a total below zero", [(5, "then"), (-9, "after")]),
    ("a later event of zero moves only the stamp", [(5, "then"), (0, "after")]),
    ("an older event of zero", [(5, "then"), (0, "before")]),
    ("a first event of zero adds the member", [(0, "then")]),
    ("up to the maximum", [(60, "then"), (40, "then")]),
    ("a total one above the maximum", [(60, "then"), (41, "then")]),
    ("a total one below the minimum", [(-60, "then"), (-1, "after"), (1, "after")]),
    ("out of range in all, which also counts yesterday", [(90, "yesterday"), (11, "then")]),
    (
        "out of range today, but not in all",
        [(-50, "yesterday"), (70, "then"), (40, "then"), (30, "then")],
    ),
    ("events of yesterday and today", [(5, "then"), (7, "yesterday"), (2, "after")]),
    ("set to a higher total", [(5, "then"), (20, "now", True)]),
    ("set to a lower total", [(5, "then"), (-20, "now", True)]),
    ("set to the current total", [(5, "then"), (5, "now", True)]),
    ("set as the first event", [(7, "now", True)]),
    ("set by the difference to the total in all", [(30, "yesterday"), (40, "now", True)]),
    ("set to a total that is out of range today", [(90, "yesterday"), (-20, "now", True)]),
]
LASTS: list[Story] = [
    ("the first event", [(5, "then")]),
    ("a later event replaces the value", [(5, "then"), (3, "after")]),
    ("an older event does not replace the value", [(5, "then"), (3, "before")]),
    ("an event of the same time replaces the value", [(5, "then"), (3, "then")]),
    ("an older event of the same second does not replace it", [(5, "then"), (3, "just before")]),
    ("the same value again, later", [(5, "then"), (5, "after")]),
    ("the same value again, earlier", [(5, "then"), (5, "before")]),
    ("below zero", [(5, "then"), (-60, "after")]),
    ("above the maximum", [(5, "then"), (101, "after"), (100, "after")]),
    ("below the minimum", [(-61, "then"), (-60, "then")]),
    ("a late event of yesterday does not replace today's in all", [(5, "then"), (7, "yesterday")]),
    ("an older event, and one between the two", [(5, "then"), (6, "before"), (7, "just before")]),
    ("set counts like an event", [(5, "then"), (9, "before", True), (8, "after", True)]),
]
BESTS: list[Story] = [
    ("the first event", [(5, "then")]),
    ("a better value", [(5, "then"), (9, "after")]),
    ("a worse value", [(5, "then"), (3, "after")]),
    ("a better value of an older event", [(5, "then"), (9, "before")]),
    ("the same value later changes nothing", [(5, "then"), (5, "after")]),
    ("the same value earlier moves the stamp back", [(5, "then"), (5, "before")]),
    ("the same value within the same second", [(5, "then"), (5, "just before")]),
    ("below zero", [(-9, "then"), (-3, "after")]),
    ("above the maximum", [(5, "then"), (101, "after")]),
    ("a value below the minimum that is also worse", [(5, "then"), (-61, "after")]),
    ("a better value yesterday", [(5, "then"), (7, "yesterday")]),
    ("the same value yesterday", [(5, "then"), (5, "yesterday"), (5, "after")]),
    ("a better value yesterday, and today's twice", [(7, "yesterday"), (5, "then"), (5, "before")]),
    ("a worse value yesterday", [(7, "then"), (5, "yesterday"), (6, "before")]),
    ("set counts like an event", [(5, "then"), (9, "after", True), (4, "after", True)]),
]
PAIRS: list[Story] = [
    ("the first event", [((5, 2), "then")]),
    ("a later event", [((5, 2), "then"), ((3, 1), "after")]),
    ("an older event", [((5, 2), "then"), ((3, 1), "before")]),
    ("an event of the same time", [((5, 2), "then"), ((3, 1), "then")]),
    ("the first column better, the second worse", [((5, 2), "then"), ((6, 1), "after")]),
    ("the first column equal, the second better", [((5, 2), "then"), ((5, 3), "after")]),
    ("equal columns, and an earlier event", [((5, 2), "then"), ((5, 2), "before")]),
    ("zero in the first column", [((5, 2), "then"), ((0, 1), "before")]),
    ("out of range in the second column", [((5, 2), "then"), ((1, 101), "after")]),
    ("a total out of range in the second column", [((5, 60), "then"), ((1, 41), "after")]),
    ("yesterday", [((5, 2), "then"), ((6, 1), "yesterday")]),
    ("out of range in one window", [((90, 2), "yesterday"), ((11, 1), "then")]),
    ("set", [((5, 2), "then"), ((9, 9), "now", True), ((1, 1), "now", True)]),
]
FREE: list[Story] = [
    ("up to the largest number", [(LIMIT - 1, "then"), (1, "after")]),
    ("beyond the largest number", [(LIMIT, "then"), (1, "after")]),
    ("beyond the smallest number", [(-LIMIT, "then"), (-1, "after"), (1, "after")]),
    (
        "from the smallest number to the largest",
        [(-LIMIT, "then"), (LIMIT, "after"), (LIMIT, "after")],
    ),
    (
        "set from the smallest number to the largest",
        [(-LIMIT, "yesterday"), (-1, "now", True), (LIMIT, "now", True)],
    ),
]


def column(op: str, order: str = "desc", scale: int = 0, *, free: bool = False) -> ColumnDef:
    """Return a column that has a range of -60 to 100 points, or no range."""
    if free:
        return ColumnDef("score", op, order, scale)
    low, high = (-60, 100) if order == "desc" else (-100, 60)
    step = Decimal(1).scaleb(-scale)
    return ColumnDef("score", op, order, scale, low * step, high * step)


def named(*columns: ColumnDef) -> tuple[ColumnDef, ...]:
    """Return the columns with different names."""
    return tuple(
        [ColumnDef("abcd"[i], c.op, c.order, c.scale, c.min, c.max) for i, c in enumerate(columns)]
    )


BOARDS: dict[str, tuple[VectorBoard, list[Story]]] = {
    "sum": (VectorBoard((column("sum"),)), SUMS),
    "sum asc, last": (VectorBoard((column("sum", "asc", 2),), "last", "1s"), SUMS),
    "sum, member": (VectorBoard((column("sum", free=True),), "member"), SUMS[:8] + FREE),
    "last": (VectorBoard((column("last"),)), LASTS),
    "last asc, last": (VectorBoard((column("last", "asc", 1),), "last", "1s"), LASTS),
    "last, member": (VectorBoard((column("last", scale=2),), "member"), LASTS),
    "best": (VectorBoard((column("best"),)), BESTS),
    "best asc, last": (VectorBoard((column("best", "asc", 3),), "last", "1s"), BESTS),
    "best, member": (VectorBoard((column("best"),), "member"), BESTS),
    "sum and last": (VectorBoard(named(column("sum"), column("last", "asc"))), PAIRS),
    "last and sum, member": (
        VectorBoard(named(column("last"), column("sum", scale=1)), "member"),
        PAIRS,
    ),
    "sum and sum": (VectorBoard(named(column("sum"), column("sum", "asc")), "last", "1s"), PAIRS),
    "best and best": (VectorBoard(named(column("best"), column("best", "asc"))), PAIRS),
}


def number_text(points: int, column: ColumnDef) -> str:
    """Return points as the decimal text of an event's value."""
    units = points if column.order == "desc" else -points
    return f"{Decimal(units).scaleb(-column.scale):f}"


def write_cases() -> Iterator[WriteCase]:
    """Return all stories with their outcomes."""
    for name, (board, stories) in BOARDS.items():
        for description, story in stories:
            numbers: list[plain.Numbers] = []
            for points, when, *sets in story:
                parts = points if isinstance(points, tuple) else (points,)
                value = [number_text(p, c) for p, c in zip(parts, board.columns, strict=True)]
                numbers.append((tuple(value), TIMES[when], bool(sets)))
            outcomes, entries = plain.outcomes_and_entries(board, numbers)
            events = [
                WriteEvent(value, at_ms, plain.words_of(board, value), outcome, sets)
                for (value, at_ms, sets), outcome in zip(numbers, outcomes, strict=True)
            ]
            yield WriteCase(description, name, tuple(events), entries)


# Sums

SUM_BOARDS = {
    "first": VectorBoard((column("sum", "asc"),), windows=(WindowDef("all"),)),
    "last, 1s": VectorBoard((column("sum", "asc"),), "last", "1s", (WindowDef("all"),)),
    "free": VectorBoard((column("sum", "asc", free=True),), "member", "1ms", (WindowDef("all"),)),
    "two windows": VectorBoard((column("sum", "asc"),)),
    "steps": VectorBoard(
        (column("sum", "asc"),),
        windows=(WindowDef("rolling", span="4d", step="1d"),),
    ),
}
Batch = tuple[str, dict[str, int], list[tuple[Any, ...]]]
"""A description, the totals of members before the batch, and events: (member, value[, when]). A
total may be -100 to 60. Within a step, it may be -25 to 15."""

BATCHES: list[Batch] = [
    ("one event", {}, [("a", 5)]),
    ("one event on an existing total", {"a": 5}, [("a", 3)]),
    ("several events of one member", {}, [("a", 5), ("a", 3), ("a", -2)]),
    ("a total that falls and rises", {"a": 2}, [("a", -5), ("a", 9), ("a", -1)]),
    (
        "events of several members in turn",
        {"b": 1},
        [("a", 5), ("b", 3), ("a", -2), ("b", 1), ("c", 4)],
    ),
    ("times out of order", {"a": 1}, [("a", 1, "after"), ("a", 2, "before"), ("a", 3, "then")]),
    ("all events are older than the stamp", {"a": 1}, [("a", 1, "before"), ("a", 2, "before")]),
    ("the total is the same as before", {"a": 4}, [("a", 5), ("a", -5)]),
    ("one event is zero", {"a": 4}, [("a", 5), ("a", 0)]),
    ("an event of zero for a new member", {}, [("a", 0), ("b", 1)]),
    ("a partial sum at the maximum of a step", {"a": 10}, [("a", 5), ("a", -5)]),
    ("a partial sum at the maximum", {"a": 10}, [("a", 50), ("a", -50)]),
    ("a partial sum above the maximum of a step", {}, [("a", 10), ("a", 6), ("a", -9)]),
    ("a partial sum below the minimum of a step", {}, [("a", -20), ("a", -6), ("a", 9)]),
    ("above the maximum of a step with the total before", {"a": 9}, [("a", 4), ("a", 3), ("b", 1)]),
    ("a partial total above the maximum", {"a": 10}, [("a", 50), ("a", 1), ("a", -50)]),
    ("a partial total below the minimum", {"a": -10}, [("a", -90), ("a", -1), ("a", 90)]),
    ("a final total above the maximum", {"a": 12}, [("a", 20), ("b", 7), ("a", 40), ("b", 8)]),
    ("the first event is above the maximum", {}, [("a", 61), ("a", 2)]),
    (
        "a final total above the maximum after a negative partial sum",
        {"a": 14},
        [("a", -50), ("a", 90), ("a", 30)],
    ),
]
FREE_BATCHES: list[Batch] = [
    ("one event", {}, [("a", 5)]),
    ("times out of order", {"a": 1}, [("a", 1, "after"), ("a", 2, "before")]),
    ("one event is zero", {}, [("a", 5), ("a", 0)]),
    ("up to the maximum", {"a": 1}, [("a", LIMIT - 1), ("a", -5)]),
    ("above the maximum with the total before", {"a": 1}, [("a", LIMIT), ("a", -5)]),
    ("a partial sum that is not exact", {}, [("a", LIMIT), ("a", 1), ("a", -1)]),
    ("a negative partial sum that is not exact", {"b": 3}, [("a", -LIMIT), ("a", -1), ("b", 1)]),
    (
        "a partial sum that is not exact although the total fits",
        {"a": -9},
        [("a", LIMIT), ("a", 5), ("a", -5)],
    ),
    ("from the smallest number to the largest", {"a": -LIMIT}, [("a", LIMIT), ("a", LIMIT)]),
]


def sum_cases() -> Iterator[SumCase]:
    """Return all batches with the outcomes of their events."""
    for name, board in SUM_BOARDS.items():
        for description, base, events in FREE_BATCHES if name == "free" else BATCHES:
            yield sum_case(name, board, (description, base, events))


def sum_case(name: str, board: VectorBoard, batch: Batch) -> SumCase:
    """Return a batch with the outcomes of its events."""
    description, base, submitted = batch
    resolution_ms = plain.shaped(board).resolution_ms
    played = plain.Played(board.definition("b"))
    window = board.windows[0].called
    for member, total in base.items():
        assert played.submit(member, [str(total)], TIMES["then"], sets=False) == "applied", (
            description
        )
    events, stamped = [], []
    for member, value, *when in submitted:
        at_ms = TIMES[when[0]] if when else None
        before = played.words(window).get(member)
        outcome = played.submit(member, [str(value)], at_ms, sets=False)
        base_total = None if before is None else before[0]
        events.append(SumEvent(member, value, at_ms, outcome, base_total))
        stamped.append((member, value, (at_ms or NOW_MS) // resolution_ms))
    added = plain.added_up(stamped)
    fits = added is not None and all(event.outcome == "applied" for event in events)
    entries = played.words(window)
    return SumCase(description, name, base, tuple(events), added, fits, entries)


# Files


def lean(vectors: Any) -> Any:
    """Return vectors as JSON values. Fields with default values are left out."""
    if is_dataclass(vectors):
        own = {each.name: getattr(vectors, each.name) for each in fields(vectors)}
        return {
            each.name: lean(own[each.name])
            for each in fields(vectors)
            if own[each.name] != each.default
        }
    if isinstance(vectors, Struct):
        if vectors.__struct_config__.array_like:
            parts = [getattr(vectors, name) for name in vectors.__struct_fields__]
            if isinstance(vectors, WriteEvent) and not vectors.sets:
                parts.pop()
            return lean(parts)
        defaults = vectors.__struct_defaults__
        names = vectors.__struct_fields__
        optional = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        kept = {name: getattr(vectors, name) for name in names}
        return lean({k: v for k, v in kept.items() if k not in optional or optional[k] != v})
    if isinstance(vectors, dict):
        return {key: lean(value) for key, value in vectors.items()}
    if isinstance(vectors, (tuple, list)):
        return [lean(each) for each in vectors]
    return str(vectors) if isinstance(vectors, Decimal) else vectors


def text_of(vectors: Struct) -> str:
    """Return vectors as JSON with one case per line."""
    parts = []
    for key, value in lean(vectors).items():
        if isinstance(value, str):
            text = json.dumps(value)
        elif isinstance(value, dict):
            lines = [f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in value.items()]
            text = "{\n" + ",\n".join(lines) + "\n  }"
        else:
            text = "[\n" + ",\n".join(f"    {json.dumps(each)}" for each in value) + "\n  ]"
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def made() -> dict[str, Struct]:
    """Return the content of all vectors, by the names of their files."""
    return {
        "write_rule": WriteVectors(
            "events: numbers as submitted, at, words, outcome, true if the event sets the score. "
            "entries: the words of the member afterwards, by ranking.",
            {name: board for name, (board, _) in BOARDS.items()},
            tuple(write_cases()),
        ),
        "routing": routing(),
        "sums": SumVectors(
            "events: member, value, at or null for now, outcome, the total before. added: by "
            "member the sum, the least and the greatest partial sum, the greatest stamp.",
            SUM_BOARDS,
            tuple(sum_cases()),
        ),
    }


def main() -> None:
    """Write all files."""
    for name, vectors in made().items():
        (FOLDER / f"{name}.json").write_text(text_of(vectors), encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
