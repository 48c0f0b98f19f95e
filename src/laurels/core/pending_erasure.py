"""Erasures that are not complete, as a snapshot stores them. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

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
    which it began, and the offset of the log entry that began it. `spared` has periods of boards
    that were removed since, from which the member is not erased: each by the board's uid, its
    window and its instance."""

    member: bytes
    token: str
    began_ms: int
    entry: int = ANY_ENTRY
    spared: list[tuple[str, str, int]] = []

    def sparing(self, board: SealedBoard) -> Self:
        """Return this erasure with a note which periods of a board, which is about to be removed,
        were sealed after the erasure began."""
        later = [
            (board.uid, window, instance)
            for window, closing in board.closing.items()
            for instance, sealed in closing.sealed.items()
            if sealed.entry > self.entry
        ]
        return replace(self, spared=[*self.spared, *later]) if later else self

    def periods(self, boards: Iterable[SealedBoard]) -> ErasedPeriods:
        """Return a function that tells whether the member is erased from a period. It is erased
        from periods that were sealed before the erasure began. In a period that was sealed later,
        the id belongs to a member who used it again after the erasure."""
        spared = {*self.spared}
        states = {state.uid: state for state in boards}

        def erased(uid: str, window: str, instance: int) -> bool:
            closing = states[uid].closing.get(window) if uid in states else None
            sealed = None if closing is None else closing.sealed.get(instance)
            if sealed is None:
                return (uid, window, instance) not in spared
            return sealed.entry <= self.entry

        return erased
