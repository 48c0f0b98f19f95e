"""The deleted boards of several stores. A board that was moved and then deleted has its changes in
the store to which it was moved, while its name points to another store again."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from laurels.core.changes.answers import DeletedBoard
from laurels.core.changes.beginning import uid_of
from laurels.core.changes.cursor import NOW
from laurels.errors import LaurelsError, Unavailable
from laurels.stores.base import Servable

from .placed import PlacedStore

FindStore = Callable[[str], PlacedStore]
"""Returns the store to which the name of a board points."""


def deleted_boards(
    stores: Iterable[PlacedStore], store_of: FindStore, source: str | None
) -> list[DeletedBoard]:
    """Return the deleted boards of all stores that answer, in the order of their deletion."""
    deleted = [
        each
        for store in stores
        for each in _of_store(store, source)
        if not _continues(each, store, store_of)
    ]
    return sorted(deleted, key=lambda each: each.deleted_ms)


def store_of_deleted(
    stores: Iterable[PlacedStore], store_of: FindStore, board: str, uid: str | None
) -> Servable | None:
    """Return the store with the changes of a deleted board; None if no store that answers has
    them."""
    for store in stores:
        for each in _of_store(store, None):
            found = (each.name, each.uid) == (board, uid)
            if found and not _continues(each, store, store_of):
                return store.store
    return None


def has_uid(store: PlacedStore, board: str, uid: str) -> bool:
    """Return whether the board of this name in a store has this unique id; False if the store has
    no such board or does not answer."""
    with suppress(LaurelsError):
        return uid_of(store.store.changes(board, NOW, 1).cursor) == uid
    return False


def _of_store(store: PlacedStore, source: str | None) -> list[DeletedBoard]:
    with suppress(Unavailable):
        return store.store.deleted_boards(source)
    return []


def _continues(deleted: DeletedBoard, store: PlacedStore, store_of: FindStore) -> bool:
    """Return whether a board that was deleted in `store` continues in the store that its name
    points to, because an operator has copied the board there before deleting it."""
    placed = store_of(deleted.name)
    return placed is not store and has_uid(placed, deleted.name, deleted.uid)
