"""SQL views of boards, with the column names of the boards, for people who write queries."""

import re
from contextlib import closing
from typing import Any

from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import InvalidTarget
from laurels.model.board import Board
from laurels.model.validation import is_name, safe_repr
from laurels.sql.dialects import Dialect
from laurels.sql.tables import Tables

from .reading import LedgerReader

ENTRY = ("member", "window_name", "period", "scope", "reached_at", "last_at", "period_start")
"""The columns that the views of all boards have, besides the columns of the score."""
_VIEW_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PLAIN = re.compile(r"[a-z0-9_]+")


def view_name(prefix: str, board: str, name: str | None = None) -> str:
    """Return the name of a board's view: the given name, or by default the prefix and `view_BOARD`.
    Raises InvalidTarget."""
    if name is None:
        name = f"{prefix}view_{board}"
        if not _PLAIN.fullmatch(board):
            raise InvalidTarget(f"{name!r} cannot be the name of a view: choose one with --name")
    if not _VIEW_NAME.fullmatch(name):
        raise InvalidTarget(
            "expected up to 63 characters of a-z, 0-9 and _ as the name of a view, got "
            f"{safe_repr(name)}: choose one with --name"
        )
    return name


def column_names(board: Board) -> list[str]:
    """Return the names of a board's columns in its view. A column keeps its name, unless the view
    already has a column of that name; then it is named `score_N`. Names are compared without case,
    as some databases do."""
    used_names = {*ENTRY}
    names = []
    for number, column in enumerate(board.columns, 1):
        name = column.name
        if name.lower() in used_names:
            name = f"score_{number}"
        used_names.add(name.lower())
        names.append(name)
    return names


def make_view(dialect: Dialect, prefix: str, board: str, name: str | None = None) -> str:
    """Create the view of a board, or replace the view of the same name; return the view's name.
    Raises NoLedger, InvalidTarget, TargetRefused."""
    view = view_name(prefix, board, name)
    with closing(LedgerReader(dialect, prefix)) as reader:
        reader.open()
        definition = reader.board(board).definition
    if not is_name(definition.name) or definition.name != board:
        raise NoLedger(f"the definition of {board!r} in the ledger is that of another board")
    scores = [
        f"score_{number} AS {dialect.quote(column)}"
        for number, column in enumerate(column_names(definition), 1)
    ]
    columns = ", ".join([*ENTRY[:4], *scores, *ENTRY[4:]])
    table = Tables(dialect, prefix).name("scores")
    _execute(
        dialect,
        f"DROP VIEW IF EXISTS {view}",
        f"CREATE VIEW {view} AS SELECT {columns} FROM {table} WHERE board = '{board}'",
    )
    return view


def drop_view(dialect: Dialect, prefix: str, board: str, name: str | None = None) -> str:
    """Remove the view of a board, if it exists; return its name. Raises InvalidTarget,
    TargetRefused."""
    view = view_name(prefix, board, name)
    _execute(dialect, f"DROP VIEW IF EXISTS {view}")
    return view


def _execute(dialect: Dialect, *statements: str) -> None:
    with dialect.errors():
        connection: Any = dialect.connect(create=False)
        with closing(connection):
            for statement in statements:
                dialect.execute(connection, statement)
            connection.commit()
