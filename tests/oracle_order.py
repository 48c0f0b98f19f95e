"""The order of members in a board of the oracle, and what a ranking shows of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil

from tests import oracle_decay
from tests.definitions import (
    Card,
    Counted,
    DecayedScore,
    Definition,
    Place,
    Row,
    Score,
    duration_ms,
)


class OracleOrder:
    """Computes rankings from events, and answers from rankings, by a definition of a board."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    def direct(self, score: Score) -> Score:
        """Return a score, or its first columns, with signs changed such that the smaller value of a
        column is always the better one."""
        columns = self.definition.columns
        return type(score)(
            -part if column.order == "desc" else part
            for part, column in zip(score, columns, strict=False)
        )

    def key(self, row: Row) -> tuple[Score, int, bytes]:
        """Return the sort key of a row. In a ranking, keys ascend."""
        turned = {"first": row.stamp, "last": -row.stamp, "member": 0}[self.definition.tie]
        return self.score_key(row), turned, row.member.encode()

    def score_key(self, row: Row) -> Score:
        """Return the part of the sort key that is equal for two members exactly if they have the
        same rank."""
        if row.place is None:
            return self.direct(row.score)
        turned = -1 if self.definition.columns[0].order == "desc" else 1
        return turned * row.place[0], turned * row.place[1]

    def row(self, own: Sequence[Counted]) -> Row | None:
        """Return the row of a member, computed from its own events, or None if it has none."""
        return self._row(own) if own else None

    def _row(self, own: Iterable[Counted]) -> Row:
        own = sorted(own, key=lambda event: (event.at_ms, event.order))
        place = None
        if own[-1].decay is not None:
            half_life_ms, now_ms = own[-1].decay
            total = oracle_decay.total(own, half_life_ms)
            score: Score = DecayedScore([oracle_decay.value_at(total, half_life_ms, now_ms)])
            reached_ms, place = own[-1].at_ms, oracle_decay.place(total)
        elif self.definition.best:
            score = min((event.values for event in own), key=self.direct)
            reached_ms = min(event.at_ms for event in own if event.values == score)
        else:
            score = tuple(
                sum(event.values[i] for event in own) if column.op == "sum" else own[-1].values[i]
                for i, column in enumerate(self.definition.columns)
            )
            reached_ms = own[-1].at_ms
        stamp = reached_ms // duration_ms(self.definition.tie_resolution)
        return Row(own[0].member, score, stamp, place)

    def placed(self, rows: Iterable[Row]) -> list[Place]:
        """Return rows in the order of the ranking, with ranks in the board's style."""
        places: list[Place] = []
        for position, row in enumerate(sorted(rows, key=self.key), start=1):
            rank = position
            if places and self.definition.rank != "ordinal":
                before = places[-1]
                step = {"competition": position, "dense": before.rank + 1}[self.definition.rank]
                same = self.score_key(before.row) == self.score_key(row)
                rank = before.rank if same else step
            places.append(Place(row, position, rank))
        return places

    def ranking(self, counted: Iterable[Counted], *, hide_zero: bool | None = None) -> list[Place]:
        """Return the ranking that results from these events: every member or, with `hide_zero`,
        every member whose score is not 0. If `hide_zero` is None, the board's setting applies."""
        hides = self.definition.hide_zero if hide_zero is None else hide_zero
        own: dict[str, list[Counted]] = {}
        for event in counted:
            own.setdefault(event.member, []).append(event)
        rows = map(self._row, own.values())
        return self.placed(row for row in rows if any(row.score) or not hides)

    def card(self, places: Sequence[Place], member: str) -> Card | None:
        """Return a member's standing in a ranking, or None if the member is not ranked."""
        i = next((i for i, place in enumerate(places) if place.member == member), None)
        if i is None:
            return None
        own = places[i]
        above = places[i - 1] if i > 0 else None
        below = places[i + 1] if i + 1 < len(places) else None
        return Card(
            place=own,
            total=len(places),
            above=None if above is None else (above, self.gap(above.score, own.score)),
            below=None if below is None else (below, self.gap(own.score, below.score)),
            percent=Fraction(100 * own.position, len(places)),
        )

    def around(self, places: Sequence[Place], member: str, radius: int) -> list[Place] | None:
        """Return the 2r+1 entries around a member. At the ends of the ranking, the range is
        shifted."""
        own = next((place for place in places if place.member == member), None)
        if own is None:
            return None
        size = min(2 * radius + 1, len(places))
        start = max(0, min(own.position - 1 - radius, len(places) - size))
        return list(places[start : start + size])

    def gap_to_rank(self, places: Sequence[Place], member: str, rank: int) -> Score:
        """Return how far a ranked member is behind the entry at position `rank`; zero if it is not
        behind it."""
        own = next(place for place in places if place.member == member)
        aim = own if own.position <= rank or rank > len(places) else places[rank - 1]
        return self.gap(aim.score, own.score)

    def friends(self, places: Sequence[Place], members: Iterable[str]) -> list[tuple[Place, Place]]:
        """Return the given members that are ranked, in order. Each has its place in the whole
        ranking and its place among these members."""
        requested = set(members)
        ranked = [place for place in places if place.member in requested]
        return list(zip(ranked, self.placed(place.row for place in ranked), strict=True))

    def between(
        self, places: Sequence[Place], low: Score | None, high: Score | None
    ) -> list[Place]:
        """Return the entries whose score, or the first columns of it, is between two bounds. The
        bounds are included."""
        descending = self.definition.columns[0].order == "desc"
        first, last = (high, low) if descending else (low, high)
        if first is not None and last is not None:
            shared = min(len(first), len(last))
            if self.direct(first[:shared]) > self.direct(last[:shared]):
                first, last = last, first

        def inside(score: Score) -> bool:
            early = first is not None and self.direct(score[: len(first)]) < self.direct(first)
            late = last is not None and self.direct(score[: len(last)]) > self.direct(last)
            return not early and not late

        return [place for place in places if inside(place.score)]

    def at_percentile(self, places: Sequence[Place], percentile: Fraction) -> Score | None:
        """Return the score at a percentile by the nearest-rank method, counted upwards from the
        worst score."""
        if not places:
            return None
        return places[-max(1, ceil(percentile * len(places) / 100))].score

    def gap(self, better: Score, worse: Score) -> Score:
        """Return by how much the better score is ahead, column by column."""
        return self.direct(type(better)(w - b for b, w in zip(better, worse, strict=True)))
