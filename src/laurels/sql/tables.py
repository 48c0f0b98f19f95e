"""The tables of a ledger: their columns, and the statements that create them."""

from msgspec import Struct

from .dialects import Dialect
from .final_tables import FinalTables
from .payout_tables import PayoutTables
from .texts import COLUMNS

VERSION = 3
"""The version of the tables; a ledger with a higher version is refused."""


class Tables(Struct, frozen=True):
    """The tables of a ledger in one database. The names of the tables begin with `prefix`. Each
    property describes one table: it has the SQL types of the columns, by the names of the
    columns."""

    dialect: Dialect
    prefix: str

    def name(self, table: str) -> str:
        """Return the full name of a table."""
        return self.prefix + table

    @property
    def scores(self) -> dict[str, str]:
        """The columns of the table `scores`, which has a row for each entry of a ranking."""
        dialect = self.dialect
        return {
            "board": f"{dialect.key_name} NOT NULL",
            "member": f"{dialect.key_text} NOT NULL",
            "window_name": f"{dialect.key_name} NOT NULL",
            "period": f"{dialect.key_name} NOT NULL",
            "scope": f"{dialect.key_text} NOT NULL",
            **{f"score_{i + 1}": dialect.number for i in range(COLUMNS)},
            "reached_at": "bigint",
            "last_at": "bigint",
            "period_start": "bigint",
            "bucket": "smallint NOT NULL",
            "version": "bigint NOT NULL",
        }

    @property
    def member_data(self) -> dict[str, str]:
        """The columns of the table `member_data`, whose rows have the data of a member as JSON."""
        return {
            "board": f"{self.dialect.key_name} NOT NULL",
            "member": f"{self.dialect.key_text} NOT NULL",
            "data": self.dialect.long_text,
            "version": "bigint NOT NULL",
        }

    @property
    def source_positions(self) -> dict[str, str]:
        """The columns of the table `source_positions`, which has a row for each source of a
        board."""
        return {
            "board": f"{self.dialect.key_name} NOT NULL",
            "source": f"{self.dialect.key_text} NOT NULL",
            "position": self.dialect.long_text,
            "version": "bigint NOT NULL",
        }

    @property
    def scopes(self) -> dict[str, str]:
        """The columns of the table `scopes`, which has a row for each scope whose text is
        shortened, with the labels of the scope as JSON."""
        return {
            "board": f"{self.dialect.key_name} NOT NULL",
            "scope": f"{self.dialect.key_text} NOT NULL",
            "labels": self.dialect.long_text,
            "version": "bigint NOT NULL",
        }

    @property
    def boards(self) -> dict[str, str]:
        """The columns of the table `boards`, whose rows have the definition of a board as JSON."""
        return {
            "board": f"{self.dialect.key_name} NOT NULL",
            "title": self.dialect.long_text,
            "definition": self.dialect.long_text,
            "version": "bigint NOT NULL",
        }

    @property
    def sinks(self) -> dict[str, str]:
        """The columns of `sinks`: a row with the position of a sink in the changes of a board."""
        return {
            "board": f"{self.dialect.key_name} NOT NULL",
            "sink": f"{self.dialect.key_text} NOT NULL",
            "position": self.dialect.long_text,
            "generation": "bigint NOT NULL",
            "updated_at": "bigint NOT NULL",
        }

    def statements(self) -> list[str]:
        """Return the statements that create missing tables."""
        statements = [
            self._create_table("scores", self.scores, 5),
            self._create_table("member_data", self.member_data, 2),
            self._create_table("source_positions", self.source_positions, 2),
            self._create_table("scopes", self.scopes, 2),
            self._create_table("boards", self.boards, 1),
            self._create_table("sinks", self.sinks, 2),
        ]
        ledger = self.name("ledger")
        final = FinalTables(self.dialect, self.prefix).statements()
        return [
            *statements,
            *final,
            *PayoutTables(self.dialect, self.prefix).statements(),
            f"CREATE TABLE IF NOT EXISTS {ledger} (version integer NOT NULL)",
        ]

    def _create_table(self, table: str, columns: dict[str, str], key: int) -> str:
        definitions = ", ".join([f"{name} {kind}" for name, kind in columns.items()])
        keys = ", ".join(list(columns)[:key])
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name(table)} ({definitions}, PRIMARY KEY ({keys})) "
            f"{self.dialect.table_end}"
        )
