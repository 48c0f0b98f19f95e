"""The parts of a store that consists of several stores: the placement of boards, cursors, routes of
moved boards, and the gate that lets writes wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from laurels.errors import InvalidCursor
from laurels.errors.placement import BoardMoving, UnknownStore
from laurels.stores.routed import gate
from laurels.stores.routed.cursor import decode_cursors, encode_cursors
from laurels.stores.routed.gate import WriteGate
from laurels.stores.routed.placement import Placement
from laurels.stores.routed.routes import BoardRoute, BoardRoutes


def test_the_first_pattern_that_matches_decides() -> None:
    placement = Placement([("eu-1", 2), ("eu-*", 1), ("*", 3)])
    names: tuple[Any, ...] = ("eu-1", "eu-2", "us", "a/b", 5)
    assert [placement.number_of(name) for name in names] == [2, 1, 3, 0, 0]


def test_a_moved_board_is_found_until_its_name_points_there() -> None:
    placement = Placement([("eu-*", 1)])
    placement.move("eu-1", 2)
    assert placement.number_of("eu-1") == 2
    assert placement.pattern_number_of("eu-1") == 1
    placement.move("eu-1", 1)
    assert placement.number_of("eu-1") == 1
    placement.move("us", 1)
    placement.move("us", None)
    assert placement.number_of("us") == 0


def test_a_cursor_has_a_part_for_each_store() -> None:
    text = encode_cursors(["12", None, "7"])
    assert decode_cursors(text, 3) == ["12", None, "7"]
    assert decode_cursors(text, 2) == [None, None]
    assert decode_cursors(None, 2) == [None, None]
    for wrong in ("", "1~", "1~x", "1" * 50_000, 5):
        with pytest.raises(InvalidCursor):
            decode_cursors(wrong, 2)


class Notes:
    def __init__(self) -> None:
        self.stored: dict[str, str] = {}

    def note(self, key: str) -> str | None:
        return self.stored.get(key)

    def set_note(self, key: str, value: str) -> None:
        self.stored[key] = value


def test_routes_are_read_back() -> None:
    notes = Notes()
    routes = BoardRoutes(notes)
    routes.load()
    moved = BoardRoute("redis://two", "moved", "folder", "uid")
    routes.store("a", moved)
    routes.store("b", BoardRoute("folder"))
    routes.store("b", None)
    again = BoardRoutes(notes)
    again.load()
    assert again.all == {"a": moved}
    again.ensure_in(["folder", "redis://two"])
    with pytest.raises(UnknownStore):
        again.ensure_in(["folder"])


def test_storing_a_route_writes_a_small_part_of_all_routes() -> None:
    notes = Notes()
    routes = BoardRoutes(notes)
    routes.load()
    for number in range(3_000):
        routes.store(f"board-{number}", BoardRoute("folder"))
    assert max(map(len, notes.stored.values())) < sum(map(len, notes.stored.values())) / 30
    again = BoardRoutes(notes)
    again.load()
    assert again.all == routes.all
    assert len(again.all) == 3_000


def test_routes_that_an_earlier_version_stored_in_one_note_are_read() -> None:
    notes = Notes()
    notes.stored["routes"] = '{"a":{"store":"folder"},"b":{"store":"redis://two"}}'
    for _ in range(2):
        routes = BoardRoutes(notes)
        routes.load()
        assert routes.all == {"a": BoardRoute("folder"), "b": BoardRoute("redis://two")}
    assert notes.stored["routes"] == ""
    routes.store("a", None)
    again = BoardRoutes(notes)
    again.load()
    assert list(again.all) == ["b"]


# The gate of writes


async def passed(opened: WriteGate, board: str) -> bool:
    async with opened.writing_async(board):
        return True


def test_held_writes_continue_when_they_are_released() -> None:
    async def main() -> None:
        opened = WriteGate()
        assert opened.hold("b").done()
        waiting = [asyncio.create_task(passed(opened, "b")) for _ in range(3)]
        assert await passed(opened, "other")
        assert not any(task.done() for task in waiting)
        opened.release("b")
        assert await asyncio.gather(*waiting) == [True] * 3

    asyncio.run(main())


def test_a_board_is_held_once_its_writes_have_ended() -> None:
    opened = WriteGate()
    with opened.writing("b"), opened.writing("other"):
        with opened.writing("b"):
            drained = opened.hold("b")
        assert not drained.done()
    assert drained.done()
    opened.release("b")
    with opened.writing("b"):
        pass


def test_writes_of_threads_wait_too() -> None:
    opened, done = WriteGate(), threading.Event()

    def write() -> None:
        with opened.writing("b"):
            done.set()

    opened.hold("b")
    thread = threading.Thread(target=write)
    thread.start()
    assert not done.is_set()
    opened.release("b")
    thread.join()
    assert done.is_set()


def test_further_writes_are_refused_at_once_after_the_longest_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "MOST_HOLD_SECONDS", 0.0)
    opened = WriteGate()
    opened.hold("b")
    with pytest.raises(BoardMoving), opened.writing("b"):
        pass
    # From here on, a write that waits would wait forever.
    monkeypatch.setattr(gate, "MOST_HOLD_SECONDS", None)
    with pytest.raises(BoardMoving), opened.writing("b"):
        pass
    with pytest.raises(BoardMoving):
        asyncio.run(passed(opened, "b"))
    opened.release("b")
    assert asyncio.run(passed(opened, "b"))


def test_only_some_writes_to_a_board_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MOST_WAITING", 2)

    async def main() -> None:
        opened = WriteGate()
        opened.hold("b")
        waiting = [asyncio.create_task(passed(opened, "b")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BoardMoving):
            await passed(opened, "b")
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        waiting[0] = asyncio.create_task(passed(opened, "b"))
        await asyncio.sleep(0)
        opened.release("b")
        assert await asyncio.gather(*waiting) == [True, True]

    asyncio.run(main())
