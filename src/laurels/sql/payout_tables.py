"""The tables in which a ledger has the payouts of index servers.

A payout of a board on an index server is a row of `payouts`, like every payout in a ledger. It is
also a row of `payout_list`, which orders the payouts of a store by the time at which they are due.
A ledger may have the payouts of several stores; each has a random id. A payout that was copied from
one store of the ledger to another is in the lists of both. `payout_marks` has a row for each store,
with the last place in the list of due payouts, and the last numbers that were given. `payout_notes`
has the changes of boards and the new revisions of periods that the index server still has to
record. `payout_copies` has the payouts of unfinished copies of boards, and `payout_blocks` the
boards whose payouts must not change, because the boards are being moved to another store.
"""

from msgspec import Struct

from .dialects import Dialect
from .final_tables import FinalTables


class PayoutTables(Struct, frozen=True):
    """The tables of payouts in one database. The names of the tables begin with `prefix`. Each
    property describes one table: it has the SQL types of the columns, by the names of the
    columns."""

    dialect: Dialect
    prefix: str

    def name(self, table: str) -> str:
        """Return the full name of a table."""
        return self.prefix + table

    @property
    def places(self) -> dict[str, str]:
        """`payout_list` has a row for each payout. `payout` is the key of the payout in the table
        `payouts`. `tag` is a random number, the same for all payouts that were made together.
        `list_at` and `serial` are the place in the list of due payouts: `list_at` is `due_at`,
        except for copied payouts (see `payout_copying`). `is_erased` is 1 if the member was erased.
        A payout that has left the store may leave a row with an empty `board`, since the cursor of
        a reader may point to it."""
        name = f"{self.dialect.key_name} NOT NULL"
        return {
            "store": name,
            "serial": "bigint NOT NULL",
            "due_at": "bigint NOT NULL",
            "list_at": "bigint NOT NULL",
            "is_erased": "smallint NOT NULL",
            "tag": "bigint NOT NULL",
            "board": name,
            "uid": name,
            "window_name": name,
            "instance": "bigint NOT NULL",
            "payout": name,
        }

    @property
    def marks(self) -> dict[str, str]:
        """`payout_marks` has a row for each store. The payouts up to the place (`due_at`, `serial`)
        have entered the store's list of due payouts. `last_serial` and `last_note` are the last
        numbers given to a payout and to a note."""
        return {
            "store": f"{self.dialect.key_name} NOT NULL",
            "due_at": "bigint NOT NULL",
            "serial": "bigint NOT NULL",
            "last_serial": "bigint NOT NULL",
            "last_note": "bigint NOT NULL",
            "version": "bigint NOT NULL",
        }

    @property
    def notes(self) -> dict[str, str]:
        """`payout_notes` has the notes of a store, in the order of their numbers. `block` is the
        block to be added to the changes of the board, in hexadecimal notation. A note with a
        `revision` tells the index server to read the period in this revision from now on."""
        return {
            "store": f"{self.dialect.key_name} NOT NULL",
            "number": "bigint NOT NULL",
            "uid": f"{self.dialect.key_name} NOT NULL",
            "window_name": self.dialect.key_name,
            "instance": "bigint",
            "revision": "integer",
            "block": f"{self.dialect.long_text} NOT NULL",
        }

    @property
    def copies(self) -> dict[str, str]:
        """`payout_copies` has the payouts of unfinished copies, each with the number of the
        unfinished board, and otherwise with the columns of `payouts`. `serial` is the number of the
        payout in the source."""
        return {
            "store": f"{self.dialect.key_name} NOT NULL",
            "number": "bigint NOT NULL",
            "payout": f"{self.dialect.key_name} NOT NULL",
            "serial": "bigint NOT NULL",
            "is_erased": "smallint NOT NULL",
            **{name: kind for name, kind in self._payouts.items() if name != "payout"},
        }

    @property
    def blocks(self) -> dict[str, str]:
        """`payout_blocks` has a row for each board that is being moved to another store, while its
        writes are blocked. `owner` is the random token of the move."""
        return {
            "store": f"{self.dialect.key_name} NOT NULL",
            "uid": f"{self.dialect.key_name} NOT NULL",
            "owner": f"{self.dialect.long_text} NOT NULL",
            "version": "bigint NOT NULL",
        }

    @property
    def _payouts(self) -> dict[str, str]:
        return FinalTables(self.dialect, self.prefix).payouts

    def statements(self) -> list[str]:
        """Return the statements that create missing tables."""
        return [
            self._create_table(
                "payout_list",
                self.places,
                "store, serial",
                "payout, store, serial",
                "store, list_at, serial",
                "store, board, due_at, serial",
                "uid, window_name, instance, store, serial",
            ),
            self._create_table("payout_marks", self.marks, "store"),
            self._create_table("payout_notes", self.notes, "store, number"),
            self._create_table("payout_copies", self.copies, "store, number, payout"),
            self._create_table("payout_blocks", self.blocks, "store, uid"),
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
