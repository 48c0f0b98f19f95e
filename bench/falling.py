"""The most expensive boundary of a rolling window: every member has a total in the step that leaves
the window.

In a window of a week by the hour, the four oldest steps have totals of a quarter of the members, of
all members, of another quarter, and of none, in this order. Every member also has a total in a
later step. So each of the two passes after the first boundary visits the totals of all members in
one step and of a quarter of them in another, and no member leaves the window.
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
    """The totals of some members in one step, with the times at which they were reached."""

    step: int
    members: list[str]
    totals: "array[int]"
    reached: "array[int]"


class Fallen(NamedTuple):
    """Some members, with their cells by step. `totals`, `reached` and `newest` have for each member
    its total in the window, the instant at which it reached the total, and its newest step."""

    members: list[str]
    cells: list[Cells]
    totals: "array[int]"
    reached: "array[int]"
    newest: "array[int]"


def falling(population: Population, running: int) -> Iterator[Fallen]:
    """Yield all members in batches; `running` is the number of the current step."""
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
    """Return an instant in the first half of a step."""
    return step * HOUR_MS + int(part * HOUR_MS / 2)
