"""The protocol of a target, to which a sink sends the changes of boards."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from laurels.core.changes.answers import SINK_PREFIX, Change
from laurels.core.payouts import Payout
from laurels.model.board import Board

POSITION_PREFIX = SINK_PREFIX
START_OVER = "initial"
"""The position of a sink that has to send every current entry before it sends changes."""


class SinkPage(Struct, frozen=True):
    """Changes of one board in order, with the cursors before and after them.

    `before` is the sink's current position, in the target or in the store; None at first. If
    `restarts` is True, this is the first of the pages with all current entries. These entries
    replace everything that the target has of the board. `definition` is the definition of a board
    that is deleted already; None for any other board.

    A page of due payouts, of any boards, has them as `changes` of the kind `payout` and, once more,
    as `payouts`. Its `board` is the name under which the sink's position among the payouts is
    stored; no board has this name.
    """

    board: str
    changes: Sequence[Change]
    before: str | None
    after: str
    restarts: bool = False
    definition: Board | None = None
    payouts: Sequence[Payout] | None = None


class SinkTarget(Protocol):
    """A destination of changes. Its methods are called by one task at a time."""

    @property
    def keeps_positions(self) -> bool:
        """Whether the target stores a sink's position together with the changes."""

    @property
    def holds_state(self) -> bool:
        """Whether the target stores the current state of boards. If it does, a sink that has missed
        changes starts over with every current entry, without an operator."""

    @property
    def limit(self) -> int:
        """The maximum number of changes in a page."""

    async def open(self) -> None:
        """Connect. Raises TargetUnavailable, TargetRefused."""

    async def position(self, board: str) -> str | None:
        """Return the stored position of a board, None if there is none or the target stores no
        positions."""

    async def deliver(self, page: SinkPage) -> None:
        """Send a page. When this returns the target has stored it, with its position if the target
        keeps positions. Raises TargetUnavailable if the page should be sent again, TargetRefused if
        it should be parked, and SinkOvertaken if the stored position is not `page.before`."""

    async def reset(self, board: str, position: str | None) -> None:
        """Store another position for a board; do nothing if the target stores no positions."""

    async def close(self) -> None:
        """Disconnect."""
