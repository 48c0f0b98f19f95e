"""The sealed periods of a board as an index, which answers read requests about periods that are no
longer in memory."""

from array import array
from collections.abc import Callable, Mapping, Sequence

from laurels.core.index import Located, Slice
from laurels.core.ranking_key import RankingKey
from laurels.model.rules import Rules

from .ranking import ArchivedRanking
from .segment import ArchivedPeriod

Data = Callable[[int, Sequence[str]], list[bytes | None]]
"""Returns the data of members of a board."""


class ArchivedIndex:
    """Rankings of sealed periods of one board. `periods` has them by window and instance; `data`
    reads the data of members, which is not archived. Each method may raise ArchiveDamaged."""

    def __init__(
        self, rules: Rules, periods: Mapping[tuple[str, int], ArchivedPeriod], data: Data
    ) -> None:
        self._rules = rules
        self._periods = periods
        self.data = data

    def size(self, key: RankingKey) -> int:
        """Return the number of members in a ranking; 0 if it does not exist."""
        ranking = self._ranking(key)
        return 0 if ranking is None else len(ranking)

    def position(self, key: RankingKey, member: bytes) -> int:
        """Return the position of a member, -1 if it is not ranked."""
        ranking = self._ranking(key)
        return -1 if ranking is None else ranking.position(member)

    def positions(self, key: RankingKey, members: Sequence[bytes]) -> list[int]:
        """Return the positions of members, -1 for those that are not ranked."""
        ranking = self._ranking(key)
        return [-1 if ranking is None else ranking.position(member) for member in members]

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        """Return the ranks of members, -1 for those that are not ranked."""
        ranking = self._ranking(key)
        names = [each if isinstance(each, bytes) else each.encode() for each in members]
        return [-1 if ranking is None else ranking.rank(name) for name in names]

    def locate(self, key: RankingKey, members: Sequence[str], *, whole: bool = False) -> Located:
        """Return positions, ranks and words of members."""
        ranking = self._ranking(key)
        if ranking is not None:
            return ranking.locate(members, whole=whole)
        width = self._rules.order_words(key.window) + (whole and self._rules.is_stamped)
        absent = [-1] * len(members)
        words = [array("q", bytes(8 * len(members))) for _ in range(width)]
        return Located(absent, absent, words)

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), as far as they exist."""
        ranking = self._ranking(key)
        if ranking is None:
            return Slice(0, [], [], [[]] * self._rules.order_words(key.window))
        return ranking.slice(start, stop)

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        """Return the number of entries before a bound; see `Index.bound`."""
        ranking = self._ranking(key)
        return 0 if ranking is None else ranking.bound(words, member, right=right)

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        """Return no scopes: the index in memory lists the scopes of a board."""
        return []

    def _ranking(self, key: RankingKey) -> ArchivedRanking | None:
        return self._periods[key.window, key.instance].ranking(key.scope)
