"""Copies and moves the payouts of boards on an index server. They are in the ledgers of the boards.

While a board is moved and its writes are blocked, its payouts are blocked in the ledger as well
(`sql.payout_moving`): a confirmation is a transaction of the ledger, so the index server cannot
refuse it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from laurels.core.season_pieces import CopiedPayout, PayoutRows, payout_pieces
from laurels.errors.index_server import LedgerRequired
from laurels.model.board import Board
from laurels.sql.payout_copying import PayoutCopies
from laurels.sql.payout_moving import PayoutMoves

from .payouts import ServerPayouts

SLACK_MS = 60_000
"""By how much the clocks of the processes that confirm payouts may differ, in milliseconds."""


class PayoutTransfers:
    """The payouts of boards that are copied or moved. Every method raises LedgerUnavailable and
    UnknownLedger. `run` runs a coroutine on the loop of the store and waits for its result."""

    def __init__(self, payouts: ServerPayouts, run: Callable[[Any], Any]) -> None:
        self._payouts = payouts
        self._run = run

    def pieces(self, board: Board, uid: str) -> Iterator[PayoutRows]:
        """Yield the payouts of a board, after those that are due have entered the list of due
        payouts. Blocks."""
        self._run(self._settle(board))
        return self._rows(board, uid, None)

    def rows(self, board: Board, uid: str) -> Iterator[PayoutRows]:
        """Yield the payouts of a board. Blocks."""
        self._run(self.publish(board))
        return self._rows(board, uid, None)

    def confirmed(self, board: Board, uid: str, from_ms: int) -> Iterator[PayoutRows]:
        """Yield the payouts of a board that were confirmed at `from_ms` or later. Some that were
        confirmed a little earlier may be among them. Blocks."""
        return self._rows(board, uid, from_ms - SLACK_MS)

    def _rows(self, board: Board, uid: str, confirmed_ms: int | None) -> Iterator[PayoutRows]:
        store = self._run(self._payouts.store())
        for ledger in self._run(self._payouts.ledgers_of(board)):
            with ledger.connected() as connection:
                copies = PayoutCopies(ledger.dialect, ledger.prefix, connection, store)
                yield from payout_pieces(copies.of(uid, confirmed_ms))

    async def _settle(self, board: Board) -> None:
        """In each ledger with payouts of a board, make the payouts of finished copies visible, list
        those that are due, and record the notes on the index server."""
        for ledger in await self._payouts.ledgers_of(board):
            await self._payouts.settle_ledger(ledger)

    # Copies

    async def receive(self, number: int, board: Board, payouts: list[CopiedPayout]) -> None:
        """Store payouts of the unfinished copy with this number. Raises LedgerRequired."""
        if not board.ledger:
            raise LedgerRequired("the board has payouts: on an index server they need a ledger")
        await self._payouts.expect(board)
        ledger = self._payouts.ledger(board.ledger)
        receive = partial(PayoutCopies.receive, number=number, payouts=payouts)
        await self._payouts.change(ledger, PayoutCopies, receive)

    async def publish(self, board: Board) -> None:
        """Make the payouts of a finished copy visible. A second call changes nothing."""
        for ledger in await self._payouts.ledgers_of(board):
            await self._payouts.publish_copies(ledger)

    async def discard(self, number: int, board: Board) -> None:
        """Remove the payouts of a copy that is given up."""
        for ledger in await self._payouts.ledgers_of(board):
            discard = partial(PayoutCopies.discard, number=number)
            await self._payouts.change(ledger, PayoutCopies, discard)

    # Moves

    async def block(self, board: Board, uid: str, owner: str) -> None:
        """Block all changes of the payouts of a board until `release` is called. Before returning,
        record on the index server the changes that were made before the blocking."""
        for ledger in await self._payouts.ledgers_of(board):
            block = partial(PayoutMoves.block, uid=uid, owner=owner)
            await self._payouts.change(ledger, PayoutMoves, block)
            await self._payouts.record_notes(ledger)

    async def release(self, board: Board, uid: str, owner: str | None = None) -> None:
        """End the blocking by the move `owner` or, with None, by any move."""
        for ledger in await self._payouts.ledgers_of(board):
            release = partial(PayoutMoves.release, uid=uid, owner=owner)
            await self._payouts.change(ledger, PayoutMoves, release)

    async def seize(self, board: Board, uid: str, owner: str) -> None:
        """Transfer the blocking of a board's payouts to the move `owner`, whichever move has it."""
        for ledger in await self._payouts.ledgers_of(board):
            seize = partial(PayoutMoves.seize, uid=uid, owner=owner)
            await self._payouts.change(ledger, PayoutMoves, seize)
