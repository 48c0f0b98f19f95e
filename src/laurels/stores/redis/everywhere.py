"""The protocol for storing the members that are hidden on all boards of an index server.

The list is stored once, beside the definitions. Each board stores the version of the list that it
has taken up, so that a call for the board is refused if its caller knows another version. After a
change of the list, all boards take it up one by one. Until all have, the change is pending, and
there is no further change of the list.
"""

from typing import Protocol

from msgspec import Struct

from laurels.core.changes.blocks import WriteBlock
from laurels.core.changes.record_blocks import hiding_block
from laurels.core.hidden import HiddenMembers
from laurels.core.hiding import EVERYWHERE, Hiding
from laurels.core.record import Show


class EverywhereChange(Struct, frozen=True, array_like=True):
    """A change of the list: a member is hidden, or shown again if `hiding` is None. `version` is
    the version of the list after the change. With `is_erasure` the member is being erased: boards
    record the erasure and not this change."""

    version: int
    member: bytes
    hiding: Hiding | None
    now_ms: int
    tag: int
    is_erasure: bool = False

    def block(self, hidden: HiddenMembers) -> WriteBlock:
        """Return the block by which a board records this change. `hidden` are the hidden members of
        the board after the change."""
        record = Show(EVERYWHERE, 0, self.now_ms, self.member, self.tag)
        return hiding_block(record, hidden.effective(self.member, self.now_ms))


class StoredEverywhere(Struct, frozen=True):
    """The list as stored, with its version and the change that is pending."""

    version: int
    hidings: dict[bytes, Hiding]
    pending: EverywhereChange | None


class ServerEverywhere(Protocol):
    """Stores the list of members that are hidden on all boards."""

    async def version(self) -> int:
        """Return the version of the list; 0 if it was never changed."""

    async def load(self) -> StoredEverywhere:
        """Return the list with its version. If the list changes while it is read, it may be newer
        than the version, but never older."""

    async def change(self, known: int, change: EverywhereChange) -> str:
        """Carry out a change, make it pending, and return "done". Or change nothing, and return
        "outdated" if the version of the list is not `known`, "pending" if a change is pending."""

    async def taken_up(self, version: int) -> None:
        """Store that all boards have taken up a change."""
