"""The deleted boards of several stores. A board that was copied by hand to another store, and then
deleted in the first one, is not among them, because it continues in the other store."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from laurels.core.changes.answers import ChangePage, DeletedBoard
from laurels.errors import UnknownBoard
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.routed.deleted import deleted_boards, store_of_deleted


def store(live: dict[str, str], deleted: list[tuple[str, str]]) -> Any:
    """Return a store with these boards and deleted boards, by name and unique id."""

    def changes(board: str, _after: str, _limit: int) -> ChangePage:
        if board not in live:
            raise UnknownBoard(board)
        return ChangePage([], f"{live[board]}~0-0-e")

    listed = [
        DeletedBoard(name, uid, at_ms, at_ms + 1, {}, "", "")
        for at_ms, (name, uid) in enumerate(deleted)
    ]
    return Mock(store=Mock(changes=changes, deleted_boards=lambda _: listed))


def test_a_board_that_continues_elsewhere_is_not_deleted() -> None:
    old = store({}, [("copied", "aa"), ("gone", "bb"), ("anew", "cc")])
    new = store({"copied": "aa", "anew": "dd"}, [])
    for stores in ([old, new], [new, old]):
        listed = deleted_boards(stores, lambda _: new, None)
        assert [each.name for each in listed] == ["gone", "anew"]
        assert store_of_deleted(stores, lambda _: new, "copied", "aa") is None
        assert store_of_deleted(stores, lambda _: new, "anew", "cc") is old.store
        assert store_of_deleted(stores, lambda _: new, "anew", None) is None


def test_a_store_that_does_not_answer_is_left_out() -> None:
    old = store({}, [("gone", "bb")])
    down = Mock()
    type(down).store = property(Mock(side_effect=IndexUnavailable("down")))
    listed = deleted_boards([down, old], lambda _: old, None)
    assert [each.name for each in listed] == ["gone"]
    assert store_of_deleted([down, old], lambda _: old, "gone", "bb") is old.store
