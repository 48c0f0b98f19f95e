"""Write sealed periods into a ledger.

A period is written in any number of transactions. It is invisible until `complete`, so it is whole
or absent. The next `begin` of the same revision removes the rows that an interrupted write has
left. If two processes write the same revision, the later `begin` wins, and the other process gets
FinalOvertaken.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from laurels.core.closing import SealedPeriod
from laurels.core.digest import Salts
from laurels.core.sealed_contents import SealedRanking, SealedRevision, SealedRows
from laurels.core.standing import public_rank
from laurels.errors.ledger import FinalOvertaken
from laurels.model.rules import Rules
from laurels.model.scale import Scale, scale_of
from laurels.timeline.instants import MAX_MS

from .dialects import Dialect, Row
from .final_periods import FinalPeriod, row_of_period, seal_text
from .final_tables import WORDS, FinalTables
from .salts_text import decode_salts, encode_salts
from .texts import COLUMNS, escape, ledger_scope, unescape

ROWS_A_STATEMENT = 5_000
RANKINGS_A_STATEMENT = 500


class FinalWriter:
    """Writes sealed periods over a connection, in the transactions of its caller. Every method may
    block."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any) -> None:
        self._dialect = dialect
        self._tables = FinalTables(dialect, prefix)
        self._connection = connection

    def on(self, connection: Any) -> "FinalWriter":
        """Return a writer over another connection."""
        return FinalWriter(self._dialect, self._tables.prefix, connection)

    def begin(
        self,
        revision: SealedRevision,
        board: str,
        definition: bytes,
        rules: Rules,
        closed_ms: int | None = None,
    ) -> "PeriodWriter":
        """Begin to write a revision of a period. Remove the rows that an earlier write of the
        revision has left."""
        self.remove(revision.uid, revision.window, revision.instance, revision.revision)
        number = self.take_numbers(1)
        period = FinalPeriod(number, revision, board, definition, is_current=False)
        row = row_of_period(period, rules, closed_ms)
        self._insert("final_periods", self._tables.periods, [row])
        return PeriodWriter(self, period, rules)

    def lock(self) -> None:
        """Take a lock until the transaction ends. Other callers of `lock` wait for it."""
        self.execute(f"UPDATE {self._tables.name('final_numbers')} SET taken = taken")

    def note_seal(self, number: int, seal: SealedPeriod) -> None:
        """Store the time, the number of entries and the digest of a period, which were not known
        when it was begun."""
        self.execute(
            f"UPDATE {self._tables.name('final_periods')} "
            "SET sealed_at = %s, entries = %s, digest = %s WHERE number = %s",
            *(seal.sealed_ms, seal.entries, seal.digest.hex(), number),
        )

    def complete(self, number: int, revision: SealedRevision) -> None:
        """Make a period visible. Raises FinalOvertaken."""
        table = self._tables.name("final_periods")
        key = (revision.uid, revision.window, revision.instance)
        newest = self.execute(
            f"SELECT max(revision) FROM {table} "
            "WHERE uid = %s AND window_name = %s AND instance = %s AND is_complete = 1",
            *key,
        ).fetchone()[0]
        is_current = newest is None or int(newest) <= revision.revision
        if is_current:
            self.execute(
                f"UPDATE {table} SET is_current = 0 "
                "WHERE uid = %s AND window_name = %s AND instance = %s AND is_current = 1",
                *key,
            )
        done = self.execute(
            f"UPDATE {table} SET is_complete = 1, is_current = %s WHERE number = %s",
            *(int(is_current), number),
        )
        if done.rowcount != 1:
            raise self._overtaken(revision)

    def remove(self, uid: str, window: str, instance: int, revision: int | None = None) -> None:
        """Remove a revision of a period, or all revisions."""
        table = self._tables.name("final_periods")
        which, key = "", [uid, window, instance]
        if revision is not None:
            which, key = " AND revision = %s", [*key, revision]
        numbers = self.execute(
            f"SELECT number FROM {table} "
            f"WHERE uid = %s AND window_name = %s AND instance = %s{which}",
            *key,
        ).fetchall()
        for (number,) in numbers:
            self._remove(number)

    def _remove(self, number: int) -> None:
        """Remove a period with its rankings and entries."""
        name = self._tables.name
        rankings = self.execute(
            f"SELECT ranking FROM {name('final_rankings')} WHERE number = %s", number
        ).fetchall()
        # No subquery, for which MariaDB would read all entries of all periods.
        for start in range(0, len(rankings), RANKINGS_A_STATEMENT):
            chosen = [ranking for (ranking,) in rankings[start : start + RANKINGS_A_STATEMENT]]
            placeholders = ", ".join(["%s"] * len(chosen))
            self.execute(
                f"DELETE FROM {name('final_entries')} WHERE ranking IN ({placeholders})", *chosen
            )
        for table in ("final_heads", "final_rankings", "final_periods"):
            self.execute(f"DELETE FROM {name(table)} WHERE number = %s", number)

    def put_tokens(self, period: FinalPeriod, ranking: SealedRanking) -> None:
        """Replace members by their tokens in a ranking of a complete period. `ranking` describes
        another copy of the ranking, from which these members were erased. The salts of their
        entries are forgotten. A second call changes nothing."""
        table = self._tables.name("final_rankings")
        found = self.execute(
            f"SELECT ranking, full_scope, salts FROM {table} WHERE number = %s AND scope = %s",
            *(period.number, ledger_scope(ranking.scope)),
        ).fetchall()
        for number, scope, text in found:
            if unescape(scope) != ranking.scope:
                continue
            secrets, erased = decode_salts(text)
            new = {each.position: each for each in ranking.erased}
            for each in erased:
                new.pop(each.position, None)
            if not new:
                return
            salts = Salts({(level, at): secret for level, at, secret in secrets})
            for each in new.values():
                salts = salts.without(each.position, ranking.total)
                self.execute(
                    f"UPDATE {self._tables.name('final_entries')} SET member = %s "
                    "WHERE ranking = %s AND position = %s",
                    *(each.token, number, public_rank(each.position)),
                )
            left = [(level, at, secret) for (level, at), secret in sorted(salts.secrets.items())]
            erased = sorted([*erased, *new.values()], key=lambda each: each.position)
            self.execute(
                f"UPDATE {table} SET salts = %s WHERE ranking = %s",
                *(encode_salts(left, erased), number),
            )

    def note_hidden(self, period: FinalPeriod, seal: SealedPeriod) -> None:
        """Remove erased members from the hidden members of a complete period: those that `seal`,
        the seal of another copy of the period, does not have."""
        own = period.revision.seal.hidden
        kept = tuple([member for member in own if member in seal.hidden])
        if kept != own:
            self.execute(
                f"UPDATE {self._tables.name('final_periods')} SET seal = %s WHERE number = %s",
                *(seal_text(replace(seal, hidden=kept)), period.number),
            )

    def hold(self, number: int, revision: SealedRevision) -> None:
        """Lock the row of a period that is being written, until the transaction ends. Raises
        FinalOvertaken."""
        locked = self.execute(
            f"UPDATE {self._tables.name('final_periods')} SET is_complete = 0 WHERE number = %s",
            number,
        )
        if locked.rowcount != 1:
            raise self._overtaken(revision)

    def take_numbers(self, count: int) -> int:
        """Reserve `count` new numbers for periods or rankings, and return the first of them. Other
        writers wait until the transaction ends."""
        table = self._tables.name("final_numbers")
        self.execute(f"UPDATE {table} SET taken = taken + %s", count)
        taken = self.execute(f"SELECT max(taken) FROM {table}").fetchone()[0]
        return int(taken) - count + 1

    def add(self, rankings: list[Row], heads: list[Row], entries: list[Row]) -> None:
        """Add rankings and entries. Rankings of which only the head is stored also get a row in
        `final_heads`."""
        self._insert("final_rankings", self._tables.rankings, rankings)
        self._insert("final_heads", self._tables.heads, heads)
        self._insert("final_entries", self._tables.entries, entries)

    def _insert(self, table: str, types: dict[str, str], rows: list[Row]) -> None:
        """Insert rows, in statements of up to ROWS_A_STATEMENT rows."""
        name = self._tables.name(table)
        for start in range(0, len(rows), ROWS_A_STATEMENT):
            group = rows[start : start + ROWS_A_STATEMENT]
            self._dialect.insert(self._connection, name, types, group)

    def execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)

    def _overtaken(self, revision: SealedRevision) -> FinalOvertaken:
        return FinalOvertaken(
            f"another process writes the same period of the window {revision.window!r}"
        )


class PeriodWriter:
    """Writes the pieces of one period. Each call of `add` must be in the transaction of `begin`, or
    in a transaction that first called `hold`."""

    def __init__(self, writer: FinalWriter, period: FinalPeriod, rules: Rules) -> None:
        self._writer = writer
        self._period = period
        self._rules = rules
        self._ranking: _Entries | None = None

    def on(self, connection: Any) -> "PeriodWriter":
        """Use another connection from now on. Return this object."""
        self._writer = self._writer.on(connection)
        return self

    def hold(self) -> None:
        """Lock the period until the transaction ends. Raises FinalOvertaken."""
        self._writer.hold(self._period.number, self._period.revision)

    def add(self, pieces: Sequence[SealedRanking | SealedRows]) -> None:
        """Write the next pieces."""
        rankings: list[Row] = []
        heads: list[Row] = []
        entries: list[Row] = []
        count = sum(isinstance(piece, SealedRanking) for piece in pieces)
        next_number = self._writer.take_numbers(count) if count else 0
        for piece in pieces:
            if isinstance(piece, SealedRanking):
                number, next_number = next_number, next_number + 1
                rankings.append(_row_of_ranking(number, self._period.number, piece))
                if piece.members is not None:
                    heads.append((number, self._period.number, piece.members))
                scale = scale_of(self._rules, self._period.revision.window, MAX_MS)
                self._ranking = _Entries(number, piece, self._rules, scale)
                continue
            assert self._ranking is not None, "entries come after their ranking"
            entries += self._ranking.rows(piece)
        self._writer.add(rankings, heads, entries)

    def use(self, writer: FinalWriter) -> None:
        """Continue with another writer of the same tables."""
        self._writer = writer

    def complete(self, seal: SealedPeriod | None = None) -> None:
        """Make the period visible. `seal` is required if the seal was not known when the period was
        begun. Raises FinalOvertaken."""
        if seal is not None:
            self._writer.note_seal(self._period.number, seal)
        self._writer.complete(self._period.number, self._period.revision)


def _row_of_ranking(number: int, period: int, ranking: SealedRanking) -> Row:
    scope = ranking.scope
    return (
        *(number, period, ledger_scope(scope), escape(scope)),
        *(ranking.total, ranking.style, ranking.columns, ranking.ordered),
        encode_salts(ranking.secrets, ranking.erased),
    )


class _Entries:
    """Makes the rows of a ranking's entries, in their order."""

    def __init__(self, number: int, ranking: SealedRanking, rules: Rules, scale: Scale) -> None:
        self._number = number
        self._ranking = ranking
        self._rules = rules
        self._scale = scale
        self._position = self._tie_from = self._scores = 0
        self._last: tuple[int, ...] | None = None

    def rows(self, piece: SealedRows) -> list[Row]:
        """Return the rows of the next entries."""
        words = piece.words()
        members = [escape(name.decode()) for name in piece.names()]
        scores = [_padded(score) for score in self._scale.scores(words)]
        reached: list[int | None] = [None] * piece.size
        if self._rules.tie:
            unit = self._rules.tie * self._rules.resolution_ms
            reached = [unit * stamp for stamp in words[self._ranking.ordered - 1]]
        ranks = self._ranks(words)
        first = public_rank(self._position)
        rest = (None,) * (WORDS - len(words))
        rows = [
            (self._number, first + i, member, rank, *score, at, *own, *rest)
            for i, (member, rank, score, at, own) in enumerate(
                zip(members, ranks, scores, reached, zip(*words, strict=True), strict=True)
            )
        ]
        self._position += piece.size
        return rows

    def _ranks(self, words: Sequence[Sequence[int]]) -> list[int]:
        """Return the ranks of the next entries, from 1, in the style of the ranking."""
        style, ranks = self._ranking.style, []
        scores = zip(*words[: self._ranking.columns], strict=True)
        for position, score in enumerate(scores, self._position):
            if score != self._last:
                self._scores += self._last is not None
                self._tie_from, self._last = position, score
            rank = {"ordinal": position, "competition": self._tie_from, "dense": self._scores}
            ranks.append(public_rank(rank[style]))
        return ranks


def _padded(score: Any) -> tuple[Any, ...]:
    """Return the values of all score columns of a row: those of a score, then None for the other
    columns."""
    parts = score if isinstance(score, tuple) else (score,)
    return (*parts, *(None,) * (COLUMNS - len(parts)))
