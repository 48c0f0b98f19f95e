"""The plan for events without a time of their own is computed once per period, and is not used
after that period."""

from array import array
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from laurels import Board
from laurels.core.board_state import Boards, BoardState, redefine
from laurels.core.plan import plan_batch
from laurels.model.batch import Batch

DAY_MS = 86_400_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
MIDNIGHT_MS = 20_001 * DAY_MS


@dataclass
class OneBoard:
    """One board with its state, as a store has it."""

    boards: Boards
    state: BoardState

    def batch(self, now_ms: int) -> Batch:
        return Batch(self.state.number, now_ms, 1, b"ada", b"\3", (array("q", [1]),))


@pytest.fixture
def one() -> OneBoard:
    boards = Boards()
    board = Board("b", windows=["all", "day", "rolling:3h/1h", "decay:1d"], tz="UTC")
    return OneBoard(boards, boards.open(board, 1, 1, NOON_MS))


def test_a_plan_is_reused_until_a_period_or_step_ends(one: OneBoard) -> None:
    first = one.boards.plan(one.batch(NOON_MS))
    assert one.boards.plan(replace(one.batch(NOON_MS + 1), size=7)) is first
    assert one.state.running is not None
    last_ms = one.state.running.until_ms
    assert one.boards.plan(one.batch(last_ms - 1)) is first
    assert one.boards.plan(one.batch(last_ms)) is not first


@pytest.mark.parametrize("now_ms", [NOON_MS - 1, NOON_MS, MIDNIGHT_MS - 1, MIDNIGHT_MS])
def test_a_reused_plan_equals_a_new_plan(one: OneBoard, now_ms: int) -> None:
    one.boards.plan(one.batch(NOON_MS))
    batch = one.batch(now_ms)
    assert one.boards.plan(batch) == plan_batch(one.state.rules, one.state.floors, batch)


def test_another_definition_has_another_plan(one: OneBoard) -> None:
    before = one.boards.plan(one.batch(NOON_MS))
    windows = [*one.state.board.windows, "week"]
    redefine(one.state, replace(one.state.board, windows=windows), 2, NOON_MS)
    after = one.boards.plan(one.batch(NOON_MS))
    assert len(after.specs) == len(before.specs) + 1


def test_events_with_times_get_their_own_plan(one: OneBoard) -> None:
    running = one.boards.plan(one.batch(NOON_MS))
    late = replace(one.batch(NOON_MS), ats=array("q", [NOON_MS - 10 * DAY_MS]))
    assert one.boards.plan(late).has_late
    assert one.boards.plan(one.batch(NOON_MS)) is running
    assert not running.has_late
