"""Due payouts as rows of a ledger."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import msgspec

from laurels.core.payouts import Payout, PayoutRow
from laurels.errors import LaurelsError
from laurels.model.board import Board
from laurels.model.labels import labels_text
from laurels.model.score import exact_units
from laurels.sql.dialects import Row
from laurels.sql.payout_rows import row_of_payout

NO_INSTANCE = -1
"""The instance in the row of a payout whose board, or its window, no longer exists."""
MAX_UNITS = 2**63 - 1


def payout_rows(
    payouts: Sequence[Payout], boards: dict[str, Board | None], version: int
) -> list[Row]:
    """Return the rows of payouts. `boards` has the definitions of their boards, None for a board
    that was deleted."""
    return [row_of_payout(_stored(each, boards[each.board]), version) for each in payouts]


def _stored(payout: Payout, board: Board | None) -> PayoutRow:
    """Return a payout as a store has it."""
    amount = payout.amount
    scale = 0 if not isinstance(amount, Decimal) else -int(amount.as_tuple().exponent)
    return PayoutRow(
        id=payout.id,
        uid=payout.id.partition("/")[0],
        board=payout.board,
        window=payout.window,
        instance=_instance_of(payout, board),
        period=payout.period,
        revision=payout.revision,
        scope=labels_text(payout.labels),
        member=payout.member,
        prize=payout.prize,
        position=payout.position,
        units=None if amount is None else exact_units(amount, scale, "amount", MAX_UNITS),
        scale=scale,
        data=msgspec.json.encode(payout.data),
        withdrawn=payout.withdrawn,
        corrects=payout.corrects,
        made_ms=payout.made_ms,
        due_ms=payout.due_ms,
        superseded=payout.superseded_by,
        reference=payout.reference,
        confirmed_ms=payout.confirmed_ms,
    )


def _instance_of(payout: Payout, board: Board | None) -> int:
    """Return the instance of a payout's period."""
    window = None if board is None else board.rules().windows.get(payout.window)
    if window is None:
        return NO_INSTANCE
    with suppress(LaurelsError):  # the window of that name may now have other periods
        return window.instance_of(window.period(payout.period))
    return NO_INSTANCE
