"""Deleted boards on an index server whose changes are kept.

The process that deletes a board stores a record of the deletion beside the definitions, in the same
step. Then it ends the changes of the board and removes everything else. If it fails in between, the
next process that reads these changes, or that deletes a board, does the rest.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from laurels.core.board_record import deletion_record
from laurels.core.board_state import BoardState
from laurels.core.changes.answers import SINK_PREFIX, DeletedBoard
from laurels.core.changes.deleted import MAX_DELETED, Deletion, Deletions, deletion_of
from laurels.stores.intake.deleted_positions import SinkMove
from laurels.timeline.instants import MAX_MS, MIN_MS

from .protocols import FollowedIndex
from .registry import Registry
from .remote import Opened
from .removals import ServerRemovals, StoredRemovals


class StoredDeletions(StoredRemovals, Protocol):
    """The records of deletions on the server, as bytes, and the positions of sinks in the changes
    of deleted boards. Both are found by the unique id of the board. The list of removed boards that
    can be restored is beside them."""

    async def deletions(self) -> dict[str, bytes]:
        """Return the deleted boards whose changes are kept, by their unique ids."""

    async def deletion(self, uid: str) -> bytes | None:
        """Return the deleted board with a unique id; None if its changes are not kept."""

    async def deletion_count(self) -> int:
        """Return the number of deleted boards whose changes are kept."""

    async def deleted_positions(self) -> dict[str, str]:
        """Return the positions of sinks in the changes of deleted boards. Each key is the unique id
        of the board, a slash, and the name under which the sink stores its position."""

    async def first_deleted_position(self, uid: str, source: str, text: str) -> None:
        """Store the position that a sink had when the board was deleted, unless the sink already
        has a position for the deleted board."""

    async def move_deleted_position(
        self, uid: str, source: str, text: str, follows: str | None
    ) -> str | None:
        """Move the position of a sink to `text` and return None, if the stored position is
        `follows` or `follows` is None. Otherwise return the stored position."""

    async def forget_deletion(self, uid: str) -> None:
        """Remove a deleted board, and the positions of its sinks."""


class ServerDeletions:
    """Deletes boards, and finds the deleted boards whose changes are kept. `now` returns the time
    by which changes are kept; in event time they are kept whatever the time is."""

    def __init__(
        self,
        index: FollowedIndex,
        registry: Registry,
        stored: StoredDeletions,
        removals: ServerRemovals,
        now: Callable[[], int],
        *,
        event_time: bool,
    ) -> None:
        self._index = index
        self._removals = removals
        self._registry = registry
        self._stored = stored
        self._now = now
        self._event_time = event_time
        self._next_ms = MAX_MS
        """The next time at which changes of deleted boards expire, as far as this process knows."""

    async def delete(self, state: BoardState, deleted_ms: int, tag: int) -> bool:
        """Remove the definition of a board; return False if this process's copy is outdated. With a
        `tag`, the board is deleted: its changes end with the deletion, and are kept. Without one,
        the board continues in another store, to which it was moved. With a `tag`, raises
        BoardMoving while the board is being moved."""
        deletion = None
        until_ms = deleted_ms + state.rules.changes_ms
        if tag and state.rules.changes_ms and until_ms > self._time():
            deletion = Deletion(replace(state, tag=tag), deleted_ms, until_ms)
        removed = self._removals.listing(state, deleted_ms) if tag else None
        return await self._registry.delete(state, deletion, is_moved=not tag, removed=removed)

    async def remove_deleted(self) -> None:
        """End the changes of deleted boards, and remove everything else of these boards, except the
        states of those that can be restored."""
        deleted = await self._registry.deleted()
        while deleted:
            for body, opened in deleted:
                await self.close(opened, forgotten=not opened.is_kept)
                if opened.is_kept:
                    await self._removals.note_size(opened)
                await self._registry.cleared(body)
            # the list of boards that can be restored may have become too long
            deleted = await self._registry.deleted() if await self._removals.trim() else []

    async def close(self, opened: Opened, *, forgotten: bool = False) -> None:
        """Remove the data of a deleted board, except changes that are kept, and its state if it is
        kept; see `RemoteIndex.close`. Repeating it has no effect."""
        deletion = await self._read(opened.uid)
        if deletion is not None and deletion.state.number == opened.number:
            await self._index.end_changes(opened, deletion.block(), deletion.until_ms)
            self._next_ms = min(self._next_ms, deletion.until_ms)
            await self._keep_positions(opened)
            if await self._stored.deletion_count() > MAX_DELETED:
                await self.all()
        await self._index.close(opened, forgotten=forgotten)

    async def find(self, board: str, uid: str) -> Deletion | None:
        """Return the deleted board with this name and unique id; None if there is none, or if its
        changes are no longer kept."""
        deletion = await self._read(uid)
        if deletion is None or deletion.state.board.name != board:
            return None
        return deletion if self._time() < deletion.until_ms else None

    async def all(self) -> Deletions:
        """Return all deleted boards whose changes are kept."""
        bodies = await self._stored.deletions()
        read = [deletion_of(deletion_record(body)) for body in bodies.values()]
        deletions = Deletions(sorted(read, key=lambda each: (each.deleted_ms, each.state.number)))
        self._next_ms = deletions.next_ms
        await self._forget(deletions)
        return deletions

    async def answers(self, source: str | None) -> list[DeletedBoard]:
        """Return all deleted boards whose changes are kept, each with the position of `source` in
        its changes. First end the changes of boards whose deletion was interrupted."""
        await self.remove_deleted()
        deletions = await self.all()
        positions = {} if source is None else await self._stored.deleted_positions()
        return [each.answer(positions.get(f"{each.state.uid}/{source}")) for each in deletions]

    async def move_position(self, move: SinkMove) -> None:
        """Move the position of a sink in the changes of a deleted board. Raises PositionMoved."""
        await self.remove_deleted()  # stores the positions as of the deletion
        stored = await self._stored.move_deleted_position(
            move.uid, move.source, move.text, move.follows
        )
        if stored is not None:
            move.ensure_follows(stored)

    async def sink_positions(self, uid: str) -> dict[str, str]:
        """Return the positions of sinks in the changes of a deleted board."""
        positions = await self._stored.deleted_positions()
        return {
            field.partition("/")[2]: text
            for field, text in positions.items()
            if field.partition("/")[0] == uid
        }

    async def forget_expired(self) -> None:
        """Remove the changes that are no longer kept. O(1) if this process knows of none."""
        if self._next_ms <= self._time():
            await self.all()

    async def copied_again(self, uid: str) -> None:
        """Remove what is kept of a deleted board that was copied into this store again."""
        deletion = await self._read(uid)
        if deletion is not None:
            await self._remove(deletion)
        await self._removals.forget(uid)
        await self.remove_deleted()

    async def _forget(self, deletions: Deletions) -> None:
        for deletion in deletions.take_expired(self._time()):
            await self._remove(deletion)
        self._next_ms = deletions.next_ms

    async def _remove(self, deletion: Deletion) -> None:
        state = deletion.state
        await self._index.forget_changes(
            Opened(state.number, state.version, state.rules, uid=state.uid)
        )
        await self._stored.forget_deletion(state.uid)

    async def _read(self, uid: str) -> Deletion | None:
        body = await self._stored.deletion(uid)
        return None if body is None else deletion_of(deletion_record(body))

    async def _keep_positions(self, opened: Opened) -> None:
        """Store the positions of sinks with the deletion, since the positions stored with the board
        are removed."""
        for source, text in (await self._index.positions(opened)).items():
            if source.startswith(SINK_PREFIX) and text:
                await self._stored.first_deleted_position(opened.uid, source, text)

    def _time(self) -> int:
        return MIN_MS if self._event_time else self._now()
