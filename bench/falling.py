"""The hardest boundary there is: every member has something in the step that leaves.

A window of a week by the hour whose four oldest steps hold, from the oldest on: a quarter of the
members, all of them, another quarter, nobody; and every member has one more total in one of the
steps after those. So the two passes after the first boundary visit five quarters of the members
each, and nobody is forgotten on the way.
"""

from array import array
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from bench.history import HOUR_MS, WEEK
from bench.workload import Population

_PARTS = 4
_OTHERS = WEEK.many - _PARTS


class Cells(NamedTuple):
    """Totals of some members in one step, and when they were reached."""

    step: int
    members: list[str]
    totals: "array[int]"
    reached: "array[int]"


class Fallen(NamedTuple):
    """Some members: their cells by step, and the total, instant and newest step of each."""

    members: list[str]
    cells: list[Cells]
    totals: "array[int]"
    reached: "array[int]"
    newest: "array[int]"


def falling(population: Population, running: int) -> Iterator[Fallen]:
    """All members in batches; `running` is the number of the running step."""
    random = Random(7).random
    oldest = running - WEEK.many + 1
    for batch in population.batches():
        quarter = len(batch) // _PARTS
        fallen = Fallen([m for m, _, _ in batch], [], *(array("q") for _ in range(3)))
        shares = [1 + score // 3 for _, score, _ in batch]
        for step, first, stop in (
            (oldest, 0, quarter),
            (oldest + 1, 0, len(batch)),
            (oldest + 2, quarter, 2 * quarter),
        ):
            fallen.cells.append(
                Cells(
                    step,
                    fallen.members[first:stop],
                    array("q", shares[first:stop]),
                    array("q", [_instant(step, random()) for _ in range(first, stop)]),
                )
            )
        newest = [running - int(random() * _OTHERS) for _ in batch]
        fallen.newest.extend(newest)
        fallen.reached.extend([_instant(step, random()) for step in newest])
        fallen.totals.extend(
            [share * (3 if place < 2 * quarter else 2) for place, share in enumerate(shares)]
        )
        others: dict[int, list[int]] = {}
        for place, step in enumerate(newest):
            others.setdefault(step, []).append(place)
        for step, places in others.items():
            fallen.cells.append(
                Cells(
                    step,
                    [fallen.members[place] for place in places],
                    array("q", [shares[place] for place in places]),
                    array("q", [fallen.reached[place] for place in places]),
                )
            )
        yield fallen


def _instant(step: int, part: float) -> int:
    """An instant in the first half of a step."""
    return step * HOUR_MS + int(part * HOUR_MS / 2)
