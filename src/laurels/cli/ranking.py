"""The state of a board that `watch` shows: its list as of the newest event."""

from collections.abc import Sequence

import msgspec

import laurels
from laurels.server.live.frames import FullList, ListChange
from laurels.stores.http import feed

from .texts import moved_by

_top = msgspec.json.Decoder(FullList).decode
_change = msgspec.json.Decoder(ListChange).decode


class Ranking:
    """The watched list as of the newest event, and how the ranks of its members changed."""

    def __init__(self) -> None:
        self.total = 0
        self.as_of: laurels.AsOf | None = None
        self._entries: dict[str, laurels.Entry] = {}
        self._marks: dict[str, str] = {}

    @property
    def entries(self) -> list[laurels.Entry]:
        return list(self._entries.values())

    def mark(self, member: str) -> str:
        """Return the change of a member's rank as text: `▲2`, `▼1`, `new`, or "" for no change."""
        return self._marks.get(member, "")

    def apply(self, event: feed.StreamEvent) -> None:
        """Apply an event of the feed."""
        if event.kind == "top":
            top = _top(event.data)
            self._marks = {}
            self._replace(top.entries, top.total, top.as_of)
        elif event.kind == "change":
            self._change(_change(event.data))

    def _change(self, change: ListChange) -> None:
        entries = self._entries
        for entry in [*change.entered, *change.scored]:
            entries[entry.member] = entry
        for moved in change.moved:
            entries[moved.member] = laurels.Entry(moved.member, moved.rank, moved.score)
        self._marks = {entry.member: "new" for entry in change.entered} | {
            moved.member: moved_by(moved.previous_rank - moved.rank) for moved in change.moved
        }
        self._replace([entries[member] for member in change.order], change.total, change.as_of)

    def _replace(self, entries: Sequence[laurels.Entry], total: int, as_of: laurels.AsOf) -> None:
        self._entries = {entry.member: entry for entry in entries}
        self.total, self.as_of = total, as_of
