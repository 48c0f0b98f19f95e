"""The write that emits due payouts."""

from laurels.core import record
from laurels.core.board_state import Boards
from laurels.core.hiding import EVERYWHERE
from laurels.core.payouts import PayoutShare

from .tags import new_tag


def emission_record(boards: Boards, share: PayoutShare, now_ms: int) -> record.EmitPayouts:
    """Return the record that emits payouts at `now_ms`."""
    counts: dict[int, int] = {}
    for (name, uid), count in share.counts.items():
        state = boards.boards.get(name)
        if state is not None and state.uid == uid and state.rules.changes_ms:
            counts[state.number] = count
    return record.EmitPayouts(
        EVERYWHERE, 0, now_ms, share.after.parts, share.until.parts, counts, new_tag()
    )
