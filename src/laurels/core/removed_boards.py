"""The removed boards of a store that can be restored.

When a board with sealed periods is deleted, or removed by its `retain`, its archive and its payouts
stay. The list has the rest of its state: the definition, the seals of its periods, the hidden
members and the positions of sources. `undelete` makes a board from this state again. A board that
was moved to another store is not in the list, since it continues there.

The states stay encoded, since nobody reads them until a board is restored. If they take too much
memory, those of the boards that were removed first are dropped.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from laurels.model.answer import Answer

from .board_record import BoardRecord, RemovedRecord, board_record, encode
from .board_state import BoardState, record_of
from .closing import WindowClosing

MAX_REMOVED = 10_000
"""The maximum number of removed boards that can be restored."""
MAX_REMOVED_BYTES = 64 << 20
"""The maximum size of the states of these boards."""


class RestorableBoard(Answer, frozen=True):
    """A board that was removed at `removed_ms` and can be restored with `undelete`: the number of
    its periods in the archive, and the number of its payouts."""

    name: str
    uid: str
    removed_ms: int
    periods: int
    payouts: int


def restorable(removed: RemovedRecord, payouts: int) -> RestorableBoard:
    """Return a removed board as users see it."""
    return RestorableBoard(removed.name, removed.uid, removed.removed_ms, removed.periods, payouts)


def is_restorable(state: BoardState) -> bool:
    """Return whether a board has periods that were sealed, so that its archive or its payouts
    outlive it."""
    return any(each.sealed or each.trimmed is not None for each in state.closing.values())


def removed_record(state: BoardState, removed_ms: int) -> RemovedRecord:
    """Return the form in which a removed board is stored."""
    periods = sum([len(each.sealed) for each in state.closing.values()])
    body = encode(record_of(state, state.now_ms))
    return RemovedRecord(state.board.name, state.uid, removed_ms, periods, body)


class RemovedBoards:
    """The removed boards that can be restored, in the order of their removal."""

    def __init__(self) -> None:
        self._by_uid: dict[str, RemovedRecord] = {}
        self._nbytes = 0

    def __iter__(self) -> Iterator[RemovedRecord]:
        return iter(self._by_uid.values())

    def add(self, removed: Iterable[RemovedRecord]) -> None:
        """Add boards, and drop those that were removed first if there are too many."""
        for each in removed:
            self.forget(each.uid)
            self._by_uid[each.uid] = each
            self._nbytes += len(each.state)
        while len(self._by_uid) > MAX_REMOVED or self._nbytes > MAX_REMOVED_BYTES:
            self.forget(next(iter(self._by_uid)))

    def find(self, name: str, uid: str | None) -> RemovedRecord | None:
        """Return the removed board with a name and a unique id or, without an id, the board with
        this name that was removed last; None if there is none. O(removed boards)."""
        named = (each for each in reversed(self._by_uid.values()) if each.name == name)
        return next((each for each in named if uid is None or each.uid == uid), None)

    def forget(self, uid: str) -> None:
        """Remove a board from the list, if it is there."""
        if (removed := self._by_uid.pop(uid, None)) is not None:
            self._nbytes -= len(removed.state)

    def erase(self, member: bytes) -> None:
        """Remove a member from the lists of hidden members. O(size of the states)."""
        for uid, removed in self._by_uid.items():
            if member in removed.state:
                erased = replace(
                    removed, state=encode(_without(board_record(removed.state), member))
                )
                self._by_uid[uid] = erased
                self._nbytes += len(erased.state) - len(removed.state)


def _without(record: BoardRecord, member: bytes) -> BoardRecord:
    """Return the state of a board without a hidden member."""
    hidden = [each for each in record.hidden if each[0] != member]
    closing = {name: _closing_without(each, member) for name, each in record.closing.items()}
    return replace(record, hidden=hidden, closing=closing)


def _closing_without(closing: WindowClosing, member: bytes) -> WindowClosing:
    sealed = {
        instance: replace(each, hidden=[other for other in each.hidden if other != member])
        for instance, each in closing.sealed.items()
    }
    return replace(closing, sealed=sealed)
