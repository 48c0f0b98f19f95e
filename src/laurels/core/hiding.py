"""Hidings: why, since when and until when members of a board are hidden. Pure.

A hiding may have an end. Readers show the member again from that instant on. The record that
removes the hiding is written later, when the end is found due. By this record, the changes of the
board report that the member is shown again.
"""

import heapq
from collections.abc import Callable, Iterable

from msgspec import Struct

from laurels.model.answer import Answer
from laurels.timeline.instants import MAX_MS

MAX_REASON = 500
"""The maximum length of a reason, in characters."""


class Hiding(Struct, frozen=True, array_like=True):
    """Why a member is hidden and since when. It is shown again at `until_ms`; None means that the
    hiding has no end."""

    reason: str
    since_ms: int
    until_ms: int | None = None

    def is_over(self, now_ms: int) -> bool:
        """Return whether the hiding has ended at an instant."""
        return self.until_ms is not None and now_ms >= self.until_ms

    def described(self) -> dict[str, str | int | None]:
        """Return the hiding as the data of a change."""
        return {"reason": self.reason, "since_ms": self.since_ms, "until_ms": self.until_ms}


class HiddenMember(Answer, frozen=True):
    """A hidden member: why it is hidden, since when, and the time at which it is shown again. The
    hiding has no end if `until_ms` is None. `everywhere` is whether the member is hidden on all
    boards of the store."""

    member: str
    reason: str
    since_ms: int
    until_ms: int | None = None
    everywhere: bool = False


EVERYWHERE = 0
"""Stands for the number of a board in records and ends of hidings on all boards."""


class HidingEnds:
    """The ends of hidings on all boards. A hiding whose end is due is kept here until a record
    removes it.

    `next_ms` is the earliest end, MAX_MS without any; it may be the end of a hiding that was
    removed or replaced.
    """

    def __init__(self) -> None:
        self.next_ms = MAX_MS
        self._ends: list[tuple[int, int, bytes]] = []

    def watch(self, board: int, hidings: Iterable[tuple[bytes, Hiding]]) -> None:
        """Watch the ends of all hidings of a board, each with its member."""
        for member, hiding in hidings:
            self.add(board, member, hiding)

    def add(self, board: int, member: bytes, hiding: Hiding) -> None:
        """Watch the end of a hiding, if it has one."""
        if hiding.until_ms is not None:
            heapq.heappush(self._ends, (hiding.until_ms, board, member))
            self.next_ms = self._ends[0][0]

    def due(
        self, now_ms: int, current: Callable[[int, bytes], tuple[Hiding | None, int]]
    ) -> list[tuple[int, bytes]]:
        """Return the boards and members whose hiding has ended. `now_ms` is the latest time of any
        board. `current` returns the current hiding of a member and the time of its board. O(1) if
        no end is due."""
        ended: list[tuple[int, bytes]] = []
        kept: list[tuple[int, int, bytes]] = []
        while self._ends and self._ends[0][0] <= now_ms:
            end = heapq.heappop(self._ends)
            until_ms, board, member = end
            hiding, time_ms = current(board, member)
            if hiding is None or hiding.until_ms != until_ms or end in kept:
                continue
            kept.append(end)
            if hiding.is_over(time_ms):
                ended.append((board, member))
        for end in kept:
            heapq.heappush(self._ends, end)
        self.next_ms = self._ends[0][0] if self._ends else MAX_MS
        return ended
