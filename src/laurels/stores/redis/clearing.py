"""Clears boards: removes all members of a board at once, and keeps everything else.

The definition of a board contains its last clearing. A board is cleared by the compare-and-swap
that stores such a definition: from then on, every shard that still has earlier members refuses all
calls. A process whose call is refused registers the board again, which removes these members in
shares. So a process may end at any point, and no answer shows some of the earlier members without
the others.

A period that is closed and not sealed would lose its standings. So all closed periods are sealed
first. Then a *fence* in the first shard keeps other processes from closing periods until the board
has another version. A process whose closing is refused because of the fence gives the board another
version itself, since the process that set the fence may have ended.
"""

from msgspec.structs import replace

from laurels.core import record as records
from laurels.core.board_record import BoardRecord, Clearing
from laurels.core.board_state import BoardState, record_of

from .catalog import BoardCatalog
from .closing import first_closings
from .outdated import ClosingsMoved
from .registry import CLEARING_FORMAT
from .remote import opened_as
from .sealing import ServerSealing


class ServerClearings:
    """Clears boards."""

    def __init__(self, catalog: BoardCatalog, sealing: ServerSealing) -> None:
        self._catalog = catalog
        self._sealing = sealing

    async def clear(self, record: records.Clear) -> bool:
        """Clear a board. Return False if the record has to be proposed again. Raises PayoutsOpen,
        LedgerUnavailable."""
        catalog = self._catalog
        state = catalog.boards.by_number(record.board)
        now_ms = record.now_ms
        if catalog.event_time:
            await catalog.read_time(state)
            now_ms = max(now_ms, state.now_ms)
        if state.cleared is not None:  # an earlier clearing may not be complete in all shards
            await catalog.index.open(opened_as(state))
        if state.closing:
            await self._sealing.settle(state)
            if not await self.fence(state, now_ms):
                return False
        if catalog.boards.find_current(state) is not state or state.version >= record.version:
            return False
        await catalog.registry.require_format(CLEARING_FORMAT)
        cleared = Clearing(record.version, now_ms, record.tag)
        if not await catalog.registry.change(state, _cleared(state, cleared)):
            return False
        current = catalog.boards.find_by_number(state.number)
        if current is not None:
            await catalog.index.open(opened_as(current))
        return True

    async def fence(self, state: BoardState, now_ms: int) -> bool:
        """Set the fence: from now on no period of the board can be closed until the board has
        another version. Return False, without a fence, if the board has changed, or if a period is
        due to be closed, or is closed and not sealed yet."""
        if self._catalog.boards.find_current(state) is not state or now_ms >= state.final_ms:
            return False
        try:
            return await self._catalog.index.fence(opened_as(state))
        except ClosingsMoved:
            await self._catalog.load_closings(state)
            return False


def _cleared(state: BoardState, cleared: Clearing) -> BoardRecord:
    """Return the record of a board after a clearing. It marks the standings of all periods closed
    so far as being in the archive only."""
    closing = {
        name: replace(each, cleared=state.closing[name].floor)
        for name, each in first_closings(state).items()
    }
    return record_of(replace(state, version=cleared.version, closing=closing, cleared=cleared))
