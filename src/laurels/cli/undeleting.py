"""The command `undelete`: restoring a board that was removed."""

from typing import Annotated

import msgspec
import typer

import laurels

from .options import DEFAULT_URL, AsJson, Url
from .show import put_json, put_line
from .texts import escaped


def undelete(
    name: Annotated[str, typer.Argument(metavar="BOARD", help="The name that the board had.")],
    new_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The name that it gets. Default: its old name."),
    ] = None,
    uid: Annotated[
        str | None,
        typer.Option(
            "--uid",
            metavar="UID",
            help="Which one, if several boards had the name. Default: the one removed last.",
        ),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Restore a board that was deleted, or removed by its `retain`.

    It has its definition, sealed periods, payouts and hidden members again, and no other members.
    Only boards with sealed periods can be restored: `laurels archive removed` lists them.

    \b
    Examples:
      laurels undelete gifts
      laurels undelete gifts --as gifts-2025
    """
    with laurels.open(at, create=False) as lb:
        board = lb.undelete(name, name=new_name, uid=uid)
    if json:
        put_json(msgspec.Raw(board.to_json()))
    else:
        other = "" if board.name == name else f" as {escaped(board.name)}"
        put_line(f"restored {escaped(name)}{other}")
    return 0
