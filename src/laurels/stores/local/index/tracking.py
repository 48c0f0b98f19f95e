"""Tracks the members that writes change on a board of the memory index while the board is copied to
another store."""

from collections.abc import Iterable


class TrackedWrites:
    """The members that were changed since the last call of `take`, by scope, as ids of the roster.
    Members whose data was changed are kept by their names, as they may have no id. `owner` is the
    random token of the move that tracks them."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._ids: dict[str, set[int]] = {}
        self._data: set[bytes] = set()

    def note(self, scope: str, ids: Iterable[int]) -> None:
        """Record that the rows of members in a scope may have changed."""
        self._ids.setdefault(scope, set()).update(ids)

    def note_data(self, member: bytes) -> None:
        """Record that the data of a member has changed."""
        self._data.add(member)

    def take(self) -> tuple[dict[str, set[int]], set[bytes]]:
        """Return the changed members by scope, and the members with changed data; forget both."""
        ids, data = self._ids, self._data
        self._ids, self._data = {}, set()
        return ids, data
