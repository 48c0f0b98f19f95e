"""Copies whole boards from and to the local store. A board is read as pieces, and written as
records of the log."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from laurels.core import record as records
from laurels.core.board_state import Boards, BoardState
from laurels.core.contents import (
    ChangedIndexPiece,
    ChangedPiece,
    CopyClock,
    Origin,
    OriginRest,
    Piece,
    PieceT,
    Renewed,
    UnfinishedCopy,
    encode,
)
from laurels.core.fold import Fold
from laurels.core.index import Index
from laurels.core.season_pieces import PayoutRows, SealedShare
from laurels.errors.copies import BoardChanging, CopyLost
from laurels.model.board import Board
from laurels.model.validation import quoted
from laurels.stores.intake.copies import (
    ensure_absent,
    ensure_copyable,
    ensure_sealed,
    name_taken,
    origin_of,
)
from laurels.stores.intake.tags import new_tag
from laurels.stores.intake.writes import Several, Single

from . import season_pieces
from .season_pieces import SeasonStore


class Committing(SeasonStore, Protocol):
    """The methods of the local store that copies use."""

    def reading(self) -> threading.RLock: ...

    def commit(self, write: Any) -> Any: ...

    def settle_board(self, name: str) -> None:
        """Close the due periods of a board, and seal all its closed ones."""

    def ensure_erased(self) -> None:
        """Complete the erasures that were interrupted. Raises PeriodsUnsealed if one stays
        incomplete."""

    def advanced_fold(self) -> Fold:
        """Advance the fold's clock to now, and return the fold. Must be called under the lock of
        `reading`."""


class LocalCopies:
    """Implementation of `BoardCopies` for the local store."""

    def __init__(self, store: Committing) -> None:
        self._store = store

    def clock(self) -> CopyClock:
        """Return the time of the store."""
        with self._store.reading():
            fold = self._store.advanced_fold()
            return CopyClock(fold.event_time, fold.now_ms)

    def settle(self, board: str) -> None:
        """Close the due periods of a board, and seal the closed ones."""
        self._store.settle_board(board)

    def origin(self, board: str) -> Origin:
        """Advance the rankings of a board, and return the board's state without its rankings."""
        with self._store.reading():
            fold = self._store.advanced_fold()
            state = fold.named(board)
            fold.advance_whole(state)
            fold.take_up(state)
            return origin_of(
                state,
                fold.time_of(state),
                event_time=fold.event_time,
                positions=state.positions,
                ends=[(state.sequence, state.tag)],
                changes=state.changes,
            )

    def pieces(self, board: str) -> Iterator[Piece]:
        """Yield the pieces of a board."""
        yield from _read(self._store, board, lambda index, number: index.contents(number))
        yield from _season_pieces(self._store, board)

    def payouts(self, board: str) -> Iterator[PayoutRows]:
        """Yield the payouts of a board."""
        with self._store.reading():
            uid = self._store.advanced_fold().named(board).uid
        return season_pieces.payout_rows(self._store.payouts, uid)

    def track(self, board: str, owner: str) -> "TrackedLocalBoard":
        """Begin to track the changes of a board."""
        return TrackedLocalBoard(self._store, board, owner)

    def unblock(self, board: str, owner: str) -> bool:
        """End tracking. If the process that tracked was killed, its tracking has ended with it."""
        with self._store.reading():
            fold = self._store.advanced_fold()
            return fold.index.untrack(fold.named(board).number, owner)

    def owner(self, board: str) -> str | None:
        """Return the owner of the move that tracks a board."""
        with self._store.reading():
            fold = self._store.advanced_fold()
            return fold.index.tracking_owner(fold.named(board).number)

    def seize(self, board: str, owner: str) -> None:
        """End tracking. Only moves of this process track boards, one at a time, so nothing has to
        be taken over."""
        if (earlier := self.owner(board)) is not None:
            self.unblock(board, earlier)

    def unfinished(self, board: str) -> UnfinishedCopy | None:
        """Return the unfinished copy of a board; None if there is none."""
        with self._store.reading():
            state = self._store.advanced_fold().unfinished.named(board)
            return None if state is None else UnfinishedCopy(state.uid, state.board.to_json())

    def begin(self, origin: Origin) -> None:
        """Begin an unfinished copy of a board in this store."""
        name = Board.from_json(origin.definition).name

        def propose(boards: Boards, now_ms: int) -> records.Record:
            assert isinstance(boards, Fold)
            if name in boards.boards or boards.unfinished.named(name) is not None:
                raise name_taken(name)
            ensure_absent(boards, origin)
            ensure_copyable(origin, now_ms, event_time=boards.event_time)
            return records.Adopt(boards.next_number, origin.version, now_ms, encode(origin))

        season_pieces.begin(self._store, origin.uid)
        self._store.commit(Single(propose, exclusive=True))

    def extend(self, board: str, rest: OriginRest) -> None:
        """Add a part of the origin of an unfinished copy."""
        piece = encode(rest)
        self._write(board, lambda number, now_ms: records.Content(number, 1, now_ms, piece))

    def put(self, board: str, pieces: Sequence[ChangedPiece]) -> None:
        """Write pieces of an unfinished copy. Those of the index are written in one commit."""
        seasons = [piece for piece in pieces if isinstance(piece, SealedShare | PayoutRows)]
        encoded = [
            encode(piece) for piece in pieces if not isinstance(piece, SealedShare | PayoutRows)
        ]

        def propose(boards: Boards, now_ms: int) -> list[records.Record]:
            number = _number_of(boards, board)
            return [records.Content(number, 1, now_ms, piece) for piece in encoded]

        if encoded:
            self._store.commit(Several(propose))
        if seasons:
            state = self._unfinished(board)
            season_pieces.receive(self._store, state.number, state.uid, seasons)

    def renew(self, origin: Origin) -> None:
        """Replace the origin of an unfinished copy."""
        ensure_sealed(origin)
        piece = encode(Renewed(origin))
        self._write(
            origin.board_name, lambda number, now_ms: records.Content(number, 1, now_ms, piece)
        )

    def finish(self, board: str) -> None:
        """Make a complete copy visible to readers and writers. Raises CopyLost if a sealed period
        is missing."""
        state = self._unfinished(board)
        season_pieces.complete(self._store, state)
        self._write(board, lambda number, now_ms: records.Adopted(number, 1, now_ms, new_tag()))
        season_pieces.end(self._store, state.number, state.uid)

    def give_up(self, board: str) -> None:
        """Remove an unfinished copy."""
        state = self._unfinished(board)
        self._write(board, lambda number, now_ms: records.Delete(number, 1, now_ms))
        season_pieces.give_up(self._store, state.number, state.uid)

    def _unfinished(self, board: str) -> BoardState:
        """Return the state of an unfinished copy. Raises CopyLost."""
        with self._store.reading():
            return _state_of(self._store.advanced_fold(), board)

    def _write(self, board: str, make: Callable[[int, int], records.Record]) -> None:
        def propose(boards: Boards, now_ms: int) -> records.Record:
            return make(_number_of(boards, board), now_ms)

        self._store.commit(Single(propose, exclusive=True))


def _number_of(boards: Boards, name: str) -> int:
    """Return the number of an unfinished copy. Raises CopyLost."""
    assert isinstance(boards, Fold)
    return _state_of(boards, name).number


def _state_of(fold: Fold, name: str) -> BoardState:
    """Return the state of an unfinished copy. Raises CopyLost."""
    if (state := fold.unfinished.named(name)) is None:
        raise CopyLost(f"there is no unfinished copy of {quoted(name)}")
    return state


def _season_pieces(store: Committing, board: str) -> Iterator[Piece]:
    """Yield the sealed periods and the payouts of a board."""
    with store.reading():
        state = store.advanced_fold().named(board)
        uid, keys = state.uid, list(season_pieces.period_keys(state.uid, state.closing))
    if keys:
        store.ensure_erased()
    yield from season_pieces.sealed_shares(store.archive, keys)
    yield from season_pieces.payout_rows(store.payouts, uid)


class TrackedLocalBoard:
    """Implementation of `TrackedBoard` for the local store."""

    def __init__(self, store: Committing, board: str, owner: str) -> None:
        self._store = store
        self._board = board
        self._owner = owner
        with store.reading():
            fold = store.advanced_fold()
            state = fold.named(board)
            self._index, self._number = fold.index, state.number
            self._uid = state.uid
            self._from_ms = fold.time_of(state)
            self._erasures = store.archive.erasures
            self._index.track(self._number, owner)

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the board, which may change meanwhile."""
        yield from _read(self._store, self._board, lambda index, number: index.scan(number))
        yield from _season_pieces(self._store, self._board)

    def changed_pieces(self) -> Iterator[ChangedPiece]:
        """Yield the current rows of the members that were changed since the last call, and the
        payouts that were confirmed since then. Raises BoardChanging if a member was erased after
        tracking began, because the copy may have the member in its sealed periods."""
        with self._store.reading():
            fold = self._store.advanced_fold()
            from_ms, self._from_ms = self._from_ms, fold.time_of(fold.named(self._board))
            if fold.erasing or self._store.archive.erasures != self._erasures:
                raise BoardChanging("a member was erased while the board was copied")

        def read(index: Index, number: int) -> Iterator[ChangedIndexPiece]:
            return index.changed_pieces(number, self._owner, from_ms)

        yield from _read(self._store, self._board, read)
        yield from season_pieces.payout_rows(self._store.payouts, self._uid, from_ms)

    def block(self) -> None:
        """Do nothing. Only this process writes to the store, and it holds its writes itself."""

    def end(self) -> None:
        """End tracking. Does nothing if another move tracks the board."""
        with self._store.reading():
            self._index.untrack(self._number, self._owner)


def _read(
    store: Committing, board: str, begin: Callable[[Index, int], Iterator[PieceT]]
) -> Iterator[PieceT]:
    """Yield pieces of the index, each read under the lock."""
    with store.reading():
        fold = store.advanced_fold()
        pieces = begin(fold.index, fold.named(board).number)
    while True:
        with store.reading():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece
