"""`settle`: shows who wins which prizes of a period, by its present standings."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

import typer

import laurels
from laurels.cli.boards.scoping import Labels, parse_labels, scope_words

from .options import DEFAULT_URL, READING, AsJson, BoardName, PeriodLabel, Url, WindowName
from .show import json_bytes, put_json, put_line, put_table
from .texts import Side, number, numbers


def settle(
    board: BoardName,
    window: WindowName = None,
    period: PeriodLabel = None,
    label: Labels = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Number of members.", rich_help_panel=READING)
    ] = 1_000,
    offset: Annotated[
        int, typer.Option("--offset", help="Number of members to skip.", rich_help_panel=READING)
    ] = 0,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show who wins which prizes of a period, by its present standings.

    While events of the period count, this is a preview. It changes nothing.

    \b
    Examples:
      laurels settle gifts --window month
      laurels settle gifts --window month --period 2026-11
      laurels settle gifts --window month --label room=42 --json
    """
    with laurels.open(at, create=False) as lb:
        settlement = lb.settle(
            board,
            window=window,
            period=period,
            labels=parse_labels(label),
            limit=limit,
            offset=offset,
        )
        definition = lb.get(board)
    if json:
        put_json(settlement)
    else:
        _put_settlement(definition, settlement)
    return 0


def _put_settlement(board: laurels.Board, settlement: laurels.Settlement) -> None:
    as_of = settlement.as_of
    columns: list[tuple[str, Side]] = [("position", "right"), ("member", "left")]
    columns += [(column.name, "right") for column in board.columns]
    columns += [("prize", "left"), ("amount", "right"), ("data", "left")]
    period = f" {as_of.period}" if as_of.period else ""
    finality = "final" if settlement.final else "not final"
    put_table(
        columns,
        map(_cells, settlement.awards),
        title=f"Prizes of {board.title or board.name}, {as_of.window}{period}"
        f"{scope_words(as_of.labels, as_of.by)}",
        foot=f"{settlement.winners:,} of {settlement.total:,} members, {finality}",
    )
    if settlement.next is not None:
        put_line(f"next page: --offset {settlement.next}")


def _cells(award: laurels.Award) -> Sequence[str]:
    return [
        str(award.position),
        award.member,
        *numbers(award.score),
        award.prize,
        amount_text(award.amount),
        "" if award.data is None else json_bytes(award.data).decode(),
    ]


def amount_text(amount: int | Decimal | None) -> str:
    """Return an amount in full; "" for none."""
    return "" if amount is None else number(amount)
