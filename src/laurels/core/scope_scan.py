"""The search for the scopes of a board in which a member is ranked."""

from .index import Index

SCOPES = 1_000
"""The number of scopes that are searched in a share."""


class ScopeScan:
    """A search, in shares, for the scopes of a board in which a member is ranked; `scopes` has the
    scopes found so far."""

    def __init__(self, board: int, member: bytes) -> None:
        self.scopes: list[str] = []
        self._board = board
        self._member = member
        self._place: tuple[str, str] | None = None

    def search_share(self, index: Index) -> bool:
        """Search the next share of the scopes; return whether it was the last one."""
        places = index.next_scopes(self._board, self._place, SCOPES)
        self.scopes += index.scopes_with_member(
            self._board, self._member, [scope for _, scope in places]
        )
        if places:
            self._place = places[-1]
        return len(places) < SCOPES
