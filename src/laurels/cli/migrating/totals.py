"""Reads and sets, in batches, the totals of members in a board's window `all`, or in a scope of it.

A total is set by an event. Its value is the difference from the current total on a `sum` column,
and the total itself on `last` and `best` columns. A member that already has the total needs no
event, so setting the same total again changes nothing. If another client counts an event between
the read and the write, that event is added to the total.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import laurels
from laurels.cli.errors import Usage
from laurels.errors import NoAllWindow, ValueOutOfRange
from laurels.model.score import LIMIT, Number, Score, exact_units, to_value

AT_ONCE = 5_000
"""The maximum number of members of one read or write. Even with two events for each member, it is
within the limits of every store."""
_WRITERS = 8
"""The number of threads that set data. Each thread waits for the commit of its write. Writes that
wait at the same time share one commit."""


class MemberState(NamedTuple):
    """The state of a member: its score in units, and its data."""

    units: int
    data: Any


class Refused(NamedTuple):
    """A member whose total the board refused, with the reason."""

    member: str
    code: str
    message: str


class SetTotalsResult(NamedTuple):
    """The result of setting totals.

    `disturbed` is the number of members that do not have the total that was set, because another
    client wrote in between.
    """

    applied: int
    refused: list[Refused]
    disturbed: int = 0


class Totals:
    """The totals of a board with one column. The constructor raises Usage for a board with several
    columns, and NoAllWindow for a board without the window `all`.

    `at_ms` is recorded as the time at which totals were reached; `labels` select their scope.
    """

    def __init__(
        self,
        lb: laurels.Leaderboards,
        board: laurels.Board,
        at_ms: int,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        rules = board.rules()
        if len(rules.columns) != 1:
            raise Usage(
                f"expected a board with 1 column for a sorted set, got {board.name} with "
                f"{len(rules.columns)}"
            )
        windows = [name for name, window in rules.windows.items() if window.holds_totals]
        if not windows:
            raise NoAllWindow(f"the board {board.name!r} has no window `all`")
        self.column = rules.columns[0]
        self.window = windows[0]
        self._lb = lb
        self._board = board.name
        self._at_ms = at_ms
        self._labels: dict[str, str] = dict(labels or {})

    def units(self, score: Number) -> int:
        """Return a total in units. Raise an error if the board cannot store it."""
        column = self.column
        units = exact_units(score, column.scale, column.name)
        if not column.low <= units <= column.high:
            low, high = self.value(column.low), self.value(column.high)
            raise ValueOutOfRange(
                f"expected a value from {low} to {high} for {column.name!r}, got {score}"
            )
        return units

    def value(self, units: int) -> Number:
        """Return units as a number of the column."""
        return to_value(units, self.column.scale)

    def read(self, members: Sequence[str]) -> dict[str, MemberState]:
        """Return the states of up to AT_ONCE members, without those that have no total, in O(k log
        n)."""
        if not members:
            return {}
        entries = self._lb.entries(
            self._board, members, window=self.window, with_data=True, labels=self._labels
        )
        return {
            entry.member: MemberState(self._units_of(entry.score), entry.data)
            for entry in entries
            if entry.score is not None
        }

    def page(self, after: str | None) -> tuple[list[tuple[str, int]], str | None]:
        """Return the next members in the order of the ranking with their units, and the cursor
        after them."""
        page = self._lb.top(
            self._board, window=self.window, limit=AT_ONCE, after=after, labels=self._labels
        )
        return [(entry.member, self._units_of(entry.score)) for entry in page.entries], page.next

    def count(self) -> int:
        return self._lb.count(self._board, window=self.window, labels=self._labels)

    def set(
        self,
        totals: Mapping[str, int],
        states: Mapping[str, MemberState],
        position: tuple[str, str] | None = None,
    ) -> SetTotalsResult:
        """Set the totals of up to AT_ONCE members, in units, in one commit with the position."""
        events: list[tuple[str, Number, int, None, dict[str, str]]] = []
        for member, units in totals.items():
            events += [
                (member, self.value(part), self._at_ms, None, self._labels)
                for part in self._parts(units, states.get(member))
            ]
        if not events and position is None:
            return SetTotalsResult(0, [])
        receipts = self._lb.submit_many(
            self._board,
            events,
            window=self.window,
            position=position,
            scope=sorted(self._labels),
        )
        refused: dict[str, Refused] = {}
        after: dict[str, Score | None] = {}
        for (member, *_), receipt in zip(events, receipts, strict=True):
            if receipt.status == "refused":
                code, message = receipt.reason or "", receipt.message or ""
                refused[member] = Refused(member, code, message)
            after[member] = receipt.score
        disturbed = 0
        if self.column.adds_up:
            disturbed = sum(
                score != self.value(totals[member])
                for member, score in after.items()
                if member not in refused
            )
        applied = len(after) - len(refused) - receipts.unchanged
        return SetTotalsResult(applied, list(refused.values()), disturbed)

    def set_data(self, data_by_member: Mapping[str, Any]) -> None:
        """Set the data of members, from several threads, so that writes share commits."""
        if not data_by_member:
            return
        with ThreadPoolExecutor(min(_WRITERS, len(data_by_member))) as writers:
            writes = [
                writers.submit(self._lb.set_data, self._board, member, data)
                for member, data in data_by_member.items()
            ]
            try:
                for each in writes:
                    each.result()
            except BaseException:
                writers.shutdown(wait=False, cancel_futures=True)
                raise

    def _units_of(self, score: Score) -> int:
        return exact_units(score, self.column.scale, self.column.name)

    def _parts(self, units: int, state: MemberState | None) -> list[int]:
        """Return the values of the events that change a member's total to `units`: none, one, or
        two if a single value would be too large."""
        if state is not None and state.units == units:
            return []
        if not self.column.adds_up or state is None:
            return [units]
        difference = units - state.units
        return [difference] if abs(difference) <= LIMIT else [-state.units, units]
