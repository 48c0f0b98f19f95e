"""The routes of boards that were moved to another store. Routes are kept durably.

During a move, the route of the board is stored three times: before anything is copied (`copying`),
when the new store has the whole board (`moved`), and when the old store has deleted it (`settled`).
Until the route `moved` is stored, the board is in the old store, and a move that fails removes the
incomplete copy from the new store. From then on, the board is in the new store, and the old store
deletes it.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Literal
from zlib import crc32

import msgspec
from msgspec import Struct

from laurels.errors.placement import UnknownStore
from laurels.model.validation import quoted
from laurels.stores.base import NoteStore

NOTES = 64
_SINGLE_NOTE = "routes"


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
    """All routes, stored as notes of a store. Each note has the routes of the boards whose names
    have the same hash, so that storing one of many routes writes few others. The methods block."""

    def __init__(self, notes: NoteStore) -> None:
        self._notes = notes
        self._lock = Lock()
        self._parts: list[dict[str, BoardRoute]] = [{} for _ in range(NOTES)]
        self.all: dict[str, BoardRoute] = {}

    def load(self) -> None:
        """Read the routes."""
        for number in range(NOTES):
            self._parts[number] = routes = self._read(_note_name(number))
            self.all |= routes
        # Earlier versions stored all routes in one note.
        for board, route in self._read(_SINGLE_NOTE).items():
            if board not in self.all:
                self.store(board, route)
        if self._notes.note(_SINGLE_NOTE):
            self._notes.set_note(_SINGLE_NOTE, "")

    def _read(self, note: str) -> dict[str, BoardRoute]:
        text = self._notes.note(note)
        return msgspec.json.decode(text, type=dict[str, BoardRoute]) if text else {}

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
        number = crc32(board.encode()) % NOTES
        with self._lock:
            routes = {name: each for name, each in self._parts[number].items() if name != board}
            if route is not None:
                routes[board] = route
            self._notes.set_note(_note_name(number), msgspec.json.encode(routes).decode())
            self._parts[number] = routes
            if route is None:
                self.all.pop(board, None)
            else:
                self.all[board] = route


def _note_name(number: int) -> str:
    return f"routes.{number}"
