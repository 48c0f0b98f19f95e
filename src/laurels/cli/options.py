"""The options several commands share, spelled once."""

from typing import Annotated

import typer

from laurels.config import DEFAULT_URL

__all__ = [
    "DEFAULT_URL",
    "AsJson",
    "BoardName",
    "PeriodLabel",
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
        help="Where the boards are: a folder, or the server at http://...",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
BoardName = Annotated[str, typer.Argument(metavar="BOARD", help="The board's name.")]
WindowName = Annotated[
    str | None,
    typer.Option("--window", metavar="NAME", help="Which window; by default the board's first."),
]
PeriodLabel = Annotated[
    str | None,
    typer.Option(
        "--period",
        metavar="LABEL",
        help="A past period, such as 2026-11; by default the current one.",
    ),
]
WithData = Annotated[bool, typer.Option("--data", help="Show what the members carry as data.")]
