"""The start and the end of boards, and for how long boards are retained."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.calendar_by_scanning import HOUR, MINUTE
from tests.definitions import Definition, duration_ms
from tests.oracle_board import OracleBoard

DAY = 24 * HOUR
LIMITED = 1 / 4
RETAINED = 2 / 3


def limited(rng: Random, definition: Definition, now_ms: int) -> Definition:
    """Return the board. With probability 1/4, give it a start, an end, or both. Most boards with an
    end have a `retain`."""
    if rng.random() >= LIMITED:
        return definition
    if rng.random() < 1 / 3:
        return replace(definition, starts=start(rng, now_ms))
    ends = replace(definition, ends=end(rng, now_ms))
    if rng.random() < RETAINED:
        ends = replace(ends, retain=retention(rng, definition))
    return replace(ends, starts=start(rng, now_ms)) if rng.random() < 0.5 else ends


def start(rng: Random, now_ms: int) -> int:
    """Return a start that has passed, or will be soon. It is always before an end to come."""
    return now_ms + rng.choice([-26 * HOUR, -HOUR, -1, 0, 0, 1, 5_000, MINUTE - 1])


def end(rng: Random, now_ms: int) -> int:
    """Return an end that is to come. Often it is at, or next to, the end of an hour."""
    if rng.random() < 0.5:
        return (now_ms // HOUR + rng.choice([1, 1, 2, 8, 49])) * HOUR + rng.choice([0, 1, MINUTE])
    return now_ms + rng.choice([MINUTE, 20 * MINUTE, 2 * HOUR, 26 * HOUR, 9 * DAY])


def retention(rng: Random, definition: Definition) -> int:
    """Return a valid `retain`: at least the longest grace of any window."""
    graces = [definition.grace, *(window.grace for window in definition.windows if window.grace)]
    longest_ms = max(map(duration_ms, graces))
    return longest_ms + rng.choice([0, 1, 2, 5_000, HOUR, DAY, 9 * DAY])


def changed(rng: Random, definition: Definition, now_ms: int) -> Definition:
    """Return the board with another start, end or `retain`. The change may be refused, since the
    new end has passed already, or the board was closed at its present end."""
    kind = rng.randint(0, 9)
    if kind <= 1:
        starts = start(rng, now_ms)
        is_valid = not isinstance(definition.ends, int) or starts < definition.ends
        return replace(definition, starts=starts if is_valid and rng.random() < 0.5 else "")
    if kind <= 3 and definition.ends:
        retain = retention(rng, definition)
        return replace(definition, retain=retain if rng.random() < 0.5 else "")
    if kind == 4:
        return replace(definition, ends="", retain="")
    ends = now_ms + rng.choice([-HOUR, -1, 0, 1]) if kind == 5 else end(rng, now_ms)
    is_valid = not isinstance(definition.starts, int) or definition.starts < ends
    return replace(definition, ends=ends, starts=definition.starts if is_valid else "")


def edges(board: OracleBoard) -> list[int]:
    """Return the instants at which the limits of a board take effect."""
    definition, edges = board.definition, list[int]()
    if isinstance(definition.starts, int):
        edges.append(definition.starts)
    if isinstance(definition.ends, int):
        graces = {duration_ms(definition.grace), *(w.grace_ms for w in board.windows.values())}
        edges += [
            definition.ends,
            *(definition.ends + grace + by for grace in graces for by in (0, 1)),
        ]
        if isinstance(definition.retain, int):
            edges.append(definition.ends + definition.retain)
    return edges
