"""The due payouts at a service."""

from laurels.core.due_payouts import BoardSelection, WaitingPayouts
from laurels.core.payouts import PayoutPage

from . import calls
from .transport import Wire


class RemoteDuePayouts:
    """The due payouts of the boards that the key administers. Implementation of `DuePayouts`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        return self._wire.answer(calls.due_payouts(boards.patterns, after, limit))

    def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        return self._wire.answer(calls.waiting_payouts(boards.patterns, after))

    def positions(self) -> dict[str, str]:
        return self._wire.answer(calls.payout_positions())

    def move(self, reader: str, before: str | None, position: str | None) -> None:
        self._wire.answer(calls.move_payout_position(reader, before, position))
