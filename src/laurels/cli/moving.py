"""`move`: moves a board between the stores of a service, while it is served."""

from contextlib import closing
from typing import Annotated

import typer

from laurels import config
from laurels.stores.http import moves as calls
from laurels.wire.placement import MovedBoard, TakeoverMode

from .errors import Usage
from .options import AsJson, BoardName, Url
from .show import put_json, put_line

DEFAULT_AT = "http://127.0.0.1:8080"


def move(
    board: BoardName,
    to: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            min=1,
            help="The store to move to; by default the one that the name points to.",
        ),
    ] = None,
    pause: Annotated[
        int,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=3_600,
            help="For how long writes may be refused, if the last changes take longer.",
        ),
    ] = 0,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="First end the move of a service that was killed and will not start again.",
        ),
    ] = False,
    target_lost: Annotated[
        bool,
        typer.Option(
            "--target-lost",
            help="Take the board over although the store that it was being moved to is lost.",
        ),
    ] = False,
    at: Url = DEFAULT_AT,
    json: AsJson = False,
) -> int:
    """Move a board to another store of a service, while it is served.

    The stores of a service are numbered: the default store is 1, and those of its placement follow
    in the order of the settings file. Reads go on; writes wait while the last changes are copied,
    for at most a second, or for longer with --pause. If the command fails, the board stays where it
    was. The command needs an admin key that is not limited to some boards.

    \b
    Examples:
      laurels move eu-1 --to 2
      laurels move eu-1 --to 2 --pause 60
      laurels move eu-1 --take-over
      laurels move eu-1 --at http://KEY@localhost:8080
    """
    if not config.is_remote(at):
        raise Usage("expected --at to be a server at http://...; use laurels copy for stores")
    with closing(config.remote_wire(at)) as wire:
        moved = wire.answer(calls.move(board, to, pause, _takeover(take_over, target_lost)))
    if json:
        put_json(moved)
    else:
        put_line(_moved_text(moved))
    return 0


def _moved_text(moved: MovedBoard) -> str:
    return (
        f"moved {moved.board} to store {moved.store}: {moved.rows:,} rows; "
        f"writes waited for up to {moved.held_ms:g} ms"
    )


def _takeover(take_over: bool, target_lost: bool) -> TakeoverMode:
    if target_lost:
        return "target_lost"
    return "checked" if take_over else "none"
