"""Erasures that are not complete, as a snapshot stores them. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from .closing import WindowClosing

ANY_ENTRY = (1 << 63) - 1

ErasedPeriods = Callable[[str, str, int], bool]
"""Whether a member is erased from a period: the board's uid, the window and the instance."""


class SealedBoard(Protocol):
    """A board, as far as its sealed periods are concerned."""

    @property
    def uid(self) -> str: ...
    @property
    def closing(self) -> Mapping[str, WindowClosing]: ...


class PendingErasure(Struct, frozen=True, array_like=True):
    """An erasure that is not complete: the member, the token that takes its place, the time at
    which it began, and the offset of the log entry that began it."""

    member: bytes
    token: str
    began_ms: int
    entry: int = ANY_ENTRY

    def periods(self, boards: Iterable[SealedBoard]) -> ErasedPeriods:
        """Return a function that tells the periods from which the member is erased: those that were
        sealed before the erasure began. In a period that was sealed later, the id is that of a
        member that came after it. Of boards that do not exist any more all periods are erased."""
        states = {state.uid: state for state in boards}

        def erased(uid: str, window: str, instance: int) -> bool:
            closing = states[uid].closing.get(window) if uid in states else None
            sealed = None if closing is None else closing.sealed.get(instance)
            return sealed is None or sealed.entry <= self.entry

        return erased
