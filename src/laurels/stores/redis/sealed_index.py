"""Sealed periods in a ledger as an index, from which read requests are answered."""

from array import array
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from laurels.core.archived_requests import PeriodPlace
from laurels.core.index import Located, Slice
from laurels.core.period_awards import SealedPlace, SealedStandings
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest, ReadResult, find_in
from laurels.errors import ArchiveDamaged, BeyondHead
from laurels.model.prizes import Prizes
from laurels.model.rules import Rules
from laurels.model.validation import quoted
from laurels.sql.final_periods import FinalPeriod
from laurels.sql.final_reading import FinalRanking, FinalReader


class SealedIndex:
    """Rankings of sealed periods of one board. `revisions` has the revision of each period that is
    read. Each method may raise ArchiveDamaged, and the errors of the database."""

    def __init__(
        self, reader: FinalReader, uid: str, rules: Rules, revisions: Mapping[PeriodPlace, int]
    ) -> None:
        self._reader = reader
        self._uid = uid
        self._rules = rules
        self._revisions = revisions
        self._periods: dict[PeriodPlace, FinalPeriod] = {}
        self._rankings: dict[RankingKey, FinalRanking | None] = {}

    def size(self, key: RankingKey) -> int:
        """Return the number of members in a ranking; 0 if it does not exist."""
        ranking = self._ranking(key)
        if ranking is None:
            return 0
        return len(ranking) if ranking.form.members is None else ranking.form.members

    def certain(self, key: RankingKey) -> int | None:
        """Return the number of leading entries that the ledger has of a ranking; None if it has
        all."""
        ranking = self._ranking(key)
        return None if ranking is None or ranking.form.members is None else len(ranking)

    def find(self, request: ReadRequest) -> ReadResult:
        """Answer a request for a ranking. Raises BeyondHead for members below the entries that the
        ledger has."""
        found, certain = find_in(self, request), self.certain(request.key)
        return found if certain is None else replace(found, certain=certain)

    def position(self, key: RankingKey, member: bytes) -> int:
        """Return the position of a member, -1 if it is not ranked."""
        return self.positions(key, [member])[0]

    def positions(self, key: RankingKey, members: Sequence[bytes]) -> list[int]:
        """Return the positions of members, -1 for those that are not ranked."""
        return [*self.locate(key, [member.decode() for member in members]).positions]

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        """Return the ranks of members, -1 for those that are not ranked."""
        names = [each.decode() if isinstance(each, bytes) else each for each in members]
        return [*self.locate(key, names).ranks]

    def locate(self, key: RankingKey, members: Sequence[str], *, whole: bool = False) -> Located:
        """Return positions, ranks and words of members."""
        ranking = self._ranking(key)
        if ranking is not None:
            located = ranking.locate(members, whole=whole)
            if ranking.form.members is not None and min(located.positions, default=0) < 0:
                raise BeyondHead(
                    f"expected members among the first {len(ranking):,} of "
                    f"{ranking.form.members:,}, of which the archive has the standings, got others"
                )
            return located
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

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]:
        """Return no data: the standings in a ledger do not have the data of members."""
        return [None] * len(members)

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        """Return no scopes: the index server lists the scopes of a board."""
        return []

    def _ranking(self, key: RankingKey) -> FinalRanking | None:
        if key not in self._rankings:
            period = self.period(key.window, key.instance)
            self._rankings[key] = self._reader.ranking(period, key.scope)
        return self._rankings[key]

    def period(self, window: str, instance: int) -> FinalPeriod:
        """Return the revision of a period from which this index reads."""
        place = window, instance
        if place not in self._periods:
            revision = self._revisions[place]
            period = self._reader.period(self._uid, window, instance, revision)
            if period is None:
                raise ArchiveDamaged(
                    f"the ledger has no standings of the window {quoted(window)} from {instance}, "
                    f"revision {revision}, of the board with the uid {self._uid}"
                )
            self._periods[place] = period
        return self._periods[place]


def ledger_standings(
    reader: FinalReader,
    place: SealedPlace,
    board: str,
    rules: Rules,
    prizes: Prizes | None,
    final_ms: int,
) -> SealedStandings:
    """Return a revision of a period that is complete in a ledger; see `SealedStandings`. Raises
    ArchiveDamaged."""
    revisions = {(place.window, place.instance): place.revision}
    index = SealedIndex(reader, place.uid, rules, revisions)
    period = index.period(place.window, place.instance)
    scopes = [ranking.form.scope for ranking in reader.rankings(period)]
    label = rules.windows[place.window].period_of(place.instance).label
    return SealedStandings(place, index.find, scopes, board, rules, prizes, label, final_ms)
