"""The due payouts of a store on an index server, for callers outside of its event loop."""

from collections.abc import Callable
from typing import Any

from laurels.core.due_payouts import BoardSelection, WaitingPayouts
from laurels.core.payouts import PayoutPage

from .payouts import ServerPayouts


class ServerDuePayouts:
    """Implementation of `DuePayouts`. `run` runs a coroutine on the loop of the store."""

    def __init__(self, payouts: ServerPayouts, run: Callable[[Any], Any]) -> None:
        self._payouts = payouts
        self._run = run

    def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        page: PayoutPage = self._run(self._payouts.page(after, limit, boards))
        return page

    def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        waiting: list[WaitingPayouts] = self._run(self._payouts.waiting(after, boards))
        return waiting

    def positions(self) -> dict[str, str]:
        positions: dict[str, str] = self._run(self._payouts.positions())
        return positions

    def move(self, reader: str, before: str | None, position: str | None) -> None:
        self._run(self._payouts.move(reader, before, position))
