"""A ranking read as if the entries of one interval of positions did not exist."""

from collections.abc import Sequence
from itertools import chain

from .index import Located, RankingIndex, Slice
from .ranking_key import RankingKey


class WithoutInterval:
    """The ranking `key` of an index without the entries at positions `first` to `past` (exclusive).
    There must be at least one of these entries. No entry before `first` may have the same rank as
    an entry from `past` on. The ranking must not change while this view is in use."""

    def __init__(self, index: RankingIndex, key: RankingKey, first: int, past: int) -> None:
        self._index = index
        self._first, self._past, self._gap = first, past, past - first
        self._least_rank = index.slice(key, first, first + 1).ranks[0]
        after = index.slice(key, past, past + 1).ranks
        self._rank_past = after[0] if after else self._least_rank + self._gap
        self._rank_gap = self._rank_past - self._least_rank

    def size(self, key: RankingKey) -> int:
        """Return the number of remaining entries."""
        return self._index.size(key) - self._gap

    def position(self, key: RankingKey, member: bytes) -> int:
        """Return the position of a member, -1 if it is not among the remaining entries."""
        return self._own_position(self._index.position(key, member))

    def positions(self, key: RankingKey, members: Sequence[bytes]) -> list[int]:
        """Return the positions of members, -1 for those that are not among the remaining
        entries."""
        return list(map(self._own_position, self._index.positions(key, members)))

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        """Return the ranks of members, -1 for those that are not among the remaining entries."""
        return list(map(self._own_rank, self._index.ranks(key, members)))

    def locate(self, key: RankingKey, members: Sequence[str], *, whole: bool = False) -> Located:
        """Return positions, ranks and words of members."""
        located = self._index.locate(key, members, whole=whole)
        positions = list(map(self._own_position, located.positions))
        ranks = list(map(self._own_rank, located.ranks))
        return Located(positions, ranks, located.words)

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), as far as they exist."""
        if stop <= self._first:
            return self._index.slice(key, start, stop)
        after = self._index.slice(key, max(start, self._first) + self._gap, stop + self._gap)
        ranks = [rank - self._rank_gap for rank in after.ranks]
        if start >= self._first:
            return Slice(after.start - self._gap, after.members, ranks, after.words)
        before = self._index.slice(key, start, self._first)
        words = [list(chain(*columns)) for columns in zip(before.words, after.words, strict=True)]
        members = before.members + after.members
        return Slice(before.start, members, [*before.ranks, *ranks], words)

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        """Return the number of remaining entries before a bound; see `Index.bound`."""
        position = self._index.bound(key, words, member, right=right)
        return position - min(max(0, position - self._first), self._gap)

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]:
        """Return the data of members, None for each member without data."""
        return self._index.data(board, members)

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        """Return the next scopes of a form, as the index lists them."""
        return self._index.scopes(board, form, after, limit)

    def _own_position(self, position: int) -> int:
        if position < self._first:
            return position
        return -1 if position < self._past else position - self._gap

    def _own_rank(self, rank: int) -> int:
        if rank < self._least_rank:
            return rank
        return -1 if rank < self._rank_past else rank - self._rank_gap
