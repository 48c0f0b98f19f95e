"""Times of events and of the clock, chosen so that edge cases are common."""

from __future__ import annotations

from random import Random

from tests.calendar_by_scanning import HOUR, MINUTE, Span
from tests.oracle_board import OracleBoard
from tests.oracle_calendar import CalendarWindow
from tests.oracle_rolling import RollingWindow
from tests.stateful import limits

DAY_MS = 24 * HOUR
FAR_MS = 40 * DAY_MS


def instant(rng: Random, board: OracleBoard, now_ms: int) -> int | None:
    """Return the `at` of an event: None, or a time that is close to now, in a period or step or at
    its edge, late, or ahead of now."""
    kind = rng.randint(0, 9)
    near = [edge for edge in limits.edges(board) if abs(edge - now_ms) <= DAY_MS]
    if near and rng.random() < 0.2:
        return min(now_ms + 5_001, rng.choice(near) + rng.choice([-1, 0, 1]))
    if kind <= 3:
        return None
    if kind <= 5:
        return now_ms - rng.choice([0, 1, 2, 999, 1000, 1001, MINUTE])
    if kind <= 8:
        return min(now_ms, _somewhere(rng, board, now_ms))
    return now_ms + rng.choice([1, 5_000, 5_001, -30 * DAY_MS, -200 * DAY_MS])


def _somewhere(rng: Random, board: OracleBoard, now_ms: int) -> int:
    """Return a time in, or next to, a period or step that a window of the board still counts."""
    timed = timed_windows(board)
    if not timed:
        return now_ms - rng.choice([HOUR, DAY_MS])
    window = rng.choice(timed)
    span = window.back(rng.randrange(window.depth(now_ms)), now_ms)
    inside = rng.randrange(max(1, span.end_ms - span.start_ms))
    return rng.choice([span.start_ms + rng.choice([-1, 0, 1, 500, inside]), span.end_ms - 1])


def in_a_step(rng: Random, window: RollingWindow, now_ms: int) -> int:
    """Return a time, not later than now, in one of the steps that a window counts."""
    step = window.back(rng.randrange(window.steps), now_ms)
    aside_ms = rng.choice([0, 0, 1, (step.end_ms - step.start_ms) // 2])
    return min(now_ms, step.start_ms + aside_ms)


def later(rng: Random, board: OracleBoard, now_ms: int) -> int:
    """Return the next time of the clock: slightly later, near a boundary, or much later."""
    kind = rng.randint(0, 9)
    if kind <= 4:
        return now_ms + rng.choice([0, 1, 2, 400, 1000, 3_000, MINUTE, 20 * MINUTE])
    if kind <= 8:
        return beyond(rng, board, now_ms)
    return now_ms + rng.choice([HOUR, HOUR - 1, 90 * MINUTE, 7 * HOUR, DAY_MS, 8 * DAY_MS])


def beyond(rng: Random, board: OracleBoard, now_ms: int) -> int:
    """Return a time at the edge of a period, of a step, or of the grace after one of these. It may
    also be at the start or the end of the board, or at its removal."""
    near = [edge for edge in limits.edges(board) if now_ms < edge <= now_ms + FAR_MS]
    if near and rng.random() < 0.4:
        return max(now_ms, min(near) + rng.choice([-1, 0, 1]))
    timed = timed_windows(board)
    if not timed:
        return now_ms + HOUR
    window = rng.choice(timed)
    span = window.back(rng.randrange(min(2, window.depth(now_ms))), now_ms)
    edges = [span.end_ms, span.end_ms + window.grace_ms]
    if isinstance(window, RollingWindow):
        edges = [edges[rng.randrange(2)], _steps_on(rng, window, now_ms).start_ms]
    edge_ms = rng.choice(edges) + rng.choice([-1, 0, 1])
    if isinstance(window, CalendarWindow) and edge_ms - now_ms > FAR_MS:
        return now_ms + HOUR
    return max(now_ms, edge_ms)


def _steps_on(rng: Random, window: RollingWindow, now_ms: int) -> Span:
    """Return a future step: usually the next one, or one that is about a whole window away."""
    n = window.steps
    return window.back(-rng.choice([1, 1, 1, 2, n - 1, n, n + 1, n + 3]), now_ms)


def timed_windows(board: OracleBoard) -> list[CalendarWindow | RollingWindow]:
    """Return the windows of a board whose content changes with time."""
    return [w for w in board.windows.values() if isinstance(w, CalendarWindow | RollingWindow)]
