"""The sums of a batch's events, by member.

If the only column of a board has the operator `sum`, the server often does not need the single
events. It gets the sum of each member's events, with the lowest and highest partial sum, and
returns each member's total before the batch, from which the outcomes of the events are computed
here. If a partial sum would take a total out of its range, the server counts nothing and requests
the single events.
"""

from array import array
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from laurels.core.index import Outcome, Outcomes, Scores
from laurels.core.plan import Plan
from laurels.model.batch import Batch
from laurels.model.rules import Rules

_EXACT = 2**53
"""The bound below which Lua represents every integer exactly."""


class Sums(Struct, frozen=True):
    """The sums of a batch, in columns with one item per member.

    For each event, `event_members` has the index of its member. `before` has the sum of that
    member's earlier events in the batch; it is None for the member's first event. `stamps` is a
    single number if all members have the same stamp."""

    event_members: Sequence[int]
    before: list[int | None]
    values: Sequence[int]
    sums: list[int]
    lows: list[int]
    highs: list[int]
    stamps: "list[int] | int"

    def encode(self) -> dict[str, Any]:
        """Encode the sums for `count.lua`. The bounds of the partial sums are left out if no member
        has several events, since they are then equal to the sums."""
        arguments = {"events": len(self.event_members), "sums": self.sums, "stamps": self.stamps}
        if len(self.event_members) > len(self.sums):
            arguments |= {"least": self.lows, "most": self.highs}
        return arguments

    def outcomes(self, bases: Sequence[int | bool]) -> Outcomes:
        """Return the outcome of each event. `bases` has each member's total before the batch; False
        means that the member was not ranked. If `bases` is empty, the outcomes have no scores."""
        codes = bytearray([Outcome.APPLIED]) * len(self.event_members)
        if not bases:
            return Outcomes(codes)
        present = [base is not False for base in bases]
        base = list(map(int, bases))
        before = [
            base[i] + (own or 0) for i, own in zip(self.event_members, self.before, strict=True)
        ]
        was = [
            present[i] or own is not None
            for i, own in zip(self.event_members, self.before, strict=True)
        ]
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
    event_members: Sequence[int],
    members: int,
    stamps: Sequence[int] | int,
) -> Sums | None:
    """Return the sums of a batch, or None if the server needs the single events."""
    column = rules.columns[0]
    if len(rules.columns) > 1 or not column.adds_up or batch.absolute or batch.ids is not None:
        return None
    if rules.scoped or rules.refreshed or rules.weighings:
        return None
    if not all(isinstance(route, int) and route >= 0 for route in plan.routes):
        return None
    values = [column.sign * value for value in batch.values[0]]
    if 0 in values:  # an event of 0 changes something only if the member is not ranked yet
        return None
    sums: list[int | None] = [None] * members
    lows, highs = [_EXACT] * members, [-_EXACT] * members
    before = []
    for i, value in zip(event_members, values, strict=True):
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
        for i, stamp in zip(event_members, stamps, strict=True):
            latest[i] = max(latest[i], stamp)
    return Sums(event_members, before, values, [each or 0 for each in sums], lows, highs, latest)
