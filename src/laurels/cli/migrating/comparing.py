"""Compares a board with the sorted set it was imported from, as the set is now.

The comparison takes two passes. The first compares every member of the set with the board. The
second compares every member of the board, in the order of the ranking, with the set. If neither
finds a difference, the set and the board have the same members with the same scores, in the same
order except among equal scores.

If a member differs, its score is read again from the set and written to the board. If both agree
afterwards, the set or the board changed after the member was first read. If they still differ
although the set does not change, the import of the member failed, or the board keeps a better
score.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from laurels.cli.interrupts import Interrupts
from laurels.model.score import Number

from .sorted_set_rows import Ranked, ranked
from .source import BEGINNING, RedisSource
from .taking_over import ScanPosition, TakeoverWatcher, missing_data, scanned
from .totals import AT_ONCE, Totals

MAX_EXAMPLES = 5
"The maximum number of members that are recorded for each kind of difference."
_ROUNDS = 3
"""The maximum number of times that a differing member is set on the board. It is set again if its
score in the set has changed meanwhile."""


class Differing(Struct, frozen=True):
    """A member with one score in the sorted set and another, or none, on the board."""

    member: str
    source: Number
    board: Number | None


class ComparisonResult(Struct):
    """The result of a comparison.

    The numbers count members of these kinds. Some kinds have a list of the first members, too:

    - `members` were compared.
    - `left_out`: the board cannot store their score or their id.
    - `changed`: they differed at first; now they agree, or are still changing.
    - `gone`: they left the set between two reads.
    - `differ`: the board has another score, or none.
    - `only_on_board`: they are not in the set.
    - `misplaced`: on the board they rank below a member with a worse score.
    - `reordered`: the board has them directly below a member with the same score, and the set has
      them above that member. This is not a difference, since a set orders equal scores by the
      bytes of the members.
    """

    members: int = 0
    left_out: int = 0
    changed: int = 0
    gone: int = 0
    differ: int = 0
    only_on_board: int = 0
    misplaced: int = 0
    reordered: int = 0
    first_changed: list[str] = msgspec.field(default_factory=list)
    first_differing: list[Differing] = msgspec.field(default_factory=list)
    first_only_on_board: list[str] = msgspec.field(default_factory=list)
    first_misplaced: list[str] = msgspec.field(default_factory=list)
    first_reordered: list[str] = msgspec.field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not (self.differ or self.only_on_board or self.misplaced)


class Comparison:
    """Compares a sorted set with a board, and corrects members that changed after their import."""

    def __init__(
        self,
        source: RedisSource,
        totals: Totals,
        *,
        batch: int,
        interrupts: Interrupts,
        watch: TakeoverWatcher,
    ) -> None:
        self.result = ComparisonResult()
        self._source = source
        self._totals = totals
        self._batch = batch
        self._interrupts = interrupts
        self._watch = watch

    def run(self) -> None:
        """Run both passes. They take O(n log n) time and the memory of one batch."""
        self._compare_set()
        self._compare_board()

    def _compare_set(self) -> None:
        start = ScanPosition(self._source.process(), BEGINNING, 0)
        for entries, _ in scanned(self._source, start, self._batch):
            for first in range(0, len(entries), AT_ONCE):
                part = entries[first : first + AT_ONCE]
                rows_or_rejects = [ranked(0, member, score, self._totals) for member, score in part]
                rows = {row.member: row for row in rows_or_rejects if isinstance(row, Ranked)}
                self.result.left_out += sum(not isinstance(row, Ranked) for row in rows_or_rejects)
                self.result.members += len(rows)
                self._watch(self.result.members + self.result.left_out)
                self._settle(self._differing(rows.values()))

    def _compare_board(self) -> None:
        sign = self._totals.column.sign
        before: int | None = None
        above = ""
        after: str | None = None
        while True:
            entries, after = self._totals.page(after)
            scores = self._source.scores([member for member, _ in entries])
            for (member, units), score in zip(entries, scores, strict=True):
                row = None if score is None else self._row(member, score)
                if score is None:
                    self.result.only_on_board += 1
                    _keep(self.result.first_only_on_board, member)
                elif row is not None and row.units == units:
                    place = sign * units
                    if before is not None and place < before:
                        self.result.misplaced += 1
                        _keep(self.result.first_misplaced, member)
                    if place == before and _is_above(member, above, sign):
                        self.result.reordered += 1
                        _keep(self.result.first_reordered, member)
                    before, above = place, member
            if after is None:
                return

    def _differing(self, rows: Iterable[Ranked]) -> list[Ranked]:
        """Return the members that have another score or other data on the board."""
        rows = list(rows)
        states = self._totals.read([row.member for row in rows])
        data, _ = missing_data(self._source, rows, states)
        return [
            row
            for row in rows
            if row.member not in states
            or states[row.member].units != row.units
            or row.member in data
        ]

    def _settle(self, rows: Sequence[Ranked]) -> None:
        """Set the members that differ to their current scores and data in the sorted set. Record
        those that still differ afterwards, and those that changed meanwhile."""
        for _ in range(_ROUNDS):
            if not rows:
                return
            fresh = self._fresh(rows)
            self._set(fresh)
            left = self._fresh(fresh)
            differing = self._differing(left)
            values_set = {row.member: row.units for row in fresh}
            stable = [row for row in differing if values_set[row.member] == row.units]
            for row in stable:
                self._note_differing(row)
            changed = [row for row in differing if values_set[row.member] != row.units]
            settled = {row.member for row in left} - {row.member for row in differing}
            self.result.changed += len(settled)
            for member in sorted(settled):
                _keep(self.result.first_changed, member)
            rows = changed
        self.result.changed += len(rows)
        for row in rows:
            _keep(self.result.first_changed, row.member)

    def _fresh(self, rows: Sequence[Ranked]) -> list[Ranked]:
        """Return these members with their current scores in the set. Members that are no longer in
        the set, or whose score the board cannot store, are left out."""
        scores = self._source.scores([row.member for row in rows])
        rows_now = [
            None if score is None else self._row(row.member, score)
            for row, score in zip(rows, scores, strict=True)
        ]
        self.result.gone += sum(score is None for score in scores)
        return [row for row in rows_now if row is not None]

    def _set(self, rows: Sequence[Ranked]) -> None:
        states = self._totals.read([row.member for row in rows])
        data, _ = missing_data(self._source, rows, states)
        with self._interrupts.deferred():
            self._totals.set_data(data)
            self._totals.set({row.member: row.units for row in rows}, states)

    def _row(self, member: str, score: float) -> Ranked | None:
        row = ranked(0, member.encode(), score, self._totals)
        return row if isinstance(row, Ranked) else None

    def _note_differing(self, row: Ranked) -> None:
        self.result.differ += 1
        if len(self.result.first_differing) < MAX_EXAMPLES:
            state = self._totals.read([row.member]).get(row.member)
            board = None if state is None else self._totals.value(state.units)
            differing = Differing(row.member, self._totals.value(row.units), board)
            self.result.first_differing.append(differing)


def _is_above(member: str, other: str, sign: int) -> bool:
    """Return whether a sorted set lists a member above another member with the same score.

    A sorted set orders equal scores by the bytes of the members. If higher scores are better, the
    set is read from its end, so this order is reversed.
    """
    low, high = (other, member) if sign < 0 else (member, other)
    return low.encode() < high.encode()


def _keep(names: list[str], name: str) -> None:
    if len(names) < MAX_EXAMPLES and name not in names:
        names.append(name)
