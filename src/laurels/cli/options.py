"""The options that several commands share, and the `--help` panels of options."""

from typing import Annotated

import typer

from laurels.config import DEFAULT_URL

READING = "What to read"
OUTPUT = "Output"
CONNECTION = "Connection"

__all__ = [
    "CONNECTION",
    "DEFAULT_URL",
    "OUTPUT",
    "READING",
    "AsJson",
    "BoardName",
    "MemberName",
    "PageCursor",
    "PeriodLabel",
    "SealedLabel",
    "Url",
    "WindowName",
    "WithData",
]


Url = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="URL",
        envvar="LAURELS_URL",
        help="The store with the boards: a folder, redis://... or http://...",
        rich_help_panel=CONNECTION,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=OUTPUT)
]
BoardName = Annotated[str, typer.Argument(metavar="BOARD", help="The board's name.")]
WindowName = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="NAME",
        help="The window. Default: the board's first.",
        rich_help_panel=READING,
    ),
]
MemberName = Annotated[str, typer.Argument(metavar="MEMBER", help="The member's id.")]
PageCursor = Annotated[
    str | None,
    typer.Option(
        "--after",
        metavar="CURSOR",
        help="Continue after a page, by its cursor.",
        rich_help_panel=READING,
    ),
]
PeriodLabel = Annotated[
    str | None,
    typer.Option(
        "--period",
        metavar="LABEL",
        help="A past period, such as 2026-11. Default: the current one.",
        rich_help_panel=READING,
    ),
]
SealedLabel = Annotated[
    str | None,
    typer.Option(
        "--period",
        metavar="LABEL",
        help="A sealed period, such as 2026-10. The window `all` of a board that has ended has one "
        "period, without a label.",
        rich_help_panel=READING,
    ),
]
WithData = Annotated[
    bool,
    typer.Option("--data", help="Show the members' data.", rich_help_panel=OUTPUT),
]
