"""The tables of sealed periods, payouts and hidden members in a ledger.

A revision of a sealed period is a row of `final_periods`. Each of its rankings is a row of
`final_rankings`, and each entry of a ranking is a row of `final_entries`. The view
`final_standings` joins the three, and is what people read. A period may be written in several
transactions: it is in the view, and counts as existing, once its row `is_complete`. The only row of
`final_numbers` has the greatest number that a period or a ranking was given; no number is given
twice.
"""

from msgspec import Struct

from .dialects import Dialect
from .texts import COLUMNS

WORDS = 6
"""The maximum number of words of an entry: those of the score, the tie stamp and the exact time."""


class FinalTables(Struct, frozen=True):
    """The tables of sealed periods, payouts and hidden members in one database. The names of the
    tables begin with `prefix`. Each property describes one table: it has the SQL types of the
    columns, by the names of the columns."""

    dialect: Dialect
    prefix: str

    def name(self, table: str) -> str:
        """Return the full name of a table."""
        return self.prefix + table

    @property
    def periods(self) -> dict[str, str]:
        """`final_periods` has a row for each revision of a sealed period. `number` is how the
        rankings refer to it. `definition` is the definition of the board as JSON, and `seal` has
        the hidden members and the prizes at the closing, as JSON."""
        name = f"{self.dialect.key_name} NOT NULL"
        return {
            "uid": name,
            "window_name": name,
            "instance": "bigint NOT NULL",
            "revision": "integer NOT NULL",
            "number": "bigint NOT NULL",
            "board": name,
            "period": name,
            "starts_at": "bigint NOT NULL",
            "ends_at": "bigint NOT NULL",
            "closed_at": "bigint",
            "sealed_at": "bigint NOT NULL",
            "entries": "bigint NOT NULL",
            "digest": name,
            "is_current": "smallint NOT NULL",
            "is_complete": "smallint NOT NULL",
            "definition": f"{self.dialect.long_text} NOT NULL",
            "seal": f"{self.dialect.long_text} NOT NULL",
        }

    @property
    def rankings(self) -> dict[str, str]:
        """`final_rankings` has a row for each ranking of a revision. `scope` is written as in the
        table `scores`, or as `@room` for a ranking by a label; `full_scope` is the text that the
        digest contains. `salts` is JSON with the secrets from which the salts are computed and, if
        there are any, the erased entries (see `salts_text`)."""
        return {
            "ranking": "bigint NOT NULL",
            "number": "bigint NOT NULL",
            "scope": f"{self.dialect.key_text} NOT NULL",
            "full_scope": f"{self.dialect.long_text} NOT NULL",
            "total": "bigint NOT NULL",
            "style": f"{self.dialect.key_name} NOT NULL",
            "score_words": "smallint NOT NULL",
            "order_words": "smallint NOT NULL",
            "salts": f"{self.dialect.long_text} NOT NULL",
        }

    @property
    def entries(self) -> dict[str, str]:
        """`final_entries` has a row for each entry of a ranking. Positions and ranks start at 1.
        The words are those of which the digest is made (`model.score`)."""
        return {
            "ranking": "bigint NOT NULL",
            "position": "bigint NOT NULL",
            "member": f"{self.dialect.key_text} NOT NULL",
            "rank_number": "bigint NOT NULL",
            **{f"score_{i + 1}": self.dialect.number for i in range(COLUMNS)},
            "reached_at": "bigint",
            **{f"word_{i + 1}": "bigint" for i in range(WORDS)},
        }

    @property
    def heads(self) -> dict[str, str]:
        """`final_heads` has a row for each ranking of which only the first entries are stored.
        `members` is the number of all ranked members."""
        return {
            "ranking": "bigint NOT NULL",
            "number": "bigint NOT NULL",
            "members": "bigint NOT NULL",
        }

    @property
    def payouts(self) -> dict[str, str]:
        """`payouts` has a row for each payout. `payout` is the SHA-256 of the id, since an id may
        be longer than a key. `units` is the exact amount in units of 10^-scale."""
        name = f"{self.dialect.key_name} NOT NULL"
        return {
            "payout": name,
            "id": f"{self.dialect.long_text} NOT NULL",
            "uid": name,
            "board": name,
            "window_name": name,
            "instance": "bigint NOT NULL",
            "period": name,
            "revision": "integer NOT NULL",
            "scope": f"{self.dialect.key_text} NOT NULL",
            "full_scope": f"{self.dialect.long_text} NOT NULL",
            "member": f"{self.dialect.key_text} NOT NULL",
            "prize": f"{self.dialect.key_text} NOT NULL",
            "position": "bigint NOT NULL",
            "amount": self.dialect.number,
            "units": "bigint",
            "scale": "smallint NOT NULL",
            "data": self.dialect.long_text,
            "withdrawn": "smallint NOT NULL",
            "corrects": self.dialect.long_text,
            "made_at": "bigint NOT NULL",
            "due_at": "bigint NOT NULL",
            "superseded_by": "integer",
            "reference": self.dialect.long_text,
            "confirmed_at": "bigint",
            "version": "bigint NOT NULL",
        }

    @property
    def closed(self) -> dict[str, str]:
        """`closed_periods` has a row for each closed period of which `scores` has entries. These
        entries no longer change."""
        name = f"{self.dialect.key_name} NOT NULL"
        return {
            "board": name,
            "window_name": name,
            "period": name,
            "period_start": "bigint",
            "closed_at": "bigint",
            "version": "bigint NOT NULL",
        }

    @property
    def hidden(self) -> dict[str, str]:
        """`hidden` has a row for each hidden member of a board."""
        return {
            "board": f"{self.dialect.key_name} NOT NULL",
            "member": f"{self.dialect.key_text} NOT NULL",
            "reason": self.dialect.long_text,
            "since_at": "bigint NOT NULL",
            "until_at": "bigint",
            "version": "bigint NOT NULL",
        }

    def statements(self) -> list[str]:
        """Return the statements that create missing tables."""
        return [
            self._create_table(
                "final_periods",
                self.periods,
                "uid, window_name, instance, revision",
                "number",
                "board, window_name, period, revision, uid",
            ),
            self._create_table("final_rankings", self.rankings, "ranking", "number, scope"),
            self._create_table(
                "final_entries", self.entries, "ranking, position", "ranking, member"
            ),
            self._create_table("final_heads", self.heads, "ranking", "number, ranking"),
            self._create_table("payouts", self.payouts, "payout"),
            self._create_table("closed_periods", self.closed, "board, window_name, period"),
            self._create_table("hidden", self.hidden, "board, member"),
            f"CREATE TABLE IF NOT EXISTS {self.name('final_numbers')} (taken bigint NOT NULL)",
        ]

    def view_statements(self) -> list[str]:
        """Return the statements that create the view `final_standings`, or replace an older one."""
        name = self.name
        scores = [f"e.score_{i + 1}" for i in range(COLUMNS)]
        columns = [
            *("p.board", "p.window_name", "p.period", "r.scope", "p.revision", "p.is_current"),
            *("e.position", "e.rank_number", "e.member", *scores, "e.reached_at"),
            *("p.starts_at", "p.ends_at", "p.sealed_at", "p.uid"),
        ]
        return [
            f"DROP VIEW IF EXISTS {name('final_standings')}",
            f"CREATE VIEW {name('final_standings')} AS SELECT {', '.join(columns)} "
            f"FROM {name('final_periods')} p "
            f"JOIN {name('final_rankings')} r ON r.number = p.number "
            f"JOIN {name('final_entries')} e ON e.ranking = r.ranking WHERE p.is_complete = 1",
        ]

    def _create_table(self, table: str, columns: dict[str, str], key: str, *unique: str) -> str:
        definitions = ", ".join(
            [
                *[f"{name} {kind}" for name, kind in columns.items()],
                f"PRIMARY KEY ({key})",
                *[f"UNIQUE ({each})" for each in unique],
            ]
        )
        end = self.dialect.table_end
        return f"CREATE TABLE IF NOT EXISTS {self.name(table)} ({definitions}) {end}"
