"""The removed boards of an index server that can be restored.

A removed board whose periods were sealed keeps its state in its keys: the seals, the hidden
members, the positions of sources, and what was closed and cleared. Everything else is removed. The
list of these boards is stored beside the definitions. If their states take too much memory, those
of the boards that were removed first are removed."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from laurels.core.board_record import BoardRecord, board_record
from laurels.core.board_state import BoardState
from laurels.core.removed_boards import MAX_REMOVED, MAX_REMOVED_BYTES, is_restorable

from .protocols import FollowedIndex
from .registry import opened_from
from .remote import Opened


class RemovedListing(Struct, frozen=True, array_like=True):
    """A removed board as it is listed, with the number of its periods in the archive."""

    uid: str
    name: str
    removed_ms: int
    periods: int
    ledger: str


_listings = msgspec.msgpack.Decoder(RemovedListing)


class StoredRemovals(Protocol):
    """The list of removed boards on the server. Boards are found by their unique ids."""

    async def removed(self) -> list[bytes]:
        """Return the listings of the boards, in the order of their removal."""

    async def removed_definition(self, uid: str) -> bytes | None:
        """Return the definition of a board; None if it is not in the list."""

    async def removed_sizes(self) -> dict[str, int]:
        """Return how many bytes of memory the states of boards take, as far as that is known."""

    async def set_removed_size(self, uid: str, nbytes: int) -> None:
        """Store how many bytes of memory the state of a board takes."""

    async def forget_removed(self, uid: str) -> None:
        """Take a board off the list, and let its keys be removed, unless it is not in the list."""

    async def restore(
        self, uid: str, name: str, body: bytes, unfinished: Sequence[str], erased: str | None
    ) -> bool:
        """Store the definition of a board under a name, and take the board off the list. Return
        False, without a change, if the board is not in the list, if the name is taken, if there is
        an unfinished copy of a board with one of the names in `unfinished`, or if a member was
        erased since the note about the newest erasure was `erased`."""


class ServerRemovals:
    """The list of removed boards that can be restored."""

    def __init__(
        self,
        index: FollowedIndex,
        stored: StoredRemovals,
        most: int = MAX_REMOVED,
        most_bytes: int = MAX_REMOVED_BYTES,
    ) -> None:
        self._index = index
        self.stored = stored
        self._most = most
        self._most_bytes = most_bytes

    def listing(self, state: BoardState, removed_ms: int) -> bytes | None:
        """Return the listing of a board that is removed; None if it cannot be restored, since it
        has no sealed periods."""
        if not is_restorable(state):
            return None
        periods = sum([len(each.sealed) for each in state.closing.values()])
        return msgspec.msgpack.encode(
            RemovedListing(state.uid, state.board.name, removed_ms, periods, state.board.ledger)
        )

    async def all(self) -> list[RemovedListing]:
        """Return the removed boards, in the order of their removal."""
        return [_listings.decode(body) for body in await self.stored.removed()]

    async def find(self, name: str, uid: str | None) -> RemovedListing | None:
        """Return the removed board with a name and a unique id or, without an id, the board with
        this name that was removed last; None if there is none."""
        named = (each for each in reversed(await self.all()) if each.name == name)
        return next((each for each in named if uid is None or each.uid == uid), None)

    async def kept(self, uid: str) -> tuple[Opened, BoardRecord] | None:
        """Return a removed board in the form that calls for its state take, and its definition;
        None if it is not in the list."""
        body = await self.stored.removed_definition(uid)
        return None if body is None else (opened_from(body, is_kept=True), board_record(body))

    async def note_size(self, board: Opened) -> None:
        """Store how much memory the state of a board takes."""
        await self.stored.set_removed_size(board.uid, await self._index.kept_nbytes(board))

    async def trim(self) -> bool:
        """Take boards off the list until the rest is not too large, those that were removed first
        at first. Return whether there were any."""
        sizes = await self.stored.removed_sizes()
        left = {each.uid: sizes.get(each.uid, 0) for each in await self.all()}
        nbytes, trimmed = sum(left.values()), False
        while len(left) > self._most or nbytes > self._most_bytes:
            oldest = next(iter(left))
            await self.stored.forget_removed(oldest)
            nbytes, trimmed = nbytes - left.pop(oldest), True
        return trimmed

    async def forget(self, uid: str) -> None:
        """Take a board off the list, if it is there."""
        await self.stored.forget_removed(uid)
