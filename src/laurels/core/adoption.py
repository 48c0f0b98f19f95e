"""Boards that are being copied from another store, until they are complete.

An unfinished board has a number, and the pieces copied so far are in the index, but readers and
writers cannot see the board. `Fold` registers the board when the copy is complete.
"""

from msgspec.structs import replace

from laurels.model.board import Board

from . import record as records
from .board_state import BoardState, new_state
from .closing import WindowClosing
from .contents import Origin, OriginRest, Renewed, decode_origin, decode_piece
from .hidden import HiddenMembers
from .index import Index
from .lifecycle import Refreshed


class Unfinished:
    """The unfinished boards of a fold, by number."""

    def __init__(self, index: Index) -> None:
        self.states: dict[int, BoardState] = {}
        self._index = index

    def named(self, name: str) -> BoardState | None:
        """Return the unfinished board with this name, None if there is none."""
        return next((each for each in self.states.values() if each.board.name == name), None)

    def begin(self, record: records.Adopt) -> None:
        """Begin to copy a board."""
        state = adopted_state(record.board, decode_origin(record.origin))
        self.open(state)

    def open(self, state: BoardState) -> None:
        """Register an unfinished board, and open it in the index."""
        self.states[state.number] = state
        self._index.open_board(state.number, state.rules)

    def restore(self, record: records.Content) -> None:
        """Write a piece of an unfinished board's state to the index."""
        piece = decode_piece(record.piece)
        if isinstance(piece, Renewed):
            self.states[record.board] = adopted_state(record.board, piece.origin)
        elif isinstance(piece, OriginRest):
            _extend(self.states[record.board], piece)
        else:
            self._index.restore(record.board, piece)

    def finish(self, record: records.Adopted, entry: int) -> BoardState:
        """End the copy of a board, whose pieces are complete, and return its state. `entry` is the
        offset of the log entry that ends the copy. It is stored as the `offset` of each refreshed
        window, that is, as the entry that last changed the window's list."""
        state = self.states.pop(record.board)
        self._index.restored(record.board)
        state.refreshed = {
            window: replace(each, offset=entry) for window, each in state.refreshed.items()
        }
        return state

    def give_up(self, number: int) -> None:
        """Remove an unfinished board, whose copy is abandoned."""
        del self.states[number]
        self._index.close_board(number)


def _extend(state: BoardState, rest: OriginRest) -> None:
    """Add a part of an origin to the state of an unfinished board. Adding the same part again
    changes nothing."""
    state.hidden = HiddenMembers({**dict(state.hidden.items()), **dict(rest.hidden)})
    for window, sealed in rest.sealed.items():
        state.closing.setdefault(window, WindowClosing()).sealed.update(sealed)


def adopted_state(number: int, origin: Origin) -> BoardState:
    """Return the initial state of a copied board, made from its origin. Its next boundary is set to
    be due at once, so that the board is advanced before its first use."""
    board = Board.from_json(origin.definition)
    state = new_state(board, number, origin.version, origin.created_ms, origin.uid)
    state.floors = origin.floors
    state.positions = origin.positions
    state.now_ms = origin.now_ms
    state.hidden = HiddenMembers(dict(origin.hidden))
    state.refreshed = {
        window: Refreshed(0, refresh.now_ms, refresh.waiting)
        for window, refresh in origin.shown.items()
    }
    state.closing = origin.closing
    if len(origin.ends) == 1:
        ((state.sequence, state.tag),) = origin.ends
    return state
