"""The hidden members of boards on an index server, as this process knows them, and how they change.

A board stores its hidden members in its first shard, with a version. All calls that show a ranking
name the version that the process knows, so an outdated process is refused, and reads the hidden
members anew (`update`). Hiding a member changes nothing in rankings or scopes: scripts leave the
hidden members out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from laurels.core import record as records
from laurels.core.board_state import BoardState
from laurels.core.changes.blocks import WriteBlock
from laurels.core.changes.record_blocks import hiding_block
from laurels.core.hiding import EVERYWHERE, Hiding
from laurels.errors import NotReady, UnknownBoard
from laurels.errors.placement import BoardMoving
from laurels.model.validation import quoted
from laurels.stores.intake.tags import new_tag

from .everywhere import EverywhereChange
from .outdated import DefinitionOutdated
from .protocols import FollowedIndex
from .registry import HIDING_FORMAT, Registry
from .remote import StoredHidings, opened_as

AT_ONCE = 8
"""How many boards take up a change of the list of all boards at the same time. The server answers
other callers between these calls."""
ATTEMPTS = 100


class BoardHidings:
    """Reads and changes the hidden members of boards."""

    def __init__(
        self,
        index: FollowedIndex,
        registry: Registry,
        reload: Callable[[BoardState], Awaitable[None]],
    ) -> None:
        self._index = index
        self._registry = registry
        self._reload = reload
        """Reads the definition and the hidden members of a board again."""

    async def update(self, state: BoardState) -> None:
        """Read the hidden members of a board. If the board has not taken up the current list of
        members hidden on all boards, let it take the list up. Raises DefinitionOutdated if the
        board or its hidden members change meanwhile."""
        stored = await self._index.hidings(opened_as(state))
        everywhere = self._registry.boards.everywhere
        if stored.everywhere != everywhere.stored_version:
            await self._registry.load()
            # `find_current` returns None for a board that is past its `retain`
            state = self._registry.boards.find_current(state) or state
        if stored.own != state.hidden.stored_version:
            state.hidden.replace(stored.hidings, stored.own)
            state.views.clear()
        if stored.everywhere != everywhere.stored_version:
            await self._take_up(state, stored)

    async def _take_up(self, state: BoardState, stored: StoredHidings) -> None:
        """Let a board take up the members that are hidden on all boards, and record which members
        this hides or shows."""
        everywhere, blocks = self._registry.boards.everywhere, list[WriteBlock]()
        if state.rules.changes_ms:
            pending = self._registry.pending
            if not stored.everywhere:
                # the board is new, or was restored after its removal
                began_ms = state.created_ms if state.cleared is None else state.cleared.now_ms
                blocks = [
                    EverywhereChange(
                        0, member, hiding, max(hiding.since_ms, began_ms), new_tag()
                    ).block(state.hidden)
                    for member, hiding in everywhere.items()
                    if not hiding.is_over(began_ms)
                ]
            elif pending is not None and pending.version == everywhere.stored_version:
                blocks = [] if pending.is_erasure else [pending.block(state.hidden)]
        await self._index.take_up(opened_as(state), stored, everywhere.stored_version, blocks)

    async def carry_out(self, record: records.Hide | records.Show) -> bool:
        """Hide a member on one board or on all boards, or show it again. Return False if an earlier
        change of the list for all boards was still pending: then the record has to be proposed
        again. Raises DefinitionOutdated if this process does not know the current hidden
        members."""
        hiding = None
        if isinstance(record, records.Hide):
            await self._registry.require_format(HIDING_FORMAT)
            hiding = Hiding(record.reason, record.since_ms, record.until_ms)
        if isinstance(record, records.HideOnAll | records.ShowOnAll):
            return await self._change_everywhere(record, hiding)
        state = self._registry.boards.by_number(record.board)
        after = state.hidden.everywhere if hiding is None else None
        shown = hiding if after is None else after.hiding(record.member, record.now_ms)
        block = hiding_block(record, shown)
        await self._index.hide(opened_as(state), record.member, hiding, block)
        await self._settle(state)
        return True

    async def _settle(self, state: BoardState) -> None:
        """Read the hidden members of a board after this process has changed them. Errors need no
        handling: if the board has changed in another way, too, the next call for it is refused, and
        then the hidden members are read again."""
        try:
            await self.update(state)
        except (DefinitionOutdated, UnknownBoard):
            return

    # All boards

    async def _change_everywhere(
        self, record: records.Hide | records.Show, hiding: Hiding | None
    ) -> bool:
        """Change the list of members that are hidden on all boards, and let all boards take it
        up."""
        version = max(self._registry.boards.everywhere.stored_version + 1, record.now_ms)
        change = EverywhereChange(version, record.member, hiding, record.now_ms, record.tag)
        return await self._carry_out_everywhere(change)

    async def _carry_out_everywhere(self, change: EverywhereChange) -> bool:
        known = self._registry.boards.everywhere.stored_version
        outcome = await self._registry.change_everywhere(known, change)
        if outcome == "outdated":
            raise DefinitionOutdated
        await self._registry.load()
        await self.spread()
        return outcome == "done"

    async def spread(self) -> None:
        """Let each board take up the pending change of the list of members hidden on all boards.
        Any number of processes may do this at the same time, and any of them may stop at any
        point."""
        pending = await self._registry.load_pending()
        if pending is None:
            return
        states = iter(list(self._registry.boards.boards.values()))
        await asyncio.gather(*[self._spread_over(states) for _ in range(AT_ONCE)])
        await self._registry.taken_up(pending)

    async def _spread_over(self, states: Iterable[BoardState]) -> None:
        for state in states:
            await self._spread_to(state)

    async def _spread_to(self, state: BoardState) -> None:
        """Let a board take up the pending change, unless the board was deleted."""
        for _ in range(ATTEMPTS):
            current = self._registry.boards.find_current(state)
            if current is None:
                return
            try:
                await self.update(current)
            except DefinitionOutdated:
                await self._reload(current)
            except (UnknownBoard, BoardMoving):
                await self._registry.load()
            else:
                return
        name = quoted(state.board.name)
        raise NotReady(f"the board {name} kept changing while a member was hidden on all boards")

    # Members that are being erased

    async def forget(self, state: BoardState, member: bytes, now_ms: int) -> None:
        """Remove a member that is being erased from the hidden members of a board. The board does
        not record this, since it records the erasure."""
        await self._index.forget_hidden(opened_as(state), member, now_ms)
        await self._settle(state)

    async def forget_everywhere(self, member: bytes, now_ms: int) -> None:
        """Remove a member that is being erased from the list of members hidden on all boards. The
        boards do not record this."""
        everywhere = self._registry.boards.everywhere
        for _ in range(ATTEMPTS):
            if everywhere.stored(member) is None:
                return
            version = max(everywhere.stored_version + 1, now_ms)
            change = EverywhereChange(version, member, None, now_ms, new_tag(), is_erasure=True)
            try:
                await self._carry_out_everywhere(change)
            except DefinitionOutdated:
                await self._registry.load()
        raise NotReady("the list of members hidden on all boards kept changing")

    # Ends of hidings

    async def end_due(self, state: BoardState, now_ms: int) -> None:
        """Remove the hidings of a board that have ended at the time of the board. O(1) if there are
        none."""
        for member in state.hidden.ended(now_ms):
            state = self._registry.boards.current(state)
            show = records.Show(state.number, state.version, now_ms, member, new_tag())
            try:
                await self.carry_out(show)
            # another process has removed the hidings, or has changed the board
            except DefinitionOutdated:
                await self._reload(state)
                return

    async def do_due_work(self, now_ms: int) -> None:
        """Let boards take up a change that a failed process has left pending, and remove the
        hidings on all boards that have ended. O(1) if there is nothing to do."""
        if self._registry.pending is not None:
            await self.spread()
        states = self._registry.boards.boards.values()
        if any(now_ms >= state.final_ms for state in states):
            return  # due periods have to be closed before hidings end
        for member in self._registry.boards.everywhere.ended(now_ms):
            show = records.ShowOnAll(EVERYWHERE, 0, now_ms, member, new_tag())
            try:
                await self.carry_out(show)
            except DefinitionOutdated:  # another process has removed the hiding
                await self._registry.load()
                return
