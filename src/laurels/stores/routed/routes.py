"""The routes of boards that were moved to another store. Routes are kept durably.

During a move, the route of the board is stored three times: before anything is copied (`copying`),
when the new store has the whole board (`moved`), and when the old store has deleted it (`settled`).
Until the route `moved` is stored, the board is in the old store, and a move that fails removes the
incomplete copy from the new store. From then on, the board is in the new store, and the old store
deletes it.
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
    """The identity of the store that a board is in. While the board is being moved, `other` is the
    identity of the other store of the move, which may have all or some of the board with the unique
    id `uid`, and `owner` is the random token of the move."""

    store: str
    state: Literal["copying", "moved", "settled"] = "settled"
    other: str = ""
    uid: str = ""
    owner: str = ""


class BoardRoutes:
    """All routes, stored together as one note of a store. The methods block."""

    def __init__(self, notes: NoteStore) -> None:
        self._notes = notes
        self._lock = Lock()
        self.all: Mapping[str, BoardRoute] = {}

    def load(self) -> None:
        """Read the routes."""
        if text := self._notes.note(NOTE):
            self.all = msgspec.json.decode(text, type=dict[str, BoardRoute])

    def ensure_in(self, identities: Sequence[str]) -> None:
        """Raise UnknownStore if the store in a route is not among these identities."""
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
