"""The write rule in its simplest form, written from the documented semantics. The engine's fold is
compared with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from laurels.engine.batch.fold import APPLIED, BEST, OUT_OF_RANGE, SUM, UNCHANGED
from tests.engine.plain import Row


@dataclass
class Kept:
    """The entry of a member in one ranking; columns are signed words."""

    columns: Row
    stamp: int
    newest_at: int


@dataclass
class Event:
    member: int
    values: Row
    at: int
    stamp: int
    absolute: bool = False
    skipped: bool = False
    rankings: Sequence[int] = (0,)
    """For each window, the number of the ranking in which the event counts, or -1 if it counts in
    none."""


@dataclass
class PlainFold:
    ops: Sequence[int]
    lows: Sequence[int]
    highs: Sequence[int]
    tie: int
    all_window: int = -1
    rankings: dict[int, dict[int, Kept]] = field(default_factory=dict)

    def kept(self, ranking: int, member: int) -> Kept | None:
        return self.rankings.get(ranking, {}).get(member)

    def count(self, event: Event) -> int:
        """Count an event in all its windows or, if one of them refuses it, in none. Return its
        status."""
        values = self.relative(event)
        for op, value, low, high in zip(self.ops, values, self.lows, self.highs, strict=True):
            if op != SUM and not low <= value <= high:
                return OUT_OF_RANGE
        news = {r: self.new(r, event, values) for r in event.rankings if r >= 0}
        for new in news.values():
            for value, low, high in zip(new.columns, self.lows, self.highs, strict=True):
                if not low <= value <= high:
                    return OUT_OF_RANGE
        changed = False
        for ranking, new in news.items():
            old = self.kept(ranking, event.member)
            changed |= old is None or old.columns != new.columns
            changed |= old is not None and self.tie != 0 and old.stamp != new.stamp
            self.rankings.setdefault(ranking, {})[event.member] = new
        return APPLIED if changed else UNCHANGED

    def relative(self, event: Event) -> Row:
        """Return the values to add for an event. For an absolute event, the value of a sum column
        becomes the difference to the member's total in the window `all`."""
        if not event.absolute or self.all_window < 0:
            return event.values
        kept = self.kept(event.rankings[self.all_window], event.member)
        have = kept.columns if kept else (0,) * len(self.ops)
        return tuple(
            value - total if op == SUM else value
            for op, value, total in zip(self.ops, event.values, have, strict=True)
        )

    def new(self, ranking: int, event: Event, values: Row) -> Kept:
        old = self.kept(ranking, event.member)
        if BEST in self.ops:
            return self.new_best(old, Kept(values, event.stamp, event.at))
        if old is None:
            return Kept(values, event.stamp, event.at)
        taken = event.at >= old.newest_at
        columns = tuple(
            have + value if op == SUM else (value if taken else have)
            for op, value, have in zip(self.ops, values, old.columns, strict=True)
        )
        return Kept(columns, max(old.stamp, event.stamp), max(old.newest_at, event.at))

    def new_best(self, old: Kept | None, new: Kept) -> Kept:
        if old is None or new.columns < old.columns:
            return new
        if new.columns == old.columns and new.stamp < old.stamp:
            return new
        return old
