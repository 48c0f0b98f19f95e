"""Positions of sinks in the changes of deleted boards.

A sink moves its position by a submission without events. The position is a cursor, which has the
unique id of its board. So a position in the changes of a deleted board is stored with that board,
even if another board has its name.
"""

from collections.abc import Sequence, Sized
from typing import Any

from msgspec import Struct

from laurels.core import record
from laurels.core.board_state import Boards, BoardState, unknown_board
from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.changes.beginning import uid_of
from laurels.core.commands import Command, SubmitMany
from laurels.core.fold import Fold
from laurels.core.receipt import Receipts
from laurels.errors import PositionMoved
from laurels.model.validation import quoted

from .accept import ensure_position
from .writes import Single


class SinkMove(Struct, frozen=True):
    """The move of a sink's position to `text`, a cursor of the board with this unique id. `follows`
    is the position that must be stored before the move. "" means that no position may be stored,
    None that any position is allowed."""

    board: str
    uid: str
    source: str
    text: str
    follows: str | None

    def ensure_follows(self, stored: str) -> bool:
        """Return whether the move has to be made: False if `stored`, the stored position, is
        already that after the move. Raises PositionMoved if it is not `follows` either."""
        if stored == self.text:
            return False
        if self.follows is not None and stored != self.follows:
            raise PositionMoved(
                f"expected another stored position of {quoted(self.source)}, got {quoted(stored)}"
            )
        return True


def sink_move(command: Command[Any]) -> SinkMove | None:
    """Return the move that a command makes if it does nothing but move the position of a sink to a
    cursor; None for any other command."""
    if not isinstance(command, SubmitMany) or command.position is None:
        return None
    if not isinstance(command.events, Sized) or len(command.events):
        return None
    ensure_position(command.position, command.arrived_ms)
    source, text = command.position[:2]
    uid = uid_of(text) if source.startswith(SINK_PREFIX) else None
    if uid is None:
        return None
    follows = None if len(command.position) == 2 else command.position[2] or ""
    return SinkMove(command.board, uid, source, text, follows)


def no_receipts(state: BoardState, offset: int) -> Receipts:
    """Return the receipts of a submission without events."""
    return Receipts(state.rules, state.rules.specs[0], 0, offset, (), {})


class DeletedMove(Single):
    """A write that moves the position of a sink in the changes of a deleted board."""

    def __init__(self, move: SinkMove, state: BoardState) -> None:
        def propose(boards: Boards, now_ms: int) -> record.Record | None:
            assert isinstance(boards, Fold)
            deletion = boards.find_deletion(move.board, move.uid)
            if deletion is None:
                raise unknown_board(move.board)
            if not move.ensure_follows(deletion.state.positions.get(move.source, "")):
                return None
            position = (move.source, move.text)
            at_ms = boards.accepts_at(deletion.state, now_ms)
            return record.DeletedPosition(state.number, state.version, at_ms, position)

        super().__init__(propose, exclusive=True)
        self._state = state

    def results(self, offset: int) -> Sequence[Any]:
        """Return the receipts of the submission, which has no events."""
        return [no_receipts(self._state, offset)]
