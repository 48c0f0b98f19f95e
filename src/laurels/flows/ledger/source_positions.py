"""Compare the positions of a board's sources in a ledger and in its store.

The ledger gets the positions of the store, never the other way round: a source that is moved back
would count events again, and one that is moved forward would leave events out.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.flows.sinks.target import POSITION_PREFIX
from laurels.sql.texts import is_kept_source

from .locked import LockedRows
from .rounds import Sleep, changed_since, in_rounds


class PositionDifference(Struct, frozen=True):
    """A source whose position differs; `ledger` or `store` is None if that side has no position."""

    source: str
    ledger: str | None
    store: str | None


class PositionReconciler:
    """Compares the positions of a board's sources with its ledger."""

    def __init__(self, lb: AsyncLeaderboards, board: str, rows: LockedRows) -> None:
        self._lb = lb
        self._board = board
        self._rows = rows
        self.differing: dict[str, PositionDifference] = {}
        self.mended: set[str] = set()

    async def run(self, mend: str | None, sleep: Sleep) -> list[str]:
        """Compare the positions, and mend the ledger if `mend` is "ledger"; return the sources that
        could not be checked."""
        await asyncio.to_thread(self._rows.open)
        ledger = await asyncio.to_thread(self._rows.positions)
        await asyncio.to_thread(self._rows.unlock)
        store = await self._store_positions()
        differing = [each for each in ledger | store if ledger.get(each) != store.get(each)]
        return await in_rounds(differing, lambda group: self._check(group, mend), sleep)

    async def _check(self, sources: Sequence[str], mend: str | None) -> list[str]:
        try:
            position = await asyncio.to_thread(self._rows.lock)
            ledger = await asyncio.to_thread(self._rows.positions)
            store = await self._store_positions()
            changed = await changed_since(self._lb, self._board, position)
            differing = []
            for source in sources:
                self.differing.pop(source, None)
                if source in changed.sources or ledger.get(source) == store.get(source):
                    continue
                differing.append(source)
                self.differing[source] = PositionDifference(
                    source, ledger.get(source), store.get(source)
                )
            if mend == "ledger" and differing:
                positions = {source: store.get(source) for source in differing}
                await asyncio.to_thread(self._rows.write_positions, positions, position.generation)
                self.mended.update(differing)
        finally:
            await asyncio.to_thread(self._rows.unlock)
        return [source for source in sources if source in changed.sources]

    async def _store_positions(self) -> dict[str, str]:
        positions = await self._lb.positions(self._board)
        return {
            source: text
            for source, text in positions.items()
            if not source.startswith(POSITION_PREFIX) and is_kept_source(source)
        }
