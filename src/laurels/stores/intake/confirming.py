"""The write that records that a payout was paid."""

from laurels.core import record
from laurels.core.board_state import Boards, BoardState
from laurels.core.payouts import PayoutRow
from laurels.errors.payouts import InvalidReference, PayoutConfirmed, PayoutNotDue, UnknownPayout
from laurels.model.validation import is_unicode, quoted, safe_repr

from .tags import new_tag
from .writes import Single

MAX_TEXT = 500
"""The maximum length of a reference or a reason, in characters."""


def confirmation(name: str, payout: str, reference: str) -> Single:
    """Return a write that records that a payout of a board was paid. The board may be deleted by
    now."""
    ensure_short_text(reference, "reference")

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        row = None
        if boards.payouts is not None and isinstance(payout, str) and is_unicode(payout):
            row = boards.payouts.find(payout)
        if row is None or row.board != name:
            boards.named(name)
            raise unknown_payout(name, payout)
        state = boards.boards.get(name)
        if state is not None and state.uid != row.uid:
            state = None
        at_ms = now_ms if state is None else boards.accepts_at(state, now_ms)
        return confirm_record(state, row, reference, at_ms)

    return Single(propose, exclusive=True)


def unknown_payout(board: str, payout: object) -> UnknownPayout:
    """Return the error of a payout that a board does not have."""
    return UnknownPayout(f"the board {quoted(board)} has no payout {safe_repr(payout)}")


def confirm_record(
    state: BoardState | None, row: PayoutRow, reference: str, at_ms: int
) -> record.Confirm | None:
    """Return the record that a payout was paid; None if this is already recorded, with the same
    reference. `state` is the board of the payout, or None if the board was deleted. Raises
    PayoutConfirmed, PayoutNotDue."""
    if row.reference == reference:
        return None
    if row.reference is not None:
        raise PayoutConfirmed(
            f"the payout {row.id} was confirmed with the reference {quoted(row.reference)}, "
            f"got {quoted(reference)}"
        )
    if (status := row.state(at_ms)) != "due":
        raise PayoutNotDue(f"the payout {row.id} is {status}")
    number, version = (0, 0) if state is None else (state.number, state.version)
    return record.Confirm(number, version, at_ms, row.id, reference, row.member.encode(), new_tag())


def ensure_short_text(value: object, name: str) -> None:
    """Raise InvalidReference for anything but text of 1 to 500 characters."""
    if not (isinstance(value, str) and 1 <= len(value) <= MAX_TEXT and is_unicode(value)):
        raise InvalidReference(
            f"expected text of 1 to {MAX_TEXT} characters for {name}, got {safe_repr(value)}"
        )
