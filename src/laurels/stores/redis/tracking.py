"""A board of an index server that is copied while it is written."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from math import inf
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.core.contents import (
    ChangedIndexPiece,
    ChangedPiece,
    IndexPiece,
    Origin,
    Piece,
    PieceT,
)
from laurels.errors.copies import BoardChanging
from laurels.stores.redis.connection.deadline import ends_in

from .catalog import BoardCatalog
from .outdated import DefinitionOutdated, TrackingLost
from .payout_transfers import PayoutTransfers
from .registry import ERASED, ERASING
from .remote import Opened, Tracking

T = TypeVar("T")


class ServerContents(Protocol):
    """Reads and writes whole boards: see `sharding.contents.ShardedContents`."""

    def pieces(self, board: Opened) -> AsyncIterator[IndexPiece]: ...

    async def ends(self, board: Opened) -> list[tuple[int, int]]: ...

    async def restore(self, board: Opened, piece: ChangedIndexPiece, now_ms: int) -> None: ...

    def scan(self, board: Opened) -> AsyncIterator[IndexPiece]: ...

    async def track(self, board: Opened, owner: str) -> list[Tracking]: ...

    async def untrack(self, board: Opened, owner: str) -> bool: ...

    async def owner(self, board: Opened) -> str | None: ...

    async def seize(self, board: Opened, owner: str) -> None: ...

    async def block(self, board: Opened, copies: Sequence[Tracking]) -> None: ...

    def changed_pieces(
        self, board: Opened, copies: Sequence[Tracking]
    ) -> AsyncIterator[ChangedIndexPiece]: ...

    async def restore_state(self, board: Opened, origin: Origin) -> None: ...


class Erasures(Struct, frozen=True):
    """The notes about erasures on an index server: the erasure that is not complete, and the token
    of the one that was begun last. Each is None if there is no such erasure."""

    incomplete: str | None
    newest: str | None


async def erasures_of(catalog: BoardCatalog) -> Erasures:
    """Read the notes of erasures. Two calls."""
    return Erasures(await catalog.registry.note(ERASING), await catalog.registry.note(ERASED))


class TrackedServerBoard:
    """Implementation of `TrackedBoard` for a board of an index server. The server tracks the
    changes, so changes by other processes are included."""

    def __init__(
        self,
        catalog: BoardCatalog,
        contents: ServerContents,
        run: Callable[[Any], Any],
        state: BoardState,
        opened: Opened,
        copies: Sequence[Tracking],
        season_pieces: Callable[[str], Iterator[Piece]],
        payouts: PayoutTransfers,
        erasures: Erasures,
    ) -> None:
        self._catalog = catalog
        self._contents = contents
        self._run = run
        self._state = state
        self._board = state.board.name
        self._opened = opened
        self._copies = copies
        self._season_pieces = season_pieces
        self._payouts = payouts
        self._erasures = erasures
        self._from_ms = catalog.time_of(state)

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the board, which may change meanwhile."""
        yield from pulled(self._run, self._contents.scan(self._opened))
        yield from self._season_pieces(self._board)

    def changed_pieces(self) -> Iterator[ChangedPiece]:
        """Yield the current rows of the members that were changed since the last call, and the
        payouts that were confirmed since then. Raises BoardChanging if a member may have been
        erased since the sealed periods were read, because the copied periods may then have the
        member."""
        erasures: Erasures = self._run(_current(erasures_of(self._catalog)))
        if erasures != self._erasures or erasures.incomplete is not None:
            raise BoardChanging("a member was erased while the board was copied")
        from_ms, self._from_ms = self._from_ms, self._catalog.time_of(self._state)
        yield from pulled(self._run, self._contents.changed_pieces(self._opened, self._copies))
        yield from self._payouts.confirmed(self._state.board, self._state.uid, from_ms)

    def block(self) -> None:
        """Refuse all further writes to the board, and all changes of its payouts, by every
        process."""
        self._run(self._block())

    def end(self) -> None:
        """End tracking, and accept writes again. Does nothing if another move tracks or blocks the
        board."""
        self._run(_current(self._end(self._copies[0].owner)))

    async def _end(self, owner: str) -> None:
        await release(self._catalog, self._contents, self._board, self._opened, owner)
        await self._payouts.release(self._state.board, self._state.uid, owner)

    async def _block(self) -> None:
        owner = self._copies[0].owner
        await _current(self._payouts.block(self._state.board, self._state.uid, owner))
        await _current(self._contents.block(self._opened, self._copies))
        with ends_in(inf, anew=True):
            await self._catalog.registry.set_note(_note_of(self._board), owner)
            while not await self._catalog.feed(self._board):
                pass


async def release(
    catalog: BoardCatalog, contents: ServerContents, board: str, opened: Opened, owner: str
) -> bool:
    """End the tracking and blocking of a board by an owner, after which its definition can be
    changed again. Return False if another owner tracks or blocks the board."""
    await catalog.registry.clear_note(_note_of(board), owner)
    return await contents.untrack(opened, owner)


async def seize(
    catalog: BoardCatalog, contents: ServerContents, board: str, opened: Opened, owner: str
) -> None:
    """Transfer the tracking and blocking of a board to the move `owner`, whichever move has
    them."""
    if await catalog.registry.note(_note_of(board)) is not None:
        await catalog.registry.set_note(_note_of(board), owner)
    await contents.seize(opened, owner)


def _note_of(board: str) -> str:
    """Return the key of the note by which changes of a definition are refused; see
    `put_definition.lua`."""
    return f"moving:{board}"


def pulled(run: Callable[[Any], Any], pieces: AsyncIterator[PieceT]) -> Iterator[PieceT]:
    """Yield pieces in a thread. They are read on the loop of the store."""
    while (piece := run(_current(_next(pieces)))) is not None:
        yield piece


async def _next(pieces: AsyncIterator[PieceT]) -> PieceT | None:
    """Return the next piece; None after the last one."""
    return await anext(pieces, None)


async def _current(call: Awaitable[T]) -> T:
    """Return the result of a call. Raises BoardChanging if the board has another definition now, or
    if its changes are no longer tracked."""
    with ends_in(inf, anew=True):
        try:
            return await call
        except (DefinitionOutdated, TrackingLost) as error:
            raise BoardChanging("the board was changed while it was copied") from error
