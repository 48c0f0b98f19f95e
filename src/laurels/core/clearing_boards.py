"""Boards from which all members are removed at once."""

from msgspec.structs import replace

from laurels.core.changes.record_blocks import write_block

from . import record as records
from .board_state import BoardState
from .erasing_boards import ErasingBoards


class ClearingBoards(ErasingBoards):
    """Boards and their rankings, with the operation that clears a board: it removes the members,
    and keeps the definition, the hidden members, the event ids and the positions of sources."""

    def _clear(self, state: BoardState, record: records.Clear) -> None:
        """Remove all members of a board. O(sealed periods)."""
        self.advance(state)
        state.version = record.version
        self.index.clear(state.number)
        self.closings.cleared(state)
        self.refreshes.forget(state.number)
        state.refreshed = {
            name: replace(current, offset=self.entry, waiting=False)
            for name, current in state.refreshed.items()
        }
        self.refreshes.watch(state)
        state.hidden.forget()
        state.views.clear()
        state.running = None
        self._watch_boundary(state)
        self._record(state, write_block(record, "clear"))
