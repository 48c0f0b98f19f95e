"""The changes of the kind `payout`: payouts that have become due. Pure."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.payouts import Payout, PayoutRow, payout_of
from laurels.core.record import EmitPayouts

from .answers import Change


class PayoutBlock(Struct, frozen=True, array_like=True, tag="payouts"):
    """The payouts of a board that a record has emitted."""

    sequence: int
    tag: int
    now_ms: int
    rows: list[PayoutRow]

    @property
    def count(self) -> int:
        """The number of changes in the block."""
        return len(self.rows)

    @property
    def sent(self) -> int:
        """The number of changes that sinks send as changes of the board: none, since sinks read
        payouts from the list of due payouts."""
        return 0


def payout_block(record: EmitPayouts, rows: Sequence[PayoutRow]) -> PayoutBlock:
    """Return the block of a record that emits payouts of a board."""
    return PayoutBlock(0, record.tag, record.now_ms, list(rows))


def change_of(payout: Payout, id: str) -> Change:
    """Return a due payout in the form of a change, with the payout as its data. The time is that at
    which it was due."""
    data: Any = msgspec.to_builtins(payout, builtin_types=(Decimal,))
    return Change(
        id,
        payout.board,
        "payout",
        payout.due_ms,
        payout.member,
        labels=payout.labels,
        data=data,
    )


def change_of_row(row: PayoutRow, id: str) -> Change:
    """Return an emitted payout in the form of a change."""
    return change_of(payout_of(row, row.due_ms), id)
