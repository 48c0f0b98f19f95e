"""What the events of a batch add up to, member by member.

Where a board is one column that adds, and all events go the same way, the server need not look at
each of them: it is told of each member the sum, and the lowest and the highest that any of its
events would see, and answers what each had before. What became of each event follows from that.
Where a total would leave the range on the way, the server counts nothing and wants the events.
"""

from array import array
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from laurels.core.index import Outcome, Outcomes, Scores
from laurels.core.plan import Plan
from laurels.model.event import Batch
from laurels.model.rules import Rules

_EXACT = 2**53
"""Below it Lua's numbers are exact."""


class Sums(Struct, frozen=True):
    """What events add up to, with columns of one item a member.

    `who` says of each event which member it is of, `before` what the batch has added to that one
    before it, None for nothing. `stamps` are one number where all share it.
    """

    who: Sequence[int]
    before: list[int | None]
    values: Sequence[int]
    sums: list[int]
    lows: list[int]
    highs: list[int]
    stamps: "list[int] | int"

    def encode(self) -> dict[str, Any]:
        """As `count` takes them; bounds only where events came before others of their member."""
        arguments = {"events": len(self.who), "sums": self.sums, "stamps": self.stamps}
        if len(self.who) > len(self.sums):
            arguments |= {"least": self.lows, "most": self.highs}
        return arguments

    def outcomes(self, bases: Sequence[int | bool]) -> Outcomes:
        """What became of each event, by what each member had (False: it was not there); without
        scores where nothing is told of that."""
        codes = bytearray([Outcome.APPLIED]) * len(self.who)
        if not bases:
            return Outcomes(codes)
        present = [base is not False for base in bases]
        base = list(map(int, bases))
        before = [base[i] + (own or 0) for i, own in zip(self.who, self.before, strict=True)]
        was = [present[i] or own is not None for i, own in zip(self.who, self.before, strict=True)]
        after = [had + value for had, value in zip(before, self.values, strict=True)]
        return Outcomes(
            codes,
            Scores(bytearray(was), [array("q", before)]),
            Scores(bytearray(b"\1") * len(after), [array("q", after)]),
        )


def sums_of(
    rules: Rules,
    batch: Batch,
    plan: Plan,
    who: Sequence[int],
    members: int,
    stamps: Sequence[int] | int,
) -> Sums | None:
    """What the events of so many members add up to; None where that is not all that counts."""
    column = rules.columns[0]
    if len(rules.columns) > 1 or column.op != "sum" or batch.absolute or batch.ids is not None:
        return None
    if rules.scoped or rules.refreshed or rules.weighings:
        return None
    if not all(isinstance(route, int) and route >= 0 for route in plan.routes):
        return None
    values = [column.sign * value for value in batch.values[0]]
    if 0 in values:  # whether it changes anything depends on what is there
        return None
    sums: list[int | None] = [None] * members
    lows, highs = [_EXACT] * members, [-_EXACT] * members
    before = []
    for i, value in zip(who, values, strict=True):
        before.append(total := sums[i])
        sums[i] = total = value if total is None else total + value
        if total < lows[i]:
            lows[i] = total
        if total > highs[i]:
            highs[i] = total
    if min(lows) <= -_EXACT or max(highs) >= _EXACT:
        return None
    latest: list[int] | int
    if isinstance(stamps, int):
        latest = stamps
    else:
        latest = [min(stamps)] * members
        for i, stamp in zip(who, stamps, strict=True):
            latest[i] = max(latest[i], stamp)
    return Sums(who, before, values, [each or 0 for each in sums], lows, highs, latest)
