"""Writes that hide members of a board, and show them again."""

from laurels.core import record
from laurels.core.board_state import Boards, BoardState
from laurels.core.fold import Fold
from laurels.core.hiding import EVERYWHERE, MAX_REASON
from laurels.errors import HiddenEverywhere, InvalidHiding
from laurels.model.event import at_ms, member_bytes
from laurels.model.validation import quoted, safe_repr

from .tags import new_tag
from .writes import Single


def hiding(board: BoardState, member: str, reason: str, until_ms: int | None) -> Single:
    """Return a write that hides a member, or replaces its hiding. If the member is hidden already,
    the time since which it is hidden stays the same."""
    hidden, why, end_ms = member_bytes(member), reason_text(reason), at_ms(until_ms)

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(board.board.name)
        accepted_ms = boards.accepts_at(state, now_ms)
        ensure_end_to_come(end_ms, accepted_ms)
        earlier = state.hidden.hiding(hidden, accepted_ms)
        since_ms = accepted_ms if earlier is None else earlier.since_ms
        return record.Hide(
            state.number, state.version, accepted_ms, hidden, why, since_ms, end_ms, new_tag()
        )

    return Single(propose, exclusive=True)


def showing(board: BoardState, member: str) -> Single:
    """Return a write that shows a member again. The result of the write is whether the member was
    hidden."""
    hidden = member_bytes(member)

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(board.board.name)
        accepted_ms = boards.accepts_at(state, now_ms)
        if state.hidden.hiding(hidden, accepted_ms) is None:
            ensure_not_everywhere(boards, hidden, accepted_ms)
            return None
        return record.Show(state.number, state.version, accepted_ms, hidden, new_tag())

    return Single(propose, exclusive=True)


def hiding_everywhere(member: str, reason: str, until_ms: int | None) -> Single:
    """Return a write that hides a member on all boards, or replaces this hiding."""
    hidden, why, end_ms = member_bytes(member), reason_text(reason), at_ms(until_ms)

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        ensure_end_to_come(end_ms, now_ms)
        earlier = boards.everywhere.hiding(hidden, now_ms)
        since_ms = now_ms if earlier is None else earlier.since_ms
        return record.HideOnAll(EVERYWHERE, 0, now_ms, hidden, why, since_ms, end_ms, new_tag())

    return Single(propose, exclusive=True)


def showing_everywhere(member: str) -> Single:
    """Return a write that removes the hiding of a member on all boards. The result of the write is
    whether the member was hidden on all boards."""
    hidden = member_bytes(member)

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        if boards.everywhere.hiding(hidden, now_ms) is None:
            return None
        return record.ShowOnAll(EVERYWHERE, 0, now_ms, hidden, new_tag())

    return Single(propose, exclusive=True)


def end_of_hiding(board: BoardState | None, member: bytes, fold: Fold) -> record.Show:
    """Return the record that removes the hiding of a member on `board`, or on all boards if `board`
    is None. The end of the hiding has passed."""
    if board is None:
        return record.ShowOnAll(EVERYWHERE, 0, fold.now_ms, member, new_tag())
    return record.Show(board.number, board.version, fold.time_of(board), member, new_tag())


def ensure_not_everywhere(boards: Boards, member: bytes, now_ms: int) -> None:
    """Raise HiddenEverywhere if a member is hidden on all boards."""
    if boards.everywhere.hiding(member, now_ms) is not None:
        raise HiddenEverywhere(f"{quoted(member.decode())} is hidden on all boards")


def reason_text(reason: object) -> str:
    """Return the reason of a hiding. Raises InvalidHiding for anything but a text of 1 to 500
    characters."""
    if not isinstance(reason, str) or not 1 <= len(reason.strip()) <= MAX_REASON:
        raise InvalidHiding(
            f"expected a reason of 1 to {MAX_REASON} characters, got {safe_repr(reason)}"
        )
    try:
        reason.encode()
    except UnicodeEncodeError as error:
        raise InvalidHiding(f"expected a reason in Unicode, got {safe_repr(reason)}") from error
    return reason


def ensure_end_to_come(until_ms: int | None, now_ms: int) -> None:
    """Raise InvalidHiding for a hiding that would end at once."""
    if until_ms is not None and until_ms <= now_ms:
        raise InvalidHiding(f"expected `until` after now, {now_ms} ms, got {until_ms} ms")
