"""`reconcile`: compares a board with its ledger, and corrects one from the other."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

import laurels
from laurels.cli.options import CONNECTION, DEFAULT_URL, AsJson, BoardName, Url
from laurels.cli.show import put_json, put_line, put_table
from laurels.cli.texts import Side
from laurels.flows.ledger.reconcile import (
    BoardReconciler,
    EntryDifference,
    ReconcileResult,
    describe,
)
from laurels.sql.databases import dialect_of

NEGATIVE = 1

_COLUMNS: Sequence[tuple[str, Side]] = (
    ("member", "left"),
    ("ranking", "left"),
    ("ledger", "right"),
    ("store", "right"),
)


def reconcile(
    board: BoardName,
    ledger: Annotated[
        str,
        typer.Option(
            "--with",
            envvar="LAURELS_WITH",
            show_envvar=True,
            metavar="LEDGER",
            help="The ledger: postgresql://, mysql:// or sqlite:///FILE.",
            rich_help_panel=CONNECTION,
        ),
    ],
    mend: Annotated[
        Literal["ledger", "store"] | None,
        typer.Option("--mend", help="The side to correct: it gets the entries of the other side."),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Compare a board with its ledger, entry by entry, while writes go on.

    Entries, member data, the positions of sources, sealed periods, payouts and hidden members are
    compared. Changes that the ledger's sink has not written yet do not count as differences. With
    --mend one side is corrected from the other; positions, sealed periods, payouts and hidden
    members are corrected in a ledger only. Exits with 1 if differences remain, or if anything could
    not be compared because the sink lags.

    \b
    Examples:
      laurels reconcile gifts --with postgresql://app@localhost/boards
      laurels reconcile gifts --with sqlite:///ledger.db --mend ledger
    """
    dialect, prefix = dialect_of(ledger)

    async def run() -> ReconcileResult:
        async with laurels.open_async(at, create=False) as lb:
            return await BoardReconciler(lb, dialect, prefix, mend).run(board)

    result = asyncio.run(run())
    if json:
        put_json(result)
    else:
        _put(result)
    return NEGATIVE if result.remaining or result.waiting else 0


def _put(result: ReconcileResult) -> None:
    rows = [
        *map(_row, result.differences),
        *[(e.member, "data", e.ledger or "-", e.store or "-") for e in result.data_differences],
        *[
            (e.source, "position", e.ledger or "-", e.store or "-")
            for e in result.position_differences
        ],
        *[(e.name, e.kind, e.ledger or "-", e.store or "-") for e in result.season_differences],
    ]
    if rows:
        put_table(_COLUMNS, rows)
    put_line(describe(result))


def _row(each: EntryDifference) -> tuple[str, ...]:
    ranking = " ".join(filter(None, [each.window, each.period, each.scope]))
    sides = ["-" if side is None else str(side.score) for side in (each.ledger, each.store)]
    return each.member, ranking, *sides
