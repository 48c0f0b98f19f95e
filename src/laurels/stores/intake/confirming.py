"""The write that records that a payout was paid."""

from laurels.core import record
from laurels.core.board_state import Boards
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
            raise UnknownPayout(f"the board {quoted(name)} has no payout {safe_repr(payout)}")
        if row.reference == reference:
            return None
        if row.reference is not None:
            raise PayoutConfirmed(
                f"the payout {payout} was confirmed with the reference {quoted(row.reference)}, "
                f"got {quoted(reference)}"
            )
        state = boards.boards.get(name)
        if state is not None and state.uid != row.uid:
            state = None
        at_ms = now_ms if state is None else boards.accepts_at(state, now_ms)
        if (status := row.state(at_ms)) != "due":
            raise PayoutNotDue(f"the payout {payout} is {status}")
        number, version = (0, 0) if state is None else (state.number, state.version)
        return record.Confirm(
            number, version, at_ms, payout, reference, row.member.encode(), new_tag()
        )

    return Single(propose, exclusive=True)


def ensure_short_text(value: object, name: str) -> None:
    """Raise InvalidReference for anything but text of 1 to 500 characters."""
    if not (isinstance(value, str) and 1 <= len(value) <= MAX_TEXT and is_unicode(value)):
        raise InvalidReference(
            f"expected text of 1 to {MAX_TEXT} characters for {name}, got {safe_repr(value)}"
        )
