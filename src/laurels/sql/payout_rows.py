"""Payouts as rows of the table `payouts`."""

from hashlib import sha256
from typing import Any

from laurels.core.payouts import PayoutRow
from laurels.model.score import to_value

from .dialects import Row
from .texts import escape, ledger_scope, unescape

SELECTED = (
    "id, uid, board, window_name, instance, period, revision, full_scope, member, prize, position, "
    "units, scale, data, withdrawn, corrects, made_at, due_at, superseded_by, reference, "
    "confirmed_at"
)
"""The columns from which `payout_of_row` makes a payout."""


def payout_key(payout: str) -> str:
    """Return the key of a payout in the table, from its id."""
    return sha256(payout.encode()).hexdigest()


def row_of_payout(payout: PayoutRow, version: int) -> Row:
    """Return the row of a payout."""
    amount = None if payout.units is None else to_value(payout.units, payout.scale)
    return (
        *(payout_key(payout.id), escape(payout.id), payout.uid, payout.board, payout.window),
        *(payout.instance, payout.period, payout.revision, ledger_scope(payout.scope)),
        *(escape(payout.scope), escape(payout.member), escape(payout.prize), payout.position),
        *(amount, payout.units, payout.scale, escape(payout.data.decode())),
        *(int(payout.withdrawn), _escaped(payout.corrects), payout.made_ms, payout.due_ms),
        *(payout.superseded, _escaped(payout.reference), payout.confirmed_ms, version),
    )


def payout_of_row(row: Row) -> PayoutRow:
    """Return the payout in a row with the columns `SELECTED`."""
    id, uid, board, window, instance, period, revision, scope, member, prize, *rest = row
    position, units, scale, data, withdrawn, corrects, made_ms, due_ms, *later = rest
    superseded, reference, confirmed_ms = later
    return PayoutRow(
        *(unescape(id), uid, board, window, instance, period, revision, unescape(scope)),
        *(unescape(member), unescape(prize), position, units, scale, unescape(data).encode()),
        *(bool(withdrawn), _unescaped(corrects), made_ms, due_ms, superseded),
        *(_unescaped(reference), confirmed_ms),
    )


def _escaped(text: str | None) -> str | None:
    return None if text is None else escape(text)


def _unescaped(text: Any) -> str | None:
    return None if text is None else unescape(text)
