"""The protocol of a recorder, which receives the blocks of boards that keep their changes."""

from typing import Protocol

from laurels.core.board_state import BoardState

from .blocks import MendBlock, WriteBlock
from .counted_batch import CountedBatch
from .payout_blocks import PayoutBlock

RecordedBlock = CountedBatch | WriteBlock | MendBlock | PayoutBlock


class ChangeRecorder(Protocol):
    """Receives the blocks of boards that keep their changes, in order. It is called while reads
    wait, so it must be fast."""

    def record(self, state: BoardState, block: RecordedBlock) -> None:
        """Record the next block of a board."""

    def restart(self, state: BoardState) -> None:
        """Drop all blocks up to the state's sequence number.

        This is called when a board begins to keep changes again. The changes of the time in which
        it kept none are missing.
        """

    def forget(self, board: int) -> None:
        """Drop the blocks of a deleted board, by its number."""
