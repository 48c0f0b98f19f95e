"""Awards: who receives which prizes of a period, decided from its standings. Pure.

A prize is for the positions from its `first` up to, not including, its `end` (`PrizeSpan`). Members
with equal columns are a tie group, whatever the rank style. With ties `first` each position counts
alone. With `all` every member of a group has the prizes of the group's best position, and no
others. With `split` each prize is divided on its own: its amount is multiplied by the number of the
group's positions that it covers, and the product is shared equally among the group. The remainder
goes to the first members, one unit each.

Only the leading part of the standings that can win is needed: the positions of all spans and,
unless ties are `first`, the rest of the last tie group that reaches into them.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil

from msgspec import Struct

from laurels.model.prizes import Prize, Prizes


class PrizeSpan(Struct, frozen=True):
    """The positions that a prize is for, from `first` up to, not including, `end`, counted from
    0."""

    prize: Prize
    first: int
    end: int


class TieGroup(Struct, frozen=True):
    """The positions of members with equal columns, from `start` up to, not including, `end`."""

    start: int
    end: int


class Win(Struct, frozen=True):
    """A prize that a member wins, at a position counted from 0. `units` is the amount in units of
    10^-scale, None for a prize without an amount."""

    member: str
    position: int
    prize: Prize
    units: int | None


def prize_spans(prizes: Prizes, total: int, reached: Sequence[int]) -> list[PrizeSpan]:
    """Return the positions of each prize in a ranking of `total` members.

    `reached` has, for each prize with `at_least`, the number of members that have reached its
    score, in the order of the definition.
    """
    counts = iter(reached)
    spans = []
    for prize in prizes.list:
        if prize.ranks is not None:
            first, last = prize.ranks
            span = PrizeSpan(prize, min(first - 1, total), min(last, total))
        elif prize.percent is not None:
            span = PrizeSpan(prize, 0, ceil(Fraction(prize.percent) * total / 100))
        else:
            span = PrizeSpan(prize, 0, next(counts))
        spans.append(span)
    return spans


def end_of(spans: Iterable[PrizeSpan]) -> int:
    """Return the position after the last one for which there is a prize; 0 if there is none."""
    return max((span.end for span in spans if span.first < span.end), default=0)


def wins(
    prizes: Prizes, spans: Sequence[PrizeSpan], group: TieGroup, members: Sequence[str], start: int
) -> Iterator[Win]:
    """Yield the prizes that some members of a tie group win, by position and then in the order of
    the prizes.

    `members` are consecutive members of the group, the first one at position `start`.
    """
    for position, member in enumerate(members, start):
        if prizes.ties == "split":
            yield from _shares(spans, group, member, position)
        else:
            decisive = position if prizes.ties == "first" else group.start
            for span in spans:
                if span.first <= decisive < span.end:
                    yield Win(member, position, span.prize, span.prize.amount_units)


def _shares(
    spans: Sequence[PrizeSpan], group: TieGroup, member: str, position: int
) -> Iterator[Win]:
    """Yield the shares of one member of a tie group in each prize. Shares of 0 are left out."""
    size = group.end - group.start
    for span in spans:
        covered = min(span.end, group.end) - max(span.first, group.start)
        if covered <= 0:
            continue
        amount = span.prize.amount_units
        assert amount is not None, "with ties split every prize has an amount"
        share, rest = divmod(amount * covered, size)
        units = share + (position - group.start < rest)
        if units:
            yield Win(member, position, span.prize, units)
