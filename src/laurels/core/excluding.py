"""A ranking read as if some of its members did not exist."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from .hidden import Exclusion
from .index import Located, RankingIndex, Slice
from .ranking_key import RankingKey

ALL_POSITIONS = 8
"""If there are fewer excluded members than this number times the positions that a call converts,
the positions of all excluded members are read at once."""


class WithoutMembers:
    """The ranking `key` of an index without the excluded members. The ranking must not change while
    this view is in use.

    A *stored* position or rank is one in the index, which also has the excluded members. To convert
    a stored position, a binary search among the excluded members, in their order, finds how many of
    them precede it. This takes O(log(excluded) * log(n)).
    """

    def __init__(self, index: RankingIndex, key: RankingKey, exclusion: Exclusion) -> None:
        self._index = index
        self._key = key
        self._members = exclusion.members
        self._order = exclusion.order(index, key)
        self._is_dense = exclusion.is_dense
        self._positions: list[int | None] = [None] * len(self._order)
        self._is_read = False
        self._lost_ranks: list[int] | None = None

    def size(self, key: RankingKey) -> int:
        """Return the number of remaining entries."""
        return self._index.size(key) - len(self._order)

    def position(self, key: RankingKey, member: bytes) -> int:
        """Return the position of a member, -1 if it is not among the remaining entries."""
        if member in self._members:
            return -1
        return self._remaining(self._index.position(key, member))

    def positions(self, key: RankingKey, members: Sequence[bytes]) -> list[int]:
        """Return the positions of members, -1 for those that are not among the remaining
        entries."""
        self._prepare(len(members))
        stored = self._index.positions(key, members)
        return [
            -1 if member in self._members else self._remaining(position)
            for member, position in zip(members, stored, strict=True)
        ]

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        """Return the ranks of members, -1 for those that are not among the remaining entries."""
        self._prepare(len(members))
        return self._without_hidden(members, self._index.ranks(key, members), self._own_rank)

    def locate(self, key: RankingKey, members: Sequence[str], *, whole: bool = False) -> Located:
        """Return positions, ranks and words of members."""
        self._prepare(len(members))
        located = self._index.locate(key, members, whole=whole)
        positions = self._without_hidden(members, located.positions, self._remaining)
        ranks = self._without_hidden(members, located.ranks, self._own_rank)
        return Located(positions, ranks, located.words)

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), as far as they exist."""
        size = self.size(key)
        start = min(max(0, start), size)
        stop = max(start, min(stop, size))
        if start == stop:
            empty = self._index.slice(key, 0, 0)
            return Slice(start, [], [], empty.words)
        part = self._index.slice(key, self._stored(start), self._stored(stop - 1) + 1)
        members, stored_ranks, words = part.members, part.ranks, part.words
        if len(members) > stop - start:
            kept = [i for i, each in enumerate(members) if each.encode() not in self._members]
            members = [members[i] for i in kept]
            stored_ranks = [stored_ranks[i] for i in kept]
            words = [[column[i] for i in kept] for column in words]
        own = {rank: self._own_rank(rank) for rank in {*stored_ranks}}
        return Slice(start, members, [own[rank] for rank in stored_ranks], words)

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        """Return the number of remaining entries before a bound; see `Index.bound`."""
        return self._remaining(self._index.bound(key, words, member, right=right))

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]:
        """Return the data of members, None for each member without data."""
        return self._index.data(board, members)

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        """Return the next scopes of a form, as the index lists them."""
        return self._index.scopes(board, form, after, limit)

    def _without_hidden(
        self,
        members: Sequence[str] | Sequence[bytes],
        stored: Sequence[int],
        convert: Callable[[int], int],
    ) -> list[int]:
        """Convert the stored positions or ranks of members to those among the remaining entries; -1
        for the excluded members."""
        return [
            -1
            if (member.encode() if isinstance(member, str) else member) in self._members
            else convert(each)
            for member, each in zip(members, stored, strict=True)
        ]

    def _prepare(self, conversions: int) -> None:
        """Read the positions of all excluded members at once, if that is cheaper than reading some
        of them one by one for each of `conversions` positions to convert."""
        if not self._is_read and conversions * ALL_POSITIONS > len(self._order):
            self._is_read = True
            self._positions = [*self._index.positions(self._key, self._order)]

    def _position_at(self, i: int) -> int:
        """Return the stored position of the i-th excluded member."""
        position = self._positions[i]
        if position is None:
            position = self._positions[i] = self._index.position(self._key, self._order[i])
        return position

    def _count_before(self, position: int) -> int:
        """Return the number of excluded members before a stored position."""
        return bisect_left(range(len(self._order)), position, key=self._position_at)

    def _remaining(self, position: int) -> int:
        """Convert the stored position of a remaining entry to its position among the remaining
        entries; -1 stays -1."""
        return position if position < 0 else position - self._count_before(position)

    def _stored(self, position: int) -> int:
        """Convert a position among the remaining entries to the stored position of that entry."""
        each = range(len(self._order))
        skipped = bisect_left(each, position + 1, key=lambda i: self._position_at(i) - i)
        return position + skipped

    def _own_rank(self, rank: int) -> int:
        """Convert the stored rank of a remaining entry to its rank among the remaining entries; -1
        stays -1. A rank that is not dense is the position of the first entry with this rank, so it
        is converted like a position."""
        if rank < 0 or not self._is_dense:
            return self._remaining(rank)
        if self._lost_ranks is None:
            self._lost_ranks = self._find_lost_ranks()
        return rank - bisect_left(self._lost_ranks, rank)

    def _find_lost_ranks(self) -> list[int]:
        """Return the stored dense ranks that only excluded members have. O(excluded)."""
        self._prepare(len(self._order))
        by_rank: dict[int, list[int]] = {}
        ranks = self._index.ranks(self._key, self._order)
        for i, rank in enumerate(ranks):
            by_rank.setdefault(rank, []).append(self._position_at(i))
        return [rank for rank, excluded in by_rank.items() if self._is_lost(rank, excluded)]

    def _is_lost(self, rank: int, excluded: Sequence[int]) -> bool:
        """Return whether all entries with a stored dense rank are excluded. `excluded` has the
        positions of the excluded entries with this rank, in ascending order."""
        first, last = excluded[0], excluded[-1]
        if last - first + 1 > len(excluded):
            return False
        beside = self._index.slice(self._key, last + 1, last + 2).ranks
        if first:
            beside = [*self._index.slice(self._key, first - 1, first).ranks, *beside]
        return rank not in beside
