"""The stores behind the service, and moves of boards between them. This needs an admin key for all
boards."""

import asyncio
from typing import get_args

from msgspec import Struct

from laurels.errors.placement import MoveRefused
from laurels.errors.service import InvalidBody
from laurels.model.validation import integer_within, safe_repr
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.stores.base import BoardMover
from laurels.wire import requests
from laurels.wire.placement import MovedBoard, StoreStatus, TakeoverMode

ROUTES = Routes()


class MoveFields(Struct):
    """The number of the store to move to. Without it, the board moves to the store that its name
    points to. For up to `pause_seconds`, writes to the board may be refused as `board_moving`. This
    is needed only if its last changes cannot be copied within a second. If another service was
    killed during a move of the board and will not start again, `takeover` ends that move first:
    `checked`, or `target_lost` if the store that it was being moved to is lost as well."""

    to: int | None = None
    pause_seconds: int = 0
    takeover: TakeoverMode = "none"


_MOST_PAUSE = 3_600
_MODES: tuple[TakeoverMode, ...] = get_args(TakeoverMode)


@ROUTES.row("GET", "/v1/stores", "admin", returns=list[StoreStatus], store_wide=True)
async def stores(context: RequestContext, _: NoQuery) -> object:
    """The stores behind the service, the default store first. The list is empty if there is only
    one, or if this process cannot move boards."""
    mover = context.server.mover
    return [] if mover is None else mover.stores()


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/move",
    "admin",
    body=MoveFields,
    returns=MovedBoard,
    store_wide=True,
    audited=True,
)
async def move(context: RequestContext, _: NoQuery) -> object:
    """Move a board with everything it has to another store of the service. Reads go on. While the
    last changes are copied, writes are held for less than a second, or for up to `pause_seconds` if
    that is longer. One write waits for at most a second; after that it and further writes are
    refused. The answer comes when the board has moved. If the answer is 503 `board_moving`, the
    board stays where it was."""
    document = requests.document(context.raw, context.media_type) if context.raw else {}
    to, pause, takeover = requests.fields(document, optional=("to", "pause_seconds", "takeover"))
    if to is not None and (to := integer_within(to, 1)) is None:
        raise InvalidBody(f"expected the number of a store for to, got {safe_repr(to)}")
    seconds = integer_within(0 if pause is None else pause, 0, _MOST_PAUSE)
    if seconds is None:
        raise InvalidBody(
            f"expected an integer from 0 to {_MOST_PAUSE:,} for pause_seconds, got "
            f"{safe_repr(pause)}"
        )
    mode: TakeoverMode = "none" if takeover is None else _takeover_of(takeover)
    return await asyncio.to_thread(_mover_of(context).move, context.board, to, seconds, mode)


def _takeover_of(value: object) -> TakeoverMode:
    for mode in _MODES:
        if value == mode:
            return mode
    raise InvalidBody(f"expected one of {', '.join(_MODES)} for takeover, got {safe_repr(value)}")


def _mover_of(context: RequestContext) -> BoardMover:
    mover = context.server.mover
    if mover is None:
        raise MoveRefused(
            "boards cannot be moved here: the service has a single store, or several workers"
        )
    return mover
