"""The boards that were moved away from the store that their names point to, kept durably.

The route of a board that is being moved is stored before anything is copied (`copying`), again when
the new store has the whole board (`moved`), and a last time when the old store no longer has it
(`settled`). The second one is the switch: before it the board is in its old store, and whatever the
new one has of it is removed; after it the board is in the new store, and the old one deletes it.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Literal

import msgspec
from msgspec import Struct

from laurels.errors.placement import UnknownStore
from laurels.model.validation import quoted
from laurels.stores.base import NoteStore

NOTE = "routes"


class BoardRoute(Struct, frozen=True, omit_defaults=True):
    """The store of a board, and the other store of a move: their identities. The other one has a
    part of the board with this unique id, or all of it."""

    store: str
    state: Literal["copying", "moved", "settled"] = "settled"
    other: str = ""
    uid: str = ""


class BoardRoutes:
    """All routes, in one note. The methods block."""

    def __init__(self, notes: NoteStore) -> None:
        self._notes = notes
        self._lock = Lock()
        self.all: Mapping[str, BoardRoute] = {}

    def load(self) -> None:
        """Read the routes."""
        if text := self._notes.note(NOTE):
            self.all = msgspec.json.decode(text, type=dict[str, BoardRoute])

    def ensure_in(self, identities: Sequence[str]) -> None:
        """Raise UnknownStore if a board was moved to another store than these."""
        for board, route in self.all.items():
            if route.store not in identities:
                raise UnknownStore(
                    f"the board {quoted(board)} was moved to {route.store}, which is not a store "
                    "of this service"
                )

    def store(self, board: str, route: BoardRoute | None) -> None:
        """Store the route of a board; None removes it."""
        with self._lock:
            routes = {name: each for name, each in self.all.items() if name != board}
            if route is not None:
                routes[board] = route
            self._notes.set_note(NOTE, msgspec.json.encode(routes).decode())
            self.all = routes
