"""The writes that create, change, delete and restore a board."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict, replace

from laurels.core import record
from laurels.core.board_record import board_record, encode
from laurels.core.board_state import Boards, BoardState
from laurels.core.commands import UndeleteBoard
from laurels.core.fold import Fold
from laurels.errors import (
    BoardExists,
    BoardInvalid,
    NotRestorable,
    PeriodsUnsealed,
    UnsafeChange,
)
from laurels.errors.payouts import PayoutsOpen
from laurels.model.board import Board
from laurels.model.board_change import ensure_end_to_come, named_as, safe_change
from laurels.model.board_times import instant_text
from laurels.model.validation import quoted, safe_repr
from laurels.timeline.instants import MIN_MS

from .copies import unfinished_copy
from .tags import new_tag, new_uid
from .writes import Single


def creation(board: Board, *, exist_ok: bool) -> Single:
    """Return a write that creates a board. With `exist_ok` an equal board may already exist."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        if (existing := boards.boards.get(board.name)) is not None:
            is_equal = existing.board == named_as(board, existing.board)
            if exist_ok and is_equal:
                return None
            if isinstance(boards, Fold) and boards.waits_for_seals(existing):
                raise PeriodsUnsealed(
                    f"periods of the earlier board {quoted(board.name)} are not in the archive yet"
                )
            differs = "" if is_equal else " with another definition"
            raise BoardExists(f"there is a board {quoted(board.name)} already{differs}")
        if isinstance(boards, Fold) and boards.unfinished.named(board.name) is not None:
            raise unfinished_copy(board.name)
        if not boards.event_time and board.rules().is_gone(now_ms):
            raise BoardInvalid(
                f"the board would be removed at once: {board.retain} after {board.ends} is before "
                f"now, {instant_text(now_ms)}"
            )
        return record.Create(boards.next_number, 1, now_ms, board.to_json(), new_uid(), new_tag())

    return Single(propose, exclusive=True)


def change(name: str, changes: Mapping[str, Any]) -> Single:
    """Return a write that changes the definition of a board. Changes that would alter the meaning
    of earlier answers are refused."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(name)
        changed = safe_change(state.board, changes)
        if changed == state.board:
            return None
        at_ms = boards.accepts_at(state, now_ms)
        ensure_end_to_come(state.board, changed, at_ms)
        ensure_end_open(state, changed)
        return record.Redefine(
            state.number,
            state.version + 1,
            at_ms,
            changed.to_json(),
            new_tag(),
        )

    return Single(propose, exclusive=True)


def ensure_end_open(state: BoardState, changed: Board) -> None:
    """Raise UnsafeChange if a change would move the end of a board although a period with the same
    end is already closed."""
    ends_ms = state.rules.ends_ms
    if changed.rules().ends_ms == ends_ms:
        return
    for name, closing in state.closing.items():
        window = state.rules.windows[name]
        closed = (*closing.closed, *closing.sealed)
        if any(window.period_of(instance).end_ms == ends_ms for instance in closed):
            raise UnsafeChange(
                f"ends cannot change: the window {quoted(name)} was closed at the end of the board"
            )


def clearing(name: str) -> Single:
    """Return a write that removes all members of a board."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(name)
        ensure_settled(boards, state)
        return record.Clear(
            state.number, state.version + 1, boards.accepts_at(state, now_ms), new_tag()
        )

    return Single(propose, exclusive=True)


def ensure_settled(boards: Boards, state: BoardState) -> None:
    """Raise PeriodsUnsealed if closed periods of a board are not in the archive yet, and
    PayoutsOpen if it has payouts that are not confirmed."""
    name = state.board.name
    if isinstance(boards, Fold) and not boards.closings.is_settled(state, boards.time_of(state)):
        raise PeriodsUnsealed(f"closed periods of {quoted(name)} are not in the archive yet")
    if (
        state.closing
        and boards.payouts is not None
        and (count := boards.payouts.open_on(state.uid))
    ):
        raise PayoutsOpen(f"the board {quoted(name)} has payouts that are not confirmed: {count}")


def deletion(name: str, *, is_moved: bool = False) -> Single:
    """Return a write that deletes a board with all its data. With `is_moved` the board continues in
    another store, with its periods and payouts, so no change records the deletion."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(name)
        if not is_moved:
            ensure_settled(boards, state)
        tag = 0 if is_moved else new_tag()
        return record.Delete(state.number, state.version, boards.accepts_at(state, now_ms), tag)

    return Single(propose, exclusive=True)


def undeletion(command: UndeleteBoard) -> Single:
    """Return a write that restores a removed board; see `restored_as`."""

    def propose(boards: Boards, now_ms: int) -> record.Record:
        assert isinstance(boards, Fold)
        removed = boards.removed.find(command.name, command.uid)
        if removed is None:
            raise not_restorable(command)
        ensure_free(boards, command.defines, removed.uid)
        state = board_record(removed.state)
        board = restored_as(state.definition, command.defines, now_ms, event_time=boards.event_time)
        deletion = boards.deletions.find(removed.uid)
        positions = state.positions if deletion is None else deletion.state.positions
        state = replace(state, definition=board.to_json(), positions=positions)
        at_ms = max(state.now_ms or now_ms, MIN_MS if boards.event_time else now_ms)
        return record.Undelete(state.number, state.version + 1, at_ms, encode(state), new_tag())

    return Single(propose, exclusive=True)


def not_restorable(command: UndeleteBoard) -> NotRestorable:
    """Return the error for a board that is not among the removed boards."""
    which = "" if command.uid is None else f" with the uid {safe_repr(command.uid)}"
    return NotRestorable(
        f"there is no removed board {safe_repr(command.name)}{which} with sealed periods"
    )


def restored_as(definition: bytes, name: str, now_ms: int, *, event_time: bool) -> Board:
    """Return the definition of a restored board, which may have another name. If the `retain` of
    the board would remove it again at once, it has no `retain`."""
    before = Board.from_json(definition)
    board = named_as(Board.from_json({**asdict(before), "name": name}), before)
    is_gone = not event_time and board.rules().is_gone(now_ms)
    return replace(board, retain="") if is_gone else board


def ensure_free(boards: Fold, name: str, uid: str) -> None:
    """Raise BoardExists if a board or an unfinished copy has this name, or if there is an
    unfinished copy of the board with this unique id."""
    ensure_name_free(boards, name)
    for state in boards.unfinished.states.values():
        if state.board.name == name or state.uid == uid:
            raise copy_in_the_way(name)


def ensure_name_free(boards: Boards, name: str) -> None:
    """Raise BoardExists if a board has this name."""
    if name in boards.boards:
        raise BoardExists(f"there is a board {quoted(name)} already")


def copy_in_the_way(name: str) -> BoardExists:
    """Return the error for a board that is restored under this name. The copy may have another
    name, which the caller may not be allowed to know."""
    return BoardExists(f"an unfinished copy has the name {quoted(name)}, or is of this board")
