"""Erasures that are not complete, as a snapshot stores them. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from .closing import WindowClosing

ANY_ENTRY = (1 << 63) - 1

ErasedPeriods = Callable[[str, str, int], bool]
"""A function that returns whether a member is erased from a period. Its arguments are the board's
uid, the window and the instance."""


class SealedBoard(Protocol):
    """The data of a board that concern its sealed periods."""

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
        """Return a function that tells whether the member is erased from a period. It is erased
        from periods that were sealed before the erasure began, and from all periods of boards that
        no longer exist. In a period that was sealed later, the id belongs to a member who used it
        again after the erasure."""
        states = {state.uid: state for state in boards}

        def erased(uid: str, window: str, instance: int) -> bool:
            closing = states[uid].closing.get(window) if uid in states else None
            sealed = None if closing is None else closing.sealed.get(instance)
            return sealed is None or sealed.entry <= self.entry

        return erased
