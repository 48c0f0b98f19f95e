"""The protocol of a target: where a sink sends the changes of boards."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from laurels.core.changes.answers import Change
from laurels.core.changes.confirmed import SINK_PREFIX

POSITION_PREFIX = SINK_PREFIX
BEGIN_AGAIN = "initial"
"""The position of a sink that is to send every present entry before anything else."""


class SinkPage(Struct, frozen=True):
    """Changes of one board in order, with the cursors before and behind them.

    `before` is what the target, or the store, has as the sink's position now, None at first.
    `restarts` says that the page is the first of all present entries, which take the place of
    whatever the target has of the board.
    """

    board: str
    changes: Sequence[Change]
    before: str | None
    after: str
    restarts: bool = False


class SinkTarget(Protocol):
    """Somewhere changes are sent to. Its methods are called by one task at a time."""

    @property
    def keeps_positions(self) -> bool:
        """Whether it keeps a sink's position together with what it is sent."""

    @property
    def takes_state(self) -> bool:
        """Whether it holds the present state of boards, so that a sink that has missed changes
        begins again with every present entry by itself."""

    @property
    def limit(self) -> int:
        """How many changes it takes at once."""

    async def open(self) -> None:
        """Connect. Raises TargetUnavailable, TargetRefused."""

    async def position(self, board: str) -> str | None:
        """Return the cursor that was stored last for a board, None without one or where the target
        keeps none."""

    async def deliver(self, page: SinkPage) -> None:
        """Send a page; when this returns the target has it for good, with its position where it
        keeps positions. Raises TargetUnavailable, and the page is sent again; TargetRefused, and it
        is parked; SinkOvertaken where the stored position is not `page.before`."""

    async def reset(self, board: str, position: str | None) -> None:
        """Store another position for a board; does nothing where the target keeps none."""

    async def close(self) -> None:
        """Disconnect."""


def is_own(change: Change) -> bool:
    """Return whether a change only says how far some sink has come."""
    return change.kind == "position" and str(change.data["source"]).startswith(POSITION_PREFIX)
