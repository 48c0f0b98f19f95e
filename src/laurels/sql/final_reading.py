"""Read sealed periods from a ledger.

A ranking in a ledger gives the same answers as a ranking in memory. A member, a position or a page
is found by one index of `final_entries`. The number of entries before a score is found by reading
256 entries at a time, which takes 3 reads up to 16 million entries. Positions and ranks start at 0
here.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from laurels.core.index import Located, Neighbourhood, Slice
from laurels.core.sealed_contents import SealedRanking, SealedRows, sealed_rows
from laurels.core.standing import FIRST

from .dialects import Dialect, Row
from .final_periods import SELECTED, FinalPeriod, period_of_row
from .final_tables import WORDS, FinalTables
from .salts_text import decode_salts
from .texts import escape, ledger_scope, unescape

AT_ONCE = 1_000
"""The maximum number of members that are looked up in one statement."""
PROBES = 256
"""The number of entries that are read at once in the search for a score."""
CHUNK = 4_096
_RANKING = ", ".join(
    [
        *("r.ranking", "r.full_scope", "r.total", "r.style", "r.score_words", "r.order_words"),
        *("r.salts", "h.members"),
    ]
)
_WORDS = ", ".join([f"word_{i + 1}" for i in range(WORDS)])
_ENTRY = f"position, member, rank_number, {_WORDS}"


class FinalReader:
    """Reads sealed periods over a connection, in the transactions of its caller. Every method may
    block."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any) -> None:
        self._dialect = dialect
        self._tables = FinalTables(dialect, prefix)
        self._connection = connection

    def periods(self, uid: str, window: str | None = None) -> list[FinalPeriod]:
        """Return all revisions of the sealed periods of a board, in the order of their windows,
        instances and revisions."""
        which, key = "", [uid]
        if window is not None:
            which, key = " AND window_name = %s", [uid, window]
        return [
            period_of_row(row)
            for row in self._rows(
                f"SELECT {SELECTED} FROM {self._tables.name('final_periods')} "
                f"WHERE uid = %s{which} AND is_complete = 1 "
                "ORDER BY window_name, instance, revision",
                key,
            )
        ]

    def period(
        self, uid: str, window: str, instance: int, revision: int | None = None
    ) -> FinalPeriod | None:
        """Return a revision of a sealed period, by default the newest one; None if there is
        none."""
        which, key = "is_current = 1", [uid, window, instance]
        if revision is not None:
            which, key = "revision = %s", [*key, revision]
        rows = self._rows(
            f"SELECT {SELECTED} FROM {self._tables.name('final_periods')} "
            f"WHERE uid = %s AND window_name = %s AND instance = %s AND is_complete = 1 "
            f"AND {which}",
            key,
        )
        return period_of_row(rows[0]) if rows else None

    def ranking(self, period: FinalPeriod, scope: str) -> "FinalRanking | None":
        """Return the ranking of a scope; None if nobody is ranked in it."""
        rows = self._rows(
            f"SELECT {_RANKING} FROM {self._with_heads} "
            "WHERE r.number = %s AND r.scope = %s AND r.full_scope = %s",
            (period.number, ledger_scope(scope), escape(scope)),
        )
        return self._ranking(rows[0]) if rows else None

    def rankings(self, period: FinalPeriod) -> list["FinalRanking"]:
        """Return all rankings of a period, in the order of their scopes."""
        rows = self._rows(
            f"SELECT {_RANKING} FROM {self._with_heads} WHERE r.number = %s",
            (period.number,),
        )
        return sorted(map(self._ranking, rows), key=lambda each: each.form.scope)

    def pieces(self, period: FinalPeriod) -> Iterator[SealedRanking | SealedRows]:
        """Yield the rankings and entries of a period, from which its digest can be computed."""
        for ranking in self.rankings(period):
            yield ranking.form
            yield from ranking.pieces()

    @property
    def _with_heads(self) -> str:
        rankings, heads = self._tables.name("final_rankings"), self._tables.name("final_heads")
        return f"{rankings} r LEFT JOIN {heads} h ON h.ranking = r.ranking"

    def _ranking(self, row: Row) -> "FinalRanking":
        number, scope, total, style, columns, ordered, salts, members = row
        secrets, erased = decode_salts(salts)
        form = SealedRanking(
            unescape(scope), style, int(columns), int(ordered), int(total), secrets, erased
        )
        if members is not None:
            form = replace(form, members=int(members))
        return FinalRanking(self, int(number), form)

    def entries(self, ranking: int, where: str, row: Sequence[Any]) -> list[Row]:
        """Return the rows of some entries of a ranking, in no order."""
        table = self._tables.name("final_entries")
        return self._rows(
            f"SELECT {_ENTRY} FROM {table} WHERE ranking = %s AND {where}", (ranking, *row)
        )

    def _rows(self, statement: str, row: Sequence[Any]) -> list[Row]:
        return list(self._dialect.execute(self._connection, statement, row).fetchall())


class FinalRanking:
    """A ranking of a sealed period in a ledger."""

    def __init__(self, reader: FinalReader, number: int, form: SealedRanking) -> None:
        self._reader = reader
        self._number = number
        self._erased = {each.position for each in form.erased}
        self.form = form

    def __len__(self) -> int:
        return self.form.total

    def position(self, member: bytes) -> int:
        """Return the position of a member, -1 if it is not ranked. One index lookup."""
        found = self._find([member.decode()])
        return next(iter(found.values()))[0] - FIRST if found else -1

    def rank(self, member: bytes) -> int:
        """Return the rank of a member, -1 if it is not ranked. One index lookup."""
        found = self._find([member.decode()])
        return next(iter(found.values()))[2] - FIRST if found else -1

    def slice(self, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), as far as they exist. One
        range of an index."""
        start = min(max(0, start), self.form.total)
        stop = min(stop, self.form.total)
        rows: list[Row] = []
        if start < stop:
            rows = self._reader.entries(
                self._number,
                "position >= %s AND position < %s",
                (start + FIRST, stop + FIRST),
            )
        rows.sort(key=lambda row: row[0])
        members = [unescape(row[1]) for row in rows]
        ranks = [row[2] - FIRST for row in rows]
        return Slice(start, members, ranks, _words(rows) or [[]] * self.form.ordered)

    def locate(self, members: Sequence[str], *, whole: bool) -> Located:
        """Return positions, ranks and words of members; with `whole` all words, otherwise those
        that decide the order. One index lookup for each member."""
        found = self._find(members)
        width = len(_words(list(found.values()))) or self.form.ordered
        width = width if whole else self.form.ordered
        columns = [array("q", bytes(8 * len(members))) for _ in range(width)]
        positions, ranks = [-1] * len(members), [-1] * len(members)
        for i, member in enumerate(members):
            if (row := found.get(member)) is None:
                continue
            positions[i], ranks[i] = row[0] - FIRST, row[2] - FIRST
            for column, word in zip(columns, row[3:], strict=False):
                column[i] = word
        return Located(positions, ranks, columns)

    def neighbourhood(self, member: str) -> Neighbourhood | None:
        """Return a member with its neighbours, None if it is not ranked. Two index lookups."""
        position = self.position(member.encode())
        if position < 0:
            return None
        return Neighbourhood(len(self), position, self.slice(max(0, position - 1), position + 2))

    def bound(self, words: Sequence[int], member: bytes | None = None, *, right: bool) -> int:
        """Return the number of entries that sort before the given leading words and member. With
        `right`, equal entries are counted, too. O(log(entries)) reads, of PROBES entries each."""
        wanted, low, high = tuple(words), 0, self.form.total
        while low < high:
            step = -(-(high - low) // PROBES)
            probes = range(low + step - 1, high, step)
            placeholders = ", ".join(["%s"] * len(probes))
            rows = self._reader.entries(
                self._number,
                f"position IN ({placeholders})",
                [position + FIRST for position in probes],
            )
            for row in sorted(rows, key=lambda row: row[0]):
                if not self._is_before(row, wanted, member, right=right):
                    high = row[0] - FIRST
                    break
                low = row[0] - FIRST + 1
            else:
                # the last probe is before it; fewer than `step` entries are left
                high = min(high, low + step - 1)
        return low

    def pieces(self) -> Iterator[SealedRows]:
        """Yield all entries, in ranking order."""
        for start in range(0, self.form.total, CHUNK):
            part = self.slice(start, start + CHUNK)
            yield sealed_rows([member.encode() for member in part.members], part.words)

    def _find(self, members: Sequence[str]) -> dict[str, Row]:
        """Return the rows of these members, by member. Members that are not ranked are left out."""
        found: dict[str, Row] = {}
        for start in range(0, len(members), AT_ONCE):
            some = members[start : start + AT_ONCE]
            placeholders = ", ".join(["%s"] * len(some))
            rows = self._reader.entries(
                self._number, f"member IN ({placeholders})", [escape(each) for each in some]
            )
            found |= {unescape(row[1]): row for row in rows}
        return found

    def _is_before(
        self, row: Row, words: tuple[int, ...], member: bytes | None, *, right: bool
    ) -> bool:
        """Return whether an entry is before the given words and member. Entries with equal words
        are sorted by member, but an erased entry stays at its place, where its token is out of
        order. So an erased entry counts as before if the next entry that is not erased has equal
        words and is before."""
        own = row[3 : 3 + len(words)]
        if own != words:
            return bool(own < words)
        if member is None:
            return right
        position = row[0] - FIRST
        if position in self._erased:
            while position in self._erased:
                position += 1
            found = self._reader.entries(self._number, "position = %s", [position + FIRST])
            if not found or found[0][3 : 3 + len(words)] != words:
                return False
            row = found[0]
        own_member = unescape(row[1]).encode()
        return right if member == own_member else own_member < member


def _words(rows: Sequence[Row]) -> list[Sequence[int]]:
    """Return the words of rows, column by column. Columns that the ranking does not use are left
    out."""
    columns = list(zip(*[row[3:] for row in rows], strict=True))
    return [column for column in columns if column[0] is not None]
