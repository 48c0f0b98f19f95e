"""Answers of queries: entries, standings and pages, and how these are made from words.

Internally, ranks and positions start at 0 and scores are words; here they become the ranks and
scores that users see. Ranks are increased by 1 in this module and nowhere else.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, overload

import msgspec

from laurels.model.answer import Answer
from laurels.model.rules import ColumnRule
from laurels.model.scale import Scale
from laurels.model.score import Score, to_value

from .closing import PeriodState
from .index import Offset, Slice
from .rank import Estimate, Rank


class AsOf(Answer, frozen=True):
    """The state that an answer shows: the offset of the log, and the window and period that were
    read.

    Two answers with the same `as_of` show the same state. The offset of a board in several shards
    is a tuple with a number for each shard. In a window with decay, `now_ms` is the instant for
    which scores are shown. On a board with scopes, `labels` are the labels of the scope, {} for the
    scope of all events; `by` is the label whose values are ranked.
    """

    offset: Offset
    window: str
    period: str | None = None
    now_ms: int | None = None
    labels: dict[str, str] | None = None
    by: str | None = None


class Entry(Answer, frozen=True, omit_defaults=True):
    """A member in a list. `place` is its rank among the requested members, if the query named any.
    If the rank is estimated, it lies from `rank_low` to `rank_high`, and `rank` is the middle."""

    member: str
    rank: int
    score: Score
    data: Any = None
    place: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None


class Neighbour(Answer, frozen=True):
    """The member next to another; `gap` is how far the better of the two is ahead."""

    member: str
    rank: int
    score: Score
    gap: Score


class Gap(Answer, frozen=True):
    """How far a member is behind the member at position `rank`; 0 if it is at that position or
    above.
    """

    rank: int
    gap: Score


class Needed(Answer, frozen=True):
    """The value of one event that, counted now and alone, moves a member to position `rank` or
    better.

    `value` is the value to submit. With several columns it is a tuple, and `column` names the
    column that was varied. `value` is None if `unreachable`: the board takes no events now, or
    every value of that column that would suffice takes some total of the member out of its range.
    """

    rank: int
    column: str
    value: Score | None
    unreachable: bool = False


class Standing(Answer, frozen=True):
    """A member's rank and score in a ranking, with its neighbours and gaps.

    `percent` is the percentage of the members from the top down to this one: 1.0 is "top 1 %". For
    a member below the position `to_rank`, `needed` is the value of one event that takes it there
    now. `needed` is None in past periods, refreshed windows and rankings by a label. A score is an
    int (scale 0) or a Decimal; with several columns it is a tuple. In a window with decay it is a
    Decimal with six more decimal places than the column.

    Below the head of a board the rank may be estimated, in which case `exact` is False: the rank
    certainly lies from `rank_low` to `rank_high`, and `rank` is the middle. `grid_age` is the
    number of changes since these bounds were as close as they can be, None if nothing had to be
    estimated. Below the head a member has no neighbours, and `to_rank` is by default about the last
    position of the head.
    """

    member: str
    rank: int
    score: Score
    total: int
    percent: float
    as_of: AsOf
    rank_low: int
    rank_high: int
    exact: bool = True
    above: Neighbour | None = None
    below: Neighbour | None = None
    to_rank: Gap | None = None
    data: Any = None
    needed: Needed | None = None
    grid_age: int | None = None


class Page(Answer, frozen=True):
    """A part of a ranking: a sequence of its entries.

    `total` counts the whole ranking, `len(page)` the entries of the page; `next` is the cursor of
    the next page, None at the end. `certain` is the number of leading positions that can be listed
    now, or None if all positions can. On a board with a head it is at most the size of the head.
    """

    entries: list[Entry]
    total: int
    as_of: AsOf
    next: str | None = None
    certain: int | None = None

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...
    @overload
    def __getitem__(self, at: str) -> Any: ...
    def __getitem__(self, at: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(at) if isinstance(at, str) else self.entries[at]


class PeriodInfo(Answer, frozen=True):
    """A period that can be read: from `start_ms` up to, not including, `end_ms`.

    It is `final` once no event can change its standings any more. This requires that the grace
    after its end is over, and that every source of the board has passed the end of the grace.
    `waits_for` has the sources that have not passed it or, of a closed period on an index server,
    the ledger into which it has still to be written, as `ledger:main`. If the board stays after its
    `retain` until payouts of the period are confirmed, `waits_for` has only `payouts`.

    `state` is `open` until the end of the period, `grace` until it is final, and then `final`. In a
    window with `archive` or `prizes` it is `closed` instead, and `sealed` once the standings are in
    the archive. `entries` is then the number of entries in all scopes, and `digest` the digest of
    the standings in hexadecimal digits; a period in which nothing was ranked has no digest.
    """

    label: str
    start_ms: int
    end_ms: int
    total: int
    current: bool
    final: bool = False
    waits_for: tuple[str, ...] = ()
    state: PeriodState = "open"
    entries: int | None = None
    digest: str | None = None


FIRST = 1
"""The rank of the first member, as users count it."""


def public_rank(rank: int) -> int:
    """Return a rank as users count it, from 1."""
    return rank + FIRST


def public_ranks(ranks: Iterable[int]) -> list[int]:
    """Return ranks as users count them, from 1."""
    return [rank + FIRST for rank in ranks]


def rank_or_none(rank: int) -> int | None:
    """Return a rank as users count it, None for -1 (not ranked)."""
    return rank + FIRST if rank >= 0 else None


def ranks_or_none(ranks: Iterable[int], highs: Iterable[int] | None = None) -> list[Rank | None]:
    """Return ranks as users count them, None for each -1 (not ranked). If ranks are estimated,
    `ranks` has the lowest possible ranks and `highs` the highest."""
    if highs is None:
        return [rank + FIRST if rank >= 0 else None for rank in ranks]
    return [_between(low, high) for low, high in zip(ranks, highs, strict=True)]


def _between(low: int, high: int) -> Rank | None:
    """Return the rank between `low` and `high`, as users count it; None for -1 (not ranked)."""
    if low < 0 or low == high:
        return rank_or_none(low)
    return Estimate(low + FIRST, high + FIRST)


def words_at(words: Sequence[Sequence[int]], i: int) -> tuple[int, ...]:
    """Return the words of the i-th of several entries that are stored column by column."""
    return tuple([column[i] for column in words])


def decode_data(data_of_members: Sequence[bytes | None]) -> list[Any]:
    """Return the decoded data of members."""
    return [None if data is None else msgspec.json.decode(data) for data in data_of_members]


def range_text(column: ColumnRule) -> str:
    """Return the range of a column as a text for messages."""
    low, high = (to_value(bound, column.scale) for bound in (column.low, column.high))
    return f"{column.name} {low} to {high}"


def standing(
    part: Slice,
    i: int,
    total: int,
    as_of: AsOf,
    scale: Scale,
    to_rank: Gap | None = None,
    data: Any = None,
    needed: Needed | None = None,
) -> Standing:
    """Return the standing of the i-th entry of a slice. The entries next to it become its
    neighbours."""
    members, ranks = part.members, part.ranks
    scores, gaps = scale.scores(part.words), scale.gaps(part.words)
    above = below = None
    if i:
        above = Neighbour(members[i - 1], public_rank(ranks[i - 1]), scores[i - 1], gaps[i - 1])
    if i + 1 < len(members):
        below = Neighbour(members[i + 1], public_rank(ranks[i + 1]), scores[i + 1], gaps[i])
    percent = 100 * (part.start + i + 1) / total
    rank = public_rank(ranks[i])
    return Standing(
        members[i],
        rank,
        scores[i],
        total,
        percent,
        as_of,
        rank,
        rank,
        above=above,
        below=below,
        to_rank=to_rank,
        data=data,
        needed=needed,
    )


def entry(
    member: str, rank: Rank | None, score: Score, data: Any = None, place: int | None = None
) -> Entry:
    """Return the entry of a ranked member, whose rank may be estimated."""
    if isinstance(rank, Estimate):
        return Entry(member, rank.middle, score, data, place, rank.low, rank.high)
    assert rank is not None
    return Entry(member, rank, score, data, place)


def entries(part: Slice, scale: Scale, data: Sequence[Any] | None) -> list[Entry]:
    """Return the entries of a slice, with the members' data if it was requested."""
    scores = scale.scores(part.words)
    ranks = public_ranks(part.ranks)
    if data is None:
        return list(map(Entry, part.members, ranks, scores))
    return list(map(Entry, part.members, ranks, scores, data))
