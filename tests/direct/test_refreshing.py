"""What a process knows about the refreshed windows on an index server, and when it reads their
state again."""

from __future__ import annotations

import pytest

from laurels.core.board_state import Boards, BoardState
from laurels.core.lifecycle import Refreshed, RefreshState
from laurels.model.board import Board
from laurels.stores.redis.refreshing import Refreshing

HOUR = 3_600_000
NOW = 500_000 * HOUR


@pytest.fixture
def boards() -> Boards:
    return Boards()


def opened(boards: Boards, *, shards: int = 1) -> BoardState:
    windows = ["r=rolling:5h/1h,refresh=1h", "all"]
    number = boards.next_number
    boards.next_number += 1
    return boards.open(Board(f"b{number}", windows=windows, shards=shards), number, 1, NOW)


def stood(seen: int, **fields: object) -> dict[int, dict[str, RefreshState]]:
    return {0: {"r": RefreshState(seen=seen, **fields)}}  # type: ignore[arg-type]


def test_a_new_board_is_due_at_once(boards: Boards) -> None:
    refreshing, state = Refreshing(), opened(boards)
    refreshing.watch(state)
    assert refreshing.due(NOW, 9) == [(state.number, "r")]
    refreshing.note(state, stood(0), NOW)
    assert refreshing.due(NOW + HOUR - 1, 9) == []
    assert refreshing.next_ms() == NOW + HOUR
    assert refreshing.due(NOW + HOUR, 9) == [(state.number, "r")]
    refreshing.forget(state.number)
    assert refreshing.due(NOW + HOUR, 9) == []


def test_an_outdated_note_changes_nothing(boards: Boards) -> None:
    refreshing, state = Refreshing(), opened(boards)
    refreshing.note(state, stood(2, waiting=True), NOW)
    refreshing.note(state, stood(1), NOW)
    assert state.refreshed["r"] == Refreshed(0, None, True)
    assert refreshing.is_due((state.number, "r"), NOW)
    refreshing.note(state, stood(3, offset=3, now_ms=NOW, since_ms=NOW, waiting=True), NOW)
    assert not refreshing.is_due((state.number, "r"), NOW)
    assert refreshing.is_due((state.number, "r"), NOW + HOUR)


def test_a_window_stays_due_until_a_newer_state_is_noted(boards: Boards) -> None:
    refreshing, states = Refreshing(), [opened(boards) for _ in range(3)]
    for state in states:
        refreshing.note(state, stood(1, waiting=True), NOW)
    places = [(state.number, "r") for state in states]
    assert refreshing.due(NOW, 2) == places[:2]
    assert refreshing.due(NOW, 9) == places
    refreshing.note(states[0], stood(2, offset=2, now_ms=NOW, since_ms=NOW, waiting=True), NOW)
    assert refreshing.due(NOW, 9) == places[1:]


def test_a_window_is_due_if_a_waiting_shard_is_due(boards: Boards) -> None:
    refreshing, state = Refreshing(), opened(boards, shards=2)
    done = RefreshState(offset=4, now_ms=NOW, since_ms=NOW, waiting=True, seen=4)
    refreshing.note(state, {0: {"r": done}, 1: {"r": RefreshState(since_ms=NOW, seen=1)}}, NOW)
    assert state.refreshed["r"] == Refreshed((4, 0), NOW, True)
    refreshing.note(state, {1: {"r": RefreshState(since_ms=NOW, waiting=True, seen=2)}}, NOW)
    assert not refreshing.is_due((state.number, "r"), NOW)
    refreshing.note(state, {1: {"r": RefreshState(since_ms=NOW - 1, waiting=True, seen=3)}}, NOW)
    assert refreshing.is_due((state.number, "r"), NOW)


def test_a_large_window_is_paced_by_its_interval(boards: Boards) -> None:
    refreshing, state = Refreshing(), opened(boards)
    place = state.number, "r"
    assert not refreshing.is_large(place)
    refreshing.note_progress(place, 10)
    assert refreshing.is_large(place)
    assert refreshing.interval_ms(boards) == HOUR
    refreshing.note_progress(place, 0)
    assert not refreshing.is_large(place)
    assert refreshing.interval_ms(boards) > HOUR
