"""Make the tables of a ledger, and upgrade those of an earlier version."""

from typing import Any

from laurels.errors.sinks import LedgerTooNew

from .dialects import Dialect
from .final_tables import FinalTables
from .tables import VERSION, Tables


def make_tables(dialect: Dialect, prefix: str, connection: Any) -> None:
    """Create missing tables, and upgrade those of an earlier version, and commit. Raises
    LedgerTooNew."""
    with dialect.schema_locked(connection, prefix):
        _make_tables(dialect, prefix, connection)


def _make_tables(dialect: Dialect, prefix: str, connection: Any) -> None:
    tables = Tables(dialect, prefix)
    for statement in tables.statements():
        dialect.execute(connection, statement)
    name = tables.name("ledger")
    version = dialect.execute(connection, f"SELECT max(version) FROM {name}").fetchone()[0]
    if version is not None and version > VERSION:
        raise LedgerTooNew(f"expected tables of version {VERSION} or earlier, got {version}")
    if version == VERSION:
        return
    for statement in FinalTables(dialect, prefix).view_statements():
        dialect.execute(connection, statement)
    numbers = FinalTables(dialect, prefix).name("final_numbers")
    dialect.execute(connection, f"INSERT INTO {numbers} (taken) VALUES (0)")
    if version is None:
        dialect.execute(connection, f"INSERT INTO {name} (version) VALUES (%s)", (VERSION,))
    else:
        dialect.execute(connection, f"UPDATE {name} SET version = %s", (VERSION,))
