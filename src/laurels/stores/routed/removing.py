"""Finds and removes what a move has left of a board in a store."""

from contextlib import suppress

from laurels.core.commands import DeleteBoard
from laurels.errors import UnknownBoard
from laurels.errors.copies import CopyLost
from laurels.stores.base import Servable


def has_board(store: Servable, board: str) -> bool:
    """Return whether a store has a complete board of this name."""
    try:
        store.definition(board)
    except UnknownBoard:
        return False
    return True


def remove(store: Servable, board: str, uid: str) -> None:
    """Remove a board of this unique id from a store, finished or not."""
    remove_unfinished(store, board, uid)
    if has_uid(store, board, uid):
        store.write(DeleteBoard(board, is_moved=True))


def remove_unfinished(store: Servable, board: str, uid: str) -> None:
    """Remove the unfinished copy of a board of this unique id from a store."""
    unfinished = store.copies.unfinished(board)
    if unfinished is not None and unfinished.uid == uid:
        with suppress(CopyLost):
            store.copies.give_up(board)


def has_uid(store: Servable, board: str, uid: str) -> bool:
    """Return whether a store has the complete board of this unique id."""
    try:
        return store.copies.origin(board).uid == uid
    except UnknownBoard:
        return False
