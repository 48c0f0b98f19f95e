"""Read and write whole boards, for `laurels copy`. This needs an admin key for all boards."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence

from laurels.core.contents import CopyClock, Origin, OriginRest, Piece
from laurels.core.copy_checks import ensure_origin, ensure_piece, ensure_rest
from laurels.errors import LaurelsError
from laurels.errors.copies import CopyLost
from laurels.model.board import Board
from laurels.model.validation import quoted
from laurels.server.requests.context import RequestContext, Streamed
from laurels.server.routing.route import NO_CONTENT, NoQuery, Routes
from laurels.stores.board_copies import BoardCopies
from laurels.wire import requests
from laurels.wire.answers import lines, problem
from laurels.wire.copies import (
    MAX_BYTES,
    PiecesEnd,
    UnfinishedAnswer,
    line_of,
    origin_in,
    pieces_in,
    rest_in,
)

ROUTES = Routes()


@ROUTES.row("GET", "/v1/copies", "admin", returns=CopyClock, store_wide=True)
async def copies(context: RequestContext, _: NoQuery) -> object:
    """The current time of the store, and its kind of clock. Both decide whether a board can be
    copied into the store."""
    return await asyncio.to_thread(context.store.copies.clock)


@ROUTES.row("GET", "/v1/boards/{board}/copy/origin", "admin", returns=Origin, store_wide=True)
async def copy_origin(context: RequestContext, _: NoQuery) -> object:
    """The state of a board without its rankings, after the rankings were advanced to the current
    time, the periods that are due were closed, and the closed ones sealed. A copy begins with this
    state. Two equal states mean that the board has not changed between them."""
    await asyncio.to_thread(context.store.copies.settle, context.board)
    return await asyncio.to_thread(context.store.copies.origin, context.board)


@ROUTES.row("GET", "/v1/boards/{board}/copy/pieces", "admin", returns=bytes, store_wide=True)
async def copy_pieces(context: RequestContext, _: NoQuery) -> object:
    """The rows of all rankings and tallies of a board, its remembered event ids and the data of its
    members, in pieces: each is a line of JSON. The last line has the number of pieces or, if not
    all pieces could be read, is a problem document. The pieces are a consistent copy if the board's
    origin is the same before and after this request."""
    pieces = iter(context.store.copies.pieces(context.board))
    first = await asyncio.to_thread(_next, pieces)

    async def parts() -> AsyncGenerator[bytes, None]:
        piece, count = first, 0
        try:
            while piece is not None:
                yield await asyncio.to_thread(line_of, piece)
                count += 1
                piece = await asyncio.to_thread(_next, pieces)
            yield line_of(PiecesEnd(count))
        except LaurelsError as error:
            yield lines([problem(error, error.status, "")])

    return Streamed(parts(), requests.NDJSON)


def _next(pieces: Iterator[Piece]) -> Piece | None:
    return next(pieces, None)


@ROUTES.row("GET", "/v1/boards/{board}/copy", "admin", returns=UnfinishedAnswer, store_wide=True)
async def copy_state(context: RequestContext, _: NoQuery) -> object:
    """The unfinished copy of a board, which no other endpoint shows."""
    unfinished = await asyncio.to_thread(context.store.copies.unfinished, context.board)
    return UnfinishedAnswer(None if unfinished is None else unfinished.uid)


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/copy",
    "admin",
    body=Origin,
    status=NO_CONTENT,
    most_body=MAX_BYTES,
    store_wide=True,
)
async def copy_begin(context: RequestContext, _: NoQuery) -> None:
    """Begin to copy a board into this store. Readers and writers do not find the board until the
    copy is finished."""
    with context.server.admission.writing():
        await asyncio.to_thread(_begin, context.store.copies, context.board, context.raw)


def _begin(copies: BoardCopies, board: str, body: bytes) -> None:
    origin = origin_in(body)
    ensure_origin(origin, board)
    copies.begin(origin)


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/copy/origin",
    "admin",
    body=OriginRest,
    status=NO_CONTENT,
    most_body=MAX_BYTES,
    store_wide=True,
    audited=False,
)
async def copy_extend(context: RequestContext, _: NoQuery) -> None:
    """Add hidden members and sealed periods to the beginning of an unfinished copy, which was sent
    without them because they are many. Adding them again has no effect."""
    with context.server.admission.writing():
        await asyncio.to_thread(_extend, context.store.copies, context.board, context.raw)


def _extend(copies: BoardCopies, board: str, body: bytes) -> None:
    rest = rest_in(body)
    if (unfinished := copies.unfinished(board)) is None:
        raise CopyLost(f"there is no unfinished copy of {quoted(board)}")
    ensure_rest(rest, Board.from_json(unfinished.definition).rules())
    copies.extend(board, rest)


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/copy/pieces",
    "admin",
    body=list[Piece],
    status=NO_CONTENT,
    most_body=MAX_BYTES,
    store_wide=True,
    audited=False,
)
async def copy_put(context: RequestContext, _: NoQuery) -> None:
    """Write pieces of an unfinished copy, in one commit. Writing them again has no effect."""
    with context.server.admission.writing():
        await asyncio.to_thread(_put, context.store.copies, context.board, context.raw)


def _put(copies: BoardCopies, board: str, body: bytes) -> None:
    pieces: Sequence[Piece] = pieces_in(body)
    if (unfinished := copies.unfinished(board)) is None:
        raise CopyLost(f"there is no unfinished copy of {quoted(board)}")
    rules = Board.from_json(unfinished.definition).rules()
    for piece in pieces:
        ensure_piece(piece, unfinished.uid, rules)
    copies.put(board, pieces)


@ROUTES.row("POST", "/v1/boards/{board}/copy/finish", "admin", status=NO_CONTENT, store_wide=True)
async def copy_finish(context: RequestContext, _: NoQuery) -> None:
    """Make a copied board known to readers and writers."""
    with context.server.admission.writing():
        await asyncio.to_thread(context.store.copies.finish, context.board)


@ROUTES.row("DELETE", "/v1/boards/{board}/copy", "admin", status=NO_CONTENT, store_wide=True)
async def copy_give_up(context: RequestContext, _: NoQuery) -> None:
    """Remove an unfinished copy of a board."""
    with context.server.admission.writing():
        await asyncio.to_thread(context.store.copies.give_up, context.board)
